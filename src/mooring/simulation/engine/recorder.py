"""Records a simulation: every attempt with its decision, and what changed before the next one."""

from __future__ import annotations

from typing import Any, NamedTuple

from msgspec.structs import replace

from mooring.client import ObjectChange
from mooring.decision import ERROR, UNSCHEDULABLE, Decision
from mooring.errors import SchedulerError
from mooring.framework import Attempt, Diagnosis, Placement
from mooring.framework.status import Status
from mooring.objects.codec.decode import to_builtins
from mooring.objects.kinds import KINDS
from mooring.objects.meta import key
from mooring.objects.pod import Pod
from mooring.queue import QueuedPod
from mooring.recordings.format import Effects, RecordingWriter, Step
from mooring.scheduler.observer import Observer
from mooring.scheduler.reporting import error_text
from mooring.simulation.outcome import decision_of
from mooring.state import Nominator

#: The kinds whose changes a decision depends on, besides pods.
_RECORDED = frozenset({"Node", "PersistentVolume", "PersistentVolumeClaim", "ResourceClaim"})


class _Attempt(NamedTuple):
    """An attempt that is not written yet."""

    pod: Pod
    number: int
    start_index: int
    decision: Decision


class StepRecorder(Observer):
    """Writes a step for each attempt.

    A step is written when the next attempt begins, or at the end: by then its effects are known.
    What controllers change before the first attempt belongs to the objects of the recording.

    Args:
        writer: Gets the steps.
    """

    def __init__(self, writer: RecordingWriter) -> None:
        self._writer = writer
        self._attempt: _Attempt | None = None
        self._is_first = True
        self._updated: dict[tuple[str, str], Any] = {}
        #: "resource key", as effects have it -> kind and key.
        self._deleted: dict[str, tuple[str, str]] = {}
        #: UID -> start time of the pods that were bound since the last step.
        self._start_times: dict[str, str | None] = {}
        #: Set by the simulation: the nominated pods of its scheduler.
        self.nominator: Nominator | None = None

    def on_change(self, kind: str, change: ObjectChange) -> None:
        """Notes what changed: part of the effects of the last attempt."""
        obj = change.new if change.new is not None else change.old
        if kind == "Pod":
            if change.new is None and obj.spec.node_name:
                self._delete("pods", kind, key(obj))
            elif change.new is not None and change.old is not None and obj.spec.node_name:
                if change.old.spec.node_name:
                    self._updated[kind, key(obj)] = obj
                else:
                    self._start_times[obj.metadata.uid] = obj.status.start_time
        elif kind in _RECORDED:
            if change.new is None:
                self._delete(KINDS[kind].resource, kind, key(obj))
            else:
                self._deleted.pop(f"{KINDS[kind].resource} {key(obj)}", None)
                self._updated[kind, key(obj)] = obj

    def _delete(self, resource: str, kind: str, object_key: str) -> None:
        self._updated.pop((kind, object_key), None)
        self._deleted[f"{resource} {object_key}"] = kind, object_key

    def attempted(self, entry: QueuedPod, attempt: Attempt, result: Placement | Diagnosis) -> None:
        """Builds the decision."""
        self._begin()
        decision = decision_of(attempt, result)
        self._attempt = _Attempt(entry.pod.pod, entry.attempts, attempt.start_index, decision)

    def failed(self, entry: QueuedPod, why: Diagnosis | Status | SchedulerError) -> None:
        """Notes an attempt that failed after its decision, or without one."""
        attempt = self._attempt
        is_same = attempt is not None and attempt.pod.metadata.uid == entry.uid
        if is_same and attempt is not None and attempt.number == entry.attempts:
            if attempt.decision.node is None:
                return
            index = attempt.start_index
        else:
            self._begin()
            index = 0
        pod = entry.pod.pod
        self._attempt = _Attempt(pod, entry.attempts, index, _failed_decision(why))

    def gated(self, pod: Pod, decision: Decision) -> None:
        """Writes a pod that was never scheduled."""
        self._begin()
        self._attempt = _Attempt(pod, 1, 0, decision)
        self.flush()

    def _begin(self) -> None:
        """Writes the last attempt; before the first one, what has changed until now."""
        self.flush()
        if self._is_first and (self._updated or self._deleted):
            updated = map(to_builtins, self._updated.values())
            self._writer.change_objects(updated, self._deleted.values())
            self._updated, self._deleted = {}, {}
        self._is_first = False

    def flush(self) -> None:
        """Writes the last attempt."""
        attempt, self._attempt = self._attempt, None
        if attempt is None:
            return
        decision, pod = attempt.decision, attempt.pod
        if decision.node is None and decision.reason is not None:
            assert self.nominator is not None
            node = self.nominator.node_of(pod.metadata.uid) or ""
            decision = replace(decision, nominated_node_after=node)
        self._writer.add(
            Step(
                to_builtins(pod),
                attempt.number,
                attempt.start_index,
                decision,
                self._effects(attempt),
            )
        )

    def _effects(self, attempt: _Attempt) -> Effects | None:
        updated = tuple(to_builtins(obj) for obj in self._updated.values())
        deleted = tuple(self._deleted)
        self._updated, self._deleted = {}, {}
        start_time = None
        if attempt.decision.node is not None:
            start_time = self._start_times.pop(attempt.pod.metadata.uid, None)
        if not updated and not deleted and start_time is None:
            return None
        return Effects(start_time=start_time, deleted=deleted, updated=updated)


def _failed_decision(why: Diagnosis | Status | SchedulerError) -> Decision:
    """Returns the decision of an attempt that failed with an error, or after its decision."""
    is_error = isinstance(why, SchedulerError)
    diagnosis = why if isinstance(why, Diagnosis) else Diagnosis(0)
    return Decision(
        result=ERROR if is_error else UNSCHEDULABLE,
        node=None,
        tied=(),
        rejected={},
        unschedulable_plugins=tuple(sorted(diagnosis.unschedulable_plugins)),
        pending_plugins=tuple(sorted(diagnosis.pending_plugins)),
        reason="SchedulerError" if is_error else "Unschedulable",
        message=error_text(why) if isinstance(why, SchedulerError) else why.message,
    )
