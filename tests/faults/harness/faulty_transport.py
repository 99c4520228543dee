"""A client's way to an API server over a network that is not to be relied on.

Which fault occurs when is drawn by the ``FaultyNetwork``; here is what it does to a request, or to
the bytes of a watch.
"""

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
from tests.faults.harness.faults import FaultyNetwork

_NO_IDLE_LIMIT_S: Final = 1e9
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
        """Nothing can be asked any more."""
        await self._inner.close()

    async def request(self, request: Request) -> Response:
        """As ``Transport.request``."""
        what = f"{request.method} {request.path}"
        self._network.note_arrival(request)
        self._network.check_up(what)
        try:
            async with (
                asyncio.timeout(request.deadline_s),
                self._network.breakable(is_silent=False),
            ):
                return await self._carry(request, what)
        except TimeoutError as error:
            raise OutcomeUnknown(f"{what}: no answer came") from error

    async def _carry(self, request: Request, what: str) -> Response:
        network = self._network
        if network.draws("unreachable", what):
            raise Unreachable(f"{what}: connection refused")
        if network.draws("too_many", what):
            return _too_many(network.ask_to_wait(request))
        if network.draws("server_error", what):
            return await self._fail(request)
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
            # With a Retry-After it says that it did nothing.
            return _error(code, "ServiceUnavailable", retry_after_s=network.ask_to_wait(request))
        if network.rng.random() < 0.5:
            await self._inner.request(request)
        return _error(code, "InternalError")

    async def _spurious_conflict(self, request: Request) -> Response:
        """409: a proxy has sent it twice, or somebody stored the pod in between."""
        network = self._network
        if network.rng.random() < 0.5 or network.is_on_the_way(request.path):
            await self._inner.request(request)
        return _error(409, "Conflict")

    async def _delay(self, request: Request) -> Response:
        network = self._network
        delay_s = network.delay_s()
        if network.rng.random() < 0.5:
            answer = await self._inner.request(request)
            await asyncio.sleep(delay_s)
            return answer
        network.delayed.add(request.path)
        if delay_s >= request.deadline_s:
            network.deliver_late(self._inner, request, delay_s)
            await self._time_out(request)
        await asyncio.sleep(delay_s)
        return await self._inner.request(request)

    async def _time_out(self, request: Request) -> NoReturn:
        """Wait until the deadline strikes."""
        await asyncio.sleep(request.deadline_s + 1)
        raise AssertionError("the deadline comes first")

    # -- streams ----------------------------------------------------------------------------------

    @asynccontextmanager
    async def stream(self, request: Request, *, idle_s: float) -> AsyncIterator[Stream]:
        """As ``Transport.stream``."""
        self._network.note_arrival(request)
        self._network.check_up(f"GET {request.path}")
        refusal = await self._refuse(request)
        if refusal is not None:
            body = _one(refusal.body)
            yield ChunkedStream(refusal.status, refusal.headers, body, idle_s=idle_s)
            return
        async with self._inner.stream(request, idle_s=_NO_IDLE_LIMIT_S) as stream:
            if stream.status == 200:
                chunks = self._chunks(request, stream)
            else:
                chunks = _join(stream.batches())
            async with aclosing(chunks):
                yield ChunkedStream(stream.status, stream.headers, chunks, idle_s=idle_s)

    async def _refuse(self, request: Request) -> Response | None:
        """What may go wrong before the first line of a watch."""
        network, what = self._network, f"watch {request.path}"
        if network.draws("unreachable", what):
            raise Unreachable(f"{what}: connection refused")
        if network.draws("too_many", what):
            return _too_many(network.ask_to_wait(request))
        if network.draws("server_error", what):
            return _error(network.rng.choice((500, 502, 503, 504)), "InternalError")
        if dict(request.query).get("resourceVersion") and network.draws("gone", what):
            return _error(410, "Expired")
        if network.draws("slow", what):
            delay_s = network.delay_s()
            await asyncio.sleep(min(delay_s, request.deadline_s))
            if delay_s >= request.deadline_s:
                raise Unreachable(f"{what}: no answer in {request.deadline_s:g} s")
        return None

    async def _chunks(self, request: Request, stream: Stream) -> AsyncGenerator[bytes, None]:
        """The lines of a watch, in pieces that know nothing of lines, and what befalls them."""
        network, what = self._network, f"watch {request.path}"
        past = network.past_of(request.path)
        lists = dict(request.query).get("sendInitialEvents") == "true"
        async with aclosing(stream.batches()) as batches:
            while (lines := await self._next(batches)) is not None:
                if network.draws("silent", what):
                    await self._half_open()
                    return
                if network.draws("lag", what):
                    await asyncio.sleep(network.delay_s(10.0))
                if network.draws("gone", what):
                    yield _line(_status(410, "Expired"))
                    return
                # While a list is read there is no older state that could come again.
                if not lists and past and network.draws("repeated", what):
                    lines = _older(past, network.rng) + lines
                lists = lists and not any(_LIST_ENDS in line for line in lines)
                data = b"".join(line + b"\n" for line in lines)
                if network.draws("cut", what):
                    data = data[: network.rng.randrange(len(data) + 1)]
                    past.extend(data.split(b"\n")[:-1])
                    yield data
                    return
                split = network.rng.randrange(len(data) + 1)
                yield data[:split]
                yield data[split:]
                # Only what has arrived may come again: a watch never goes ahead and back.
                past.extend(lines)

    async def _next(self, batches: AsyncGenerator[list[bytes], None]) -> list[bytes] | None:
        """The next lines; None if the connection is broken, or the answer has come to its end."""
        try:
            async with self._network.breakable(is_silent=False):
                return await anext(batches, None)
        except TimeoutError:
            return None

    async def _half_open(self) -> None:
        """Half open: nothing comes, until the client gives up or the network is repaired."""
        try:
            async with self._network.breakable(is_silent=True):
                await asyncio.sleep(_NO_IDLE_LIMIT_S)
        except TimeoutError:
            pass


def _older(past: deque[bytes], rng: Rng) -> list[bytes]:
    """Some of the latest lines, in their order."""
    start = rng.randrange(len(past))
    return list(past)[start : start + 1 + rng.randrange(5)]


def _too_many(seconds: int) -> Response:
    return _error(429, "TooManyRequests", retry_after_s=seconds)


def _error(code: int, reason: str, *, retry_after_s: int | None = None) -> Response:
    headers = {"content-type": "application/json"}
    if retry_after_s is not None:
        headers["retry-after"] = str(retry_after_s)
    return Response(code, headers, msgspec.json.encode(_status(code, reason)))


def _status(code: int, reason: str) -> dict[str, object]:
    told = f"injected: {code}"
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": told,
        "reason": reason,
        "code": code,
    }


def _line(status: dict[str, object]) -> bytes:
    return msgspec.json.encode({"type": "ERROR", "object": status}) + b"\n"


async def _one(content: bytes) -> AsyncIterator[bytes]:
    yield content


async def _join(batches: AsyncGenerator[list[bytes], None]) -> AsyncGenerator[bytes, None]:
    """A whole answer as a stream: refused by the server itself."""
    async with aclosing(batches):
        async for lines in batches:
            yield b"\n".join(lines)
