"""The bindings under way: each a task of its own, and only so many inside a request at a time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Final

from mooring.clock import Rng
from mooring.errors import InvariantViolation, LeaseLost

#: Bindings that may be inside a request at a time; decisions pause beyond that. More of them only
#: make the API server refuse some (429): it serves a bounded number at a time itself.
BINDINGS_MAX: Final = 256

#: After a request that did not reach the API server, decisions pause: first so long, then longer.
PAUSE_S: Final = 0.2
PAUSE_S_MAX: Final = 5.0

_log = logging.getLogger(__name__)


class BindingTasks:
    """Starts binding tasks and counts those that may be inside a request.

    Args:
        rng: For jitter.
        limit: How many may be inside a request.
    """

    def __init__(self, rng: Rng, *, limit: int = BINDINGS_MAX) -> None:
        self._rng = rng
        self._limit = limit
        self._running: set[asyncio.Task[None]] = set()
        self._tasks: asyncio.TaskGroup | None = None
        #: Those that wait in Permit or PreBind: they burden nobody.
        self._waiting = 0
        #: Those that wait in Permit.
        self._in_permit = 0
        self._changed = asyncio.Event()
        self._pause_s = 0.0

    def __len__(self) -> int:
        return len(self._running)

    def open(self, tasks: asyncio.TaskGroup) -> None:
        """Runs bindings as tasks of this group from now on."""
        self._tasks = tasks

    def start(self, binding: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Runs a binding beside the decisions. It turns whatever fails into an outcome."""
        assert self._tasks is not None, "open() comes first"
        task = self._tasks.create_task(self._supervise(binding))
        self._running.add(task)
        task.add_done_callback(self._ended)

    async def wait_for_slot(self) -> None:
        """Returns when another decision may be made."""
        while len(self._running) - self._waiting >= self._limit:
            self._changed.clear()
            await self._changed.wait()
        if self._pause_s:
            await asyncio.sleep(self._pause_s * (1 + self._rng.random()))

    async def drain(self, deadline_s: float) -> int:
        """Waits for the bindings under way, and returns how many did not end in time.

        Those that wait in Permit are not waited for: nobody may ever allow them.
        """
        try:
            async with asyncio.timeout(deadline_s):
                while len(self._running) > self._in_permit:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            pass
        return len(self._running) - self._in_permit

    def cancel(self) -> None:
        """Breaks off all that are left: the scheduler ends."""
        for task in list(self._running):
            task.cancel()

    @contextmanager
    def outside_request(self) -> Iterator[None]:
        """Returns the binding that runs this block is inside no request."""
        self._waiting += 1
        self._changed.set()
        try:
            yield
        finally:
            self._waiting -= 1

    @contextmanager
    def waiting_in_permit(self) -> Iterator[None]:
        """As ``outside_request``; the binding that runs this block may be left alone at the end."""
        self._in_permit += 1
        try:
            with self.outside_request():
                yield
        finally:
            self._in_permit -= 1

    def record_unreachable(self) -> None:
        """A request did not reach the API server: what is decided now could not be told."""
        self._pause_s = min(2 * self._pause_s or PAUSE_S, PAUSE_S_MAX)

    def record_success(self) -> None:
        """A request was answered."""
        self._pause_s = 0.0

    async def _supervise(self, binding: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            # Made here: a task that is cancelled before it begins leaves nothing behind.
            await binding()
        except (InvariantViolation, LeaseLost):
            raise
        except Exception:  # noqa: BLE001 - one pod's trouble must never end the others' bindings
            _log.exception("a binding failed in a way that nobody foresaw")

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._changed.set()
