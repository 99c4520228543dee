"""Extenders: HTTP services of the configuration that filter, prioritize, preempt and bind.

The server side, an extender made of plugins, is ``mooring.extender_server.plugin_extender``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mooring.client import Client, Informer
from mooring.clock import Clock, Rng
from mooring.config.types import Extender
from mooring.extenders.full_objects import FullObjectCache
from mooring.extenders.http import ExtenderTransport, HttpExtenderTransport
from mooring.extenders.http_extender import HTTPExtender
from mooring.extenders.metrics import ExtenderMetrics
from mooring.extenders.tls import client_pair, tls_context

__all__ = [
    "ExtenderMetrics",
    "ExtenderTransport",
    "Extenders",
    "FullObjectCache",
    "HTTPExtender",
    "HttpExtenderTransport",
]


class Extenders:
    """All extenders of a configuration, with their informers and connections.

    Args:
        configs: As configured, in their order.
        client: The API server.
        clock: For everything.
        rng: For jitter.
        sleep: Waits.
        transport_factory: Makes the transport to an extender; HTTP by default.

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
        transport_factory: Callable[[Extender], ExtenderTransport] | None = None,
    ) -> None:
        self._https: list[HttpExtenderTransport] = []
        self._posts: list[ExtenderTransport] = []
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
        full_objects = FullObjectCache(
            client, clock=clock, rng=rng, sleep=sleep, with_nodes=wants_nodes
        )
        #: To be run with the scheduler; none without extenders.
        self.informers: list[Informer] = full_objects.informers if configs else []
        #: Durations and failures of the calls.
        self.metrics = ExtenderMetrics()
        more: Any = {"client": client, "clock": clock, "sleep": sleep, "metrics": self.metrics}
        self.asked = [
            HTTPExtender(config, post, full_objects, **more)
            for config, post in zip(configs, self._posts, strict=True)
        ]

    async def close(self) -> None:
        """Closes all connections."""
        for post in self._https:
            await post.close()


def _post(config: Extender, number: int) -> HttpExtenderTransport:
    tls = config.tls_config
    context = tls_context(config, f"extenders[{number}]")
    return HttpExtenderTransport(
        config.url_prefix,
        timeout_s=config.http_timeout_s,
        tls=context,
        server_name=tls.server_name if tls is not None else "",
        pair=client_pair(config, context),
    )
