"""Streams of the HTTP front end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from mooring.apiserver.http_server.http import send_stream
from mooring.connections import WRITE_SLICE_BYTES


class Response:
    """Records what is written to it."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []

    async def write(self, data: Any) -> None:
        self.writes.append(bytes(data))


def test_a_chunk_is_written_in_slices() -> None:
    """The connection buffers a whole write, and a watch may have 64 megabytes to send."""
    large = bytes(range(256)) * 1024

    async def chunks() -> AsyncIterator[bytes]:
        for chunk in (b"small", large, b"end"):
            yield chunk

    response: Any = Response()
    asyncio.run(send_stream(chunks(), response, 30.0))

    assert b"".join(response.writes) == b"small" + large + b"end"
    assert max(map(len, response.writes)) == WRITE_SLICE_BYTES
    assert len(response.writes) == 6
