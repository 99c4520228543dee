"""Validation of the statuses of workloads, with kube-apiserver's messages.

Source: pkg/apis/apps/validation/validation.go (ValidateStatefulSetStatus, validateDaemonSetStatus,
ValidateDeploymentStatus, ValidateReplicaSetStatus), pkg/apis/core/validation/validation.go
(ValidateReplicationControllerStatus).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from mooring.apiserver.errors import Errors, invalid
from mooring.apiserver.validation.rules import not_negative

if TYPE_CHECKING:
    from mooring.apiserver.types import Object

_COLLISIONS: Final = "collisionCount"


class Counts(NamedTuple):
    """The counts in the status of a kind, in the order of their checks.

    Attributes:
        not_negative: Those that may not be negative.
        parts: Those that may not exceed the replicas.
        ready: What the message calls the ready replicas, which available ones may not exceed.
        may_decrease: False if the count of collisions may not decrease.
    """

    not_negative: tuple[str, ...]
    parts: tuple[str, ...] = ()
    ready: str = "readyReplicas"
    may_decrease: bool = False


_REPLICAS: Final = ("replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas")
_REPLICA_PARTS: Final = ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")
_COUNTS: Final = {
    "ReplicationController": Counts(
        (*_REPLICAS, "observedGeneration"), _REPLICA_PARTS, may_decrease=True
    ),
    "ReplicaSet": Counts(
        (*_REPLICAS, "observedGeneration", "terminatingReplicas"),
        _REPLICA_PARTS,
        may_decrease=True,
    ),
    "Deployment": Counts(
        (
            *("observedGeneration", "replicas", "updatedReplicas", "readyReplicas"),
            *("availableReplicas", "unavailableReplicas", "terminatingReplicas", _COLLISIONS),
        ),
        ("updatedReplicas", "readyReplicas", "availableReplicas"),
    ),
    "StatefulSet": Counts(
        (
            *("replicas", "readyReplicas", "currentReplicas", "updatedReplicas"),
            *("availableReplicas", "observedGeneration", _COLLISIONS),
        ),
        ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"),
        ready="status.readyReplicas",
    ),
    "DaemonSet": Counts(
        (
            *("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled"),
            *("numberReady", "observedGeneration", "updatedNumberScheduled"),
            *("numberAvailable", "numberUnavailable", _COLLISIONS),
        ),
    ),
}


def validate_workload_status(new: Object, old: Object) -> Errors:
    """Validates a changed status of a workload."""
    counts, status = _COUNTS[new["kind"]], new.get("status") or {}
    yield from not_negative(status, "status", *counts.not_negative)
    replicas, available = status.get("replicas", 0), status.get("availableReplicas", 0)
    for name in counts.parts:
        if (count := status.get(name, 0)) > replicas:
            yield invalid(f"status.{name}", count, "cannot be greater than status.replicas")
    if counts.parts and available > status.get("readyReplicas", 0):
        problem = f"cannot be greater than {counts.ready}"
        yield invalid("status.availableReplicas", available, problem)
    if not counts.may_decrease:
        yield from _validate_collisions(status, old.get("status") or {})


def _validate_collisions(status: Object, before: Object) -> Errors:
    count, earlier = status.get(_COLLISIONS), before.get(_COLLISIONS)
    if earlier is not None and (count is None or count < earlier):
        yield invalid(f"status.{_COLLISIONS}", count or 0, "cannot be decremented")
