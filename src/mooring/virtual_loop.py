"""An event loop on virtual time: waiting takes no real time, and runs are reproducible.

Nothing real can be waited for here: no socket, no thread, no process. When every task waits for
time, time moves on to the first of them; when every task waits for another one, that is an error,
since it would be for ever. With a generator, what is ready at the same moment runs in an order that
is drawn from it: code that relies on who comes first is found out, and its seed repeats it.

Source: the idea of FoundationDB's simulator, a whole cluster in one thread on one clock.
"""

from __future__ import annotations

import asyncio
import heapq
import math
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import Context
from typing import Any, Final, TypeVar, TypeVarTuple

from mooring.clock import Rng

_Result = TypeVar("_Result")
_Arguments = TypeVarTuple("_Arguments")

#: 2026-01-01T00:00:00Z, when virtual time begins.
EPOCH_S: Final = 1_767_225_600.0

#: Timers due within this many seconds are due now: floats of a virtual year are finer than that.
RESOLUTION_S: Final = 1e-6

#: Rounds of callbacks within one wait for all other tasks: more than this is without end.
IDLE_STEPS_MAX: Final = 1_000_000


class EndlessWait(AssertionError):
    """The tasks wait for each other, or wake each other, for ever.

    Attributes:
        callback: Of the timer that is due when it is noticed; None = no timer is.
    """

    callback: Callable[..., object] | None = None


class _Shuffled(deque[asyncio.Handle]):
    """The callbacks that are ready to run; the next one is chosen at random."""

    def __init__(self, rng: Rng) -> None:
        super().__init__()
        self._rng = rng

    def popleft(self) -> asyncio.Handle:
        if len(self) > 1:
            self.rotate(-self._rng.randrange(len(self)))
        return super().popleft()


class _Timer(asyncio.TimerHandle):
    """A timer; of those due at the same moment, the one that was set first comes first."""

    __slots__ = ("number",)

    number: int

    def __lt__(self, other: object) -> bool:
        assert isinstance(other, _Timer)
        return (self.when(), self.number) < (other.when(), other.number)


class _Task(asyncio.Task[Any]):
    """A task whose place in a set is its number, not its address.

    A task group cancels its tasks in the order of a set of them: by their addresses, that would be
    another order in each process.
    """

    def __init__(self, number: int, coro: Any, **options: Any) -> None:
        self._number = number
        super().__init__(coro, **options)

    def __hash__(self) -> int:
        return self._number


class _NoSelector:
    """A selector without I/O: it never reports an event."""

    def __init__(self, wait: Callable[[float | None], None]) -> None:
        self._wait = wait

    def select(self, timeout: float | None = None) -> list[Any]:
        self._wait(timeout)
        return []


class VirtualLoop(asyncio.BaseEventLoop):
    """Starts at 0 seconds; has no sockets, no threads and no signals.

    Args:
        rng: Draws the order of what is ready at once; None = first come, first served.
        before_move: Called with the new time before it moves on; what it raises ends the run.

    Attributes:
        on_step: Called after every round of callbacks, when no callback is half done; what it
            raises ends the run.
        steps: How many rounds there were.
        idle_steps_max: How many rounds ``until_idle`` takes at most.
    """

    _scheduled: list[asyncio.TimerHandle]
    _ready: deque[asyncio.Handle]

    def __init__(
        self, rng: Rng | None = None, *, before_move: Callable[[float], None] | None = None
    ) -> None:
        super().__init__()
        self._now_s = 0.0
        self._before_move = before_move
        self._selector = _NoSelector(self._move_on)
        self._clock_resolution = RESOLUTION_S
        if rng is not None:
            self._ready = _Shuffled(rng)
        self._n_timers = 0
        self._n_tasks = 0
        self.set_task_factory(self._new_task)
        self.on_step: Callable[[], None] = lambda: None
        self.steps = 0
        self._wait_for_idle: list[asyncio.Future[None]] = []
        self.idle_steps_max = IDLE_STEPS_MAX
        self._idle_steps_end = 0
        self._wait_for_time: list[asyncio.Future[None]] = []

    def time(self) -> float:
        """Returns virtual seconds."""
        return self._now_s

    def call_at(
        self,
        when: float,
        callback: Callable[[*_Arguments], object],
        *args: *_Arguments,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Schedules a timer as asyncio does, with an order for timers of the same moment."""
        self._check_closed()  # type: ignore[attr-defined]
        timer = _Timer(when, callback, args, self, context)
        self._n_timers += 1
        timer.number = self._n_timers
        heapq.heappush(self._scheduled, timer)
        # So that the loop counts it, if it is cancelled.
        timer._scheduled = True  # type: ignore[attr-defined]  # noqa: SLF001
        return timer

    def _new_task(self, _: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> _Task:
        self._n_tasks += 1
        return _Task(self._n_tasks, coro, loop=self, **options)

    def skip_to(self, when_s: float) -> bool:
        """Advances the time if the caller is the only one that waits for it; else returns False.

        For a task that runs: many times as fast as to wait.
        """
        if self._ready or (self._scheduled and self._scheduled[0].when() <= when_s):
            return False
        self._move_to(when_s)
        return True

    @property
    def is_idle(self) -> bool:
        """True if nothing is ready to run now but the caller."""
        if self._ready:
            return False
        return not self._scheduled or self._scheduled[0].when() > self._now_s + RESOLUTION_S

    async def until_idle(self) -> None:
        """Waits until every other task waits for time or for another one.

        The run of the loop ends with an EndlessWait if they do not within ``idle_steps_max``.
        """
        self._idle_steps_end = self.steps + self.idle_steps_max
        await self._added_to(self._wait_for_idle)

    async def until_time_moves(self) -> None:
        """Waits until the time has moved on to the next timer."""
        await self._added_to(self._wait_for_time)

    def _added_to(self, futures: list[asyncio.Future[None]]) -> asyncio.Future[None]:
        future: asyncio.Future[None] = self.create_future()
        futures.append(future)
        return future

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:  # type: ignore[override]
        """Raises an error: a thread would not wait for virtual time."""
        raise NotImplementedError("there are no threads on a virtual loop")

    def _move_on(self, timeout: float | None) -> None:
        """Advances the time exactly to the next timer.

        Raises:
            EndlessWait: nothing ever will be, or something always is.
        """
        due_s = self._scheduled[0].when() if self._scheduled else math.inf
        is_due = due_s <= self._now_s + RESOLUTION_S
        if self._wait_for_idle:
            if (timeout is None or timeout > 0) and not is_due:
                _set_all(self._wait_for_idle)
                return
            if self.steps >= self._idle_steps_end:
                self._wait_for_idle.clear()  # the next run of the loop cancels the tasks
                error = EndlessWait(f"the tasks never wait at {self._now_s:g} s of virtual time")
                if is_due:
                    error.callback = self._scheduled[0]._callback  # type: ignore[attr-defined]  # noqa: SLF001
                raise error
        if timeout is None:
            raise EndlessWait("everything waits for something that never comes")
        # What runs now reads a time that is not before the one it waited for.
        if is_due or (timeout > 0 and self._scheduled):
            self._move_to(due_s)
            _set_all(self._wait_for_time)

    def _move_to(self, when_s: float) -> None:
        if when_s > self._now_s:
            if self._before_move is not None:
                self._before_move(when_s)
            self._now_s = when_s

    def _run_once(self) -> None:
        super()._run_once()  # type: ignore[misc]
        self.steps += 1
        self.on_step()

    def _process_events(self, event_list: list[Any]) -> None:
        """Does nothing: there are no external events."""

    def _write_to_self(self) -> None:
        """Does nothing: there are no other threads."""


def _set_all(futures: list[asyncio.Future[None]]) -> None:
    """Ends the waits for these futures, and removes them."""
    ended = [future for future in futures if not future.done()]
    futures.clear()
    for future in ended:
        future.set_result(None)


class LoopClock:
    """The clock of a virtual loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        #: Returns seconds since the loop started; it is read many times for each pod.
        self.monotonic_s = loop.time

    def wall_s(self) -> float:
        """Seconds since 1970-01-01 UTC, if the loop began with 2026."""
        return EPOCH_S + self.monotonic_s()


@contextmanager
def no_running_loop() -> Iterator[None]:
    """Allows another loop to run inside a callback of a running one, as in a notebook."""
    running = asyncio._get_running_loop()  # noqa: SLF001
    asyncio._set_running_loop(None)  # noqa: SLF001
    try:
        yield
    finally:
        asyncio._set_running_loop(running)  # noqa: SLF001


def run_virtually(work: Coroutine[Any, Any, _Result], rng: Rng | None = None) -> _Result:
    """Returns the result of a coroutine, on virtual time.

    Args:
        work: Runs to its end.
        rng: Draws the order of what is ready at once; None = first come, first served.

    Example:
        >>> import asyncio
        >>> run_virtually(asyncio.sleep(3600, "an hour later"))
        'an hour later'
    """
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(rng)) as runner:
        return runner.run(work)
