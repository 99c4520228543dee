"""The requests that wait for a connection of a pool."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Turns(Generic[T]):
    """Hands items to the tasks that wait for them, in the order of their calls.

    The item goes to a certain task, so that no other can take it before that task runs, and has to
    wait again: in a busy pool, each request would wait several times.

    Args:
        release: Called with the item of a task that was cancelled when its turn had come. None: it
        was woken without an item, so another task must be.
    """

    def __init__(self, release: Callable[[T | None], None]) -> None:
        self._release = release
        self._turns: deque[asyncio.Future[T | None]] = deque()

    async def wait(self, loop: asyncio.AbstractEventLoop, until_s: float) -> T | None:
        """Returns the item, or None if there is none yet.

        Args:
            loop: The running event loop.
            until_s: When it returns at the latest, in seconds of the event loop.
        """
        turn: asyncio.Future[T | None] = loop.create_future()
        self._turns.append(turn)
        timer = loop.call_at(until_s, self._end, turn)
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._release(turn.result())
            raise
        finally:
            timer.cancel()

    def wake_next(self, item: T | None = None) -> bool:
        """Ends the longest wait, with the item if there is one. False: no task waits."""
        while self._turns:
            turn = self._turns.popleft()
            if not turn.done():
                turn.set_result(item)
                return True
        return False

    def _end(self, turn: asyncio.Future[T | None]) -> None:
        if not turn.done():
            self._turns.remove(turn)
            turn.set_result(None)
