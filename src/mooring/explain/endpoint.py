"""The explain endpoint of the embedded API server, as ``mooring start`` serves it.

Requests need the same credentials as all others.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence

from mooring.apiserver import ApiServer
from mooring.clock import Clock
from mooring.explain.node_rejections import explain_node
from mooring.explain.running import EXPLAIN_PATH, NODE, explain_running, options_of
from mooring.scheduler.service import Service


class ExplainEndpoint:
    """An API server with the explain endpoint of its scheduler.

    Args:
        api: The API server.
        service: Returns the scheduler that runs now.
        clock: Its clock.
    """

    def __init__(self, api: ApiServer, service: Callable[[], Service], clock: Clock) -> None:
        self.clock = api.clock
        self.tokens = api.tokens
        self.authorizer = api.authorizer
        self.tick = api.tick
        self.allow_threads = api.allow_threads
        self._api = api
        self._service = service
        self._clock = clock

    async def handle(
        self,
        method: str,
        path: str,
        query: Sequence[tuple[str, str]],
        headers: Mapping[str, str],
        body: bytes,
    ) -> tuple[int, dict[str, str], bytes | AsyncIterator[bytes]]:
        """Handles a request; see ``ApiServer.handle``."""
        if path != EXPLAIN_PATH or method != "GET":
            return await self._api.handle(method, path, query, headers, body)
        words = dict(query)
        is_json = words.get("output") == "json"
        if words.get(NODE):
            answer = await explain_node(self._service(), words[NODE])
        else:
            answer = explain_running(
                self._service(),
                words.get("pod", ""),
                self._clock,
                as_json=is_json,
                options=options_of(words),
            )
        return answer.status, {"content-type": answer.content_type}, answer.text.encode()
