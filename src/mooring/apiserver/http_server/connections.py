"""Connections of the HTTP front end: how many, and how long a client may take for a head.

::

    accepted ── TLS, 10 s ──> open ── first bytes of a head ──> 10 s for the rest ──> a request
        └── too many: closed      └── no bytes: idle, until the keep-alive time ends

A client needs no credentials to open connections and to send half a head, so both have a limit.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import ssl
from typing import Any, Final

from aiohttp import web

#: File descriptors that are left for everything but connections.
DESCRIPTORS_SPARED: Final = 64

_log = logging.getLogger(__name__)


class LimitedServer(web.Server):
    """Makes the connections of one listener, up to a limit.

    Args:
        handler: Handles the requests.
        connections_max: Further connections are closed at once.
        head_s: Time for the TLS handshake, and for each head of a request.
        options: Of each connection, as of ``aiohttp.web.Server``.
    """

    def __init__(
        self, handler: Any, *, connections_max: int, head_s: float, **options: Any
    ) -> None:
        super().__init__(handler, handler_cancellation=True, **options)
        descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.connections_max = min(connections_max, max(descriptors - DESCRIPTORS_SPARED, 1))
        self.head_s = head_s
        self.refused = 0
        self._options = options
        self._event_loop = asyncio.get_running_loop()

    def __call__(self) -> web.RequestHandler:
        """Returns the protocol of a new connection."""
        return _Connection(self, loop=self._event_loop, **self._options)

    def refuse(self) -> None:
        """Counts a refused connection; the first of them is logged, others may be very many."""
        if not self.refused:
            _log.warning("too many connections", extra={"limit": self.connections_max})
        self.refused += 1


class _Connection(web.RequestHandler):
    """One connection; it is closed if a head that was begun does not end in time."""

    def __init__(self, server: LimitedServer, **options: Any) -> None:
        super().__init__(server, **options)
        self._server = server
        self._head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if len(self._server.connections) > self._server.connections_max:
            self._server.refuse()
            assert isinstance(transport, asyncio.Transport)
            transport.abort()
            return
        self._start_timer()

    def data_received(self, data: bytes) -> None:
        requests_before = self._request_count
        super().data_received(data)
        if self._request_count > requests_before:
            self._stop_timer()
        elif self._head_timer is None and self._current_request is None:
            self._start_timer()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def _start_timer(self) -> None:
        loop = asyncio.get_running_loop()
        self._head_timer = loop.call_later(self._server.head_s, self._on_timeout)

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _on_timeout(self) -> None:
        if isinstance(self.transport, asyncio.Transport):
            self.transport.abort()


class LimitedSite(web.TCPSite):
    """An address to listen on, with a limit on the time of a TLS handshake."""

    def __init__(
        self,
        runner: web.ServerRunner,
        host: str,
        port: int,
        *,
        context: ssl.SSLContext,
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
            ssl_handshake_timeout=self._handshake_s,
            backlog=self._backlog,
        )
