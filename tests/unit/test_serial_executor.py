"""Long calls run in a thread; others run before or after them, or where they pause."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from mooring.serial_executor import (
    COMMITS_BETWEEN_PAUSES,
    COMPUTATIONS_MAX,
    PAUSED_MAX,
    SerialExecutor,
)

Step = Callable[[], object]


class LongCall:
    """A call in a thread that a test lets go on, step by step."""

    def __init__(self, *steps: Step) -> None:
        self._steps = steps
        self._reached = threading.Semaphore(0)
        self._may_go_on = threading.Semaphore(0)

    def __call__(self) -> list[object]:
        results = []
        for step in self._steps:
            self._reached.release()
            self._may_go_on.acquire()
            results.append(step())
        return results

    def go_on(self) -> None:
        self._may_go_on.release()

    async def wait_until_reached(self) -> None:
        """Waits until the thread stands before its next step."""
        await asyncio.get_running_loop().run_in_executor(None, self._reached.acquire)


def test_a_short_call_runs_at_once_if_no_other_does() -> None:
    async def main() -> None:
        executor = SerialExecutor()
        running = asyncio.ensure_future(executor.run(threading.get_ident))
        await asyncio.sleep(0)
        assert running.done()
        assert running.result() == threading.get_ident()

    asyncio.run(main())


def test_a_long_call_runs_in_a_thread_and_commits_on_the_event_loop() -> None:
    async def main() -> None:
        executor = SerialExecutor()

        def write() -> tuple[int, int]:
            return threading.get_ident(), executor.commit(threading.get_ident)

        thread, committed_in = await executor.run_in_thread(write)
        assert committed_in == threading.get_ident() != thread

    asyncio.run(main())


def test_short_calls_wait_for_a_long_one_in_their_order() -> None:
    async def main() -> None:
        executor = SerialExecutor()
        order: list[str] = []
        long = LongCall(lambda: executor.commit(lambda: order.append("long")))
        running: list[asyncio.Future[Any]] = [asyncio.ensure_future(executor.run_in_thread(long))]
        await long.wait_until_reached()
        for name in ("first", "second"):
            short = executor.run(partial(order.append, name))
            running.append(asyncio.ensure_future(short))
        await asyncio.sleep(0)
        assert order == []
        assert not executor.may_run
        long.go_on()
        await asyncio.gather(*running)
        assert order == ["long", "first", "second"]
        assert executor.may_run

    asyncio.run(main())


@pytest.mark.parametrize("commits", [COMMITS_BETWEEN_PAUSES - 1, COMMITS_BETWEEN_PAUSES])
def test_short_calls_come_first_at_a_pause_after_many_commits(commits: int) -> None:
    async def main() -> None:
        executor = SerialExecutor()
        order: list[str] = []

        def commit_many() -> None:
            for _ in range(commits):
                executor.commit(lambda: None)

        long = LongCall(
            commit_many, executor.pause, lambda: executor.commit(lambda: order.append("long"))
        )
        running: list[asyncio.Future[Any]] = [asyncio.ensure_future(executor.run_in_thread(long))]
        await long.wait_until_reached()
        short = executor.run(partial(order.append, "short"))
        running.append(asyncio.ensure_future(short))
        for _ in range(3):
            long.go_on()
        await asyncio.gather(*running)
        is_enough = commits == COMMITS_BETWEEN_PAUSES
        assert order == (["short", "long"] if is_enough else ["long", "short"])

    asyncio.run(main())


def test_another_long_call_may_run_within_a_pause() -> None:
    async def main() -> None:
        executor = SerialExecutor()
        order: list[str] = []

        def commit_many() -> None:
            for _ in range(COMMITS_BETWEEN_PAUSES):
                executor.commit(lambda: None)

        long = LongCall(
            commit_many, executor.pause, lambda: executor.commit(lambda: order.append("long"))
        )
        running: list[asyncio.Future[Any]] = [asyncio.ensure_future(executor.run_in_thread(long))]
        await long.wait_until_reached()
        other = LongCall(lambda: executor.commit(lambda: order.append("other")))
        running.append(asyncio.ensure_future(executor.run_in_thread(other)))
        for _ in range(3):
            long.go_on()
        other.go_on()
        await asyncio.gather(*running)
        assert order == ["other", "long"]
        assert gc.isenabled()

    asyncio.run(main())


def test_calls_that_pause_leave_a_thread_for_the_next_one() -> None:
    async def main() -> int:
        executor = SerialExecutor()
        ended = 0

        def call() -> None:
            nonlocal ended
            for _ in range(3 * COMMITS_BETWEEN_PAUSES):
                executor.commit(lambda: None)
                executor.pause()
            ended += 1

        calls = 4 * PAUSED_MAX
        async with asyncio.timeout(60):
            await asyncio.gather(*(executor.run_in_thread(call) for _ in range(calls)))
        return calls - ended

    assert asyncio.run(main()) == 0


def test_a_pause_on_the_event_loop_does_nothing() -> None:
    async def main() -> None:
        executor = SerialExecutor()
        await executor.run(executor.pause)

    asyncio.run(main())


def test_a_long_call_ends_although_its_caller_is_cancelled() -> None:
    async def main() -> None:
        executor = SerialExecutor()
        committed: list[str] = []
        long = LongCall(lambda: executor.commit(lambda: committed.append("long")))
        running = asyncio.ensure_future(executor.run_in_thread(long))
        await long.wait_until_reached()
        running.cancel()
        await asyncio.sleep(0)
        assert not running.done()
        long.go_on()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert committed == ["long"]
        await executor.run(lambda: committed.append("next"))
        assert committed == ["long", "next"]

    asyncio.run(main())


def test_a_call_that_is_cancelled_while_it_waits_is_not_run() -> None:
    async def main() -> None:
        executor = SerialExecutor()
        committed: list[str] = []
        long = LongCall(lambda: None)
        running = asyncio.ensure_future(executor.run_in_thread(long))
        await long.wait_until_reached()
        waiting = asyncio.ensure_future(executor.run(lambda: committed.append("short")))
        await asyncio.sleep(0)
        waiting.cancel()
        long.go_on()
        await running
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert committed == []
        await executor.run(lambda: committed.append("next"))
        assert committed == ["next"]

    asyncio.run(main())


def test_errors_of_the_thread_and_of_commits_reach_the_caller() -> None:
    def fail() -> None:
        raise KeyError("a key")

    async def main() -> None:
        executor = SerialExecutor()
        with pytest.raises(KeyError):
            await executor.run_in_thread(fail)
        with pytest.raises(KeyError):
            await executor.run_in_thread(lambda: executor.commit(fail))
        assert await executor.run_in_thread(lambda: 1) == 1

    asyncio.run(main())


def test_cycles_are_not_searched_while_a_long_call_runs() -> None:
    async def main() -> bool:
        return await SerialExecutor().run_in_thread(gc.isenabled)

    assert gc.isenabled()
    assert not asyncio.run(main())
    assert gc.isenabled()


def test_an_event_loop_that_ends_waits_for_the_call() -> None:
    committed: list[str] = []
    executor = SerialExecutor()

    def commit_many() -> None:
        for _ in range(COMMITS_BETWEEN_PAUSES):
            executor.commit(lambda: None)

    long = LongCall(
        commit_many, executor.pause, lambda: executor.commit(lambda: committed.append(""))
    )

    async def main() -> None:
        long_call = asyncio.ensure_future(executor.run_in_thread(long))
        await long.wait_until_reached()
        waiting = asyncio.ensure_future(executor.run(lambda: committed.append("short")))
        await asyncio.sleep(0)
        for _ in range(3):
            long.go_on()
        assert not long_call.done()
        assert not waiting.done()

    asyncio.run(main())
    assert committed == [""]


def test_other_calls_come_first_while_a_call_computes() -> None:
    async def main() -> None:
        executor = SerialExecutor()
        order: list[str] = []
        computation = LongCall(lambda: order.append("computed"))

        def write() -> list[object]:
            order.append("begun")
            result = executor.computed("key", computation)
            executor.commit(lambda: order.append("committed"))
            return result

        running = asyncio.ensure_future(executor.run_in_thread(write))
        await computation.wait_until_reached()
        assert executor.may_run
        await executor.run(partial(order.append, "short"))
        await executor.run_in_thread(partial(order.append, "long"))
        assert not running.done()
        computation.go_on()
        assert await running == [None]
        assert order == ["begun", "short", "long", "computed", "begun", "committed"]

    asyncio.run(main())


def test_a_result_is_computed_again_if_it_depends_on_a_change() -> None:
    async def main() -> None:
        executor = SerialExecutor()
        stored = ["old"]
        computation = LongCall(lambda: None)
        computed: list[str] = []

        def write() -> str:
            seen = stored[0]

            def compute() -> None:
                computed.append(seen)
                computation()

            executor.computed(seen, compute)
            return seen

        running = asyncio.ensure_future(executor.run_in_thread(write))
        await computation.wait_until_reached()
        await executor.run(partial(stored.__setitem__, 0, "new"))
        computation.go_on()
        computation.go_on()
        assert await running == "new"
        assert computed == ["old", "new"]

    asyncio.run(main())


def test_a_call_keeps_its_turn_after_some_computations() -> None:
    async def main() -> None:
        executor = SerialExecutor()
        rounds: list[bool] = []

        def write() -> int:
            rounds.append(True)
            return executor.computed(len(rounds), lambda: len(rounds))

        assert await executor.run_in_thread(write) == COMPUTATIONS_MAX + 1
        assert len(rounds) == COMPUTATIONS_MAX + 1

    asyncio.run(main())


def test_what_is_decided_is_the_same_when_a_call_begins_anew() -> None:
    async def main() -> None:
        executor = SerialExecutor()
        numbers = iter(range(10))

        def write() -> tuple[int, int]:
            first = executor.decided("number", lambda: next(numbers))
            executor.computed("key", lambda: None)
            return first, executor.decided("number", lambda: next(numbers))

        assert await executor.run_in_thread(write) == (0, 0)
        assert await executor.run_in_thread(write) == (1, 1)
        assert await executor.run(write) == (2, 3), "on the event loop nothing begins anew"

    asyncio.run(main())


def test_the_error_of_a_computation_is_that_of_its_call() -> None:
    async def main() -> None:
        executor = SerialExecutor()

        def fail() -> None:
            raise ValueError("too deep")

        with pytest.raises(ValueError, match="too deep"):
            await executor.run_in_thread(lambda: executor.computed("key", fail))
        assert executor.may_run
        assert await executor.run(lambda: 1) == 1

    asyncio.run(main())


def test_results_are_those_of_a_call_that_pauses() -> None:
    async def main() -> None:
        executor = SerialExecutor()
        numbers = iter(range(10))

        def decide() -> int:
            return executor.decided("number", lambda: next(numbers))

        def commit_many() -> None:
            for _ in range(COMMITS_BETWEEN_PAUSES):
                executor.commit(lambda: None)

        pausing = LongCall(decide, commit_many, executor.pause, decide)
        running = asyncio.ensure_future(executor.run_in_thread(pausing))
        await pausing.wait_until_reached()
        other = asyncio.ensure_future(executor.run_in_thread(decide))
        for _ in range(4):
            pausing.go_on()
        assert await running == [0, None, None, 0]
        assert await other == 1

    asyncio.run(main())
