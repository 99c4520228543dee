"""Connections of HTTP servers: how many, and how long a client may take to send and to read.

::

    accepted ── TLS, 10 s ──> open ── first bytes of a head ──> 10 s for the rest ──> a request
        └── too many: closed      └── no bytes: idle, until the keep-alive time ends

    response ── the client reads some of it at least every 30 s ──> sent
                        └── it reads nothing: closed, and the rest of the response is freed

A client needs no credentials to open connections, to send half a head, and to ignore responses, so
all three have a limit.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import ssl
import sys
from collections.abc import Mapping
from typing import Any, Final

from aiohttp import StreamReader, web

#: File descriptors that are left for everything but connections.
DESCRIPTORS_SPARED: Final = 64
#: Bytes of a response that are written at once; of a client that does not read, few wait.
WRITE_SLICE_BYTES: Final = 64 << 10

_log = logging.getLogger(__name__)


class LimitedServer(web.Server):
    """Makes the connections of one listener, up to a limit.

    Args:
        handler: Handles the requests.
        connections_max: Further connections are closed at once.
        head_s: Time for the TLS handshake, and for each head of a request.
        write_s: A client that reads nothing of a response for so long is disconnected.
        handler_cancellation: Cancels the handler of a client that disconnects.
        options: Of each connection, as of ``aiohttp.web.Server``.
    """

    def __init__(
        self,
        handler: Any,
        *,
        connections_max: int,
        head_s: float,
        write_s: float,
        handler_cancellation: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(handler, handler_cancellation=handler_cancellation, **options)
        self.connections_max = min(connections_max, max(descriptors() - DESCRIPTORS_SPARED, 1))
        self.head_s = head_s
        self.write_s = write_s
        self.refused = 0
        self._options = options
        self._event_loop = asyncio.get_running_loop()

    def __call__(self) -> Connection:
        """Returns the protocol of a new connection."""
        return Connection(self, loop=self._event_loop, **self._options)

    def refuse(self) -> None:
        """Counts a refused connection; the first of them is logged, others may be very many."""
        if not self.refused:
            _log.warning("too many connections", extra={"limit": self.connections_max})
        self.refused += 1


class Connection(web.RequestHandler):
    """One connection; it is closed if a head is not received, or a response not read, in time."""

    def __init__(self, server: LimitedServer, **options: Any) -> None:
        super().__init__(server, **options)
        self._server = server
        self._head_timer: asyncio.TimerHandle | None = None
        #: Of the last request; it may be received after its response was sent.
        self._last_body: StreamReader | None = None
        self._write_timer: asyncio.TimerHandle | None = None

    @property
    def is_idle(self) -> bool:
        """True if no request was received that is not answered."""
        return not self._request_in_progress and not self._messages

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begins to wait for a head, or refuses the connection."""
        super().connection_made(transport)
        if len(self._server.connections) > self._server.connections_max:
            self._server.refuse()
            self._abort()
            return
        self._start_timer()

    def data_received(self, data: bytes) -> None:
        """Handles bytes of the client."""
        requests_before = self._request_count
        # aiohttp calls this without data, too, after it has read what it had stopped reading.
        is_of_body = not data or (self._last_body is not None and not self._last_body.is_eof())
        super().data_received(data)
        if self._request_count > requests_before:
            self._stop_timer()
            self._last_body = self._messages[-1][1] if self._messages else None
        elif self._head_timer is None and self._current_request is None and not is_of_body:
            self._start_timer()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Ends all timers."""
        self._stop_timer()
        self._stop_write_timer()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Begins to wait until the client has read something."""
        super().pause_writing()
        self._start_write_timer()

    def resume_writing(self) -> None:
        """Goes on: the client has read most of what was sent."""
        self._stop_write_timer()
        super().resume_writing()

    def _start_timer(self) -> None:
        loop = asyncio.get_running_loop()
        self._head_timer = loop.call_later(self._server.head_s, self._abort)

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _abort(self) -> None:
        # Its class is not checked: uvloop's transports do not derive from asyncio's classes.
        if self.transport is not None:
            self.transport.abort()

    def _start_write_timer(self) -> None:
        loop, transport = asyncio.get_running_loop(), self.transport
        if transport is not None:
            unread = transport.get_write_buffer_size()
            self._write_timer = loop.call_later(self._server.write_s, self._on_unread, unread)

    def _stop_write_timer(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def _on_unread(self, unread_before: int) -> None:
        """Closes the connection if the client has read nothing since the timer was started."""
        transport = self.transport
        if transport is not None and transport.get_write_buffer_size() < unread_before:
            self._start_write_timer()
        else:
            self._abort()


class LimitedSite(web.TCPSite):
    """An address to listen on, with a limit on the time of a TLS handshake."""

    def __init__(
        self,
        runner: web.ServerRunner,
        host: str,
        port: int,
        *,
        context: ssl.SSLContext | None,
        handshake_s: float,
    ) -> None:
        super().__init__(runner, host, port, ssl_context=context)
        self._address = (host, port)
        self._context = context
        self._handshake_s = handshake_s

    async def start(self) -> None:
        """Listens from now on.

        Raises:
            OSError: The port is in use.
        """
        await web.BaseSite.start(self)
        server = self._runner.server
        assert server is not None
        self._server = await asyncio.get_running_loop().create_server(
            server,
            *self._address,
            ssl=self._context,
            ssl_handshake_timeout=self._handshake_s if self._context else None,
            backlog=self._backlog,
        )


def descriptors() -> int:
    """Returns how many files and connections this process may have open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


async def wait_until_sent(
    request: web.BaseRequest, status: int, headers: Mapping[str, str], body: bytes
) -> web.StreamResponse:
    """Sends a response in slices, each after the client has read some of those before it.

    A TLS connection takes a body of any size at once, and does not say that nothing of it was read.
    """
    if len(body) <= WRITE_SLICE_BYTES or request.method == "HEAD":
        return web.Response(status=status, headers=headers, body=body)
    response = web.StreamResponse(status=status, headers=headers)
    response.content_length = len(body)
    await response.prepare(request)
    view = memoryview(body)
    for start in range(0, len(view), WRITE_SLICE_BYTES):
        await response.write(view[start : start + WRITE_SLICE_BYTES])
    await response.write_eof()
    return response
