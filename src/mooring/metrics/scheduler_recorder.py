"""Records attempts, events, hints and preemptions of all profiles."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import Final

from mooring.metrics.recorders import SchedulerRecorder
from mooring.metrics.series import Registered

#: From so many attempts on, the label of the attempts is the same.
ATTEMPTS_SHOWN: Final = 15


class RecordingScheduler(SchedulerRecorder):
    """Records into the series of the registry.

    Args:
        metrics: Has the series.
        now: Returns monotonic seconds.
    """

    __slots__ = (
        "_after_flush",
        "_algorithm",
        "_attempt_s",
        "_attempts",
        "_claims",
        "_event_children",
        "_events",
        "_hint_children",
        "_hints",
        "_permit",
        "_pod_attempts",
        "_preemption_s",
        "_preemptions",
        "_sli",
        "_victims",
    )

    def __init__(self, metrics: Registered, now: Callable[[], float]) -> None:
        numbers, distributions = metrics.numbers, metrics.distributions
        self.now = now
        self._attempts = numbers("scheduler_schedule_attempts_total")
        self._attempt_s = distributions("scheduler_scheduling_attempt_duration_seconds")
        self._algorithm = distributions("scheduler_scheduling_algorithm_duration_seconds")
        self._pod_attempts = distributions("scheduler_pod_scheduling_attempts")
        self._sli = distributions("scheduler_pod_scheduling_sli_duration_seconds")
        self._after_flush = numbers("scheduler_pod_scheduled_after_flush_total")
        self._permit = distributions("scheduler_permit_wait_duration_seconds")
        self._events = distributions("scheduler_event_handling_duration_seconds")
        self._event_children = self._events.children
        self._hints = distributions("scheduler_queueing_hint_execution_duration_seconds")
        self._hint_children = self._hints.children
        self._claims = numbers("scheduler_resourceclaim_creates_total")
        self._victims = distributions("scheduler_preemption_victims")
        self._preemption_s = distributions("scheduler_preemption_goroutines_duration_seconds")
        self._preemptions = numbers("scheduler_preemption_goroutines_execution_total")

    def algorithm_ended(self, started_s: float) -> None:
        """Records the end of the scheduling algorithm and PostFilter."""
        self._algorithm.children[()].observe(self.now() - started_s)

    def attempt_failed(self, profile: str, started_s: float, *, is_unschedulable: bool) -> None:
        """Records an attempt that found no node, or failed with an error."""
        self._attempt("unschedulable" if is_unschedulable else "error", profile, started_s)

    def pod_bound(
        self,
        profile: str,
        started_s: float,
        *,
        attempts: int,
        first_s: float | None,
        was_flushed: bool,
    ) -> None:
        """Records a bound pod."""
        now_s = self._attempt("scheduled", profile, started_s)
        self._pod_attempts.children[()].observe(attempts)
        if first_s is not None:
            label = str(attempts) if attempts < ATTEMPTS_SHOWN else f"{ATTEMPTS_SHOWN}+"
            self._sli.labels(label).observe(now_s - first_s)
        if was_flushed:
            self._after_flush.labels().value += 1

    def _attempt(self, result: str, profile: str, started_s: float) -> float:
        now_s = self.now()
        self._attempts.labels(result, profile).value += 1
        self._attempt_s.labels(result, profile).observe(now_s - started_s)
        return now_s

    def permit_waited(self, result: str, started_s: float) -> None:
        """Records the end of a wait in Permit."""
        self._permit.labels(result).observe(self.now() - started_s)

    def event_handled(self, event: str, started_s: float) -> None:
        """Records that a watch event has been handled."""
        seconds = self.now() - started_s
        child = self._event_children.get((event,)) or self._events.labels(event)
        child.counts[bisect_left(child.bounds, seconds)] += 1
        child.sum += seconds

    def hint_called(self, plugin: str, event: str, hint: str, started_s: float) -> None:
        """Records a call of a queueing hint."""
        seconds = self.now() - started_s
        key = (plugin, event, hint)
        child = self._hint_children.get(key) or self._hints.labels(*key)
        child.counts[bisect_left(child.bounds, seconds)] += 1
        child.sum += seconds

    def claim_created(self, *, succeeded: bool) -> None:
        """Counts a ResourceClaim for extended resources that was to be created."""
        self._claims.labels("success" if succeeded else "failure").value += 1

    def preemption_started(self, victim_count: int) -> None:
        """Records the number of victims of a preemption."""
        self._victims.children[()].observe(victim_count)

    def preemption_ended(self, started_s: float, *, succeeded: bool) -> None:
        """Records the end of the evictions of a preemption."""
        result = "success" if succeeded else "error"
        self._preemptions.labels(result).value += 1
        self._preemption_s.labels(result).observe(self.now() - started_s)
