"""The limit on requests: a token bucket for each of the three clients."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mooring.client.transport.rate_limit import RateLimitedTransport, TokenBucket, limited
from mooring.client.transport.transport import InProcessTransport, Pool, Request
from mooring.clock import VirtualClock
from mooring.component.options import RateLimit
from mooring.errors import Unreachable


def test_a_bucket_holds_the_burst_and_fills_at_the_rate() -> None:
    clock = VirtualClock()
    bucket = TokenBucket(RateLimit(qps=10, burst=2), clock=clock)
    assert [bucket.take() for _ in range(4)] == pytest.approx([0, 0, 0.1, 0.2])
    clock.advance(0.2)
    assert bucket.take() == pytest.approx(0.1)
    clock.advance(100)
    assert [bucket.take() for _ in range(3)] == pytest.approx([0, 0, 0.1])


def sent(paths: list[Request]) -> list[float]:
    """Returns how long each request waited, on a clock that stands still."""
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    async def handle(*_request: Any) -> Any:
        return 200, {}, b"{}"

    transport = RateLimitedTransport(
        InProcessTransport(handle), RateLimit(1, 1), clock=VirtualClock(), sleep=sleep
    )

    async def run() -> None:
        for request in paths:
            await transport.request(request)

    asyncio.run(run())
    return waits


def test_events_and_the_lease_have_their_own_buckets() -> None:
    pods = Request("GET", "/api/v1/pods", 3.0)
    events = Request("POST", "/apis/events.k8s.io/v1/namespaces/a/events", 3.0)
    lease = Request("PUT", "/apis/coordination.k8s.io/v1/leases/a", 3.0, pool=Pool.LEASE)
    assert sent([pods, events, lease]) == []
    assert sent([pods, events, lease, pods, events, events]) == pytest.approx([1, 1, 2])


def test_without_a_limit_the_transport_is_the_same() -> None:
    async def handle(*_request: Any) -> Any:
        return 200, {}, b""

    transport = InProcessTransport(handle)
    assert limited(transport, None, clock=VirtualClock()) is transport


def test_the_wait_for_a_token_counts_for_the_deadline() -> None:
    # A write must not be sent later than the lease allows, for which its deadline stands.
    clock, deadlines = VirtualClock(), []

    class Sent(InProcessTransport):
        async def request(self, request: Request) -> Any:
            deadlines.append(request.deadline_s)
            return await super().request(request)

    async def handle(*_request: Any) -> Any:
        return 200, {}, b"{}"

    async def sleep(seconds: float) -> None:
        clock.advance(seconds)
        # The process was stopped meanwhile, or another task ran for long.
        clock.advance(0.5)

    transport = RateLimitedTransport(Sent(handle), RateLimit(1, 1), clock=clock, sleep=sleep)

    async def run() -> None:
        await transport.request(Request("POST", "/api/v1/pods", 2.0))
        await transport.request(Request("POST", "/api/v1/pods", 2.0))
        with pytest.raises(Unreachable, match="no token of the rate limit in 1 s"):
            await transport.request(Request("POST", "/api/v1/pods", 1.0))

    asyncio.run(run())
    assert deadlines == pytest.approx([2.0, 0.5])
