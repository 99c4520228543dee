"""A limit on requests to the API server: clientConnection.qps and burst of the configuration.

Three token buckets, as kube-scheduler's three clients have: the lease, events, and all other
requests. So a burst of events delays no binding, and nothing delays the renewal of the lease.

Source: client-go's util/flowcontrol (NewTokenBucketRateLimiter) and rest/request.go (tryThrottle).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

from mooring.client.retry import Sleep
from mooring.client.transport.transport import Pool, Request, Response, Stream, Transport
from mooring.clock import Clock
from mooring.errors import Unreachable


class Limit(Protocol):
    """The numbers of a limit."""

    @property
    def qps(self) -> float:
        """Requests a second, on average."""
        ...

    @property
    def burst(self) -> int:
        """Requests at once."""
        ...


def limited(
    transport: Transport, limit: Limit | None, *, clock: Clock, sleep: Sleep = asyncio.sleep
) -> Transport:
    """Returns a transport whose requests wait for a limit; None = the same transport."""
    if limit is None:
        return transport
    return RateLimitedTransport(transport, limit, clock=clock, sleep=sleep)


class TokenBucket:
    """``burst`` tokens, of which ``qps`` are added every second; requests wait in order.

    A request that finds no token takes a future one, so a later request waits longer.
    """

    def __init__(self, limit: Limit, *, clock: Clock) -> None:
        self._qps = limit.qps
        self._burst = float(max(limit.burst, 1))
        self._clock = clock
        self._tokens = self._burst
        self._counted_at_s = clock.monotonic_s()

    def take(self) -> float:
        """Takes a token; returns the seconds until it is there."""
        now_s = self._clock.monotonic_s()
        added = (now_s - self._counted_at_s) * self._qps
        self._tokens = min(self._burst, self._tokens + added) - 1
        self._counted_at_s = now_s
        return max(0.0, -self._tokens / self._qps)


class RateLimitedTransport:
    """Delays the requests of another transport.

    Args:
        transport: Sends them.
        limit: Of each of the three buckets.
        clock: Measures time.
        sleep: Waits; tests pass their own.
    """

    def __init__(
        self, transport: Transport, limit: Limit, *, clock: Clock, sleep: Sleep = asyncio.sleep
    ) -> None:
        self._transport = transport
        self._clock = clock
        self._sleep = sleep
        self._lease, self._events, self._others = (
            TokenBucket(limit, clock=clock) for _ in range(3)
        )

    async def request(self, request: Request) -> Response:
        """Waits for a token, then sends the request; raises as the other transport does.

        The wait counts for the deadline: a write is never sent later than the lease allows.

        Raises:
            Unreachable: there was no token within the deadline; nothing was sent.
        """
        return await self._transport.request(await self._wait(request))

    def stream(self, request: Request, *, idle_s: float) -> AbstractAsyncContextManager[Stream]:
        """Waits for a token, then streams; raises as the other transport does."""
        return self._stream(request, idle_s)

    @asynccontextmanager
    async def _stream(self, request: Request, idle_s: float) -> AsyncIterator[Stream]:
        request = await self._wait(request)
        async with self._transport.stream(request, idle_s=idle_s) as stream:
            yield stream

    async def close(self) -> None:
        """Closes the other transport."""
        await self._transport.close()

    async def _wait(self, request: Request) -> Request:
        """Waits for a token; returns the request with what is left of its deadline."""
        started_s = self._clock.monotonic_s()
        wait_s = self._bucket(request).take()
        if not wait_s:
            return request
        await self._sleep(min(wait_s, request.deadline_s))
        # Longer than the wait, if the process was stopped meanwhile.
        left_s = request.deadline_s - max(wait_s, self._clock.monotonic_s() - started_s)
        if left_s <= 0:
            what = f"{request.method} {request.path}"
            message = f"{what}: no token of the rate limit in {request.deadline_s:g} s"
            raise Unreachable(message)
        return request._replace(deadline_s=left_s)

    def _bucket(self, request: Request) -> TokenBucket:
        if request.pool is Pool.LEASE:
            return self._lease
        return self._events if "/events" in request.path else self._others
