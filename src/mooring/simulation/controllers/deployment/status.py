"""The status of a Deployment: counts, and the conditions Available and Progressing.

Source: pkg/controller/deployment/{sync,progress}.go, util/deployment_util.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mooring.clock import rfc3339
from mooring.simulation.controllers.deployment.limits import max_unavailable
from mooring.simulation.controllers.objects import Json, Workload
from mooring.simulation.controllers.workload_pods import seconds_of

AVAILABLE: Final = "Available"
PROGRESSING: Final = "Progressing"
REPLICA_FAILURE: Final = "ReplicaFailure"
#: The field of the status in which zero is a value.
TERMINATING: Final = "terminatingReplicas"
#: The Progressing condition's reason when a rollout is complete, and when it has timed out.
COMPLETE: Final = "NewReplicaSetAvailable"
TIMED_OUT: Final = "ProgressDeadlineExceeded"
PAUSED: Final = "DeploymentPaused"
#: ``progressDeadlineSeconds`` with this value is no deadline.
_NO_DEADLINE: Final = 2**31 - 1


class Conditions:
    """The conditions of a Deployment in one turn.

    Attributes:
        deadline_s: ``progressDeadlineSeconds``; None = none.
    """

    def __init__(self, deployment: Workload, now_s: float) -> None:
        self._list: list[Json] = list(deployment.status.get("conditions") or ())
        self.now_s = now_s
        deadline = deployment.spec.get("progressDeadlineSeconds")
        self.deadline_s: int | None = None if deadline == _NO_DEADLINE else deadline

    def get(self, kind: str) -> Json | None:
        """Returns a condition, or None."""
        return next((item for item in self._list if item["type"] == kind), None)

    def remove(self, kind: str) -> None:
        """Removes a condition."""
        self._list = [item for item in self._list if item["type"] != kind]

    def put(self, kind: str, status: str, reason: str, message: str) -> None:
        """Sets a condition, unless it has this status and this reason already."""
        present = self.get(kind)
        if present is None or (present["status"], present["reason"]) != (status, reason):
            self.renew(kind, status, reason, message)

    def renew(self, kind: str, status: str, reason: str, message: str) -> None:
        """Sets a condition with a new update time; the transition time is that of its status."""
        present = self.get(kind)
        now = rfc3339(self.now_s)
        since = present["lastTransitionTime"] if present and present["status"] == status else now
        self.remove(kind)
        self._list.append(
            {
                "type": kind,
                "status": status,
                "lastUpdateTime": now,
                "lastTransitionTime": since,
                "reason": reason,
                "message": message,
            }
        )

    def sorted(self) -> list[Json]:
        """Returns the conditions."""
        return self._list

    # -- events of a rollout ----------------------------------------------------------------------

    def note_pause(self, *, is_paused: bool) -> None:
        """Notes that the Deployment was paused or resumed."""
        present = self.get(PROGRESSING)
        reason = "" if present is None else present["reason"]
        if self.deadline_s is None or reason == TIMED_OUT:
            return
        if is_paused and reason != PAUSED:
            self.put(PROGRESSING, "Unknown", PAUSED, "Deployment is paused")
        elif not is_paused and reason == PAUSED:
            self.put(PROGRESSING, "Unknown", "DeploymentResumed", "Deployment is resumed")

    def note_found(self, replica_set: Workload) -> None:
        """Notes that there is a ReplicaSet for the template."""
        if self.deadline_s is not None and self.get(PROGRESSING) is None:
            text = f'Found new replica set "{replica_set.metadata.name}"'
            self.put(PROGRESSING, "True", "FoundNewReplicaSet", text)

    def note_created(self, replica_set: Workload) -> None:
        """Notes that a ReplicaSet was created for the template."""
        if self.deadline_s is not None:
            text = f'Created new replica set "{replica_set.metadata.name}"'
            self.put(PROGRESSING, "True", "NewReplicaSetCreated", text)


def rollout_status(
    deployment: Workload,
    sets: Sequence[Workload],
    new: Workload | None,
    conditions: Conditions,
    *,
    is_rollout: bool,
) -> tuple[Json, float | None]:
    """Returns the new status, and in how many seconds the deadline must be checked.

    Args:
        deployment: The Deployment.
        sets: All its ReplicaSets.
        new: That of its template.
        conditions: They are changed.
        is_rollout: False = it was scaled or is paused, so progress is not measured.
    """
    status = _counts(deployment, sets, new)
    least = deployment.replicas - max_unavailable(deployment)
    if status["availableReplicas"] >= least:
        text = "Deployment has minimum availability."
        conditions.put(AVAILABLE, "True", "MinimumReplicasAvailable", text)
    else:
        text = "Deployment does not have minimum availability."
        conditions.put(AVAILABLE, "False", "MinimumReplicasUnavailable", text)
    again_s = None
    if is_rollout:
        again_s = _measure_progress(deployment, status, new, conditions)
        _copy_failure(sets, new, conditions)
    status["conditions"] = conditions.sorted()
    return status, again_s


def _counts(deployment: Workload, sets: Sequence[Workload], new: Workload | None) -> Json:
    def total(name: str) -> int:
        return sum(item.status.get(name, 0) for item in sets)

    available = total("availableReplicas")
    return {
        "observedGeneration": deployment.metadata.generation,
        "replicas": total("replicas"),
        "updatedReplicas": 0 if new is None else new.status.get("replicas", 0),
        "readyReplicas": total("readyReplicas"),
        "availableReplicas": available,
        "unavailableReplicas": max(0, sum(item.replicas for item in sets) - available),
        TERMINATING: _terminating(sets),
        "collisionCount": deployment.status.get("collisionCount"),
    }


def _terminating(sets: Sequence[Workload]) -> int | None:
    """Returns the number of terminating pods; None = a ReplicaSet does not say how many it has."""
    synced = [item for item in sets if item.status.get("observedGeneration")]
    counts = [item.status.get(TERMINATING) for item in synced]
    return None if None in counts else sum(count for count in counts if count)


def _measure_progress(
    deployment: Workload, status: Json, new: Workload | None, conditions: Conditions
) -> float | None:
    """Sets the Progressing condition; returns in how many seconds it may time out."""
    if conditions.deadline_s is None:
        conditions.remove(PROGRESSING)
        return None
    present = conditions.get(PROGRESSING)
    if status["replicas"] == status["updatedReplicas"] and _reason(present) == COMPLETE:
        return None
    name = f'Deployment "{deployment.metadata.name}"'
    if new is not None:
        name = f'ReplicaSet "{new.metadata.name}"'
    if is_complete(deployment, status):
        conditions.put(PROGRESSING, "True", COMPLETE, f"{name} has successfully progressed.")
        return None
    if _has_progressed(deployment.status, status):
        text = f"{name} is progressing."
        conditions.renew(PROGRESSING, "True", "ReplicaSetUpdated", text)
    present = conditions.get(PROGRESSING)
    if present is None or _reason(present) in (COMPLETE, TIMED_OUT):
        return None
    left_s = seconds_of(present["lastUpdateTime"]) + conditions.deadline_s - conditions.now_s
    if left_s >= 0:
        return left_s + 1.0
    conditions.put(PROGRESSING, "False", TIMED_OUT, f"{name} has timed out progressing.")
    return None


def is_complete(deployment: Workload, status: Json) -> bool:
    """Returns whether all replicas are new and available, and no old one is left."""
    counts = ("updatedReplicas", "replicas", "availableReplicas")
    return all(status.get(name, 0) == deployment.replicas for name in counts)


def _has_progressed(old: Json, new: Json) -> bool:
    def count(status: Json, name: str) -> int:
        return int(status.get(name) or 0)

    if any(count(new, name) > count(old, name) for name in _GROWING):
        return True
    old_ones = [count(item, "replicas") - count(item, "updatedReplicas") for item in (old, new)]
    return old_ones[1] < old_ones[0]


_GROWING: Final = ("updatedReplicas", "readyReplicas", "availableReplicas")


def _reason(condition: Json | None) -> str:
    return "" if condition is None else str(condition["reason"])


def _copy_failure(sets: Sequence[Workload], new: Workload | None, conditions: Conditions) -> None:
    """Copies the failure of a ReplicaSet, that of the new one first."""
    for replica_set in [*([new] if new is not None else []), *sets]:
        for item in replica_set.status.get("conditions") or ():
            if item["type"] == REPLICA_FAILURE:
                conditions.put(
                    REPLICA_FAILURE, item["status"], item["reason"], item.get("message", "")
                )
                return
    conditions.remove(REPLICA_FAILURE)
