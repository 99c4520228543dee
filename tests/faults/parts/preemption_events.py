"""The events of preemptions: of the preemptor's scheduler, whatever scheduler a victim has.

Source: pkg/scheduler/framework/preemption/executor.go (the event and the message of a victim).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any, Final

from mooring.clock import seeded_random
from mooring.errors import SchedulerError
from mooring.objects.pod import Pod
from mooring.scheduler.reporting import Reporting
from mooring.state import PodInfo

#: The schedulers whose profiles there are.
SCHEDULERS: Final = ("default-scheduler", "second")


#: So many of the nominations that the informer does not have are still to be written.
UNWRITTEN_SHARE: Final = 0.6


class PreemptionEvents(Reporting):
    """Reports as the scheduler does, and checks each event.

    Args:
        seed: Of the run; the schedulers of pods are drawn apart.
        node: On which all victims are.
        on_report: Called with each victim and what is reported.
        report: Called with each problem.
        cancelled: UIDs of the victims whose attempt was cancelled.
    """

    def __init__(
        self,
        seed: int,
        node: str,
        on_report: Callable[[PodInfo, str], None],
        report: Callable[[str], None],
        cancelled: Collection[str],
    ) -> None:
        recorders: Any = {
            name: SimpleNamespace(record=partial(self._record_by, name)) for name in SCHEDULERS
        }
        unused: Any = None
        super().__init__(recorders, unused)
        self._rng, self._node = seeded_random(seed + 2), node
        self._on_report, self._report = on_report, report
        self._expected: tuple[Any, ...] = ()
        self._cancelled = cancelled
        self._late = seeded_random(seed + 3)
        #: UIDs of the nominated pods whose nomination is not written yet, and of those withdrawn.
        self._unwritten: set[str] = set()
        self.withdrawn: list[str] = []
        #: UID of a victim -> the message of its condition.
        self._messages: dict[str, str] = {}

    def scheduler(self) -> str:
        """Returns the scheduler of a new pod."""
        return self._rng.choice(SCHEDULERS)

    def note_nominated(self, pod: Pod) -> None:
        """Draws whether a nomination that is not in the pod's status is still to be written."""
        if not pod.status.nominated_node_name and self._late.random() < UNWRITTEN_SHARE:
            self._unwritten.add(pod.metadata.uid)

    def unwritten(self, pods: Sequence[PodInfo]) -> list[str]:
        """Returns the UIDs of those of the pods whose nomination has to be withdrawn."""
        return [info.uid for info in pods if info.uid in self._unwritten]

    def check_withdrawn(self, uids: Sequence[str], live: Collection[str], nominator: Any) -> None:
        """Checks that these nominations of pods that live were withdrawn, also in memory."""
        for uid in uids:
            is_withdrawn = uid in self.withdrawn
            if (uid in live and not is_withdrawn) or (is_withdrawn and nominator.node_of(uid)):
                self._report(f"the nomination of {uid} is not withdrawn")

    def withdraw_nomination(self, pod: Pod) -> bool:
        """Withdraws a nomination that is not written yet."""
        uid = pod.metadata.uid
        if uid not in self._unwritten:
            return False
        self._unwritten.remove(uid)
        self.withdrawn.append(uid)
        return True

    def is_nominated(self, pod: Pod) -> bool:
        """Returns whether a pod is nominated: no version is newer than the informer's."""
        return bool(pod.status.nominated_node_name)

    def note_message(self, victim: Pod, message: str) -> None:
        """Notes the message of the condition of a victim, until its preemptor is known."""
        self._messages[victim.metadata.uid] = message

    def preempted(self, victim: PodInfo, preemptor: PodInfo, note: str) -> None:
        """Reports the eviction of a victim."""
        self._on_report(victim, "preempted")
        text = f"Preempted by pod {preemptor.uid} on node {self._node}"
        if victim.uid in self._cancelled:
            text += " (in kube-scheduler memory)."
        what = "Normal", "Preempted", text, preemptor.uid
        self._expected = preemptor.spec.scheduler_name, victim.uid, *what
        super().preempted(victim, preemptor, note)
        self._check_recorded(victim, preemptor)

    def eviction_failed(self, victim: PodInfo, preemptor: PodInfo, error: SchedulerError) -> None:
        """Reports a failed eviction."""
        self._on_report(victim, "failed")
        text = f"preemption: cannot evict pod {victim.key}: {error}"
        what = "Warning", "FailedPreemption", text, ""
        self._expected = preemptor.spec.scheduler_name, preemptor.uid, *what
        super().eviction_failed(victim, preemptor, error)
        self._check_recorded(victim, preemptor)

    def _record_by(
        self,
        scheduler: str,
        pod: Pod,
        *,
        type: str,  # noqa: A002 - as the recorder's
        reason: str,
        action: str,
        note: str,
        related: Pod | None = None,
    ) -> None:
        uid = related.metadata.uid if related is not None else ""
        recorded = scheduler, pod.metadata.uid, type, reason, note, uid
        if recorded != self._expected or action != "Preempting":
            self._report(f"the event {recorded}, {action}, should be {self._expected}")
        self._expected = ()

    def _check_recorded(self, victim: PodInfo, preemptor: PodInfo) -> None:
        name = preemptor.spec.scheduler_name
        expected = f"{name}: preempting to accommodate a higher priority pod"
        if self._messages.pop(victim.uid, expected) != expected:
            self._report(f"{victim.key} is evicted with another message than {expected!r}")
        if self._expected:
            self._report(f"{victim.key} has no event of its eviction")
