"""PreBind that can be called off."""

from __future__ import annotations

import asyncio

import pytest

from mooring.errors import SchedulerError
from mooring.scheduler.pods_in_prebind import PodsInPreBind
from tests.helpers.running_scheduler import virtually


@virtually
async def test_work_that_is_not_called_off_returns_what_it_returns() -> None:
    pods = PodsInPreBind()

    async def work() -> str:
        assert len(pods) == 1
        return "done"

    assert await pods.run("uid", work()) == "done"
    assert len(pods) == 0
    assert not pods.cancel("uid", "too late")


@virtually
async def test_work_that_waits_is_broken_off_and_the_reason_is_reported() -> None:
    pods = PodsInPreBind()

    async def cancel() -> None:
        await asyncio.sleep(5)
        assert pods.cancel("uid", "preempted by DefaultPreemption")
        assert pods.cancel("uid", "once more")
        assert not pods.cancel("other", "no")

    loop = asyncio.get_running_loop()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(cancel())
        with pytest.raises(SchedulerError, match="preempted by DefaultPreemption"):
            await pods.run("uid", asyncio.sleep(600))
    assert loop.time() < 6
    assert len(pods) == 0


@virtually
async def test_work_that_does_not_heed_it_counts_for_nothing() -> None:
    pods = PodsInPreBind()

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


@pytest.mark.parametrize("result", ["done", None])
@virtually
async def test_work_that_was_done_in_the_same_moment_counts_for_nothing_either(
    result: str | None,
) -> None:
    pods = PodsInPreBind()

    async def work() -> str | None:
        pods.cancel("uid", "preempted")
        return result

    with pytest.raises(SchedulerError, match="preempted"):
        await pods.run("uid", work())


@virtually
async def test_the_error_names_the_plugin_that_was_interrupted_and_the_first_reason() -> None:
    pods = PodsInPreBind()

    async def plugin() -> None:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError as error:
            error.add_note('running PreBind plugin "P"')
            raise

    async def cancel() -> None:
        await asyncio.sleep(1)
        assert pods.cancel("uid", "first")
        assert pods.cancel("uid", "second")

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(cancel())
        with pytest.raises(SchedulerError) as caught:
            await pods.run("uid", plugin())
    assert str(caught.value) == "first"
    assert caught.value.__notes__ == ['running PreBind plugin "P"']


@virtually
async def test_a_timeout_of_the_work_itself_is_its_own() -> None:
    async def slow() -> None:
        raise TimeoutError("volume")

    with pytest.raises(TimeoutError, match="volume"):
        await PodsInPreBind().run("uid", slow())


async def _later(pods: PodsInPreBind) -> None:
    await asyncio.sleep(1)
    pods.cancel("uid", "preempted")
