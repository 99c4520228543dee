"""Extenders: HTTP services that are asked besides the plugins, as the configuration names them.

The other side, an extender made of plugins, is ``mooring.extender_server.plugin_extender``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mooring.client import Client, Informer
from mooring.clock import Clock, Rng
from mooring.config.types import Extender
from mooring.extenders.full_objects import WholeObjects
from mooring.extenders.http import HttpPost, Post
from mooring.extenders.http_extender import AskedExtender
from mooring.extenders.metrics import ExtenderMetrics
from mooring.extenders.tls import client_pair, tls_context

__all__ = ["AskedExtender", "ExtenderMetrics", "Extenders", "HttpPost", "Post", "WholeObjects"]


class Extenders:
    """All extenders of a configuration, and what they need while they are asked.

    Args:
        configs: As configured, in their order.
        client: The API server.
        clock: For everything.
        rng: For jitter.
        sleep: Waits.
        reach: Makes the way to one of them; over HTTP by default.

    Raises:
        ConfigError: a certificate cannot be used.
    """

    def __init__(
        self,
        configs: Sequence[Extender],
        client: Client,
        *,
        clock: Clock,
        rng: Rng,
        sleep: Any,
        transport_factory: Callable[[Extender], Post] | None = None,
    ) -> None:
        self._https: list[HttpPost] = []
        self._posts: list[Post] = []
        for number, config in enumerate(configs):
            if transport_factory is not None:
                self._posts.append(transport_factory(config))
                continue
            self._https.append(_post(config, number))
            self._posts.append(self._https[-1])
        wants_nodes = any(
            not config.node_cache_capable and (config.filter_verb or config.prioritize_verb)
            for config in configs
        )
        whole = WholeObjects(client, clock=clock, rng=rng, sleep=sleep, with_nodes=wants_nodes)
        #: To be run as long as anybody asks; none without extenders.
        self.informers: list[Informer] = whole.informers if configs else []
        #: How the calls fare.
        self.metrics = ExtenderMetrics()
        more: Any = {"client": client, "clock": clock, "sleep": sleep, "metrics": self.metrics}
        self.asked = [
            AskedExtender(config, post, whole, **more)
            for config, post in zip(configs, self._posts, strict=True)
        ]

    async def close(self) -> None:
        """Gives back all connections."""
        for post in self._https:
            await post.close()


def _post(config: Extender, number: int) -> HttpPost:
    tls = config.tls_config
    context = tls_context(config, f"extenders[{number}]")
    return HttpPost(
        config.url_prefix,
        timeout_s=config.http_timeout_s,
        tls=context,
        server_name=tls.server_name if tls is not None else "",
        pair=client_pair(config, context),
    )
