"""A pod's wait in Permit: allowed, refused, or too long."""

from __future__ import annotations

import asyncio

import pytest

from mooring.clock import VirtualClock
from mooring.framework import Cycle
from mooring.framework.status import Status
from mooring.framework.waiting_pods import WaitingPod
from mooring.queue import InFlightAttempt, QueuedPod
from mooring.scheduler.binding_cycle import BindingContext, wait_on_permit
from mooring.state import PodInfo
from mooring.state.cache import Cache
from mooring.testing import make_pod
from mooring.virtual_loop import LoopClock
from tests.helpers.queues import framework_of
from tests.helpers.running_scheduler import virtually


def waiting(**waits: float) -> tuple[WaitingPod, LoopClock]:
    clock = LoopClock(asyncio.get_running_loop())
    return WaitingPod(PodInfo(make_pod()), "a", waits, clock.monotonic_s()), clock


@virtually
async def test_it_returns_none_when_the_last_plugin_allows() -> None:
    pod, clock = waiting(One=60, Two=60)
    loop = asyncio.get_running_loop()
    loop.call_later(1, pod.allow, "One")
    loop.call_later(5, pod.allow, "Two")
    assert await wait_on_permit(pod, clock) is None
    assert 5 <= clock.monotonic_s() < 5.1


@virtually
async def test_it_returns_the_refusal_of_whoever_refuses() -> None:
    pod, clock = waiting(One=60, Two=60)
    asyncio.get_running_loop().call_later(2, pod.reject, "Two", "no")
    status = await wait_on_permit(pod, clock)
    assert isinstance(status, Status)
    assert (status.plugin, status.message) == ("Two", "no")


@virtually
async def test_a_pod_with_a_status_does_not_wait() -> None:
    pod, clock = waiting(One=60)
    pod.allow("One")
    assert await wait_on_permit(pod, clock) is None
    assert clock.monotonic_s() < 0.01


@pytest.mark.parametrize(
    ("waits", "ends_s", "told"),
    [
        ({"One": 3.0, "Two": 9.0}, 3, "after waiting 3s at plugin One"),
        ({"One": 90.0}, 90, "after waiting 1m30s at plugin One"),
        # The maximum wait is 15 minutes.
        ({"One": 5000.0}, 900, "after waiting 15m0s at plugin One"),
    ],
)
def test_the_first_plugin_whose_time_is_up_refuses(
    waits: dict[str, float], ends_s: float, told: str
) -> None:
    @virtually
    async def main() -> None:
        pod, clock = waiting(**waits)
        status = await wait_on_permit(pod, clock)
        assert isinstance(status, Status)
        assert status.message == f"rejected due to timeout {told}"
        assert ends_s <= clock.monotonic_s() < ends_s + 0.1

    main()


@virtually
async def test_the_time_that_is_left_counts_after_one_has_allowed() -> None:
    pod, clock = waiting(One=3, Two=9)
    asyncio.get_running_loop().call_later(1, pod.allow, "One")
    status = await wait_on_permit(pod, clock)
    assert isinstance(status, Status)
    assert status.plugin == "Two"
    assert 9 <= clock.monotonic_s() < 9.1


def test_what_is_held_knows_its_pod() -> None:
    entry = QueuedPod(PodInfo(make_pod("web")), 0.0)
    cycle = Cycle(entry.pod, Cache().snapshot())
    in_flight = InFlightAttempt(entry, lambda *_: None)
    held = BindingContext(in_flight, framework_of(clock=VirtualClock()), cycle, "a")
    assert held.entry is entry
    assert held.waiting is None
    assert held.is_announced is False
