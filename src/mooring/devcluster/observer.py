"""What a living scheduler has done so far, counted as it happens: for the view and the summary."""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from mooring.clock import Clock
from mooring.decision import ERROR, GATED, SCHEDULED, UNSCHEDULABLE
from mooring.errors import SchedulerError
from mooring.framework import Attempt, Diagnosis, Placement
from mooring.framework.status import Status
from mooring.queue import QueuedPod, QueueName
from mooring.scheduler.observer import Observer
from mooring.scheduler.reporting import error_text
from mooring.simulation.outcome import Outcome
from mooring.simulation.report import Tally
from mooring.simulation.utilization import Fill

#: Decisions that are remembered for the view.
LATEST: Final = 8


class Latest(NamedTuple):
    """A decision for a person: when (monotonic seconds), about which pod, and what it was."""

    time_s: float
    pod: str
    text: str
    is_bound: bool


class Refusal(NamedTuple):
    """Why a pod has no node."""

    result: str
    reasons: tuple[str, ...]
    message: str


class Tracker(Observer):
    """Counts what happens to pods.

    Attributes:
        fill: Told of every pod that is bound.
        refusals: UID -> why the pod has no node; of pods that wait for something to happen.
        bound: UIDs of the pods that were bound.
        latest: The newest decisions.
        last_s: When something last happened; monotonic seconds.
    """

    def __init__(self, fill: Fill, clock: Clock) -> None:
        self.fill = fill
        self.refusals: dict[str, Refusal] = {}
        self.bound_uids: set[str] = set()
        self.latest: deque[Latest] = deque(maxlen=LATEST)
        self.last_s = clock.monotonic_s()
        self.decisions = 0
        self._clock = clock

    def tally(self) -> Tally:
        """Returns the outcomes as ``simulate`` counts them."""
        tally = Tally()
        for _ in self.bound_uids:
            tally.add(SCHEDULED, (), "")
        for refusal in self.refusals.values():
            tally.add(*refusal)
        return tally

    def moved(self, entry: QueuedPod, queue_name: QueueName, why: str) -> None:
        """Notes pods behind a gate, and pods that are gone."""
        del why
        if queue_name is QueueName.GATED:
            text = f"held back by {entry.gating_plugin}"
            self.refusals.setdefault(entry.uid, Refusal(GATED, (), text))
        elif queue_name is QueueName.NONE:
            self.refusals.pop(entry.uid, None)

    def attempted(self, entry: QueuedPod, attempt: Attempt, result: Placement | Diagnosis) -> None:
        """Counts the decision."""
        del entry, attempt, result
        self.decisions += 1
        self.last_s = self._clock.monotonic_s()

    def bound(self, entry: QueuedPod, node_name: str) -> None:
        """Counts the pod on its node."""
        self.refusals.pop(entry.uid, None)
        self.bound_uids.add(entry.uid)
        self.fill.add(entry.pod.pod, node_name)
        self._note(entry, f"bound to {node_name}", is_bound=True)

    def failed(self, entry: QueuedPod, why: Diagnosis | Status | SchedulerError) -> None:
        """Remembers why it has no node."""
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
        self.latest.append(Latest(self.last_s, entry.pod.key, text, is_bound))
