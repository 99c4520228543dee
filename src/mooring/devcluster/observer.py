"""Progress of a running scheduler, counted from its events, for the view and the summary."""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from mooring.clock import Clock
from mooring.decision import ERROR, GATED, SCHEDULED, UNSCHEDULABLE
from mooring.errors import SchedulerError
from mooring.framework import Attempt, Diagnosis, Placement
from mooring.framework.status import PostFilterResult, Status
from mooring.queue import QueuedPod, QueueName
from mooring.scheduler.observer import Observer
from mooring.scheduler.reporting import error_text
from mooring.simulation.outcome import Outcome
from mooring.simulation.report import OutcomeCounts
from mooring.simulation.utilization import Utilization

#: Number of decisions in the view.
LATEST: Final = 8


class LatestDecision(NamedTuple):
    """A decision for display: monotonic time in seconds, pod, and text."""

    time_s: float
    pod: str
    text: str
    is_bound: bool


class Refusal(NamedTuple):
    """The reason why a pod has no node."""

    result: str
    reasons: tuple[str, ...]
    message: str


class ProgressObserver(Observer):
    """Counts the outcomes of a running scheduler.

    Attributes:
        utilization: Updated with every bound pod.
        refusals: UID -> why the pod has no node; only pods whose last attempt failed.
        bound_uids: UIDs of the bound pods.
        latest: The latest decisions.
        last_s: Time of the last event; monotonic seconds.
    """

    def __init__(self, utilization: Utilization, clock: Clock) -> None:
        self.utilization = utilization
        self.refusals: dict[str, Refusal] = {}
        self.bound_uids: set[str] = set()
        self.latest: deque[LatestDecision] = deque(maxlen=LATEST)
        self.last_s = clock.monotonic_s()
        self.decisions = 0
        #: UIDs of the pods that are nominated to a node whose victims have not left.
        self.waiting: set[str] = set()
        self._evicted: set[str] = set()
        self._clock = clock

    def outcome_counts(self) -> OutcomeCounts:
        """Returns the outcome counts, as ``simulate`` counts them."""
        counts = OutcomeCounts()
        for _ in self.bound_uids:
            counts.add(SCHEDULED, (), "")
        for uid, refusal in self.refusals.items():
            if uid in self.waiting:
                counts.waiting += 1
            else:
                counts.add(*refusal)
        counts.evicted = len(self._evicted)
        return counts

    def waiting_count(self) -> int:
        """Returns the number of pods that wait for their victims."""
        return len(self.waiting)

    def moved(self, entry: QueuedPod, queue_name: QueueName, why: str) -> None:
        """Records gated pods, and drops deleted ones."""
        del why
        if queue_name is QueueName.GATED:
            text = f"gated by {entry.gating_plugin}"
            self.refusals.setdefault(entry.uid, Refusal(GATED, (), text))
        elif queue_name is QueueName.NONE:
            self.refusals.pop(entry.uid, None)
            self.waiting.discard(entry.uid)

    def attempted(self, entry: QueuedPod, attempt: Attempt, result: Placement | Diagnosis) -> None:
        """Counts the decision."""
        del attempt, result
        self.waiting.discard(entry.uid)
        self.decisions += 1
        self.last_s = self._clock.monotonic_s()

    def preempts(self, entry: QueuedPod, post_filter_result: PostFilterResult) -> None:
        """Counts the victims, and notes that the pod waits for them."""
        self.waiting.add(entry.uid)
        for victim in post_filter_result.victims:
            self._evicted.add(victim.uid)
            self.bound_uids.discard(victim.uid)
            self.utilization.remove(victim.key)

    def bound(self, entry: QueuedPod, node_name: str) -> None:
        """Counts the pod on its node."""
        self.refusals.pop(entry.uid, None)
        self.bound_uids.add(entry.uid)
        self.utilization.add(entry.pod.pod, node_name)
        self._note(entry, f"bound to {node_name}", is_bound=True)

    def failed(self, entry: QueuedPod, why: Diagnosis | Status | SchedulerError) -> None:
        """Records why the pod has no node."""
        if isinstance(why, Diagnosis):
            reasons = tuple(Outcome.refused(entry.pod, why, None).reasons)
            refusal = Refusal(UNSCHEDULABLE, reasons, why.message)
        elif isinstance(why, SchedulerError):
            refusal = Refusal(ERROR, (), error_text(why))
        else:
            refusal = Refusal(UNSCHEDULABLE, why.reasons, why.message)
        self.refusals[entry.uid] = refusal
        self._note(entry, refusal.message, is_bound=False)

    def _note(self, entry: QueuedPod, text: str, *, is_bound: bool) -> None:
        self.last_s = self._clock.monotonic_s()
        self.latest.append(LatestDecision(self.last_s, entry.pod.key, text, is_bound))
