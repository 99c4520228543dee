"""An API server that can be read, and not written, from outside."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Final

import msgspec

from mooring.apiserver import ApiServer

_READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
#: Requests that are written as objects, and change nothing.
_REVIEWS: Final = "reviews"


class ReadOnlyEndpoint:
    """Refuses all writes.

    Args:
        api: The API server.
        message: Why, for the user.
    """

    def __init__(self, api: ApiServer, message: str) -> None:
        self.clock = api.clock
        self.tokens = api.tokens
        self.authorizer = api.authorizer
        self.tick = api.tick
        self.allow_threads = api.allow_threads
        self._api = api
        self._message = message

    async def handle(
        self,
        method: str,
        path: str,
        query: Sequence[tuple[str, str]],
        headers: Mapping[str, str],
        body: bytes,
    ) -> tuple[int, dict[str, str], bytes | AsyncIterator[bytes]]:
        """Handles a request; see ``ApiServer.handle``."""
        if method in _READS or path.endswith(_REVIEWS):
            return await self._api.handle(method, path, query, headers, body)
        status = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self._message,
            "reason": "MethodNotAllowed",
            "code": 405,
        }
        return 405, {"content-type": "application/json"}, msgspec.json.encode(status)
