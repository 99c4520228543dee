"""What the API server is told of attempts: events and conditions, with kube-scheduler's words.

Nothing here waits: a recorder and a writer take it from here, each with a bounded queue.

Source: pkg/scheduler/schedule_one.go (bindingCycle, finishBinding, handleSchedulingFailure,
skipPodSchedule).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from mooring.client import Recorder
from mooring.errors import SchedulerError
from mooring.framework import Diagnosis
from mooring.framework.status import Status
from mooring.queue import profile_of
from mooring.scheduler.status_writer import StatusUpdate, StatusWriter
from mooring.state import PodInfo

UNSCHEDULABLE: Final = "Unschedulable"
SCHEDULER_ERROR: Final = "SchedulerError"

#: Longer texts end in " ...": the API server takes no more in an event.
NOTE_LENGTH_MAX: Final = 1024

#: (pod, node name) -> a text.
ScheduledNote = Callable[[PodInfo, str], str]


class Reporting:
    """Tells what became of a pod.

    Args:
        recorders: SchedulerName -> who writes its events.
        writer: Writes conditions and nominations.
        notes: SchedulerName -> what the event Scheduled of its pods says, if not the usual.
    """

    def __init__(
        self,
        recorders: Mapping[str, Recorder],
        writer: StatusWriter,
        notes: Mapping[str, ScheduledNote] | None = None,
    ) -> None:
        self._recorders = recorders
        self._writer = writer
        self._notes = notes or {}

    def bound(self, pod: PodInfo, node_name: str) -> None:
        """The pod is bound."""
        own = self._notes.get(profile_of(pod), _assigned)
        note = own(pod, node_name)
        self._record(pod, "Normal", "Scheduled", "Binding", note)

    def placed(self, pod: PodInfo) -> None:
        """The pod is on its way to a node: what was said of earlier attempts is out of date."""
        self._writer.cancel_update(pod.uid)

    async def expected(self, pod: PodInfo, node_name: str) -> bool:
        """The pod will be bound, but not at once: its nomination says where it goes.

        Returns whether that stands there now, as far as is known; if not, that stops nobody.

        Raises:
            LeaseLost: nothing may be written any more.
        """
        return await self._writer.nominate(pod.pod, node_name)

    def preempted(self, victim: PodInfo, preemptor: PodInfo, note: str) -> None:
        """A pod leaves its node to make room for another one."""
        recorder = self._recorders[profile_of(preemptor)]
        recorder.record(
            victim.pod,
            type="Normal",
            reason="Preempted",
            action="Preempting",
            note=note,
            related=preemptor.pod,
        )

    def skipped(self, pod: PodInfo) -> None:
        """The pod is being deleted, so it is not placed."""
        note = f"skip schedule deleting pod: {pod.key}"
        self._record(pod, "Warning", "FailedScheduling", "Scheduling", note)

    def failed(
        self,
        pod: PodInfo,
        why: Diagnosis | Status | SchedulerError,
        nominated: str | None,
        announced: str | None = None,
    ) -> None:
        """The pod has no node.

        Args:
            pod: In its newest version.
            why: Why.
            nominated: What its nomination becomes; "" = none any more, None = as it was.
            announced: The nomination that ``expected`` wrote, if the pod may not show it yet.
        """
        message = error_text(why) if isinstance(why, SchedulerError) else why.message
        reason = SCHEDULER_ERROR if isinstance(why, SchedulerError) else UNSCHEDULABLE
        self._record(pod, "Warning", "FailedScheduling", "Scheduling", _cut(message))
        self._writer.enqueue(StatusUpdate(pod.pod, reason, message, nominated, announced))

    def _record(self, pod: PodInfo, kind: str, reason: str, action: str, note: str) -> None:
        recorder = self._recorders[profile_of(pod)]
        recorder.record(pod.pod, type=kind, reason=reason, action=action, note=note)


def _assigned(pod: PodInfo, node_name: str) -> str:
    return f"Successfully assigned {pod.key} to {node_name}"


def error_text(error: SchedulerError) -> str:
    """Returns an error in words; first who met it, if that was noted."""
    return ": ".join([*getattr(error, "__notes__", ()), str(error)])


def _cut(message: str) -> str:
    if len(message.encode()) <= NOTE_LENGTH_MAX:
        return message
    suffix = " ..."
    buffered = message.encode()[: NOTE_LENGTH_MAX - len(suffix)].decode("utf-8", "ignore")
    return buffered + suffix
