"""A fast HTTP/1.1 connection pool for requests with short responses, with a parser in C.

A scheduled pod takes two requests, and a general HTTP client spends more time on each of them than
the scheduling cycle takes. Here a request is one write, and its response a few parser callbacks;
connections are reused.

::

    Http1Pool.request ──> idle or new connection, or wait in the queue ──> write ──> response

A request is never sent twice. A failed request may have happened if its first byte was written;
``is_sent`` is called just before that.
"""

from __future__ import annotations

import asyncio
import math
import ssl
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeAlias, cast
from urllib.parse import urlencode, urlsplit

import httptools

from mooring.client.transport.deadlines import Deadlines
from mooring.client.transport.raw_headers import RawHeaders
from mooring.client.transport.transport import AnswerTooLong, Request, Response
from mooring.client.transport.turns import Turns
from mooring.errors import Unreachable

CONNECT_S_MAX: Final = 10.0

#: A request that takes longer is slow. A few that are not answered must not hold up the others, so
#: it does not count for the limit of connections; but no more than ``SLOW_MAX`` do so.
SLOW_S: Final = 2.0
SLOW_MAX: Final = 512

#: An idle connection is closed after this time, as Go does: after a burst, its memory is returned.
IDLE_S_MAX: Final = 90.0

#: Maximum response head; servers send less than a hundredth of it.
HEAD_BYTES_MAX: Final = 1 << 20

#: Errors of a network, or of a server that does not speak HTTP.
HTTP_FAILURES: Final = (OSError, TimeoutError, httptools.HttpParserError)

#: Headers that define where a response ends.
_FRAMED: Final = frozenset({"content-length", "transfer-encoding"})

LookUp: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]


class Http1Pool:
    """The connections of one pool to one server.

    Args:
        server: The URL of the server; its path is the prefix of every request's path.
        tls: Verifies the server; None for plain http.
        server_name: The name in the server's certificate, if it differs from the URL's host.
        limit: Maximum number of connections without a slow request.
        user_agent: For the server's logs.
        extra_headers: (name, value) of headers of every request.
        look_up: Returns the addresses of a host and port, in the order in which they are tried;
        raises OSError. By default the system's resolver.
    """

    def __init__(
        self,
        server: str,
        *,
        tls: ssl.SSLContext | None,
        server_name: str | None,
        limit: int,
        user_agent: str,
        extra_headers: Sequence[tuple[str, str]] = (),
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
        ) + "".join(
            # Names of users may be any text: UTF-8, as Go sends it.
            f"{name}: {value.encode().decode('latin-1')}\r\n"
            for name, value in extra_headers
        )
        self._user_agent = user_agent
        #: Headers of the last request, and their lines: requests of a pool differ little.
        self._last_fields: tuple[Mapping[str, str] | None, str] = None, ""
        self._look_up = look_up
        #: The connection that was used last is at the end.
        self._idle: deque[_Connection] = deque()
        #: Closes idle connections; None while there are none.
        self._idle_timer: asyncio.TimerHandle | None = None
        #: In the order in which they were opened; the values mean nothing.
        self._all: dict[_Connection, None] = {}
        #: Connection -> when its request began, in seconds of the event loop; the oldest first.
        self._requests: dict[_Connection, float] = {}
        self._deadlines = Deadlines(self._requests)
        self._opening = 0
        self._turns: Turns[_Connection] = Turns(self._pass_on)
        self._is_closed = False
        self._is_retired = False

    @property
    def connections(self) -> int:
        """The number of connections."""
        return len(self._all)

    async def request(
        self,
        request: Request,
        headers: Mapping[str, str],
        is_sent: Callable[[], None],
        *,
        due_s: float,
    ) -> Response:
        """Sends a request and reads its response.

        Args:
            request: The request; ``due_s`` counts, not its deadline.
            headers: All headers, except those derived from the server and the body.
            is_sent: Called just before the first byte is written; what it raises stops the request.
            due_s: Until when the response must be complete, in seconds of the event loop.

        Raises:
            OSError, TimeoutError, HttpParserError: ``HTTP_FAILURES``.
            AnswerTooLong: the response is longer than the request allows.
            Unreachable: the transport is closed.
        """
        text = self._text(request, headers)
        connection = self._take_idle()
        if connection is None:
            connection = await self._acquire(due_s)
        self._requests[connection] = connection.loop.time()
        if due_s < self._deadlines.due_s:
            self._deadlines.set(due_s)
        try:
            is_sent()
            return await connection.exchange(text, request.bytes_max, due_s)
        except AnswerTooLong as error:
            raise AnswerTooLong(f"{request.method} {request.path}: {error}") from None
        finally:
            del self._requests[connection]
            self._release(connection)

    async def close(self) -> None:
        """Closes all connections at once; requests in flight fail."""
        self._is_closed = True
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        self._deadlines.set(math.inf)
        while self._turns.wake_next():
            pass
        self._idle.clear()
        for connection in list(self._all):
            connection.abort()
        for connection in list(self._all):
            await connection.closed.wait()

    def retire(self) -> None:
        """Closes idle connections; those with a request in flight close after its response."""
        self._is_retired = True
        while self._idle:
            self._idle.pop().abort()

    # -- connections ------------------------------------------------------------------------------

    def _take_idle(self) -> _Connection | None:
        """Returns the last used idle connection, if there is one."""
        if self._is_closed:
            raise Unreachable("the transport is closed")
        while self._idle:
            connection = self._idle.pop()
            if connection.is_open:
                return connection
        return None

    async def _acquire(self, due_s: float) -> _Connection:
        """Returns the last used idle connection, else a new one, else waits for one.

        Raises:
            TimeoutError: no connection is free at ``due_s``, in seconds of the event loop.
        """
        loop = asyncio.get_running_loop()
        while True:
            connection = self._take_idle()
            if connection is not None:
                return connection
            now_s = loop.time()
            if now_s >= due_s:
                # It may just have been woken: that was for a request that can still be sent.
                self._turns.wake_next()
                raise TimeoutError
            if len(self._all) + self._opening - self._slow_count(now_s) < self._limit:
                return await self._open(min(due_s, now_s + CONNECT_S_MAX))
            connection = await self._turns.wait(loop, min(due_s, now_s + SLOW_S))
            if connection is not None and connection.is_open:
                return connection

    def _pass_on(self, connection: _Connection | None) -> None:
        """Gives the turn of a cancelled request to the next one."""
        if connection is None:
            self._turns.wake_next()
        else:
            self._release(connection)

    def _slow_count(self, now_s: float) -> int:
        """Returns the number of connections whose request is slow: they do not count."""
        count, slow_before_s = 0, now_s - SLOW_S
        for started_at_s in self._requests.values():
            if started_at_s > slow_before_s or count >= SLOW_MAX:
                break  # this one and all later ones are not slow
            count += 1
        return count

    async def _open(self, due_s: float) -> _Connection:
        self._opening += 1
        try:
            async with asyncio.timeout_at(due_s):
                connection = await self._connect()
        except BaseException:
            self._turns.wake_next()
            raise
        finally:
            self._opening -= 1
        if self._is_closed:
            connection.abort()
            raise Unreachable("the transport is closed")
        self._all[connection] = None
        return connection

    async def _connect(self) -> _Connection:
        """Returns a connection to the first address that accepts one."""
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

    def _release(self, connection: _Connection) -> None:
        """Gives the connection to the first waiting request; it is idle if none waits."""
        is_usable = connection.is_open and connection.is_free and not self._is_retired
        if not is_usable or len(self._all) > self._limit:
            connection.abort()
            self._turns.wake_next()
        elif not self._turns.wake_next(connection):
            now_s = connection.loop.time()
            connection.idle_since_s = now_s
            self._idle.append(connection)
            if self._idle_timer is None:
                self._close_idle(now_s)

    def _close_idle(self, now_s: float) -> None:
        """Closes what has been idle for too long, and sets the timer for the next one."""
        self._idle_timer = None
        while self._idle and now_s >= self._idle[0].idle_since_s + IDLE_S_MAX:
            self._idle.popleft().abort()
        if self._idle and not self._is_closed:
            loop, due_s = asyncio.get_running_loop(), self._idle[0].idle_since_s + IDLE_S_MAX
            self._idle_timer = loop.call_at(due_s, self._close_idle, due_s)

    def _lost(self, connection: _Connection) -> None:
        self._all.pop(connection, None)
        self._turns.wake_next()

    # -- text -------------------------------------------------------------------------------------

    def _text(self, request: Request, headers: Mapping[str, str]) -> bytes:
        method, body = request.method, request.body
        target = self._root + request.path
        if request.query:
            target = f"{target}?{urlencode(request.query)}"
        if _has_line_break(method) or _has_line_break(target):
            raise ValueError(f"a line break in a request: {method} {target!r}")
        fields = self._fields(headers)
        if body or method in ("POST", "PUT", "PATCH"):
            fields = f"{fields}content-length: {len(body)}\r\n"
        return f"{method} {target}{self._constant}{fields}\r\n".encode("latin-1") + body

    def _fields(self, headers: Mapping[str, str]) -> str:
        """Returns the lines of the headers; those of the last request are remembered."""
        last_headers, fields = self._last_fields
        if headers != last_headers:
            lines = [f"{name}: {value}" for name, value in headers.items()]
            if "user-agent" not in headers:
                lines.append(f"user-agent: {self._user_agent}")
            for line in lines:
                if _has_line_break(line):  # the value may be secret
                    raise ValueError(f"a line break in a header: {line.partition(':')[0]!r}")
            fields = "".join(f"{line}\r\n" for line in lines)
            self._last_fields = dict(headers), fields
        return fields


class _Connection(asyncio.Protocol):
    """One connection, with at most one request in flight.

    Attributes:
        loop: Its event loop. ``asyncio.get_running_loop`` takes a system call in Python 3.11.
        due_s: The deadline of its request, in seconds of the event loop. Its pool enforces it.
        idle_since_s: When its last request ended, in seconds of the event loop.
    """

    def __init__(self, on_lost: Callable[[_Connection], None]) -> None:
        self.loop = asyncio.get_running_loop()
        self.closed = asyncio.Event()
        self.due_s = math.inf
        self.idle_since_s = 0.0
        self._on_lost = on_lost
        self._transport: asyncio.Transport | None = None
        self._response: asyncio.Future[Response] | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._headers: list[tuple[bytes, bytes]] = []
        self._parts: list[bytes] = []
        self._size = 0
        self._bytes_max = 0
        self._keeps_alive = True
        self._has_head = False
        #: Bytes since the last ones of a body: of heads, lengths of chunks, and trailers.
        self._other_bytes = 0

    @property
    def is_open(self) -> bool:
        """True if a request can be sent."""
        return self._transport is not None and not self._transport.is_closing()

    @property
    def is_free(self) -> bool:
        """True if the last response is complete, and another request may follow."""
        return self._response is None and self._keeps_alive

    async def exchange(self, text: bytes, bytes_max: int, due_s: float) -> Response:
        """Sends a request and returns its response.

        Raises:
            TimeoutError: it is not complete at ``due_s``, in seconds of the event loop.
        """
        assert self._transport is not None
        self._response = self.loop.create_future()
        self._bytes_max, self.due_s = bytes_max, due_s
        self._transport.write(text)
        return await self._response

    def expire(self) -> None:
        """Fails the request: its deadline has passed."""
        self._fail(TimeoutError())

    def abort(self) -> None:
        """Closes the connection at once, without a shutdown; its request fails."""
        # A response without a length would else end here, as if it were complete.
        self._has_head = False
        if self._transport is not None:
            self._transport.abort()

    # -- called by asyncio ------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not checked by isinstance: uvloop's transports do not derive from asyncio's classes.
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        try:
            self._other_bytes += len(data)
            if not self._has_head and self._other_bytes > HEAD_BYTES_MAX:
                raise AnswerTooLong(f"a head of more than {HEAD_BYTES_MAX} bytes")
            self._parser.feed_data(data)
            if self._has_head and self._other_bytes > HEAD_BYTES_MAX:
                # The parser collects trailers, which may have no end.
                raise AnswerTooLong(f"more than {HEAD_BYTES_MAX} bytes without data")
        except (httptools.HttpParserError, AnswerTooLong) as error:
            cause = error.__context__ if isinstance(error.__context__, AnswerTooLong) else error
            self._fail(cause)
            self.abort()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is None and self._has_head and _FRAMED.isdisjoint(RawHeaders(self._headers)):
            self._keeps_alive = False
            self.on_message_complete()  # a response without a length ends with its connection
        self._fail(exc or ConnectionResetError("the server closed the connection"))
        self._transport = None
        # It has our methods: without this, both would wait for the garbage collector.
        del self._parser
        self.closed.set()
        self._on_lost(self)

    def _fail(self, error: BaseException) -> None:
        answer, self._response = self._response, None
        self._keeps_alive = False
        if answer is not None and not answer.done():
            answer.set_exception(error)

    # -- called by the parser ---------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self._headers, self._parts, self._size, self._has_head = [], [], 0, False
        if self._response is None:  # no request is in flight
            self._keeps_alive = False
            self.abort()

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        self._has_head = self._parser.get_status_code() >= 200
        if self._has_head:
            self._other_bytes = 0

    def on_body(self, body: bytes) -> None:
        self._parts.append(body)
        self._size += len(body)
        self._other_bytes = 0
        if self._size > self._bytes_max:
            raise AnswerTooLong(f"more than {self._bytes_max} bytes")

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200:  # an informational response: the final one follows
            return
        answer, self._response = self._response, None
        self._has_head, self._other_bytes = False, 0
        self._keeps_alive = self._keeps_alive and self._parser.should_keep_alive()
        if answer is not None and not answer.done():
            answer.set_result(Response(status, RawHeaders(self._headers), b"".join(self._parts)))


def _has_line_break(text: str) -> bool:
    # Searches in C: a token has a thousand characters.
    return "\n" in text or "\r" in text or "\0" in text
