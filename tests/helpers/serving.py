"""Requests, transports and clocks for tests of the scheduler's endpoints."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from multidict import CIMultiDict

from mooring.client.transport.transport import Request, Response, Stream
from mooring.clock import VirtualClock, seeded_random
from mooring.serving.delegation import Reviews
from mooring.serving.messages import ServingRequest

#: A canned answer: a status and an object, or an error.
Canned = tuple[int, Any] | Exception


def asking(
    path: str = "/metrics",
    *,
    method: str = "GET",
    headers: Mapping[str, str] | Sequence[tuple[str, str]] = (),
    query: Sequence[tuple[str, str]] = (),
    chain: Sequence[bytes] = (),
    body: bytes = b"",
) -> ServingRequest:
    """Returns a request as handlers get it."""

    async def read_body() -> bytes:
        return body

    return ServingRequest(method, path, path, query, CIMultiDict(headers), chain, read_body)


class CannedTransport:
    """Gives one answer after the other; the last one for ever. Streams are lists of events."""

    def __init__(self, *answers: Canned, events: Sequence[Any] = ()) -> None:
        self.requests: list[Request] = []
        self.streams: list[Request] = []
        self._answers = list(answers)
        self._events = list(events)

    async def request(self, request: Request) -> Response:
        self.requests.append(request)
        await asyncio.sleep(0)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        status, body = answer
        content = body if isinstance(body, bytes) else msgspec.json.encode(body)
        return Response(status, {}, content)

    @asynccontextmanager
    async def stream(self, request: Request, *, idle_s: float) -> AsyncIterator[Stream]:
        self.streams.append(request)
        yield Lines([msgspec.json.encode(event) for event in self._events])

    async def close(self) -> None:
        """Has nothing to close."""

    def bodies(self) -> list[Any]:
        """Returns the bodies that were posted."""
        return [msgspec.json.decode(request.body) for request in self.requests]


class Lines:
    """A stream that ends after its lines."""

    status = 200
    headers: Mapping[str, str] = {}

    def __init__(self, lines: list[bytes]) -> None:
        self._lines = lines

    async def batches(self) -> AsyncGenerator[list[bytes], None]:
        if self._lines:
            yield self._lines


class Sleeps:
    """Waits in no time, and keeps how long it was asked to."""

    def __init__(self, clock: VirtualClock, *, stop_after: int = 1000) -> None:
        self.waits: list[float] = []
        self._clock = clock
        self._stop_after = stop_after

    async def __call__(self, seconds: float) -> None:
        self.waits.append(seconds)
        if len(self.waits) >= self._stop_after:
            raise asyncio.CancelledError
        self._clock.advance(seconds)
        await asyncio.sleep(0)


def reviews(
    transport: CannedTransport,
    clock: VirtualClock | None = None,
    observer: Callable[[str, float], None] = lambda _code, _seconds: None,
) -> Reviews:
    """Reviews that do not wait."""
    clock = clock or VirtualClock()
    return Reviews(
        transport,
        "/apis/some/review",
        clock=clock,
        rng=seeded_random(1),
        sleep=Sleeps(clock),
        observer=observer,
    )


def status(code: int, message: str, reason: str = "") -> Canned:
    """Returns a refusal by the API server."""
    return code, {"kind": "Status", "code": code, "message": message, "reason": reason}
