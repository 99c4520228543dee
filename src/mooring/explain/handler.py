"""The explain page of ``mooring run``, beside its health and metrics.

It has the authentication and authorization of the other pages: the path is a nonResourceURL.
"""

from __future__ import annotations

from collections.abc import Callable

from mooring.clock import Clock
from mooring.explain.node_rejections import explain_node
from mooring.explain.running import (
    ALL,
    ALL_NODES,
    NODE,
    Explanation,
    explain_running,
    options_of,
)
from mooring.scheduler.service import Service
from mooring.serving.messages import Reply, ServingRequest, http_error


class ExplainHandler:
    """Replies what becomes of ``?pod=NAMESPACE/NAME``, or which pods ``?node=NAME`` rejects.

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
        answer = await self._answer(service, request)
        body = f"{answer.text}\n".encode()
        return Reply(answer.status, body, {"Content-Type": answer.content_type})

    async def _answer(self, service: Service, request: ServingRequest) -> Explanation:
        words = ("pod", "output", NODE, ALL, ALL_NODES)
        query = {word: "".join(request.values(word)[:1]) for word in words}
        if query[NODE]:
            return await explain_node(service, query[NODE])
        if not query["pod"]:
            return Explanation(400, "?pod=NAMESPACE/NAME is missing")
        is_json = query["output"] == "json"
        options = options_of(query)
        return explain_running(service, query["pod"], self._clock, as_json=is_json, options=options)
