"""The engine of a simulation: instants, controllers and a scheduler on virtual time.

::

    actions due now ──> controllers, until none has work ──> scheduler, until its queue is empty
          ▲                                                              │
          └───────────── the next instant: an action, a timer, a flush <─┘

At one instant actions run by phase, then in the order in which they were added. The scheduler runs
when nothing else has anything to do, one pod after another: after each of them the controllers and
all tasks get their turn, so that the order of events does not depend on their speed.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from mooring.errors import SchedulerError
from mooring.queue import FLUSH_INTERVAL_S, QueuedPod, QueueName, SchedulingQueue
from mooring.scheduler.schedule_one import Scheduler
from mooring.virtual_loop import VirtualLoop

#: A pod with so many consecutive errors is not waited for.
ERRORS_MAX: Final = 3
#: Without any progress for so many seconds, pods that are retried are not waited for: longer than
#: the flush of unschedulable pods and the longest wait in Permit take together.
STALLED_S: Final = 1800.0
#: A pod with so many attempts within a second, while nothing else happens, is retried for ever: a
#: plugin requeues it each time. Honest retries follow an action, or a pod that was bound or left.
ATTEMPTS_MAX: Final = 10_000

#: The order of actions at one instant.
PHASE_NODES, PHASE_PODS, PHASE_CONTROLLERS, PHASE_ARRIVALS = range(4)


#: When, phase, number, what to call, and whether it is in the background: ordered by the first
#: three. A plain tuple, since two or three are made for each pod.
_Action = tuple[float, int, int, Callable[[], None], bool]


class Controller(Protocol):
    """Changes objects when others have changed, as the controllers of a cluster do."""

    @property
    def has_work(self) -> bool:
        """True if an object has changed since the last ``work``."""
        ...

    async def work(self) -> None:
        """Acts on all changes so far."""
        ...


class SimulatedScheduler(Protocol):
    """A scheduler that the engine steps: over a table, or connected to an API server."""

    queue: SchedulingQueue
    scheduler: Scheduler

    @property
    def has_tasks(self) -> bool:
        """True if a binding, a preemption or a write is under way, or waits for something."""
        ...


class Engine:
    """Steps a scheduler and controllers through virtual time.

    Args:
        loop: The virtual loop that the engine runs on.
        scheduler: The scheduler; nothing else pops its queue.
        controllers: In the order in which they act.
        attempt_s: How long the scheduler takes for one attempt; the attempt sees the cluster, and
            changes it, at its end.
        skips_retries: Whether time moves to the next action without the retries before it, when
            nothing has made progress for ``STALLED_S``: a CronJob may be due in years.
    """

    def __init__(
        self,
        loop: VirtualLoop,
        scheduler: SimulatedScheduler,
        controllers: Iterable[Controller] = (),
        *,
        attempt_s: float = 0.0,
        skips_retries: bool = False,
    ) -> None:
        self._loop = loop
        self._scheduler = scheduler
        self._controllers = tuple(controllers)
        self._actions: list[_Action] = []
        self._numbers = itertools.count()
        self._progress_s = loop.time()
        self._foreground = 0
        #: UID -> attempts since the last action or progress, in this second of virtual time.
        self._attempts: dict[str, int] = {}
        self._attempts_second = 0
        self._attempt_s = attempt_s
        self._skips_retries = skips_retries
        #: When the attempt that is under way ends; infinity = there is none.
        self._attempt_ends_s = math.inf

    def note_progress(self) -> None:
        """Notes that the cluster has changed: a pod was bound, or has left."""
        self._progress_s = self._loop.time()
        self._attempts.clear()

    def now_s(self) -> float:
        """Returns virtual seconds."""
        return self._loop.time()

    def call_at(
        self, at_s: float, phase: int, run: Callable[[], None], *, is_background: bool = False
    ) -> None:
        """Runs an action at a time; one of the past runs at once.

        A background action does not keep the simulation running: something that goes on for ever.
        """
        heapq.heappush(self._actions, (at_s, phase, next(self._numbers), run, is_background))
        self._foreground += not is_background

    async def run(
        self, end_s: float = math.inf, on_settled: Callable[[], bool] = lambda: False
    ) -> None:
        """Runs until a time, with what happens then; infinity = until nothing is left to do.

        Args:
            end_s: The time.
            on_settled: Called when nothing is left to do; returns whether it has added something.

        Raises:
            SchedulerError: a pod is retried without end, while nothing else happens.
        """
        while True:
            await self._run_instant()
            next_s = self._next_instant_s()
            is_endless = end_s == math.inf
            if not is_endless and self._loop.time() >= end_s:
                return
            if is_endless and self._is_settled(next_s):
                if not on_settled():
                    return
                self.note_progress()
                continue
            if self._skips_retries and self._foreground and self._is_stalled():
                next_s = self._actions[0][0]
            next_s = min(next_s, end_s)
            if next_s == math.inf or not self._loop.skip_to(next_s):
                await self._wait_until(next_s)

    # -- one instant ------------------------------------------------------------------------------

    async def _run_instant(self) -> None:
        """Runs everything that is due now."""
        queue = self._scheduler.queue
        while not self._is_quiet():
            await self._let_others_work()
        if queue.next_flush_at_s() <= self._loop.time():
            queue.flush()
        while self._may_attempt() and (entry := queue.pop()) is not None:
            self._count_attempt(entry)
            self._scheduler.scheduler.schedule_one(entry)
            while not self._is_quiet():
                await self._let_others_work()

    def _may_attempt(self) -> bool:
        """Returns whether an attempt ends now; begins one if the scheduler has none."""
        if not self._attempt_s:
            return True
        now_s = self._loop.time()
        if not self._scheduler.queue.counts()[QueueName.ACTIVE]:
            self._attempt_ends_s = math.inf
        elif self._attempt_ends_s == math.inf:
            self._attempt_ends_s = now_s + self._attempt_s
        elif now_s >= self._attempt_ends_s:
            self._attempt_ends_s += self._attempt_s
            return True
        return False

    def _count_attempt(self, entry: QueuedPod) -> None:
        """Counts an attempt.

        Raises:
            SchedulerError: the pod has had too many.
        """
        second = int(self._loop.time())
        if second != self._attempts_second:
            self._attempts_second = second
            self._attempts.clear()
        count = self._attempts[entry.uid] = self._attempts.get(entry.uid, 0) + 1
        if count > ATTEMPTS_MAX:
            raise SchedulerError(
                f"pod {entry.pod.key} is retried for ever: {ATTEMPTS_MAX} attempts within a second"
                f" of virtual time, and nothing has changed; {_last_failure(entry)}"
            )

    def _is_quiet(self) -> bool:
        """Runs the actions that are due; returns whether no task and no controller has work."""
        actions, now_s, loop = self._actions, self._loop.time(), self._loop
        while loop.is_idle or not self._scheduler.has_tasks:
            if not actions or actions[0][0] > now_s:
                return self._next_controller() is None
            _, _, _, run, is_background = heapq.heappop(actions)
            self._foreground -= not is_background
            self._attempts.clear()
            run()
        return False

    async def _let_others_work(self) -> None:
        """Runs the tasks until all of them wait, or else gives one controller its turn."""
        if not self._loop.is_idle and self._scheduler.has_tasks:
            await self._loop.until_idle()
        elif (controller := self._next_controller()) is not None:
            await controller.work()

    def _next_controller(self) -> Controller | None:
        """Returns the first controller that has work."""
        for controller in self._controllers:
            if controller.has_work:
                return controller
        return None

    # -- the next instant -------------------------------------------------------------------------

    def _next_instant_s(self) -> float:
        """Returns the time of the next action, attempt or flush; infinity if there is none."""
        action_s = self._actions[0][0] if self._actions else math.inf
        return min(action_s, self._attempt_ends_s, self._next_flush_s())

    def _next_flush_s(self) -> float:
        """Returns when the queue is flushed next: on a whole second, as by a running scheduler."""
        due_s = self._scheduler.queue.next_flush_at_s()
        if due_s == math.inf:
            return due_s
        return math.ceil(due_s / FLUSH_INTERVAL_S - 1e-9) * FLUSH_INTERVAL_S

    def _is_settled(self, next_s: float) -> bool:
        """Returns whether only pods are left that nothing will help."""
        if self._foreground:
            return False
        if self._is_stalled():
            # Also while a pod waits in Permit: the end of each wait may requeue it, for ever.
            return True
        if self._scheduler.has_tasks:
            return False
        pods = [entry for entry in self._scheduler.queue.pods() if entry.queue_name.is_busy]
        return next_s == math.inf or not any(map(_will_be_retried, pods))

    def _is_stalled(self) -> bool:
        return self._loop.time() - self._progress_s > STALLED_S

    async def _wait_until(self, next_s: float) -> None:
        """Lets the time move on to the next instant, or to an earlier timer of a task."""
        timer = None
        if next_s < math.inf:
            timer = self._loop.call_at(next_s, lambda: None)
        await self._loop.until_time_moves()
        if timer is not None:
            timer.cancel()
        await self._loop.until_idle()


def _will_be_retried(entry: QueuedPod) -> bool:
    """Returns whether a pod in a queue is waited for; one that fails for ever is not."""
    return entry.queue_name is not QueueName.BACKOFF or entry.consecutive_errors < ERRORS_MAX


def _last_failure(entry: QueuedPod) -> str:
    """Returns which plugin ended the last attempt of a pod."""
    if entry.rejectors:
        return f"it is rejected by plugin {', '.join(sorted(entry.rejectors))} each time"
    if entry.failing_plugin:
        return f"plugin {entry.failing_plugin} fails each time"
    return "each attempt ends with an error"
