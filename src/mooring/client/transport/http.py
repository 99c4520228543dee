"""The transport over sockets, with separate connections per pool.

Requests use an ``Http1Pool``, which is fast; streams, and requests through a proxy, use aiohttp.

A watch occupies its connection for minutes, a burst of bindings uses all connections of its pool,
and the renewal of a lease must never wait for either: so each ``Pool`` has its own connections.
"""

from __future__ import annotations

import asyncio
import math
import os
import socket
import ssl
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Final, Protocol

import aiohttp
from aiohttp.http_exceptions import HttpProcessingError
from yarl import URL

from mooring.client.transport.http1_pool import HTTP_FAILURES, Http1Pool
from mooring.client.transport.idle_timer import IdleTimer
from mooring.client.transport.transport import (
    AnswerTooLong,
    ChunkedStream,
    Pool,
    Query,
    Request,
    Response,
    Stream,
    StreamBroken,
    idle_error,
    lower_names,
)
from mooring.errors import OutcomeUnknown, Unreachable

#: Connections of each pool: one request each at a time. Watches: one per kind and some to spare.
CONNECTIONS: Final = {Pool.READ: 16, Pool.WRITE: 64, Pool.WATCH: 64, Pool.LEASE: 2}

CONNECT_S_MAX: Final = 10.0

#: How often, and how long each time, a closing transport waits for its last connections.
CLOSE_POLLS_MAX: Final = 50
CLOSE_POLL_S: Final = 0.01

#: Read buffer of a connection; one read returns at most twice that, so that its events occupy the
#: loop for about 2 ms.
BUFFER_BYTES: Final = 1 << 17

#: Retired sessions, with an outdated certificate, that may still have requests in flight.
RETIRED_MAX: Final = 8

_UNAUTHORIZED: Final = 401
#: For a server whose URL begins with http:// and that closes connections.
_TLS_HINT: Final = "; if it serves TLS, its URL must begin with https://"

#: Errors of a network, or of a server that does not speak HTTP.
_FAILURES: Final = (aiohttp.ClientError, HttpProcessingError, *HTTP_FAILURES)


class Authorization(Protocol):
    """The current credentials."""

    @property
    def generation(self) -> int:
        """A number that grows when connections must be replaced, since their certificate is old."""
        ...

    @property
    def tls(self) -> ssl.SSLContext | None:
        """The TLS context of new connections."""
        ...

    def current_headers(self) -> Mapping[str, str] | None:
        """Returns the headers for a request, or None if something must be renewed first."""
        ...

    async def headers(self) -> Mapping[str, str]:
        """Returns the headers for a request; renews what has expired."""
        ...

    async def renew(self) -> None:
        """Gets newer credentials after a 401, if there are any."""
        ...


class HttpTransport:
    """Talks to one API server over HTTP/1.1.

    Args:
        server: The URL of the API server: "https://127.0.0.1:6443".
        authorization: Provides headers for every request, and new ones after a 401; its TLS
        context verifies the server. None for plain http.
        server_name: The name in the server's certificate, if it differs from the URL's host.
        proxy: The URL of an HTTP proxy.
        user_agent: For the server's logs.
        extra_headers: (name, value) of headers of every request.
    """

    def __init__(
        self,
        server: str,
        *,
        authorization: Authorization | None = None,
        server_name: str | None = None,
        proxy: str | None = None,
        user_agent: str = "mooring",
        extra_headers: Sequence[tuple[str, str]] = (),
    ) -> None:
        self._extra_headers = extra_headers
        self._server = server.rstrip("/")
        self._tls = authorization.tls if authorization is not None else None
        self._authorization = authorization
        self._server_name = server_name
        self._proxy = proxy
        self._user_agent = user_agent
        self._sessions: dict[Pool, aiohttp.ClientSession] = {}
        self._http1_pools: dict[Pool, Http1Pool] = {}
        self._retired_http1_pools: list[Http1Pool] = []
        self._sockets: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        self._retired: list[aiohttp.ClientSession] = []
        self._generation = 0
        self._is_closed = False

    async def request(self, request: Request) -> Response:
        """Sends a request and reads the complete response, as ``Transport.request``."""
        loop = asyncio.get_running_loop()
        due_s = loop.time() + request.deadline_s
        is_sent = _Sent(loop, due_s)
        try:
            response = await self._once(request, is_sent, due_s)
            if response.status == _UNAUTHORIZED and self._authorization is not None:
                # Nothing has happened yet, and nothing will while credentials are renewed.
                is_sent.value = False
                async with asyncio.timeout_at(due_s):
                    await self._authorization.renew()
                response = await self._once(request, is_sent, due_s)
            return response
        except _FAILURES as error:
            message = self._error_text(request, error)
            if is_sent.value:
                raise OutcomeUnknown(message) from error
            raise Unreachable(message) from error

    async def _once(self, request: Request, is_sent: _Sent, due_s: float) -> Response:
        sent = await self._headers(request.headers, due_s)
        if self._proxy is None:
            http1_pool = self._http1_pool(request.pool)
            return await http1_pool.request(request, sent, is_sent.note, due_s=due_s)
        async with asyncio.timeout_at(due_s):
            return await self._through_proxy(request, sent, is_sent)

    async def _through_proxy(
        self, request: Request, sent: Mapping[str, str], is_sent: _Sent
    ) -> Response:
        is_sent.check_deadline()
        async with self._session(request.pool).request(
            request.method,
            self._url(request.path, request.query),
            data=request.body or None,
            headers=sent,
            server_hostname=self._server_name,
            proxy=self._proxy,
            allow_redirects=False,
            trace_request_ctx=is_sent,
        ) as response:
            body = await _whole(response, request)
            return Response(response.status, lower_names(response.headers), body)

    @asynccontextmanager
    async def stream(self, request: Request, *, idle_s: float) -> AsyncIterator[Stream]:
        """Opens a stream, as ``Transport.stream``."""
        response = await self._open(request)
        try:
            async with aclosing(_chunks(response, idle_s)) as chunks:
                yield ChunkedStream(
                    response.status, lower_names(response.headers), chunks, idle_s=None
                )
        finally:
            _abort(response)

    async def _open(self, request: Request) -> aiohttp.ClientResponse:
        """Returns a response whose head has arrived; the caller must close it."""
        due_s = asyncio.get_running_loop().time() + request.deadline_s
        try:
            async with asyncio.timeout_at(due_s):
                response = await self._head(request, due_s)
                if response.status == _UNAUTHORIZED and self._authorization is not None:
                    _abort(response)
                    await self._authorization.renew()
                    response = await self._head(request, due_s)
                return response
        except _FAILURES as error:
            raise Unreachable(self._error_text(request, error)) from error

    async def _head(self, request: Request, due_s: float) -> aiohttp.ClientResponse:
        sent = await self._headers(request.headers, due_s)
        return await self._session(Pool.WATCH).get(
            self._url(request.path, request.query),
            headers=sent,
            server_hostname=self._server_name,
            proxy=self._proxy,
            allow_redirects=False,
            trace_request_ctx=_Sent(asyncio.get_running_loop(), math.inf),
        )

    async def close(self) -> None:
        """Closes all connections, as ``Transport.close``."""
        self._is_closed = True
        sessions, self._sessions = self._sessions, {}
        retired, self._retired = self._retired, []
        for session in [*sessions.values(), *retired]:
            await _close(session)
        for http1_pool in [*self._http1_pools.values(), *self._retired_http1_pools]:
            await http1_pool.close()
        # An aborted request leaves a connection that is still closing.
        for _ in range(CLOSE_POLLS_MAX):
            if not any(sock.fileno() >= 0 for sock in self._sockets):
                break
            await asyncio.sleep(CLOSE_POLL_S)

    def _error_text(self, request: Request, error: Exception) -> str:
        """Returns what failed; a server that closes a connection may have received no TLS."""
        is_closed = isinstance(error, ConnectionResetError | aiohttp.ServerDisconnectedError)
        hint = _TLS_HINT if is_closed and self._server.startswith("http://") else ""
        return f"{request.method} {request.path}: {failure_text(error)}{hint}"

    def _new_socket(self, address: aiohttp.AddrInfoType) -> socket.socket:
        family, kind, protocol, _, _ = address
        sock = socket.socket(family=family, type=kind, proto=protocol)
        self._sockets.add(sock)
        return sock

    async def _headers(self, headers: Mapping[str, str], due_s: float) -> Mapping[str, str]:
        authorization = self._authorization
        if authorization is None:
            return headers
        credentials = authorization.current_headers()
        if credentials is None:
            async with asyncio.timeout_at(due_s):
                credentials = await authorization.headers()
        if authorization.generation != self._generation:
            self._generation = authorization.generation
            self._tls = authorization.tls
            async with asyncio.timeout_at(due_s):
                await self._retire()
        return {**credentials, **headers} if credentials else headers

    async def _retire(self) -> None:
        """Replaces all connections; requests in flight finish on the old ones."""
        for http1_pool in self._http1_pools.values():
            http1_pool.retire()
        self._retired_http1_pools = [
            http1_pool
            for http1_pool in [*self._retired_http1_pools, *self._http1_pools.values()]
            if http1_pool.connections
        ]
        self._http1_pools = {}
        while len(self._retired_http1_pools) > RETIRED_MAX:
            await self._retired_http1_pools.pop(0).close()
        self._retired += self._sessions.values()
        self._sessions = {}
        while len(self._retired) > RETIRED_MAX:
            await _close(self._retired.pop(0))

    def _url(self, path: str, query: Query) -> URL:
        url = URL(self._server + path, encoded=True)
        return url.with_query(list(query)) if query else url

    def _http1_pool(self, pool: Pool) -> Http1Pool:
        if self._is_closed:
            raise Unreachable("the transport is closed")
        http1_pool = self._http1_pools.get(pool)
        if http1_pool is None:
            http1_pool = self._http1_pools[pool] = Http1Pool(
                self._server,
                tls=self._tls,
                server_name=self._server_name,
                limit=CONNECTIONS[pool],
                user_agent=self._user_agent,
                extra_headers=self._extra_headers,
            )
        return http1_pool

    def _session(self, pool: Pool) -> aiohttp.ClientSession:
        if self._is_closed:
            raise Unreachable("the transport is closed")
        session = self._sessions.get(pool)
        if session is None:
            connector = aiohttp.TCPConnector(
                limit=CONNECTIONS[pool],
                ssl=self._tls if self._tls is not None else True,
                socket_factory=self._new_socket,
            )
            trace = aiohttp.TraceConfig()
            trace.on_request_headers_sent.append(_note_sent)
            session = aiohttp.ClientSession(
                connector=connector,
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S_MAX),
                # Decompressed, a small response may become huge; and it costs more than it saves.
                headers=[
                    ("user-agent", self._user_agent),
                    ("accept-encoding", "identity"),
                    *self._extra_headers,
                ],
                auto_decompress=False,
                # Cookies of a server or proxy are not stored.
                cookie_jar=aiohttp.DummyCookieJar(),
                read_bufsize=BUFFER_BYTES,
                trace_configs=[trace],
            )
            # By default aiohttp repeats PUT and DELETE when a reused connection breaks: then a
            # write that happened would look refused. Reads are retried by ``Client.read``.
            session._retry_connection = False  # noqa: SLF001 - there is no public switch
            self._sessions[pool] = session
        return session


def _abort(response: aiohttp.ClientResponse) -> None:
    """Closes the connection of a stream at once; see ``_close``."""
    connection = response.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()
    response.close()


async def _close(session: aiohttp.ClientSession) -> None:
    """Closes all connections of a session at once, without a TLS shutdown.

    A TLS shutdown would outlast the loop, and a watch in flight has none anyway.
    """
    if isinstance(session.connector, aiohttp.TCPConnector):
        await session.connector.close(abort_ssl=True)
    await session.close()


class _Sent:
    """A flag that is set when the request head is sent: from then on it may have happened.

    Args:
        loop: The event loop of the request.
        due_s: When the deadline passes, in seconds of the event loop.
    """

    __slots__ = ("_due_s", "_loop", "value")

    def __init__(self, loop: asyncio.AbstractEventLoop, due_s: float) -> None:
        self._loop = loop
        self._due_s = due_s
        self.value = False

    def note(self) -> None:
        """Marks the request as sent.

        Raises:
            TimeoutError: its deadline has passed; it must not be sent.
        """
        self.check_deadline()
        self.value = True

    def check_deadline(self) -> None:
        """Does nothing within the deadline.

        After a process was stopped for a while, a connection may be ready before the loop runs the
        timer of the deadline; and the deadline of a write is the end of the lease.

        Raises:
            TimeoutError: the deadline has passed.
        """
        if self._loop.time() >= self._due_s:
            raise TimeoutError


async def _note_sent(_session: object, context: object, _parameters: object) -> None:
    sent = getattr(context, "trace_request_ctx", None)
    if isinstance(sent, _Sent):
        sent.value = True


async def _chunks(response: aiohttp.ClientResponse, idle_s: float) -> AsyncGenerator[bytes, None]:
    idle = IdleTimer(lambda: response.content.set_exception(aiohttp.SocketTimeoutError()), idle_s)
    try:
        async for chunk in response.content.iter_any():
            idle.end()
            yield chunk
            idle.begin()
    except aiohttp.SocketTimeoutError as error:
        raise idle_error(idle_s) from error
    except _FAILURES as error:
        raise StreamBroken(failure_text(error)) from error
    finally:
        idle.cancel()


async def _whole(response: aiohttp.ClientResponse, request: Request) -> bytes:
    """Reads a complete response body.

    Raises:
        AnswerTooLong: the body is longer than the request allows.
    """
    parts: list[bytes] = []
    size = 0
    async for chunk in response.content.iter_any():
        parts.append(chunk)
        size += len(chunk)
        if size > request.bytes_max:
            message = f"{request.method} {request.path}: more than {request.bytes_max} bytes"
            raise AnswerTooLong(message)
    return b"".join(parts)


def failure_text(error: BaseException) -> str:
    """Returns what failed on a connection, without the names of Python's classes where possible."""
    match error:
        case aiohttp.ClientConnectorCertificateError():
            return f"certificate of {error.host}:{error.port}: {error.certificate_error}"
        case aiohttp.ClientConnectorError():
            return f"cannot connect to {error.host}:{error.port}: {failure_text(error.os_error)}"
        case aiohttp.ServerDisconnectedError():
            return "the server closed the connection"
        case ssl.SSLError():
            return str(error)
        case OSError(errno=int(number)) if number > 0:
            return os.strerror(number)
        case socket.gaierror(strerror=str(text)):
            return text
        case ConnectionError() if str(error):
            return str(error)
        case TimeoutError():
            return "timeout: no response"
    return f"{type(error).__name__}: {error}".rstrip(": ")
