"""Ties virtual time to real time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from mooring.clock import Clock

#: The pause while a backlog is being written; seconds.
_BACKLOG_S: Final = 0.01


class Stopped(Exception):
    """The run is to end."""


class Pace:
    """Lets virtual time pass as fast as real time, times a speed.

    Virtual time belongs to a thread of its own; the loop on which this is created waits for it. A
    run that is late, for it takes time to decide, is not slowed down further.

    Args:
        speed: Virtual seconds in a second.
        clock: Real time.
        backlog: Returns how far the reader of the run is behind.
        backlog_max: Time stands still while it is further behind.
    """

    def __init__(
        self,
        speed: float,
        *,
        clock: Clock,
        backlog: Callable[[], int] = lambda: 0,
        backlog_max: int = 0,
    ) -> None:
        self._speed = speed
        self._clock = clock
        self._backlog = backlog
        self._backlog_max = backlog_max
        self._loop = asyncio.get_running_loop()
        self._stopped = asyncio.Event()
        self._begun_s: float | None = None

    def stop(self) -> None:
        """Ends the run at its next instant, and the wait for one."""
        self._stopped.set()

    def wait_until(self, at_s: float) -> None:
        """Waits, in the thread of the run, for the real time of a virtual one.

        Raises:
            Stopped: the run is to end.
        """
        if self._begun_s is None:
            self._begun_s = self._clock.monotonic_s()
        wait_s = self._begun_s + at_s / self._speed - self._clock.monotonic_s()
        if wait_s > 0 or self._backlog() > self._backlog_max:
            asyncio.run_coroutine_threadsafe(self._wait(wait_s), self._loop).result()
        if self._stopped.is_set():
            raise Stopped

    async def _wait(self, wait_s: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopped.wait(), max(0.0, wait_s))
        while self._backlog() > self._backlog_max and not self._stopped.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopped.wait(), _BACKLOG_S)
