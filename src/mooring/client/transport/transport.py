"""How bytes reach an API server and come back: the one seam between the client and the network.

A transport can ``request``, ``stream`` and ``close``, nothing else, so that another HTTP library
fits behind it. There are two: ``mooring.client.transport.http`` over sockets, and
``InProcessTransport``, which calls a function.

Source: the three failures of a write are told apart as in
https://pkg.go.dev/k8s.io/apimachinery/pkg/util/net: it was refused (an answer came), it surely did
not happen (``Unreachable``), or nobody knows (``OutcomeUnknown``).
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

#: One answer: 500 objects of 128 KiB each, or 40 of the largest there are.
BODY_BYTES_MAX: Final = 64 << 20

Query = Sequence[tuple[str, str]]
Answer = TypeVar("Answer")


class Pool(Enum):
    """Requests that must not wait for each other go through connections of their own."""

    READ = "read"
    WRITE = "write"
    WATCH = "watch"
    LEASE = "lease"


class Request(NamedTuple):
    """What is asked of the API server.

    Attributes:
        method: GET, POST, PUT, PATCH, DELETE.
        path: Beginning with "/", already quoted.
        deadline_s: For all of it, from now on; of a stream, for the head of its answer.
        query: Names and values, not yet quoted.
        body: Sent as it is.
        headers: Beside those that the transport adds by itself.
        pool: Whose connections to use; a stream always has those for watches.
        bytes_max: Of the answer; a longer one is broken off.
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
    """A whole answer. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Stream(Protocol):
    """An answer that goes on: its head has come, its lines come as they are written."""

    @property
    def status(self) -> int:
        """The HTTP code; anything but 200 is an error whose text is in the lines."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Header names in lower case."""
        ...

    def batches(self) -> AsyncGenerator[list[bytes], None]:
        """The lines as they come, without their newlines: all that are there at once, never none.

        Ends when the server ends the answer.

        Raises:
            StreamBroken: the connection was lost in the middle.
        """
        ...


class StreamBroken(SchedulerError):
    """A stream ended without its end: what was read so far is valid, more may have been sent."""


class StreamUnreadable(StreamBroken):
    """A stream was broken off by us: it would be the same again from the same position."""


class AnswerTooLong(OutcomeUnknown):
    """An answer was broken off by us, since it is longer than its request allows."""


class Transport(Protocol):
    """What the client needs of a network."""

    async def request(self, request: Request) -> Response:
        """Sends a request and reads the whole answer.

        Raises:
            Unreachable: it surely did not happen.
            OutcomeUnknown: it was sent, and no whole answer came in time.
        """
        ...

    def stream(self, request: Request, *, idle_s: float) -> AbstractAsyncContextManager[Stream]:
        """GET something that does not end by itself.

        Args:
            request: Its deadline is that of the answer's head.
            idle_s: How long it may be silent afterwards before it counts as broken.

        Raises:
            Unreachable: there is no connection, or no head of an answer in time.
        """
        ...

    async def close(self) -> None:
        """Gives back all connections; what is under way over the network is broken off."""
        ...


#: Answers a request: (method, path, query, headers, body) -> (status, headers, body or chunks).
Handler = Callable[
    [str, str, list[tuple[str, str]], Mapping[str, str], bytes],
    Awaitable[tuple[int, Mapping[str, str], "bytes | AsyncIterator[bytes]"]],
]


class InProcessTransport:
    """A transport without a network: it calls the function that answers.

    Example::

        transport = InProcessTransport(server.handle, headers={"authorization": "Bearer ..."})
    """

    def __init__(self, handler: Handler, *, headers: Mapping[str, str] | None = None) -> None:
        self._handler = handler
        self._headers = dict(headers or {})
        self._is_closed = False

    async def request(self, request: Request) -> Response:
        """As ``Transport.request``; nothing gets lost on this way, but it may take too long."""
        try:
            return await _within(request.deadline_s, self._answer(request))
        except TimeoutError as error:
            told = f"{request.method} {request.path}: no answer in {request.deadline_s:g} s"
            raise OutcomeUnknown(told) from error

    async def _answer(self, request: Request) -> Response:
        status, headers, content = await self._ask(request)
        if not isinstance(content, bytes):
            content = b"".join([chunk async for chunk in content])
        if len(content) > request.bytes_max:
            told = f"{request.method} {request.path}: more than {request.bytes_max} bytes"
            raise AnswerTooLong(told)
        return Response(status, headers, content)

    @asynccontextmanager
    async def stream(self, request: Request, *, idle_s: float) -> AsyncIterator[Stream]:
        """As ``Transport.stream``."""
        try:
            async with asyncio.timeout(request.deadline_s):
                status, headers, content = await self._ask(request)
        except TimeoutError as error:
            told = f"GET {request.path}: no answer in {request.deadline_s:g} s"
            raise Unreachable(told) from error
        chunks = _once(content) if isinstance(content, bytes) else content
        try:
            yield ChunkedStream(status, headers, chunks, idle_s=idle_s)
        finally:
            close = getattr(chunks, "aclose", None)
            if close is not None:
                await close()

    async def close(self) -> None:
        """Nothing can be asked any more; what is under way ends by itself."""
        self._is_closed = True

    async def _ask(
        self, request: Request
    ) -> tuple[int, Mapping[str, str], bytes | AsyncIterator[bytes]]:
        if self._is_closed:
            raise Unreachable("the transport is closed")
        method, path, query = request.method, request.path, list(request.query)
        headers = {**self._headers, **request.headers}
        status, answered, content = await self._handler(method, path, query, headers, request.body)
        return status, lower_names(answered), content


async def _within(seconds: float, answering: Coroutine[Any, Any, Answer]) -> Answer:
    """What a coroutine answers; TimeoutError if that takes longer."""
    try:
        waits_for = answering.send(None)
    except StopIteration as answered:  # at once, as mostly: so no clock needs to be set
        return answered.value  # type: ignore[no-any-return]
    async with asyncio.timeout(seconds):
        return await _Rest(answering, waits_for)


class _Rest(Generic[Answer]):
    """What is left of a coroutine that was begun by hand, and waits for something now."""

    def __init__(self, begun: Coroutine[Any, Any, Answer], waits_for: Any) -> None:
        self._begun = begun
        self._waits_for = waits_for

    def __await__(self) -> Generator[Any, Any, Answer]:
        try:
            while True:
                try:
                    sent = yield self._waits_for
                except BaseException as error:  # noqa: BLE001 - a cancellation; not ours to take
                    self._waits_for = self._begun.throw(error)
                else:
                    self._waits_for = self._begun.send(sent)
        except StopIteration as answered:
            return answered.value  # type: ignore[no-any-return]


def lower_names(headers: Mapping[str, str]) -> dict[str, str]:
    """Headers with their names in lower case."""
    return {name.lower(): value for name, value in headers.items()}


async def _once(content: bytes) -> AsyncIterator[bytes]:
    yield content


class ChunkedStream:
    """Cuts chunks of any size into lines, and watches over silence and length."""

    def __init__(
        self,
        status: int,
        headers: Mapping[str, str],
        chunks: AsyncIterator[bytes],
        *,
        idle_s: float,
        line_bytes_max: int = LINE_BYTES_MAX,
    ) -> None:
        self.status = status
        self.headers = headers
        self._chunks = chunks
        self._idle_s = idle_s
        self._line_bytes_max = line_bytes_max

    async def batches(self) -> AsyncGenerator[list[bytes], None]:
        """As ``Stream.batches``; a last line without a newline was cut off, and is left out."""
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
        try:
            return await _within(self._idle_s, self._read_chunk())
        except TimeoutError as error:
            raise StreamBroken(f"nothing came for {self._idle_s:g} s") from error

    async def _read_chunk(self) -> bytes | None:
        return await anext(self._chunks, None)


async def read_all(stream: Stream, *, bytes_max: int = 1 << 20) -> bytes:
    """Returns the text of a stream that turned out to be an error; cut at ``bytes_max``."""
    parts: list[bytes] = []
    size = 0
    async with aclosing(stream.batches()) as batches:
        async for batch in batches:
            parts += batch
            size += sum(len(line) for line in batch)
            if size > bytes_max:
                break
    return b"\n".join(parts)[:bytes_max]
