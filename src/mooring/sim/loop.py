"""An event loop on virtual time: waiting takes none, and a run can be repeated exactly.

Nothing real can be waited for here: no socket, no thread, no process. When every task waits for
time, time moves on to the first of them; when every task waits for another one, that is an error,
since it would be for ever.

Source: the idea of FoundationDB's simulator, a whole cluster in one thread on one clock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

_Result = TypeVar("_Result")

#: 2026-01-01T00:00:00Z, when virtual time begins.
EPOCH_S: Final = 1_767_225_600.0


class _NoSelector:
    """Stands where a loop asks the operating system what has come; nothing ever has.

    It is asked to wait for at most ``timeout`` seconds: that time has gone by at once.
    """

    def __init__(self) -> None:
        self.now_s = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise AssertionError("everything waits for something that never comes")
        self.now_s += max(timeout, 0.0)
        return []


class VirtualLoop(asyncio.BaseEventLoop):
    """Starts at 0 seconds; has no sockets, no threads and no signals."""

    def __init__(self) -> None:
        super().__init__()
        self._selector = _NoSelector()

    def time(self) -> float:
        """Virtual seconds; moved on a little, so that what is due is surely due."""
        return self._selector.now_s + 1e-9

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:  # type: ignore[override]
        """Refused: a thread would not wait for virtual time."""
        raise NotImplementedError("there are no threads on a virtual loop")

    def _process_events(self, event_list: list[Any]) -> None:
        """Nothing comes from outside."""

    def _write_to_self(self) -> None:
        """Nobody calls from another thread."""


class LoopClock:
    """The clock of a virtual loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def monotonic_s(self) -> float:
        """Seconds since the loop began."""
        return self._loop.time()

    def wall_s(self) -> float:
        """Seconds since 1970-01-01 UTC, if the loop began with 2026."""
        return EPOCH_S + self._loop.time()


def run_virtually(work: Coroutine[Any, Any, _Result]) -> _Result:
    """The result of a coroutine, on virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)
