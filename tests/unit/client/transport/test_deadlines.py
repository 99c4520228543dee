"""One timer for the deadlines of all requests of a pool."""

from __future__ import annotations

import asyncio
import math
from typing import Any

from mooring.client.transport.deadlines import Deadlines
from tests.helpers.running_scheduler import virtually


class Waiting:
    """A request that notes when it has failed."""

    def __init__(self, due_s: float) -> None:
        self.due_s = due_s
        self.failed_s: list[float] = []

    def expire(self) -> None:
        self.failed_s.append(asyncio.get_running_loop().time())


def timers() -> list[float]:
    """Returns when the timers of the running loop are due."""
    loop: Any = asyncio.get_running_loop()
    return [timer.when() for timer in loop._scheduled if not timer.cancelled()]


@virtually
async def test_each_request_fails_at_its_deadline_whatever_their_order() -> None:
    requests = [Waiting(due_s) for due_s in (5.0, 3.0, 9.0, math.inf, 3.0, 4.0)]
    pending = list(requests)
    deadlines = Deadlines(pending)
    deadlines.set(3.0)
    await asyncio.sleep(3.5)
    for ended in [request for request in pending if request.failed_s]:
        pending.remove(ended)
    assert (len(pending), deadlines.due_s) == (4, 4.0)
    await asyncio.sleep(1.0)
    pending.remove(requests[5])
    await asyncio.sleep(1.0)
    pending.remove(requests[0])
    await asyncio.sleep(100.0)
    assert [request.failed_s[:1] for request in requests] == [[5.0], [3.0], [9.0], [], [3.0], [4.0]]


@virtually
async def test_there_is_one_timer_and_none_without_a_request() -> None:
    pending: list[Waiting] = []
    deadlines = Deadlines(pending)
    assert (deadlines.due_s, timers()) == (math.inf, [])
    deadlines.set(5.0)
    deadlines.set(3.0)
    assert (deadlines.due_s, timers()) == (3.0, [3.0])
    await asyncio.sleep(4.0)
    # All have ended before.
    assert (deadlines.due_s, timers()) == (math.inf, [])
    deadlines.set(8.0)
    deadlines.set(math.inf)
    assert (deadlines.due_s, timers()) == (math.inf, [])


@virtually
async def test_a_timer_that_is_due_a_little_early_fails_the_request_all_the_same() -> None:
    loop: Any = asyncio.get_running_loop()
    request = Waiting(3.0)
    deadlines = Deadlines([request])
    deadlines.set(3.0)
    [timer] = loop._scheduled
    loop.call_at(2.99, timer._run)
    await asyncio.sleep(2.995)
    assert request.failed_s == [2.99]
