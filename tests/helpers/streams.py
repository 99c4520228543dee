"""Connections over which a test writes bytes as they are."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def connection(connecting: Awaitable[Streams]) -> AsyncIterator[Streams]:
    """Yields a connection that is closed at the end."""
    streams = await connecting
    try:
        yield streams
    finally:
        streams[1].close()


async def is_closed(streams: Streams) -> bool:
    """Waits until the server closes the connection."""
    try:
        return await streams[0].read() == b""
    except ConnectionError:
        return True
    finally:
        streams[1].close()
