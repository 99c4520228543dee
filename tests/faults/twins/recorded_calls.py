"""Compares each call of the scheduler's recorder, which metrics are made of, with what happens.

A metric that is wrong breaks nothing else, so no other check sees it. The recorder is replaced by
one that checks the arguments, and passes them on. What an attempt's end must report is known from
the time at which its pod was popped, and from the calls of the observer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from mooring.clock import Clock
from mooring.errors import SchedulerError
from mooring.framework.status import Code, Status
from mooring.metrics.recorders import SchedulerRecorder
from tests.faults.twins.attached_queue import AttachedQueue

_REJECTIONS: Final = (Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING)
_HINTS: Final = ("Queue", "QueueSkip", "Error")
#: The parts of a service that have the recorder.
_OWNERS: Final = ("events", "preemption_executor", "scheduler")


class Popped(NamedTuple):
    """A pod when it was popped last."""

    at_s: float
    attempts: int
    first_s: float | None
    was_flushed: bool


class RecordedCalls(SchedulerRecorder):
    """The recorder of one scheduler.

    Attributes:
        handled: The labels of the events that were handled, until they are compared.

    Args:
        service: Has not begun yet; some of its parts may be missing.
        queue: Follows its queue.
        clock: The scheduler's.
        report: Called with each difference.
    """

    __slots__ = (
        "_abandoned",
        "_ended",
        "_inner",
        "_now_s",
        "_popped",
        "_report",
        "_twin",
        "_waits",
        "handled",
        "preemptions",
    )

    def __init__(
        self, service: Any, queue: AttachedQueue, clock: Clock, report: Callable[[str], None]
    ) -> None:
        super().__init__()
        self.now = self._now_s = clock.monotonic_s
        self.handled: list[str] = []
        #: Running preemptions.
        self.preemptions = 0
        self._report, self._twin = report, queue._twin
        self._popped: dict[int, Popped] = {}
        self._ended: list[tuple[Any, ...]] = []
        self._waits: list[Any] = []
        #: Waits that have ended without a result.
        self._abandoned = 0
        self._inner = SchedulerRecorder()
        owners = [getattr(service, name, None) for name in _OWNERS]
        owners += [service.queue._hints, getattr(owners[-1], "_binding_cycle", None)]
        for owner in owners:
            if owner is not None:
                self._inner, owner._recorder = owner._recorder, self
        self._follow(service.queue, "pop", after=self._on_pop)
        if owners[2] is not None:
            self._follow_attempts(owners[2])

    def _follow(self, owner: Any, name: str, *, after: Callable[..., None]) -> None:
        real = getattr(owner, name)

        def call(*args: Any, **named: Any) -> Any:
            result = real(*args, **named)
            after(result, *args)
            return result

        setattr(owner, name, call)

    def _follow_attempts(self, scheduler: Any) -> None:
        real = scheduler._handle_scheduling_failure

        def fail(entry: Any, reason: Any, **named: Any) -> None:
            self._ended = []
            real(entry, reason, **named)
            self._on_failed(entry, reason)

        scheduler._handle_scheduling_failure = fail
        scheduler._binding_cycle._handle_failure = fail
        self._follow(scheduler._observer, "bound", after=self._on_bound)
        self._follow(scheduler._observer, "waits", after=self._on_wait)

    # -- what happens -----------------------------------------------------------------------------

    def _on_pop(self, entry: Any) -> None:
        twin = self._twin.popped.get(entry.attempt_number) if entry is not None else None
        if twin is not None:
            self._popped[entry.attempt_number] = Popped(
                self._now_s(), twin.attempts, twin.first_active_s, twin.was_flushed
            )

    def _on_failed(self, entry: Any, reason: Any) -> None:
        popped = self._popped.pop(entry.attempt_number, None)
        if popped is None:
            return  # the models differ already
        is_rejection = not isinstance(reason, SchedulerError)
        if isinstance(reason, Status):
            is_rejection = reason.code in _REJECTIONS
        self._compare(entry, [("failed", _profile(entry), popped.at_s, is_rejection)])

    def _on_bound(self, _: None, entry: Any, node_name: str) -> None:
        del node_name
        popped = self._popped.pop(entry.attempt_number, None)
        if popped is not None:
            self._compare(entry, [("bound", _profile(entry), *popped)])

    def _compare(self, entry: Any, expected: list[tuple[Any, ...]]) -> None:
        real, self._ended = self._ended, []
        if real != expected:
            self._report(f"the end of an attempt at {entry.uid} records {real}, not {expected}")

    def _on_wait(self, _: None, entry: Any, node_name: str, waiting: Any) -> None:
        del entry, node_name
        self._waits.append(waiting)

    def abandon(self, uid: str) -> None:
        """Forgets the wait of a pod whose attempt ends by an exception: it may be an error."""
        left = [waiting for waiting in self._waits if waiting.pod.uid != uid]
        self._abandoned += len(self._waits) - len(left)
        self._waits = left

    def _check_start(self, what: str, started_s: float) -> None:
        """Checks the begin of what takes no time on a virtual clock."""
        if started_s != self._now_s():
            self._report(f"{what} began at {started_s}, not {self._now_s()}")

    # -- the calls --------------------------------------------------------------------------------

    def algorithm_ended(self, started_s: float) -> None:
        """Checks a duration."""
        self._inner.algorithm_ended(started_s)

    def attempt_failed(self, profile: str, started_s: float, *, is_unschedulable: bool) -> None:
        """Notes the end of an attempt."""
        self._ended.append(("failed", profile, started_s, is_unschedulable))
        self._inner.attempt_failed(profile, started_s, is_unschedulable=is_unschedulable)

    def pod_bound(self, profile: str, started_s: float, **named: Any) -> None:
        """Notes a bound pod."""
        values = named["attempts"], named["first_s"], named["was_flushed"]
        self._ended = [("bound", profile, started_s, *values)]
        self._inner.pod_bound(profile, started_s, **named)

    def permit_waited(self, result: str, started_s: float) -> None:
        """Checks the result of a wait in Permit."""
        self._inner.permit_waited(result, started_s)
        for waiting in self._waits:
            status = waiting.status
            expected = status.code.value if isinstance(status, Status) else "Success"
            if status is not None and expected == result:
                self._waits.remove(waiting)
                return
        if self._abandoned and result == "Error":
            self._abandoned -= 1
        elif any(waiting.status is not None for waiting in self._waits):
            self._report(f"no wait in Permit has ended with {result}")

    def event_handled(self, event: str, started_s: float) -> None:
        """Notes an event."""
        self._check_start(event, started_s)
        self.handled.append(event)
        self._inner.event_handled(event, started_s)

    def hint_called(self, plugin: str, event: str, hint: str, started_s: float) -> None:
        """Checks a call of a hint."""
        self._check_start(f"the hint of {plugin} for {event}", started_s)
        if hint not in _HINTS:
            self._report(f"the hint of {plugin} for {event} returns {hint}")
        self._inner.hint_called(plugin, event, hint, started_s)

    def claim_created(self, *, succeeded: bool) -> None:
        """Passes on."""
        self._inner.claim_created(succeeded=succeeded)

    def preemption_started(self, victim_count: int) -> None:
        """Counts a preemption."""
        self.preemptions += 1
        self._inner.preemption_started(victim_count)

    def preemption_ended(self, started_s: float, *, succeeded: bool) -> None:
        """Counts the end of a preemption."""
        self.preemptions -= 1
        self._inner.preemption_ended(started_s, succeeded=succeeded)


def _profile(entry: Any) -> str:
    return entry.pod.spec.scheduler_name or "default-scheduler"
