"""The handler of each path.

Exact paths come first, then the longest prefix. Methods are not compared, and a trailing slash
makes another path.

Source: APP/server.go of k8s.io/kubernetes cmd/kube-scheduler (newEndpointsHandler),
k8s.io/apiserver pkg/server/mux/pathrecorder.go.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from mooring.clock import Clock, Rng
from mooring.metrics.exposition import Exposition
from mooring.serving.debug import Pprof, flag_routes
from mooring.serving.exposition.negotiated import GZIP, content_coding, exposition_for
from mooring.serving.health import HealthChecks
from mooring.serving.messages import Handler, Reply, ServingRequest, not_found
from mooring.serving.zpages import Versions, configz, flagz, statusz

#: The fastest: the event loop waits for it.
GZIP_LEVEL: Final = 1

#: Returns the body in a format, and its content type.
Page = Callable[[Exposition], tuple[bytes, str]]


def _nothing() -> None:
    """Resets nothing."""


@dataclass(frozen=True, slots=True)
class MetricsRoutes:
    """The pages of metrics.

    Attributes:
        metrics: /metrics.
        slis: /metrics/slis.
        resources: /metrics/resources; an empty content type means an empty page, on a standby.
        reset: DELETE /metrics.
        reset_slis: DELETE /metrics/slis.
    """

    metrics: Page
    slis: Page
    resources: Page
    reset: Callable[[], None] = _nothing
    reset_slis: Callable[[], None] = _nothing

    def routes(self) -> dict[str, Handler]:
        """Returns the handlers by path."""
        return {
            "/metrics": _page(self.metrics, self.reset),
            "/metrics/resources": _page(self.resources, _nothing),
            "/metrics/slis": _page(self.slis, self.reset_slis),
        }


@dataclass(frozen=True, slots=True)
class Debugging:
    """The parts that ``enableProfiling`` adds: /debug/pprof and /debug/flags.

    Attributes:
        set_verbosity: Sets the verbosity of logs (``-v``).
    """

    set_verbosity: Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Endpoints:
    """The content of all pages.

    Attributes:
        metrics: See ``MetricsRoutes``.
        configuration: Returns the completed configuration, with kind and apiVersion.
        flags: Name and value of each flag; None = no /flagz (gate ComponentFlagz).
        versions: For /statusz; None = no such page (gate ComponentStatusz).
        debugging: None = no /debug (enableProfiling is false).
        more: Handlers of further paths, which kube-scheduler does not have.
    """

    metrics: MetricsRoutes
    configuration: Callable[[], Mapping[str, Any]]
    flags: Mapping[str, str] | None
    versions: Versions | None
    debugging: Debugging | None = None
    more: Mapping[str, Handler] = field(default_factory=dict)


class Router:
    """The handlers of all paths.

    Args:
        endpoints: See ``Endpoints``.
        health: The health checks; all must have been added.
        clock: For /statusz.
        rng: For the delimiters of /flagz and /statusz.
    """

    def __init__(
        self, endpoints: Endpoints, health: HealthChecks, *, clock: Clock, rng: Rng
    ) -> None:
        self._exact: dict[str, Handler] = {
            **health.routes(),
            **endpoints.metrics.routes(),
            "/configz": configz(endpoints.configuration),
        }
        self._prefixes: dict[str, Handler] = {}
        if endpoints.flags is not None:
            self._exact["/flagz"] = flagz(endpoints.flags, rng)
        if endpoints.versions is not None:
            # The page does not list itself: it is made last.
            listed = [path for path in self._exact if path != "/statusz"]
            self._exact["/statusz"] = statusz(endpoints.versions, listed, clock, rng)
        if endpoints.debugging is not None:
            for exact, prefixes in (
                Pprof(clock).routes(),
                flag_routes(endpoints.debugging.set_verbosity),
            ):
                self._exact |= exact
                self._prefixes |= prefixes
        self._exact |= endpoints.more

    async def reply(self, request: ServingRequest) -> Reply:
        """Returns the reply to an authorized request."""
        handler = self._exact.get(request.path)
        if handler is None:
            matching = [prefix for prefix in self._prefixes if request.path.startswith(prefix)]
            if not matching:
                return not_found()
            handler = self._prefixes[max(matching, key=len)]
        return await handler(request)


def _page(page: Page, reset: Callable[[], None]) -> Handler:
    async def handle(request: ServingRequest) -> Reply:
        if request.method == "DELETE":
            reset()
            return Reply.text("metrics reset\n")
        body, content_type = page(exposition_for(request.headers.get("Accept", "")))
        headers = {"Content-Type": content_type} if content_type else {}
        if body and content_coding(request.headers.get("Accept-Encoding", "")) == GZIP:
            body = gzip.compress(body, GZIP_LEVEL, mtime=0)
            headers["Content-Encoding"] = GZIP
        return Reply(200, body, headers)

    return handle
