"""A test on virtual time that never ends fails with an error that names its tasks."""

from __future__ import annotations

import asyncio
import gc
import itertools

import pytest

from tests.helpers.virtual_loop import EndlessTest, VirtualLoop, run_virtually


async def poll_for_ever(interval_s: float = 1.0) -> None:
    for _ in itertools.count():
        await asyncio.sleep(interval_s)


async def survive_cancellation() -> None:
    while True:
        try:
            await poll_for_ever()
        except asyncio.CancelledError:
            continue


def test_a_task_that_polls_for_ever_reaches_the_limit_of_time() -> None:
    message = "not over after 60 virtual seconds: poll_for_ever"

    with pytest.raises(EndlessTest, match=message):
        run_virtually(poll_for_ever(), virtual_s_max=60)


def test_a_task_that_never_waits_for_time_reaches_the_limit_of_steps() -> None:
    message = "not over after 100 steps, at 0 virtual seconds: poll_for_ever"

    with pytest.raises(EndlessTest, match=message):
        run_virtually(poll_for_ever(0.0), steps_max=100)


# The loop is closed while its task still runs.
@pytest.mark.filterwarnings("ignore")
def test_a_task_that_cannot_be_cancelled_does_not_hang_either() -> None:
    with pytest.raises(EndlessTest, match="not over after"):
        run_virtually(survive_cancellation(), virtual_s_max=60)
    gc.collect()  # here, where the warnings about the task are expected


def test_a_check_that_fails_does_not_keep_the_other_tasks_from_being_cancelled() -> None:
    cancelled = []

    async def work() -> None:
        try:
            await poll_for_ever()
        except asyncio.CancelledError:
            await asyncio.sleep(1)
            cancelled.append("work")
            raise

    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)

        def check() -> None:
            if loop.time() >= 60:
                raise ValueError("a check")

        loop.on_step = check
        await work()

    with pytest.raises(ValueError, match="a check"):
        run_virtually(main())
    assert cancelled == ["work"]


def test_what_ends_in_time_has_its_result() -> None:
    assert run_virtually(asyncio.sleep(59, "done"), virtual_s_max=60) == "done"
