"""A network in memory for tests of connections: it takes the place of the loop's connections.

A test is the server. It sees the bytes of each request, and says what comes back and when.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

#: A short response.
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


class Link(asyncio.Transport):
    """A connection, from both sides.

    Attributes:
        requests: What was written to it.
        is_aborted: Whether the client has closed it.
    """

    def __init__(self, network: MemoryNetwork, protocol: Any) -> None:
        super().__init__()
        self._network = network
        self._protocol = protocol
        self._is_closing = False
        self.requests: list[bytes] = []
        self.is_aborted = False
        protocol.connection_made(self)

    # -- called by the client ---------------------------------------------------------------------

    def is_closing(self) -> bool:
        return self._is_closing

    def write(self, data: Any) -> None:
        self.requests.append(bytes(data))
        if self._network.response is not None:
            asyncio.get_running_loop().call_soon(self.send, self._network.response)

    def abort(self) -> None:
        self.is_aborted = True
        self.hang_up()

    # -- what the server does ---------------------------------------------------------------------

    def send(self, *parts: bytes) -> None:
        """Passes bytes to the client, unless the connection has ended."""
        for part in parts:
            if not self._is_closing:
                self._protocol.data_received(part)

    def hang_up(self, error: Exception | None = None) -> None:
        """Ends the connection; the client notices it in the next round of the loop."""
        if not self._is_closing:
            self._is_closing = True
            asyncio.get_running_loop().call_soon(self._protocol.connection_lost, error)
            self._protocol = None


class Opened(NamedTuple):
    """A connection that the client has begun to open: where, and with which TLS."""

    host: str
    port: int
    ssl: Any
    server_hostname: str | None


class MemoryNetwork:
    """All connections of the running loop.

    Args:
        response: The answer to every request; None: the test sends it.
        connect_s: How long a connection takes to open.
        refused: Hosts that accept no connection.
        addresses: Name of a host -> its addresses; a name that is missing cannot be resolved.

    Attributes:
        opened: What the client has begun to open.
        links: The connections.
    """

    def __init__(
        self,
        response: bytes | None = None,
        *,
        connect_s: float = 0.0,
        refused: Sequence[str] = (),
        addresses: Mapping[str, Sequence[str]] = MappingProxyType({}),
    ) -> None:
        self.response = response
        self.connect_s = connect_s
        self.refused = refused
        self.addresses = addresses
        self.opened: list[Opened] = []
        self.links: list[Link] = []
        loop: Any = asyncio.get_running_loop()
        loop.create_connection, loop.getaddrinfo = self._connect, self._look_up

    @property
    def requests(self) -> list[bytes]:
        """The requests of all connections."""
        return [request for link in self.links for request in link.requests]

    async def _look_up(self, host: str, port: int, **_: Any) -> list[tuple[Any, ...]]:
        if host not in self.addresses:
            raise socket.gaierror(-2, "Name or service not known")
        return [(0, 0, 0, "", (address, port)) for address in self.addresses[host]]

    async def _connect(
        self,
        factory: Callable[[], Any],
        host: str,
        port: int,
        *,
        ssl: Any = None,
        server_hostname: str | None = None,
    ) -> tuple[Link, Any]:
        self.opened.append(Opened(host, port, ssl, server_hostname))
        if self.connect_s:
            await asyncio.sleep(self.connect_s)
        if host in self.refused:
            raise ConnectionRefusedError(111, f"{host} refused")
        protocol = factory()
        self.links.append(Link(self, protocol))
        return self.links[-1], protocol


async def some_rounds() -> None:
    """Lets everything run that is ready."""
    for _ in range(10):
        await asyncio.sleep(0)
