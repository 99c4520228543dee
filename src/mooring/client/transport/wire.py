"""Requests with short answers over HTTP/1.1, as cheaply as Python can: a parser in C, and no more.

A scheduled pod is two requests, and a general HTTP client spends on each of them more than deciding
takes. Here a request is one write, and its answer one parser's callbacks; connections are kept.

::

    Wire.ask ──> an idle connection, a new one, or a place in the line ──> write ──> answer

A request is never sent twice. Whether one that failed may have happened is known exactly: it may
have, from the moment in which the first byte was written, and ``is_sent`` is called then.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeAlias, cast
from urllib.parse import urlencode, urlsplit

import httptools

from mooring.client.transport.transport import AnswerTooLong, Query, Request, Response
from mooring.errors import Unreachable

CONNECT_S_MAX: Final = 10.0

#: The head of an answer; servers send less than a hundredth of it.
HEAD_BYTES_MAX: Final = 1 << 20

#: What a network, or a server that does not speak HTTP, makes of a request.
WIRE_FAILURES: Final = (OSError, TimeoutError, httptools.HttpParserError)

#: Say where an answer ends.
_FRAMED: Final = frozenset({"content-length", "transfer-encoding"})

_LINE_BREAKS: Final = frozenset("\r\n\0")

LookUp: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]


class Wire:
    """The connections of one pool to one server.

    Args:
        server: The URL of the server; a path in it comes before that of every request.
        tls: Verifies the server; None for plain http.
        server_name: The name in the server's certificate, if it is not that of the URL.
        limit: How many connections there may be.
        user_agent: For the server's logs.
        look_up: The addresses of a host and port, in the order in which they are tried; raises
            OSError. By default whatever the system says.
    """

    def __init__(
        self,
        server: str,
        *,
        tls: ssl.SSLContext | None,
        server_name: str | None,
        limit: int,
        user_agent: str,
        look_up: LookUp | None = None,
    ) -> None:
        parts = urlsplit(server)
        is_tls = parts.scheme == "https"
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if is_tls else 80)
        self._root = parts.path.rstrip("/")
        self._tls = (tls if tls is not None else True) if is_tls else None
        self._server_name = (server_name or self._host) if is_tls else None
        self._limit = limit
        self._constant = (
            f" HTTP/1.1\r\nhost: {parts.netloc.rpartition('@')[2]}\r\naccept-encoding: identity\r\n"
        )
        self._user_agent = user_agent
        self._look_up = look_up
        self._idle: list[_Connection] = []
        self._all: set[_Connection] = set()
        self._opening = 0
        self._line: deque[asyncio.Future[None]] = deque()
        self._is_closed = False
        self._is_retired = False

    @property
    def connections(self) -> int:
        """How many there are."""
        return len(self._all)

    async def ask(
        self, request: Request, headers: Mapping[str, str], is_sent: Callable[[], None]
    ) -> Response:
        """Sends a request and reads its answer; the caller sets the deadline.

        Args:
            request: What is asked.
            headers: All of them, but those that follow from the server and the body.
            is_sent: Called when it may have happened.

        Raises:
            OSError, TimeoutError, HttpParserError: ``WIRE_FAILURES``.
            AnswerTooLong: the answer is longer than the request allows.
            Unreachable: the transport is closed.
        """
        text = self._text(request, headers)
        connection = await self._take()
        is_sent()
        try:
            return await connection.exchange(text, request.bytes_max)
        except AnswerTooLong as error:
            raise AnswerTooLong(f"{request.method} {request.path}: {error}") from None
        finally:
            self._give_back(connection)

    async def close(self) -> None:
        """Ends all connections at once; what is under way fails."""
        self._is_closed = True
        while self._line:
            self._call_next()
        for connection in list(self._all):
            connection.abort()
        for connection in list(self._all):
            await connection.gone.wait()

    def retire(self) -> None:
        """Keeps no connection any more: those under way end with their answers."""
        self._is_retired = True
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.abort()

    # -- connections ------------------------------------------------------------------------------

    async def _take(self) -> _Connection:
        """Returns an idle connection, the one used last; else a new one; else wait for either."""
        while True:
            if self._is_closed:
                raise Unreachable("the transport is closed")
            while self._idle:
                connection = self._idle.pop()
                if connection.is_open:
                    return connection
            if len(self._all) + self._opening < self._limit:
                return await self._open()
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._line.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._call_next()  # it was our turn: somebody else takes it
                raise

    async def _open(self) -> _Connection:
        self._opening += 1
        try:
            async with asyncio.timeout(CONNECT_S_MAX):
                connection = await self._connect()
        except BaseException:
            self._call_next()
            raise
        finally:
            self._opening -= 1
        self._all.add(connection)
        return connection

    async def _connect(self) -> _Connection:
        """Returns a connection to the first address that takes one."""
        hosts: Sequence[str] = [self._host]
        if self._look_up is not None:
            hosts = await self._look_up(self._host, self._port)
        failure: OSError = OSError(f"{self._host} has no address")
        for host in hosts:
            try:
                _, connection = await asyncio.get_running_loop().create_connection(
                    lambda: _Connection(self._lost),
                    host,
                    self._port,
                    ssl=self._tls,
                    server_hostname=self._server_name,
                )
            except OSError as error:
                failure = error
            else:
                return connection
        raise failure

    def _give_back(self, connection: _Connection) -> None:
        if connection.is_open and connection.is_free and not self._is_retired:
            self._idle.append(connection)
        else:
            connection.abort()
        self._call_next()

    def _lost(self, connection: _Connection) -> None:
        self._all.discard(connection)
        self._call_next()

    def _call_next(self) -> None:
        """The first in the line looks again."""
        while self._line:
            turn = self._line.popleft()
            if not turn.done():
                turn.set_result(None)
                return

    # -- text -------------------------------------------------------------------------------------

    def _text(self, request: Request, headers: Mapping[str, str]) -> bytes:
        lines = [f"{name}: {value}\r\n" for name, value in headers.items()]
        if "user-agent" not in headers:
            lines.append(f"user-agent: {self._user_agent}\r\n")
        if request.body or request.method in ("POST", "PUT", "PATCH"):
            lines.append(f"content-length: {len(request.body)}\r\n")
        target = self._root + request.path + _query_text(request.query)
        for each in (request.method, target, *headers, *headers.values()):
            if not _LINE_BREAKS.isdisjoint(each):
                raise ValueError(f"a line break in a request: {each!r}")
        head = f"{request.method} {target}{self._constant}{''.join(lines)}\r\n"
        return head.encode("latin-1") + request.body


class _Connection(asyncio.Protocol):
    """One connection, with at most one request under way."""

    def __init__(self, on_lost: Callable[[_Connection], None]) -> None:
        self.gone = asyncio.Event()
        self._on_lost = on_lost
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[Response] | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._headers: dict[str, str] = {}
        self._parts: list[bytes] = []
        self._size = 0
        self._bytes_max = 0
        self._keeps = True
        self._has_head = False
        self._head_bytes = 0

    @property
    def is_open(self) -> bool:
        """Whether a request can be sent."""
        return self._transport is not None and not self._transport.is_closing()

    @property
    def is_free(self) -> bool:
        """Whether the last answer came as a whole, and another one may follow."""
        return self._answer is None and self._keeps

    async def exchange(self, text: bytes, bytes_max: int) -> Response:
        """Sends a request and returns its answer."""
        assert self._transport is not None
        self._answer = asyncio.get_running_loop().create_future()
        self._bytes_max = bytes_max
        self._transport.write(text)
        return await self._answer

    def abort(self) -> None:
        """Ends it at once, without a goodbye."""
        if self._transport is not None:
            self._transport.abort()

    # -- what asyncio calls -----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not checked by isinstance: uvloop's transports are none of asyncio's classes.
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        try:
            if not self._has_head:
                self._head_bytes += len(data)
                if self._head_bytes > HEAD_BYTES_MAX:
                    raise AnswerTooLong(f"a head of more than {HEAD_BYTES_MAX} bytes")
            self._parser.feed_data(data)
        except (httptools.HttpParserError, AnswerTooLong) as error:
            cause = error.__context__ if isinstance(error.__context__, AnswerTooLong) else error
            self._fail(cause)
            self.abort()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is None and self._has_head and not self._headers.keys() & _FRAMED:
            self._keeps = False
            self.on_message_complete()  # an answer without a length ends with its connection
        self._fail(exc or ConnectionResetError("the server closed the connection"))
        self._transport = None
        self.gone.set()
        self._on_lost(self)

    def _fail(self, error: BaseException) -> None:
        answer, self._answer = self._answer, None
        self._keeps = False
        if answer is not None and not answer.done():
            answer.set_exception(error)

    # -- what the parser calls --------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self._headers, self._parts, self._size, self._has_head = {}, [], 0, False
        if self._answer is None:  # nobody has asked
            self._keeps = False
            self.abort()

    def on_header(self, name: bytes, value: bytes) -> None:
        key = name.decode("latin-1").lower()
        text = value.decode("latin-1")
        self._headers[key] = f"{self._headers[key]}, {text}" if key in self._headers else text

    def on_headers_complete(self) -> None:
        self._has_head = self._parser.get_status_code() >= 200
        if self._has_head:
            self._head_bytes = 0

    def on_body(self, body: bytes) -> None:
        self._parts.append(body)
        self._size += len(body)
        if self._size > self._bytes_max:
            raise AnswerTooLong(f"more than {self._bytes_max} bytes")

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200:  # "go on": the answer is still to come
            return
        answer, self._answer = self._answer, None
        self._has_head = False
        self._keeps = self._keeps and self._parser.should_keep_alive()
        if answer is not None and not answer.done():
            answer.set_result(Response(status, self._headers, b"".join(self._parts)))


def _query_text(query: Query) -> str:
    return f"?{urlencode(query)}" if query else ""
