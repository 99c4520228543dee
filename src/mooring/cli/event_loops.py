"""Event loops of the commands, and the signals that stop them."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

#: Added to the number of a signal, as shells do, it is the exit code of who was ended by it.
EXIT_SIGNAL = 128

_Result = TypeVar("_Result")


def loop_factory_for(*, is_virtual: bool) -> Any:
    """Returns the factory of an event loop on virtual time, or on real time."""
    if is_virtual:
        from mooring.virtual_loop import VirtualLoop

        return VirtualLoop
    from mooring.event_loop import loop_factory

    return loop_factory()


def interruption() -> asyncio.Event:
    """Returns an event that SIGINT, SIGTERM and SIGHUP set; from now on they do nothing else."""
    stopped = asyncio.Event()
    for number in (signal.SIGINT, *_termination_signals()):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    return stopped


def run_with_cleanup(runner: asyncio.Runner, work: Coroutine[Any, Any, _Result]) -> _Result:
    """Runs a coroutine; SIGTERM and SIGHUP cancel it as SIGINT does, and its cleanup runs.

    Further signals of these two do nothing.

    Raises:
        SystemExit: it was cancelled by one of them; the exit code is that of a shell.
    """
    received: list[signal.Signals] = []

    def cancel(task: asyncio.Task[Any], number: signal.Signals) -> None:
        if not received:
            task.cancel()
        received.append(number)

    async def cancelled_by_signals() -> _Result:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        for number in _termination_signals():
            loop.add_signal_handler(number, cancel, task, number)
        return await work

    try:
        return runner.run(cancelled_by_signals())
    except asyncio.CancelledError:
        if not received:
            raise
        raise SystemExit(EXIT_SIGNAL + received[0]) from None


def _termination_signals() -> list[signal.Signals]:
    """Returns SIGTERM and SIGHUP.

    SIGHUP, when a terminal is closed, stays ignored if it is, as by ``nohup``.
    """
    is_ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return [signal.SIGTERM] if is_ignored else [signal.SIGTERM, signal.SIGHUP]
