"""The deadlines of a pool's requests."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable
from typing import Protocol


class Pending(Protocol):
    """A request that is under way.

    Attributes:
        due_s: Its deadline, in seconds of the event loop.
    """

    due_s: float

    def expire(self) -> None:
        """Fails the request: its deadline has passed."""
        ...


class Deadlines:
    """Fails requests at their deadlines, with one timer of the event loop for all of them.

    Nearly all requests end long before. A timer for each would only be set and cancelled, which
    takes as long as a tenth of the request.

    Args:
        pending: The requests under way, whenever it is iterated.

    Attributes:
        due_s: When the timer is due, in seconds of the event loop: not later than any deadline.
    """

    def __init__(self, pending: Iterable[Pending]) -> None:
        self._pending = pending
        self._timer: asyncio.TimerHandle | None = None
        self.due_s = math.inf

    def set(self, due_s: float) -> None:
        """Sets the timer; call it for a request that is due before ``due_s``. Infinity: none."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.due_s = due_s
        if due_s < math.inf:
            self._timer = asyncio.get_running_loop().call_at(due_s, self._expire)

    def _expire(self) -> None:
        # Timers of a loop may be due a little early.
        now_s, next_s = max(asyncio.get_running_loop().time(), self.due_s), math.inf
        for request in self._pending:
            if request.due_s <= now_s:
                request.expire()
            else:
                next_s = min(next_s, request.due_s)
        self.set(next_s)
