"""The virtual loop: time that is moved, chance that is drawn, and nothing real."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from mooring.clock import seeded_random
from mooring.virtual_loop import EPOCH_S, EndlessWait, LoopClock, VirtualLoop, run_virtually


def order_of(seed: int | None, tasks: int = 8) -> list[int]:
    """Returns the order in which tasks that are ready at once come to run."""
    seen: list[int] = []

    async def note(number: int) -> None:
        await asyncio.sleep(1)
        seen.append(number)

    async def work() -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(tasks):
                group.create_task(note(number))

    run_virtually(work(), seeded_random(seed) if seed is not None else None)
    return seen


def test_a_wait_takes_exactly_as_long_as_it_says() -> None:
    async def work() -> list[float]:
        loop, moments = asyncio.get_running_loop(), []
        for wait_s in (0.0, 0.1, 3600.0, 86_400.0 * 365):
            before = loop.time()
            await asyncio.sleep(wait_s)
            moments.append(loop.time() - before)
        return moments

    assert run_virtually(work()) == pytest.approx([0.0, 0.1, 3600.0, 86_400.0 * 365], abs=1e-6)


def test_a_deadline_is_never_read_as_still_to_come() -> None:
    async def work() -> None:
        loop = asyncio.get_running_loop()
        for _ in range(1000):
            due_s = loop.time() + 0.1
            with pytest.raises(TimeoutError):
                async with asyncio.timeout_at(due_s):
                    await asyncio.Event().wait()
            assert loop.time() >= due_s

    run_virtually(work())


def test_after_many_virtual_years_waiting_still_ends() -> None:
    async def work() -> float:
        await asyncio.sleep(1e9)
        before = asyncio.get_running_loop().time()
        for _ in range(10):
            await asyncio.sleep(0.001)
        return asyncio.get_running_loop().time() - before

    assert run_virtually(work()) == pytest.approx(0.01, abs=1e-4)


def test_what_is_ready_at_once_runs_in_the_order_of_the_generator() -> None:
    assert order_of(None) == list(range(8))
    assert order_of(1) == order_of(1)
    orders = {tuple(order_of(seed)) for seed in range(20)}
    assert len(orders) > 15
    assert all(sorted(order) == list(range(8)) for order in orders)


def test_waiting_for_what_never_comes_is_an_error() -> None:
    async def work() -> None:
        await asyncio.Event().wait()

    with pytest.raises(AssertionError, match="never comes"):
        run_virtually(work())


@pytest.mark.parametrize("wait_s", [1e-9, 1e-8, 1e-6])
def test_a_wait_below_the_resolution_ends_before_the_loop_is_idle(wait_s: float) -> None:
    async def wait(loop: VirtualLoop) -> None:
        due_s = loop.time() + wait_s
        while loop.time() < due_s:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(due_s):
                    await asyncio.Event().wait()

    async def work() -> float:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        loop.idle_steps_max = 100
        task = asyncio.create_task(wait(loop))
        await loop.until_idle()
        assert task.done()
        return loop.time()

    assert run_virtually(work()) == wait_s


@pytest.mark.parametrize("delay_s", [0.0, 1e-9])
def test_tasks_that_are_never_idle_are_an_error_with_the_timer_that_is_due(delay_s: float) -> None:
    def again() -> None:
        asyncio.get_running_loop().call_later(delay_s, again)

    async def work() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        loop.idle_steps_max = 100
        again()
        await loop.until_idle()

    with pytest.raises(EndlessWait, match="never wait at") as caught:
        run_virtually(work())
    assert caught.value.callback is again


def test_threads_and_sockets_are_refused() -> None:
    async def thread() -> None:
        await asyncio.to_thread(print)

    async def socket() -> None:
        await asyncio.open_connection("127.0.0.1", 1)

    for work in (thread, socket):
        with pytest.raises(NotImplementedError):
            run_virtually(work())


def test_every_step_is_reported_and_what_is_raised_there_ends_the_run() -> None:
    class Broken(Exception):
        pass

    def look() -> None:
        steps.append(loop.time())
        if loop.time() >= 3:
            loop.on_step = lambda: None
            raise Broken

    steps: list[float] = []
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        found = runner.get_loop()
        assert isinstance(found, VirtualLoop)
        loop = found
        loop.on_step = look
        with pytest.raises(Broken):
            runner.run(asyncio.sleep(3))
        assert loop.steps >= len(steps) > 1
    assert steps == sorted(steps)


def test_the_clock_reads_the_loop() -> None:
    async def work() -> tuple[float, float]:
        clock = LoopClock(asyncio.get_running_loop())
        await asyncio.sleep(2.5)
        return clock.monotonic_s(), clock.wall_s()

    assert run_virtually(work()) == (2.5, EPOCH_S + 2.5)


def test_a_group_cancels_its_tasks_in_the_order_in_which_they_began() -> None:
    cancelled: list[int] = []

    async def wait(number: int) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append(number)

    async def work() -> None:
        async with asyncio.TaskGroup() as group:
            # Long strings between them, so that addresses are in no order.
            rubbish = []
            for number in range(40):
                group.create_task(wait(number))
                rubbish.append("x" * (number * 977 % 5000))
            await asyncio.sleep(1)
            raise ValueError("ends the group")

    with pytest.raises(ExceptionGroup):
        run_virtually(work())
    assert cancelled == list(range(40))
