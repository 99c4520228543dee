"""Bindings beside the decisions: how many, who supervises them, and how they end."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Any

import pytest

from mooring.clock import seeded_random
from mooring.errors import InvariantViolation, LeaseLost, SchedulerError
from mooring.scheduler.binding_tasks import (
    NAMESPACE_WAIT_S_MAX,
    PAUSE_S,
    PAUSE_S_MAX,
    SLOW_PER_NAMESPACE_MAX,
    SLOW_S,
    BindingTasks,
)
from tests.helpers.running_scheduler import virtually


def now_s() -> float:
    return asyncio.get_running_loop().time()


async def sleeping(seconds: float) -> None:
    await asyncio.sleep(seconds)


async def failing(error: BaseException) -> None:
    raise error


def made(limit: int = 2) -> BindingTasks:
    return BindingTasks(seeded_random(0), limit=limit)


@virtually
async def test_room_is_there_until_the_limit_and_again_when_one_ends() -> None:
    bindings = made(limit=2)
    async with asyncio.TaskGroup() as tasks:
        bindings.open(tasks)
        for seconds in (1, 3):
            await bindings.wait_for_slot()
            bindings.start(partial(sleeping, seconds))
        assert now_s() < 0.1
        assert len(bindings) == 2
        await bindings.wait_for_slot()
        assert 1 <= now_s() < 1.1


@virtually
async def test_those_that_wait_take_no_room() -> None:
    bindings = made(limit=1)

    async def outside_request() -> None:
        with bindings.outside_request():
            await asyncio.sleep(5)
        await asyncio.sleep(5)

    async with asyncio.TaskGroup() as tasks:
        bindings.open(tasks)
        bindings.start(outside_request)
        await asyncio.sleep(1)
        await bindings.wait_for_slot()
        assert now_s() < 1.1
        await asyncio.sleep(5)
        await bindings.wait_for_slot()
        assert 10 <= now_s() < 10.1


@virtually
async def test_a_binding_that_begins_to_wait_makes_room() -> None:
    bindings = made(limit=1)

    async def later() -> None:
        await asyncio.sleep(2)
        with bindings.outside_request():
            await asyncio.sleep(50)

    async with asyncio.TaskGroup() as tasks:
        bindings.open(tasks)
        bindings.start(later)
        await bindings.wait_for_slot()
        assert 2 <= now_s() < 2.1


@virtually
async def test_an_unforeseen_failure_is_logged_and_ends_nobody_else(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bindings = made()
    async with asyncio.TaskGroup() as tasks:
        bindings.open(tasks)
        bindings.start(partial(failing, ZeroDivisionError("oops")))
        bindings.start(partial(sleeping, 1))
        await asyncio.sleep(0.5)
        assert len(bindings) == 1
    assert not len(bindings)
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert record.exc_info is not None
    assert "oops" in str(record.exc_info[1])


@pytest.mark.parametrize("error", [LeaseLost("over"), InvariantViolation("a bug")])
def test_what_must_end_everything_does(error: Exception) -> None:
    @virtually
    async def main() -> None:
        async with asyncio.TaskGroup() as tasks:
            bindings = made()
            bindings.open(tasks)
            bindings.start(partial(failing, error))
            await asyncio.sleep(1)

    with pytest.raises(ExceptionGroup) as caught:
        main()
    assert caught.value.exceptions == (error,)


@virtually
async def test_drain_waits_for_all_that_end_in_time() -> None:
    bindings = made()
    async with asyncio.TaskGroup() as tasks:
        bindings.open(tasks)
        bindings.start(partial(sleeping, 3))
        assert await bindings.drain(10) == 0
        assert 3 <= now_s() < 3.1
        bindings.start(partial(sleeping, 30))
        assert await bindings.drain(10) == 1
        assert 13 <= now_s() < 13.1
        bindings.cancel()
        assert await bindings.drain(10) == 0
    assert now_s() < 13.2


@virtually
async def test_drain_does_not_wait_for_permit() -> None:
    bindings = made()

    async def in_permit() -> None:
        with bindings.waiting_in_permit():
            await asyncio.sleep(900)

    async with asyncio.TaskGroup() as tasks:
        bindings.open(tasks)
        bindings.start(in_permit)
        bindings.start(partial(sleeping, 2))
        await asyncio.sleep(0)
        assert await bindings.drain(10) == 0
        assert 2 <= now_s() < 2.1
        bindings.cancel()


@virtually
async def test_drain_does_not_wait_for_a_change_of_an_object() -> None:
    bindings = made()

    async def waits() -> None:
        await asyncio.sleep(1)
        with bindings.waiting_for_object():
            await asyncio.sleep(900)

    async with asyncio.TaskGroup() as tasks:
        bindings.open(tasks)
        bindings.start(waits)
        assert await bindings.drain(10) == 0
        assert len(bindings) == 1
        assert 1 <= now_s() < 1.1
        bindings.cancel()


@virtually
async def test_a_wait_outside_a_binding_does_not_end_a_drain() -> None:
    bindings = made()
    async with asyncio.TaskGroup() as tasks:
        bindings.open(tasks)
        bindings.start(partial(sleeping, 2))
        with bindings.waiting_for_object():
            assert await bindings.drain(10) == 0
        assert 2 <= now_s() < 2.1


@virtually
async def test_a_binding_that_is_cancelled_before_it_begins_leaves_nothing_behind() -> None:
    begun: list[int] = []

    async def begins() -> None:
        begun.append(1)

    bindings = made()
    async with asyncio.TaskGroup() as tasks:
        bindings.open(tasks)
        bindings.start(begins)
        bindings.cancel()
    # A coroutine that was made and never awaited would be a warning, and so an error here.
    assert begun == []
    assert not len(bindings)


@virtually
async def test_decisions_pause_longer_and_longer_until_the_server_answers() -> None:
    bindings = made()
    pauses: list[float] = []

    async def measure() -> None:
        began_s = now_s()
        await bindings.wait_for_slot()
        pauses.append(now_s() - began_s)

    await measure()
    for _ in range(7):
        bindings.record_unreachable()
        await measure()
    bindings.record_success()
    await measure()
    assert pauses[0] == pauses[-1] == 0
    expected = [min(PAUSE_S * 2**number, PAUSE_S_MAX) for number in range(7)]
    for pause, step in zip(pauses[1:-1], expected, strict=True):
        assert step <= pause + 1e-6
        assert pause < 2 * step + 1e-6


def test_it_must_be_opened_first() -> None:
    async def never() -> None:
        """Is never called."""

    bindings: Any = made()
    with pytest.raises(AssertionError, match="open"):
        bindings.start(never)


async def requesting(bindings: BindingTasks, namespace: str, seconds: float) -> tuple[float, float]:
    """Returns when a request of so many seconds began and ended."""
    request = bindings.request(namespace)
    assert request is not None
    async with request:
        began_s = now_s()
        await asyncio.sleep(seconds)
    return began_s, now_s()


@virtually
async def test_a_namespace_with_too_many_slow_requests_waits_and_no_other_does() -> None:
    bindings = made(limit=1000)
    async with asyncio.TaskGroup() as tasks:
        lengths = [5.0, *(20.0 for _ in range(SLOW_PER_NAMESPACE_MAX - 1))]
        for seconds in lengths:
            tasks.create_task(requesting(bindings, "slow", seconds))
        await asyncio.sleep(SLOW_S + 0.5)
        more = [tasks.create_task(requesting(bindings, "slow", 0.1)) for _ in range(100)]
        other = tasks.create_task(requesting(bindings, "other", 0.1))
    # All go on when the first of the slow ones ends: none of them is slow yet.
    assert {began_s for began_s, _ in (task.result() for task in more)} == {5.0}
    assert other.result()[0] == SLOW_S + 0.5


@virtually
async def test_a_binding_fails_that_waits_too_long_for_its_namespace() -> None:
    bindings = made(limit=1000)
    async with asyncio.TaskGroup() as tasks:
        for _ in range(SLOW_PER_NAMESPACE_MAX):
            tasks.create_task(requesting(bindings, "slow", 60.0))
        await asyncio.sleep(SLOW_S)
        with pytest.raises(SchedulerError, match="32 bindings of namespace slow have no answer"):
            await requesting(bindings, "slow", 0.1)
        assert now_s() == SLOW_S + NAMESPACE_WAIT_S_MAX


@virtually
async def test_a_binding_that_waits_for_its_namespace_takes_no_slot() -> None:
    bindings = made(limit=2)
    async with asyncio.TaskGroup() as tasks:
        bindings.open(tasks)
        for _ in range(SLOW_PER_NAMESPACE_MAX):
            bindings.start(partial(requesting, bindings, "slow", 20.0))  # type: ignore[arg-type]
        await asyncio.sleep(SLOW_S + 0.5)
        for _ in range(2):
            bindings.start(partial(requesting, bindings, "slow", 0.1))  # type: ignore[arg-type]
        await asyncio.sleep(0.1)
        begun_s = now_s()
        await bindings.wait_for_slot()
        assert now_s() == begun_s


@virtually
async def test_a_slow_request_takes_no_slot() -> None:
    bindings = made(limit=2)
    async with asyncio.TaskGroup() as tasks:
        bindings.open(tasks)
        for seconds in (10.0, 20.0):
            bindings.start(partial(requesting, bindings, "a", seconds))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        await bindings.wait_for_slot()
        assert SLOW_S <= now_s() < SLOW_S + 0.1
