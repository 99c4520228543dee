"""The explain page of ``mooring run``, beside its health and metrics.

It has the authentication and authorization of the other pages: the path is a nonResourceURL.
"""

from __future__ import annotations

from collections.abc import Callable

from mooring.clock import Clock
from mooring.explain.running import ALL, ALL_NODES, explain_running, options_of
from mooring.scheduler.service import Service
from mooring.serving.messages import Reply, ServingRequest, http_error


class ExplainHandler:
    """Replies what becomes of ``?pod=NAMESPACE/NAME``.

    Args:
        service: Returns the scheduler if it is scheduling; None = it stands by, or has just begun.
        leader: Returns the identity of the leader; "" = unknown.
        clock: The scheduler's clock.
    """

    def __init__(
        self, service: Callable[[], Service | None], leader: Callable[[], str], clock: Clock
    ) -> None:
        self._service = service
        self._leader = leader
        self._clock = clock

    async def __call__(self, request: ServingRequest) -> Reply:
        """Returns the explanation; 503 on a standby."""
        if request.method not in ("GET", "HEAD"):
            return http_error("Method Not Allowed", 405)
        service = self._service()
        if service is None:
            leader = self._leader()
            text = f"the leader is {leader}" if leader else "its caches have not synced"
            return http_error(f"this mooring is not scheduling: {text}", 503)
        name = "".join(request.values("pod")[:1])
        if not name:
            return http_error("?pod=NAMESPACE/NAME is missing", 400)
        is_json = request.values("output")[:1] == ["json"]
        words = {word: "".join(request.values(word)[:1]) for word in (ALL, ALL_NODES)}
        answer = explain_running(
            service, name, self._clock, as_json=is_json, options=options_of(words)
        )
        body = f"{answer.text}\n".encode()
        return Reply(answer.status, body, {"Content-Type": answer.content_type})
