"""A client transport that injects the faults of a ``FaultyNetwork`` into requests and watches."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Final, NoReturn

import msgspec

from mooring.client.transport.transport import ChunkedStream, Request, Response, Stream, Transport
from mooring.clock import Rng
from mooring.errors import OutcomeUnknown, Unreachable
from tests.faults.harness.faults import FaultyNetwork, now_s

_NO_IDLE_LIMIT_S: Final = 1e9
#: Status of a response -> its reason.
REASONS: Final = {403: "Forbidden", 409: "Conflict", 422: "Invalid", 500: "InternalError"}
_LIST_ENDS: Final = b"k8s.io/initial-events-end"


class FaultyTransport:
    """A ``Transport`` over a ``FaultyNetwork``.

    Example::

        network = FaultyNetwork(seeded_random(7))
        client = Client(FaultyTransport(network, InProcessTransport(server.handle)), rng=rng)
        network.faults = Faults(lost=0.2, cut=0.1)
    """

    def __init__(self, network: FaultyNetwork, inner: Transport) -> None:
        self._network = network
        self._inner = inner

    async def close(self) -> None:
        """Closes the inner transport."""
        await self._inner.close()

    async def request(self, request: Request) -> Response:
        """Does the same as ``Transport.request``, with faults."""
        what = f"{request.method} {request.path}"
        self._network.requests.note_sent(request)
        self._network.check_up(what)
        try:
            async with (
                asyncio.timeout(request.deadline_s),
                self._network.breakable(is_silent=False),
            ):
                return await self._carry(request, what)
        except TimeoutError as error:
            raise OutcomeUnknown(f"{what}: no response") from error

    async def _carry(self, request: Request, what: str) -> Response:
        network = self._network
        if code := network.refusal_of(request):
            return _error(code, REASONS[code])
        if network.page_size and request.method == "GET":
            request = _in_pages(request, network.page_size)
            if "continue" in dict(request.query) and network.draws("expired", f"page of {what}"):
                network.fired["expired page"] += 1
                return _error(410, "Expired")
        if network.draws("unreachable", what):
            raise Unreachable(f"{what}: connection refused")
        if network.draws("too_many", what):
            return _too_many(network.retry_after_s(request))
        if network.draws("server_error", what):
            return await self._fail(request)
        if request.path.endswith("/status") and network.draws("refused_status", what):
            return _error(*network.rng.choice(((409, "Conflict"), (422, "Invalid"))))
        if request.path.endswith("/binding") and (code := network.broken_code(request.path)):
            return _error(code, REASONS[code])
        if request.path.endswith("/binding") and network.draws("conflict", what):
            return await self._spurious_conflict(request)
        if network.draws("slow", what):
            return await self._delay(request)
        answer = await self._inner.request(request)
        if network.draws("lost", what):
            if network.rng.random() < 0.5:
                raise OutcomeUnknown(f"{what}: connection reset")
            await self._time_out(request)
        return answer

    async def _fail(self, request: Request) -> Response:
        network = self._network
        code = network.rng.choice((500, 502, 503, 504))
        if code == 503 and network.rng.random() < 0.5:
            # A 503 with Retry-After means that the server did not handle the request.
            return _error(code, "ServiceUnavailable", retry_after_s=network.retry_after_s(request))
        if network.rng.random() < 0.5:
            await self._inner.request(request)
        return _error(code, "InternalError")

    async def _spurious_conflict(self, request: Request) -> Response:
        """Returns 409: a proxy sent the request twice, or another client updated the pod."""
        network = self._network
        if network.rng.random() < 0.5 or network.is_in_transit(request.path):
            await self._inner.request(request)
        return _error(409, "Conflict")

    async def _delay(self, request: Request) -> Response:
        network = self._network
        delay_s = network.delay_s()
        if network.rng.random() < 0.5:
            answer = await self._inner.request(request)
            # What waits for it goes on only then, perhaps in the second phase.
            network.healed_at_s = max(network.healed_at_s, now_s() + delay_s)
            await asyncio.sleep(delay_s)
            return answer
        network.delayed.add(request.path)
        if delay_s >= request.deadline_s:
            network.deliver_late(self._inner, request, delay_s)
            await self._time_out(request)
        await asyncio.sleep(delay_s)
        return await self._inner.request(request)

    async def _time_out(self, request: Request) -> NoReturn:
        """Waits for the deadline: until then its client does not know that it has to repeat it."""
        network = self._network
        network.healed_at_s = max(network.healed_at_s, now_s() + request.deadline_s)
        await asyncio.sleep(request.deadline_s + 1)
        raise AssertionError("the deadline is earlier")

    # -- streams ----------------------------------------------------------------------------------

    @asynccontextmanager
    async def stream(self, request: Request, *, idle_s: float) -> AsyncIterator[Stream]:
        """Does the same as ``Transport.stream``, with faults."""
        self._network.requests.note_sent(request)
        self._network.check_up(f"GET {request.path}")
        failure = await self._fail_early(request)
        if failure is not None:
            body = _single_chunk(failure.body)
            yield ChunkedStream(failure.status, failure.headers, body, idle_s=idle_s)
            return
        async with self._inner.stream(request, idle_s=_NO_IDLE_LIMIT_S) as stream:
            if stream.status == 200:
                chunks = self._chunks(request, stream)
            else:
                chunks = _join(stream.batches())
            async with aclosing(chunks):
                yield ChunkedStream(stream.status, stream.headers, chunks, idle_s=idle_s)

    async def _fail_early(self, request: Request) -> Response | None:
        """Returns the response to a watch that fails before its first line; None if it starts."""
        network, what = self._network, f"watch {request.path}"
        if network.page_size and dict(request.query).get("sendInitialEvents"):
            return _error(422, "Invalid")
        if network.draws("unreachable", what):
            raise Unreachable(f"{what}: connection refused")
        if network.draws("too_many", what):
            return _too_many(network.retry_after_s(request))
        if network.draws("server_error", what):
            return _error(network.rng.choice((500, 502, 503, 504)), "InternalError")
        if dict(request.query).get("resourceVersion") and network.draws("expired", what):
            return _error(410, "Expired")
        if network.draws("slow", what):
            delay_s = network.delay_s()
            wait_s = min(delay_s, request.deadline_s)
            # The informer's backoff begins afterwards, perhaps in the second phase.
            network.healed_at_s = max(network.healed_at_s, now_s() + wait_s)
            await asyncio.sleep(wait_s)
            if delay_s >= request.deadline_s:
                raise Unreachable(f"{what}: no response in {request.deadline_s:g} s")
        return None

    async def _chunks(self, request: Request, stream: Stream) -> AsyncGenerator[bytes, None]:
        """Yields the lines of a watch, with faults, in chunks that may split lines."""
        network, what = self._network, f"watch {request.path}"
        recent = network.recent_lines(request.path)
        lists = dict(request.query).get("sendInitialEvents") == "true"
        async with aclosing(stream.batches()) as batches:
            while (lines := await self._next(batches)) is not None:
                if network.draws("silent", what):
                    await self._half_open()
                    return
                if network.draws("lag", what):
                    await asyncio.sleep(network.delay_s(10.0))
                if network.draws("expired", what):
                    yield _line(_status(410, "Expired"))
                    return
                # An initial list is not preceded by older state.
                if not lists and recent and network.draws("repeated", what):
                    lines = _older(recent, network.rng) + lines
                lists = lists and not any(_LIST_ENDS in line for line in lines)
                data = b"".join(line + b"\n" for line in lines)
                if network.draws("cut", what):
                    data = data[: network.rng.randrange(len(data) + 1)]
                    recent.extend(data.split(b"\n")[:-1])
                    yield data
                    return
                split = network.rng.randrange(len(data) + 1)
                yield data[:split]
                yield data[split:]
                # Only lines that have arrived may be repeated.
                recent.extend(lines)

    async def _next(self, batches: AsyncGenerator[list[bytes], None]) -> list[bytes] | None:
        """Returns the next lines; None at the end of the response, or if the connection breaks."""
        try:
            async with self._network.breakable(is_silent=False):
                return await anext(batches, None)
        except TimeoutError:
            return None

    async def _half_open(self) -> None:
        """Sends nothing until the client times out or the network is healed."""
        try:
            async with self._network.breakable(is_silent=True):
                await asyncio.sleep(_NO_IDLE_LIMIT_S)
        except TimeoutError:
            pass


def _in_pages(request: Request, page_size: int) -> Request:
    """Returns a list request with smaller pages, as in a cluster with more objects."""
    query = [(name, str(page_size) if name == "limit" else value) for name, value in request.query]
    return request._replace(query=query)


def _older(recent: deque[bytes], rng: Rng) -> list[bytes]:
    """Returns some of the latest lines, in their order."""
    start = rng.randrange(len(recent))
    return list(recent)[start : start + 1 + rng.randrange(5)]


def _too_many(seconds: int) -> Response:
    return _error(429, "TooManyRequests", retry_after_s=seconds)


def _error(code: int, reason: str, *, retry_after_s: int | None = None) -> Response:
    headers = {"content-type": "application/json"}
    if retry_after_s is not None:
        headers["retry-after"] = str(retry_after_s)
    return Response(code, headers, msgspec.json.encode(_status(code, reason)))


def _status(code: int, reason: str) -> dict[str, object]:
    message = f"injected: {code}"
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }


def _line(status: dict[str, object]) -> bytes:
    return msgspec.json.encode({"type": "ERROR", "object": status}) + b"\n"


async def _single_chunk(content: bytes) -> AsyncIterator[bytes]:
    yield content


async def _join(batches: AsyncGenerator[list[bytes], None]) -> AsyncGenerator[bytes, None]:
    """Yields the body of an error response of the server."""
    async with aclosing(batches):
        async for lines in batches:
            yield b"\n".join(lines)
