"""The queue of a controller: what waits already is not added again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mooring.apiserver import ApiServer
from mooring.apiserver.auth.authentication import ADMIN
from mooring.client import Client, InProcessTransport
from mooring.clock import seeded_random
from mooring.devcluster.work_queue import WorkQueue
from mooring.errors import SchedulerError
from mooring.virtual_loop import LoopClock
from tests.helpers.running_scheduler import virtually


class World:
    """A queue without informers, whose work takes a second."""

    def __init__(self, gather_s: float) -> None:
        self.began: list[tuple[float, str]] = []
        self.failed: list[str] = []
        clock, rng = LoopClock(asyncio.get_running_loop()), seeded_random(0)
        self._clock, self._start_s = clock, clock.monotonic_s()
        api = ApiServer(clock, rng)
        client = Client(InProcessTransport(api.handle, headers=ADMIN.headers()), rng=rng)
        self.queue: WorkQueue[str] = WorkQueue(
            client,
            {},
            self._sync,
            self._note_failure,
            gather_s=gather_s,
            clock=clock,
            rng=rng,
            sleep=asyncio.sleep,
        )

    async def _sync(self, item: str) -> None:
        self.began.append((round(self._clock.monotonic_s() - self._start_s, 3), item))
        await asyncio.sleep(1)
        if item == "bad":
            raise SchedulerError("no bad")

    def _note_failure(self, item: str, error: SchedulerError) -> None:
        self.failed.append(f"{item}: {error}")


@asynccontextmanager
async def world(gather_s: float = 0.0) -> AsyncIterator[World]:
    w = World(gather_s)
    task = asyncio.create_task(w.queue.run())
    try:
        yield w
    finally:
        task.cancel()


@virtually
async def test_an_item_that_waits_is_not_added_again() -> None:
    async with world() as w:
        for item in ("a", "b", "a", "b"):
            w.queue.add(item)
        await asyncio.sleep(5)
        assert [item for _, item in w.began] == ["a", "b"]
        assert w.queue.is_idle


@virtually
async def test_an_item_that_changes_during_its_work_is_done_again() -> None:
    async with world() as w:
        w.queue.add("a")
        await asyncio.sleep(0.5)
        assert not w.queue.is_idle
        w.queue.add("a")
        w.queue.add("a")
        await asyncio.sleep(5)
        assert [item for _, item in w.began] == ["a", "a"]


@virtually
async def test_items_of_the_same_moment_wait_for_each_other_once() -> None:
    async with world(gather_s=0.25) as w:
        w.queue.add("a")
        await asyncio.sleep(0.2)
        w.queue.add("a")
        w.queue.add("b")
        assert not w.queue.is_idle
        await asyncio.sleep(5)
        assert w.began == [(0.25, "a"), (1.25, "b")]


@virtually
async def test_a_failed_item_does_not_end_the_work() -> None:
    async with world() as w:
        w.queue.add("bad")
        w.queue.add("a")
        await asyncio.sleep(5)
        assert [item for _, item in w.began] == ["bad", "a"]
        assert w.failed == ["bad: no bad"]
        assert w.queue.is_idle
