"""Reports the outcome of attempts as events and conditions, with kube-scheduler's texts.

Nothing here waits: an event recorder and a status writer, each with a bounded queue, write.

Source: pkg/scheduler/schedule_one.go (bindingCycle, finishBinding, handleSchedulingFailure,
skipPodSchedule).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from mooring.client import Recorder
from mooring.errors import ApiError, SchedulerError, encodable
from mooring.framework import Diagnosis
from mooring.framework.status import Status
from mooring.objects.pod import Pod
from mooring.queue import profile_of
from mooring.scheduler.status_writer import StatusUpdate, StatusWriter
from mooring.state import PodInfo

UNSCHEDULABLE: Final = "Unschedulable"
SCHEDULER_ERROR: Final = "SchedulerError"

#: The reason of the event of a pod whose victims could not be evicted.
FAILED_PREEMPTION: Final = "FailedPreemption"

#: The reason of the event of a pod at which a plugin raised again and again.
QUARANTINED: Final = "Quarantined"

#: Longer notes are cut and end in " ...": the API server rejects them in an event.
NOTE_LENGTH_MAX: Final = 1024

#: (pod, node name) -> a text.
ScheduledNote = Callable[[PodInfo, str], str]


class Reporting:
    """Writes the outcome of attempts to the API server.

    Args:
        recorders: SchedulerName -> recorder of its events.
        writer: Writes conditions and nominations.
        notes: SchedulerName -> note of the Scheduled event, if it is not the default.
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
        """Reports a bound pod."""
        self._writer.forget(pod.uid)
        own = self._notes.get(profile_of(pod), _assigned)
        note = own(pod, node_name)
        self._record(pod, "Normal", "Scheduled", "Binding", note)

    def placed(self, pod: PodInfo) -> None:
        """Cancels the pending status update of a pod that is being bound."""
        self._writer.cancel_update(pod.uid)

    async def expected(self, pod: PodInfo, node_name: str) -> bool:
        """Nominates a pod to the node that it will be bound to later.

        Returns True if the nomination may have been stored; a failure does not stop the binding.

        Raises:
            LeaseLost: nothing may be written any more.
        """
        return await self._writer.nominate(pod.pod, node_name)

    def withdraw_nomination(self, pod: Pod) -> bool:
        """Withdraws a nomination that is not written yet. Returns False if there is none."""
        return self._writer.withdraw_nomination(pod)

    def is_nominated(self, pod: Pod) -> bool:
        """Returns whether the newest stored version of the pod is nominated."""
        return self._writer.is_nominated(pod)

    def preempted(self, victim: PodInfo, preemptor: PodInfo, note: str) -> None:
        """Reports the eviction of a victim."""
        recorder = self._recorders[profile_of(preemptor)]
        recorder.record(
            victim.pod,
            type="Normal",
            reason="Preempted",
            action="Preempting",
            note=note,
            related=preemptor.pod,
        )

    def eviction_failed(self, victim: PodInfo, preemptor: PodInfo, error: SchedulerError) -> None:
        """Reports to the preemptor that one of its victims could not be evicted.

        *Differs:* kube-scheduler only logs it. A preemptor whose victim may not be deleted waits
        for ever, and its user cannot read that log.
        """
        note = f"preemption: cannot evict pod {victim.key}: {error_text(error)}"
        self._record(preemptor, "Warning", FAILED_PREEMPTION, "Preempting", _cut(note))

    def reported(self, pod: PodInfo, reason: str, action: str, note: str) -> None:
        """Reports what a plugin says about a pod."""
        self._record(pod, "Normal", reason, action, note)

    def skipped(self, pod: PodInfo) -> None:
        """Reports a pod that is not scheduled because it is being deleted."""
        note = f"skip schedule deleting pod: {pod.key}"
        self._record(pod, "Warning", "FailedScheduling", "Scheduling", note)

    def failed(
        self,
        pod: PodInfo,
        why: Diagnosis | Status | SchedulerError,
        nominated: str | None,
        announced: str | None = None,
        *,
        quarantine_s: float = 0.0,
    ) -> None:
        """Reports a failed attempt.

        Args:
            pod: In its newest version.
            why: The reason.
            nominated: Its new nomination; "" = none, None = unchanged.
            announced: The nomination that ``expected`` wrote, if ``pod`` may be older than that.
            quarantine_s: For how long the pod is quarantined; 0 = not at all.
        """
        message = self._record_failure(pod, why)
        if quarantine_s:
            text = f"quarantined for {quarantine_s:.0f} s, because attempts raise again and again"
            self._record(pod, "Warning", QUARANTINED, "Scheduling", text)
            message = f"{message}; {text}"
        reason = SCHEDULER_ERROR if isinstance(why, SchedulerError) else UNSCHEDULABLE
        self._writer.enqueue(StatusUpdate(pod.pod, reason, message, nominated, announced))

    def failed_for_good(self, pod: PodInfo, why: Diagnosis | Status | SchedulerError) -> None:
        """Reports a failed attempt for a pod that was deleted, or bound by another scheduler.

        It has no condition to be written: it does not exist, or is scheduled.
        """
        self._writer.forget(pod.uid)
        self._record_failure(pod, why)

    def _record_failure(self, pod: PodInfo, why: Diagnosis | Status | SchedulerError) -> str:
        message = encodable(error_text(why) if isinstance(why, SchedulerError) else why.message)
        self._record(pod, "Warning", "FailedScheduling", "Scheduling", _cut(message))
        return message

    def _record(self, pod: PodInfo, kind: str, reason: str, action: str, note: str) -> None:
        recorder = self._recorders[profile_of(pod)]
        recorder.record(pod.pod, type=kind, reason=reason, action=action, note=note)


def _assigned(pod: PodInfo, node_name: str) -> str:
    return f"Successfully assigned {pod.key} to {node_name}"


def error_text(error: SchedulerError) -> str:
    """Returns the message of an error, after its notes; of the API server its own text."""
    message = (isinstance(error, ApiError) and error.server_message) or str(error)
    return ": ".join([*getattr(error, "__notes__", ()), message])


def _cut(message: str) -> str:
    if len(message.encode()) <= NOTE_LENGTH_MAX:
        return message
    suffix = " ..."
    buffered = message.encode()[: NOTE_LENGTH_MAX - len(suffix)].decode("utf-8", "ignore")
    return buffered + suffix
