"""A server on the loopback address that speaks HTTP as badly as a test wants it to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager

from mooring.client.transport.http import HttpTransport

SECONDS_MAX = 20.0
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"

#: Given the head and body of a request, writes whatever it likes.
Behave = Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]


def body_length(head: bytes) -> int:
    """Returns what Content-Length says; 0 without one."""
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.split(b":")[1])
    return 0


class Server:
    """Speaks HTTP as badly as a test wants it to."""

    def __init__(self, behave: Behave) -> None:
        self.requests: list[bytes] = []
        self.connections = 0
        self.url = ""
        self._behave = behave

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Server]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        async with server:
            yield self

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = body_length(head)
                self.requests.append(head + await reader.readexactly(length))
                await self._behave(self.requests[-1], writer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


def run(behave: Behave, test: Callable[[Server, HttpTransport], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(SECONDS_MAX), Server(behave).running() as server:
            transport = HttpTransport(server.url, user_agent="test")
            try:
                await test(server, transport)
            finally:
                await transport.close()

    asyncio.run(main())


def says(*texts: bytes, then_close: bool = False) -> Behave:
    async def behave(_: bytes, writer: asyncio.StreamWriter) -> None:
        for text in texts:
            writer.write(text)
            await writer.drain()
        if then_close:
            writer.close()

    return behave


def chunk(text: bytes) -> bytes:
    return f"{len(text):x}\r\n".encode() + text + b"\r\n"


class Names:
    """Credentials that are renewed when they are refused."""

    def __init__(self) -> None:
        self.generation = 0
        self.tls = None
        self.renewals = 0

    def current_headers(self) -> Mapping[str, str] | None:
        return {"authorization": f"Bearer {self.renewals}"}

    async def headers(self) -> Mapping[str, str]:
        return {"authorization": f"Bearer {self.renewals}"}

    async def renew(self) -> None:
        self.renewals += 1
        self.generation += 1


async def wants_renewal(request: bytes, writer: asyncio.StreamWriter) -> None:
    if b"Bearer 0" in request:
        writer.write(b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n")
    else:
        writer.write(OK)
