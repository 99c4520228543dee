"""The idle timeout of a stream."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class IdleTimer:
    """Ends a wait for data that takes too long, with one timer of the event loop for all waits.

    A timeout for each chunk would cost as much as decoding its event.

    Args:
        on_idle: Called once, when a wait has lasted for too long.
        idle_s: The longest wait, in seconds.
    """

    def __init__(self, on_idle: Callable[[], None], idle_s: float) -> None:
        self._on_idle = on_idle
        self._idle_s = idle_s
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        #: When the wait began; None while the reader uses the last chunk.
        self._waits_since_s: float | None = self._loop.time()
        self._set()

    def begin(self) -> None:
        """Starts a wait for data."""
        self._waits_since_s = self._loop.time()

    def end(self) -> None:
        """Ends the wait: the reader uses the data."""
        self._waits_since_s = None

    def cancel(self) -> None:
        """Stops the timer."""
        if self._timer is not None:
            self._timer.cancel()

    def _set(self) -> None:
        since_s = self._waits_since_s
        due_s = (self._loop.time() if since_s is None else since_s) + self._idle_s
        self._timer = self._loop.call_at(due_s, self._check)

    def _check(self) -> None:
        since_s = self._waits_since_s
        if since_s is not None and self._loop.time() >= since_s + self._idle_s:
            self._on_idle()
        else:
            self._set()
