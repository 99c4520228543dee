"""The signals that end a command."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from mooring.cli.event_loops import interruption, run_with_cleanup


async def _send(*numbers: signal.Signals) -> None:
    for number in numbers:
        os.kill(os.getpid(), number)
    await asyncio.Event().wait()


@pytest.mark.parametrize(
    "numbers",
    [
        [signal.SIGTERM],
        [signal.SIGHUP],
        [signal.SIGHUP, signal.SIGHUP, signal.SIGTERM],
    ],
)
def test_a_signal_cancels_the_work_once_and_its_cleanup_runs(numbers: list[signal.Signals]) -> None:
    cleanups: list[str] = []

    async def work() -> None:
        try:
            await _send(*numbers)
        finally:
            for _ in range(10):
                await asyncio.sleep(0)
            cleanups.append("complete")

    with asyncio.Runner() as runner, pytest.raises(SystemExit) as ended:
        run_with_cleanup(runner, work())

    assert ended.value.code == 128 + min(numbers)
    assert cleanups == ["complete"]


def test_work_that_is_not_cancelled_returns_its_result() -> None:
    async def work() -> int:
        return 3

    with asyncio.Runner() as runner:
        assert run_with_cleanup(runner, work()) == 3


def test_an_error_of_the_cleanup_is_raised() -> None:
    async def work() -> None:
        try:
            await _send(signal.SIGTERM)
        finally:
            raise ValueError("the cleanup has failed")

    with asyncio.Runner() as runner, pytest.raises(ValueError, match="has failed"):
        run_with_cleanup(runner, work())


def test_an_ignored_hangup_stays_ignored() -> None:
    async def work() -> bool:
        stopped = interruption()
        os.kill(os.getpid(), signal.SIGHUP)
        os.kill(os.getpid(), signal.SIGTERM)
        await stopped.wait()
        return signal.getsignal(signal.SIGHUP) is signal.SIG_IGN

    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with asyncio.Runner() as runner:
            assert runner.run(work())
    finally:
        signal.signal(signal.SIGHUP, before)
