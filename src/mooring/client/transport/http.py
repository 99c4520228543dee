"""The transport over sockets, with connections of their own for each use.

Requests go over a ``Wire``, which is cheap; streams, and whatever has to go through a proxy, over
aiohttp.

A watch holds its connection for minutes, a burst of bindings fills all that it may have, and the
renewal of a lease must never wait for either: so each ``Pool`` has its own.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Final, Protocol

import aiohttp
from aiohttp.http_exceptions import HttpProcessingError
from yarl import URL

from mooring.client.transport.transport import (
    AnswerTooLong,
    ChunkedStream,
    Pool,
    Query,
    Request,
    Response,
    Stream,
    StreamBroken,
    lower_names,
)
from mooring.client.transport.wire import WIRE_FAILURES, Wire
from mooring.errors import OutcomeUnknown, Unreachable

#: Connections of each pool: one request each at a time. Watches: one per kind and some to spare.
CONNECTIONS: Final = {Pool.READ: 16, Pool.WRITE: 64, Pool.WATCH: 64, Pool.LEASE: 2}

CONNECT_S_MAX: Final = 10.0

#: How often, and how long each time, a transport that closes waits for its last connections.
GOODBYE_TURNS: Final = 50
GOODBYE_TURN_S: Final = 0.01

#: Of a connection whose reader is busy; what is read at once is at most twice that, so that its
#: events keep the loop for 2 ms or so.
BUFFER_BYTES: Final = 1 << 17

#: Sessions whose certificate is out of date, and which others may still be using.
RETIRED_MAX: Final = 8

_UNAUTHORIZED: Final = 401

#: What a network, or a server that does not speak HTTP, makes of a request.
_FAILURES: Final = (aiohttp.ClientError, HttpProcessingError, *WIRE_FAILURES)


class Authorization(Protocol):
    """Who we are, now."""

    @property
    def generation(self) -> int:
        """Grows when connections must be made anew, since they use an old certificate."""
        ...

    @property
    def tls(self) -> ssl.SSLContext | None:
        """For connections from now on."""
        ...

    async def headers(self) -> Mapping[str, str]:
        """What a request must carry."""
        ...

    async def renew(self) -> None:
        """The server refused us: get newer credentials, if there are any."""
        ...


class HttpTransport:
    """Talks to one API server over HTTP/1.1.

    Args:
        server: The URL of the API server: "https://127.0.0.1:6443".
        authorization: Asked for headers before every request, and for new ones after a 401; its
            TLS context verifies the server. None for plain http.
        server_name: The name in the server's certificate, if it is not that of the URL.
        proxy: The URL of an HTTP proxy.
        user_agent: For the server's logs.
    """

    def __init__(
        self,
        server: str,
        *,
        authorization: Authorization | None = None,
        server_name: str | None = None,
        proxy: str | None = None,
        user_agent: str = "mooring",
    ) -> None:
        self._server = server.rstrip("/")
        self._tls = authorization.tls if authorization is not None else None
        self._authorization = authorization
        self._server_name = server_name
        self._proxy = proxy
        self._user_agent = user_agent
        self._sessions: dict[Pool, aiohttp.ClientSession] = {}
        self._wires: dict[Pool, Wire] = {}
        self._retired_wires: list[Wire] = []
        self._sockets: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        self._retired: list[aiohttp.ClientSession] = []
        self._generation = 0
        self._is_closed = False

    async def request(self, request: Request) -> Response:
        """As ``Transport.request``."""
        is_sent = _Sent()
        try:
            async with asyncio.timeout(request.deadline_s):
                response = await self._once(request, is_sent)
                if response.status == _UNAUTHORIZED and self._authorization is not None:
                    # Nothing has happened yet, and nothing will while new credentials are sought.
                    is_sent.value = False
                    await self._authorization.renew()
                    response = await self._once(request, is_sent)
                return response
        except _FAILURES as error:
            told = _told(request, error)
            if is_sent.value:
                raise OutcomeUnknown(told) from error
            raise Unreachable(told) from error

    async def _once(self, request: Request, is_sent: _Sent) -> Response:
        sent = await self._headers(request.headers)
        if self._proxy is None:
            return await self._wire(request.pool).ask(request, sent, is_sent.note)
        async with self._session(request.pool).request(
            request.method,
            self._url(request.path, request.query),
            data=request.body or None,
            headers=sent,
            server_hostname=self._server_name,
            proxy=self._proxy,
            allow_redirects=False,
            trace_request_ctx=is_sent,
        ) as answer:
            body = await _whole(answer, request)
            return Response(answer.status, lower_names(answer.headers), body)

    @asynccontextmanager
    async def stream(self, request: Request, *, idle_s: float) -> AsyncIterator[Stream]:
        """As ``Transport.stream``."""
        answer = await self._open(request)
        try:
            async with aclosing(_chunks(answer)) as chunks:
                yield ChunkedStream(
                    answer.status, lower_names(answer.headers), chunks, idle_s=idle_s
                )
        finally:
            _abort(answer)

    async def _open(self, request: Request) -> aiohttp.ClientResponse:
        """Returns the answer whose head has come; whoever gets it must end it."""
        try:
            async with asyncio.timeout(request.deadline_s):
                answer = await self._head(request)
                if answer.status == _UNAUTHORIZED and self._authorization is not None:
                    _abort(answer)
                    await self._authorization.renew()
                    answer = await self._head(request)
                return answer
        except _FAILURES as error:
            raise Unreachable(_told(request, error)) from error

    async def _head(self, request: Request) -> aiohttp.ClientResponse:
        sent = await self._headers(request.headers)
        return await self._session(Pool.WATCH).get(
            self._url(request.path, request.query),
            headers=sent,
            server_hostname=self._server_name,
            proxy=self._proxy,
            allow_redirects=False,
            trace_request_ctx=_Sent(),
        )

    async def close(self) -> None:
        """As ``Transport.close``."""
        self._is_closed = True
        sessions, self._sessions = self._sessions, {}
        retired, self._retired = self._retired, []
        for session in [*sessions.values(), *retired]:
            await _close(session)
        for wire in [*self._wires.values(), *self._retired_wires]:
            await wire.close()
        # A request that was broken off leaves a connection that still says goodbye.
        for _ in range(GOODBYE_TURNS):
            if not any(found.fileno() >= 0 for found in self._sockets):
                break
            await asyncio.sleep(GOODBYE_TURN_S)

    def _new_socket(self, address: aiohttp.AddrInfoType) -> socket.socket:
        family, kind, protocol, _, _ = address
        found = socket.socket(family=family, type=kind, proto=protocol)
        self._sockets.add(found)
        return found

    async def _headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        if self._authorization is None:
            return dict(headers)
        credentials = await self._authorization.headers()
        if self._authorization.generation != self._generation:
            self._generation = self._authorization.generation
            self._tls = self._authorization.tls
            await self._retire()
        return {**credentials, **headers}

    async def _retire(self) -> None:
        """Makes all connections anew; requests under way end on their old ones."""
        for wire in self._wires.values():
            wire.retire()
        self._retired_wires = [
            wire for wire in [*self._retired_wires, *self._wires.values()] if wire.connections
        ]
        self._wires = {}
        while len(self._retired_wires) > RETIRED_MAX:
            await self._retired_wires.pop(0).close()
        self._retired += self._sessions.values()
        self._sessions = {}
        while len(self._retired) > RETIRED_MAX:
            await _close(self._retired.pop(0))

    def _url(self, path: str, query: Query) -> URL:
        url = URL(self._server + path, encoded=True)
        return url.with_query(list(query)) if query else url

    def _wire(self, pool: Pool) -> Wire:
        if self._is_closed:
            raise Unreachable("the transport is closed")
        wire = self._wires.get(pool)
        if wire is None:
            wire = self._wires[pool] = Wire(
                self._server,
                tls=self._tls,
                server_name=self._server_name,
                limit=CONNECTIONS[pool],
                user_agent=self._user_agent,
            )
        return wire

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
                # Unpacked, a small answer may become a huge one; and it costs more than it saves.
                headers={"user-agent": self._user_agent, "accept-encoding": "identity"},
                auto_decompress=False,
                # What one server, or a proxy, wants remembered is no business of ours.
                cookie_jar=aiohttp.DummyCookieJar(),
                read_bufsize=BUFFER_BYTES,
                trace_configs=[trace],
            )
            # By itself aiohttp sends PUT and DELETE again when a kept connection breaks: then a
            # write that happened would look refused. Reads are repeated by ``Client.read``.
            session._retry_connection = False  # noqa: SLF001 - there is no public switch
            self._sessions[pool] = session
        return session


def _abort(answer: aiohttp.ClientResponse) -> None:
    """Ends the connection of a stream at once; see ``_close``."""
    connection = answer.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()
    answer.close()


async def _close(session: aiohttp.ClientSession) -> None:
    """Ends all connections of a session at once, without saying goodbye to the server.

    A TLS goodbye would outlast the loop, and a watch under way has none anyway.
    """
    if isinstance(session.connector, aiohttp.TCPConnector):
        await session.connector.close(abort_ssl=True)
    await session.close()


class _Sent:
    """Whether the head of a request has left: from then on it may have happened."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = False

    def note(self) -> None:
        """It leaves now."""
        self.value = True


async def _note_sent(_session: object, context: object, _parameters: object) -> None:
    sent = getattr(context, "trace_request_ctx", None)
    if isinstance(sent, _Sent):
        sent.value = True


async def _chunks(answer: aiohttp.ClientResponse) -> AsyncGenerator[bytes, None]:
    try:
        async for chunk in answer.content.iter_any():
            yield chunk
    except _FAILURES as error:
        raise StreamBroken(f"{type(error).__name__}: {error}".rstrip(": ")) from error


async def _whole(answer: aiohttp.ClientResponse, request: Request) -> bytes:
    """Returns all of an answer.

    Raises:
        AnswerTooLong: it is longer than the request allows.
    """
    parts: list[bytes] = []
    size = 0
    async for chunk in answer.content.iter_any():
        parts.append(chunk)
        size += len(chunk)
        if size > request.bytes_max:
            told = f"{request.method} {request.path}: more than {request.bytes_max} bytes"
            raise AnswerTooLong(told)
    return b"".join(parts)


def _told(request: Request, error: Exception) -> str:
    return f"{request.method} {request.path}: {type(error).__name__}: {error}".rstrip(": ")
