"""PreBind that can be called off."""

from __future__ import annotations

import asyncio

import pytest

from mooring.errors import SchedulerError
from mooring.scheduler.pods_in_prebind import PreBindings
from tests.helpers.running_scheduler import virtually


@virtually
async def test_work_that_is_not_called_off_returns_what_it_returns() -> None:
    pods = PreBindings()

    async def work() -> str:
        assert len(pods) == 1
        return "done"

    assert await pods.run("uid", work()) == "done"
    assert len(pods) == 0
    assert not pods.call_off("uid", "too late")


@virtually
async def test_work_that_waits_is_broken_off_and_the_reason_is_told() -> None:
    pods = PreBindings()

    async def call_off() -> None:
        await asyncio.sleep(5)
        assert pods.call_off("uid", "preempted by DefaultPreemption")
        assert pods.call_off("uid", "once more")
        assert not pods.call_off("other", "no")

    loop = asyncio.get_running_loop()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(call_off())
        with pytest.raises(SchedulerError, match="preempted by DefaultPreemption"):
            await pods.run("uid", asyncio.sleep(600))
    assert loop.time() < 6
    assert len(pods) == 0


@virtually
async def test_work_that_does_not_heed_it_counts_for_nothing() -> None:
    pods = PreBindings()

    async def stubborn() -> str:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            return "done all the same"
        return "undisturbed"

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(_later(pods))
        with pytest.raises(SchedulerError, match="preempted"):
            await pods.run("uid", stubborn())


@virtually
async def test_work_that_was_done_in_the_same_moment_counts_for_nothing_either() -> None:
    pods = PreBindings()

    async def work() -> str:
        pods.call_off("uid", "preempted")
        return "done"

    with pytest.raises(SchedulerError, match="preempted"):
        await pods.run("uid", work())


@virtually
async def test_a_timeout_of_the_work_itself_is_its_own() -> None:
    async def slow() -> None:
        raise TimeoutError("volume")

    with pytest.raises(TimeoutError, match="volume"):
        await PreBindings().run("uid", slow())


async def _later(pods: PreBindings) -> None:
    await asyncio.sleep(1)
    pods.call_off("uid", "preempted")
