"""Forwards TCP connections, so that an API server can be away for one client only."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def forwarded(port: int, target: int) -> Iterator[None]:
    """Forwards connections to a port of this host to another one."""
    ready, done = threading.Event(), asyncio.Event()

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", target)
        await asyncio.gather(copy(reader, back), copy(there, writer))

    async def main() -> None:
        loops.append(asyncio.get_running_loop())
        async with await asyncio.start_server(connected, "127.0.0.1", port):
            ready.set()
            await done.wait()

    loops: list[asyncio.AbstractEventLoop] = []
    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    ready.wait()
    try:
        yield
    finally:
        loops[0].call_soon_threadsafe(done.set)
        thread.join()
