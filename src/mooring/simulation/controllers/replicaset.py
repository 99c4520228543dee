"""The ReplicaSet controller: as many pods of a template as the spec says.

It is the controller of ReplicationControllers too, their older form.

Source: pkg/controller/replicaset/replica_set.go, replica_set_utils.go;
pkg/controller/replication/conversion.go.
Differs: pods are created in one go, not in batches of growing size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mooring.clock import rfc3339
from mooring.objects.pod import FINISHED_PHASES
from mooring.simulation.controllers.objects import (
    Json,
    Result,
    Turn,
    Workload,
    Write,
    status_write,
)
from mooring.simulation.controllers.workload_pods import (
    available_in_s,
    claim_pods,
    delete_pod,
    first_to_delete,
    generated_pod_name,
    is_active,
    is_ready,
    new_pod,
    next_available_s,
    related_pods,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mooring.objects.pod import Pod
    from mooring.simulation.controllers.cluster import ControlledObjects

#: Writes of one turn; the next turn does the rest.
BURST: Final = 500
REPLICA_FAILURE: Final = "ReplicaFailure"
#: The field of the status in which zero is a value.
TERMINATING: Final = "terminatingReplicas"


def sync_replica_set(workload: Workload, cluster: ControlledObjects, turn: Turn) -> Result:
    """Returns the writes that bring a ReplicaSet or ReplicationController closer to its spec."""
    pods, writes = claim_pods(workload, cluster)
    active = [pod for pod in pods if is_active(pod)]
    if not workload.is_deleted:
        writes += _scale(workload, active, cluster, turn)
    terminating = sum(
        pod.metadata.deletion_timestamp is not None and pod.status.phase not in FINISHED_PHASES
        for pod in pods
    )
    status = _status(workload, active, terminating, turn)
    writes += status_write(workload, status, pointers=(TERMINATING,))
    return Result(writes, next_available_s(active, workload.min_ready_s, turn.now_s))


def _scale(
    workload: Workload, active: Sequence[Pod], cluster: ControlledObjects, turn: Turn
) -> list[Write]:
    missing = workload.replicas - len(active)
    if missing < 0:
        related = related_pods(workload, cluster)
        count = min(-missing, BURST)
        return [delete_pod(pod) for pod in first_to_delete(active, related, count, turn.now_s)]
    namespace, base = workload.metadata.namespace, f"{workload.metadata.name}-"
    names: list[str] = []
    for _ in range(min(missing, BURST)):
        name = generated_pod_name(base, turn.suffix, names)
        while f"{namespace}/{name}" in cluster.pods:
            name = generated_pod_name(base, turn.suffix, names)
        names.append(name)
    return [new_pod(workload, name, generated_from=base) for name in names]


def _status(workload: Workload, active: Sequence[Pod], terminating: int, turn: Turn) -> Json:
    template = workload.spec["template"].get("metadata", {}).get("labels") or {}
    ready = [pod for pod in active if is_ready(pod)]
    waits = [available_in_s(pod, workload.min_ready_s, turn.now_s) for pod in ready]
    status = {
        **workload.status,
        "replicas": len(active),
        "fullyLabeledReplicas": sum(
            template.items() <= pod.metadata.labels.items() for pod in active
        ),
        "readyReplicas": len(ready),
        "availableReplicas": sum(wait == 0 for wait in waits),
        "observedGeneration": workload.metadata.generation,
        "conditions": _conditions(workload, len(active), turn),
    }
    if workload.kind == "ReplicaSet":
        status[TERMINATING] = terminating
    return status


def _conditions(workload: Workload, active: int, turn: Turn) -> list[Json]:
    """Returns the conditions: one, if a pod could not be created or deleted."""
    conditions: list[Json] = list(workload.status.get("conditions") or ())
    if turn.failure and not any(item["type"] == REPLICA_FAILURE for item in conditions):
        reason = "FailedCreate" if active < workload.replicas else "FailedDelete"
        conditions.append(
            {
                "type": REPLICA_FAILURE,
                "status": "True",
                "lastTransitionTime": rfc3339(turn.now_s),
                "reason": reason,
                "message": turn.failure,
            }
        )
    elif not turn.failure:
        conditions = [item for item in conditions if item["type"] != REPLICA_FAILURE]
    return conditions
