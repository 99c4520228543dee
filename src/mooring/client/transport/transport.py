"""The transport interface: the only seam between the client and the network.

A transport can ``request``, ``stream`` and ``close``, nothing else, so that another HTTP library
fits behind it. There are two: ``mooring.client.transport.http`` over sockets, and
``InProcessTransport``, which calls a function.

Source: the three failures of a write are distinguished as in
https://pkg.go.dev/k8s.io/apimachinery/pkg/util/net: it was refused (a response came), it did not
happen (``Unreachable``), or its outcome is unknown (``OutcomeUnknown``).
"""

from __future__ import annotations

import asyncio
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Mapping,
    Sequence,
)
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from enum import Enum
from types import MappingProxyType
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from mooring.errors import OutcomeUnknown, SchedulerError, Unreachable

JSON: Final = "application/json"

#: One object may be 3 MiB as a request and somewhat more on a watch: etcd's limit is 1.5 MiB, and
#: managedFields and the frame come on top.
LINE_BYTES_MAX: Final = 8 << 20

#: One response: 500 objects of 128 KiB each, or 40 of the largest possible ones.
BODY_BYTES_MAX: Final = 64 << 20

Query = Sequence[tuple[str, str]]
Result = TypeVar("Result")


class Pool(Enum):
    """Connection pools: requests of different pools never wait for each other."""

    READ = "read"
    WRITE = "write"
    WATCH = "watch"
    LEASE = "lease"


class Request(NamedTuple):
    """A request to the API server.

    Attributes:
        method: GET, POST, PUT, PATCH, DELETE.
        path: Starts with "/", already quoted.
        deadline_s: Timeout of the whole request; of a stream, until the response head.
        query: Names and values, not quoted.
        body: Sent unchanged.
        headers: In addition to those that the transport adds.
        pool: The connection pool; a stream always uses the one for watches.
        bytes_max: Maximum length of the response body; a longer one is aborted.
    """

    method: str
    path: str
    deadline_s: float
    query: Query = ()
    body: bytes = b""
    headers: Mapping[str, str] = MappingProxyType({})
    pool: Pool = Pool.READ
    bytes_max: int = BODY_BYTES_MAX


class Response(NamedTuple):
    """A complete response. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Stream(Protocol):
    """A streamed response: its head has arrived, its lines arrive as they are written."""

    @property
    def status(self) -> int:
        """The HTTP status; any other than 200 is an error whose text is in the lines."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers, with names in lower case."""
        ...

    def batches(self) -> AsyncGenerator[list[bytes], None]:
        """Yields non-empty batches of the available lines, without their newlines.

        Ends when the server ends the response.

        Raises:
            StreamBroken: the connection was lost.
        """
        ...


class StreamBroken(SchedulerError):
    """A stream broke: the data read so far is valid, more may have been sent."""


class StreamUnreadable(StreamBroken):
    """A stream that we aborted: it would be invalid again from the same position."""


class AnswerTooLong(OutcomeUnknown):
    """A response that we aborted, because it is longer than its request allows."""


class Transport(Protocol):
    """The network interface of the client."""

    async def request(self, request: Request) -> Response:
        """Sends a request and reads the complete response.

        Raises:
            Unreachable: the request did not happen.
            OutcomeUnknown: it was sent, but no complete response arrived in time.
        """
        ...

    def stream(self, request: Request, *, idle_s: float) -> AbstractAsyncContextManager[Stream]:
        """Sends a GET whose response is streamed.

        Args:
            request: Its deadline applies to the response head.
            idle_s: Idle timeout afterwards; then it counts as broken.

        Raises:
            Unreachable: no connection, or no response head in time.
        """
        ...

    async def close(self) -> None:
        """Closes all connections; requests in flight are aborted."""
        ...


#: Handles a request: (method, path, query, headers, body) -> (status, headers, body or chunks).
Handler = Callable[
    [str, str, list[tuple[str, str]], Mapping[str, str], bytes],
    Awaitable[tuple[int, Mapping[str, str], "bytes | AsyncIterator[bytes]"]],
]


class InProcessTransport:
    """A transport without a network: it calls the server's handler.

    Args:
        handler: Handles the requests.
        headers: Are sent with every request.
        is_cooperative: True = other tasks of the loop run before each request, as they do while a
            request is on a network. A task that sends many requests, one after the other, keeps
            everything else waiting without it: a server's connections, too.

    Example::

        transport = InProcessTransport(server.handle, headers={"authorization": "Bearer ..."})
    """

    def __init__(
        self,
        handler: Handler,
        *,
        headers: Mapping[str, str] | None = None,
        is_cooperative: bool = False,
    ) -> None:
        self._handler = handler
        self._headers = dict(headers or {})
        self._is_cooperative = is_cooperative
        self._is_closed = False

    async def request(self, request: Request) -> Response:
        """Sends a request to the handler; it cannot get lost, but may time out."""
        if self._is_cooperative:
            await asyncio.sleep(0)
        try:
            return await _within(request.deadline_s, self._answer(request))
        except TimeoutError as error:
            message = f"{request.method} {request.path}: no response in {request.deadline_s:g} s"
            raise OutcomeUnknown(message) from error

    async def _answer(self, request: Request) -> Response:
        status, headers, content = await self._handle(request)
        if not isinstance(content, bytes):
            content = b"".join([chunk async for chunk in content])
        if len(content) > request.bytes_max:
            message = f"{request.method} {request.path}: more than {request.bytes_max} bytes"
            raise AnswerTooLong(message)
        return Response(status, headers, content)

    @asynccontextmanager
    async def stream(self, request: Request, *, idle_s: float) -> AsyncIterator[Stream]:
        """Implements ``Transport.stream``."""
        try:
            async with asyncio.timeout(request.deadline_s):
                status, headers, content = await self._handle(request)
        except TimeoutError as error:
            message = f"GET {request.path}: no response in {request.deadline_s:g} s"
            raise Unreachable(message) from error
        chunks = _once(content) if isinstance(content, bytes) else content
        try:
            yield ChunkedStream(status, headers, chunks, idle_s=idle_s)
        finally:
            close = getattr(chunks, "aclose", None)
            if close is not None:
                await close()

    async def close(self) -> None:
        """Refuses further requests; those in flight finish."""
        self._is_closed = True

    async def _handle(
        self, request: Request
    ) -> tuple[int, Mapping[str, str], bytes | AsyncIterator[bytes]]:
        if self._is_closed:
            raise Unreachable("the transport is closed")
        method, path, query = request.method, request.path, list(request.query)
        headers = {**self._headers, **request.headers}
        status, response_headers, content = await self._handler(
            method, path, query, headers, request.body
        )
        return status, lower_names(response_headers), content


async def _within(seconds: float, coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Returns the result of a coroutine; raises TimeoutError if it takes longer."""
    try:
        waits_for = coroutine.send(None)
    except StopIteration as response_headers:  # usually at once, then no timer is needed
        return response_headers.value  # type: ignore[no-any-return]
    async with asyncio.timeout(seconds):
        return await _Rest(coroutine, waits_for)


class _Rest(Generic[Result]):
    """The rest of a coroutine that was started by ``send``, and now waits for a future."""

    def __init__(self, coroutine: Coroutine[Any, Any, Result], waits_for: Any) -> None:
        self._coroutine = coroutine
        self._waits_for = waits_for

    def __await__(self) -> Generator[Any, Any, Result]:
        try:
            while True:
                try:
                    sent = yield self._waits_for
                except BaseException as error:  # noqa: BLE001 - a cancellation, passed on
                    self._waits_for = self._coroutine.throw(error)
                else:
                    self._waits_for = self._coroutine.send(sent)
        except StopIteration as response_headers:
            return response_headers.value  # type: ignore[no-any-return]


def lower_names(headers: Mapping[str, str]) -> dict[str, str]:
    """Returns the headers with names in lower case."""
    return {name.lower(): value for name, value in headers.items()}


async def _once(content: bytes) -> AsyncIterator[bytes]:
    yield content


class ChunkedStream:
    """Splits chunks of any size into lines, and enforces the idle timeout and line length.

    Args:
        status: The HTTP status.
        headers: The headers, with names in lower case.
        chunks: The body, in pieces of any size.
        idle_s: Idle timeout; None = ``chunks`` has its own.
        line_bytes_max: Maximum length of a line.
    """

    def __init__(
        self,
        status: int,
        headers: Mapping[str, str],
        chunks: AsyncIterator[bytes],
        *,
        idle_s: float | None,
        line_bytes_max: int = LINE_BYTES_MAX,
    ) -> None:
        self.status = status
        self.headers = headers
        self._chunks = chunks
        self._idle_s = idle_s
        self._line_bytes_max = line_bytes_max

    async def batches(self) -> AsyncGenerator[list[bytes], None]:
        """Yields batches of lines; a last line without a newline is incomplete, and omitted."""
        pending: list[bytes] = []
        pending_bytes = 0
        while (chunk := await self._next_chunk()) is not None:
            first, *rest = chunk.split(b"\n")
            pending.append(first)
            pending_bytes += len(first)
            if pending_bytes > self._line_bytes_max:
                raise StreamUnreadable(f"a line is longer than {self._line_bytes_max} bytes")
            if not rest:
                continue
            last = rest.pop()
            yield [b"".join(pending), *rest]
            pending, pending_bytes = [last], len(last)
        if pending_bytes and self.status != 200:
            yield [b"".join(pending)]
        elif pending_bytes:
            raise StreamBroken("the stream ended in the middle of a line")

    async def _next_chunk(self) -> bytes | None:
        if self._idle_s is None:
            return await anext(self._chunks, None)
        try:
            return await _within(self._idle_s, self._read_chunk())
        except TimeoutError as error:
            raise idle_error(self._idle_s) from error

    async def _read_chunk(self) -> bytes | None:
        return await anext(self._chunks, None)


def idle_error(idle_s: float) -> StreamBroken:
    """Returns the error of a stream that has had no data for so long."""
    return StreamBroken(f"no data for {idle_s:g} s")


async def read_all(stream: Stream, *, bytes_max: int = 1 << 20) -> bytes:
    """Returns the text of an error response; truncated to ``bytes_max``."""
    parts: list[bytes] = []
    size = 0
    async with aclosing(stream.batches()) as batches:
        async for batch in batches:
            parts += batch
            size += sum(len(line) for line in batch)
            if size > bytes_max:
                break
    return b"\n".join(parts)[:bytes_max]
