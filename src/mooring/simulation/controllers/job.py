"""The Job controller: pods until enough of them have succeeded.

Simulated pods run until something ends them, so a Job keeps its parallelism of running pods.

Source: pkg/controller/job/job_controller.go, indexed_job_utils.go.
Differs: pods get no finalizer, so a finished pod counts while it exists, and as long as the status
has counted it; failed pods are replaced without backoff; ``podFailurePolicy``, ``successPolicy``,
``backoffLimitPerIndex``, ``activeDeadlineSeconds`` and ``ttlSecondsAfterFinished`` are not read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final

from mooring.clock import rfc3339
from mooring.simulation.controllers.objects import (
    Create,
    Json,
    Result,
    Turn,
    Workload,
    Write,
    status_write,
)
from mooring.simulation.controllers.workload_pods import (
    claim_pods,
    delete_pod,
    first_to_delete,
    generated_pod_name,
    is_active,
    is_ready,
    new_pod,
)

if TYPE_CHECKING:
    from mooring.objects.pod import Pod
    from mooring.simulation.controllers.cluster import ControlledObjects

INDEX: Final = "batch.kubernetes.io/job-completion-index"
NAME_LABELS: Final = ("job-name", "batch.kubernetes.io/job-name")
UID_LABELS: Final = ("controller-uid", "batch.kubernetes.io/controller-uid")
#: Pods created or deleted in one turn.
BURST: Final = 500


def sync_job(workload: Workload, cluster: ControlledObjects, turn: Turn) -> Result:
    """Returns the writes of the next step of a Job."""
    if any(item["status"] == "True" for item in _ends(workload.status)):
        return Result([])
    pods, writes = claim_pods(workload, cluster, adopts=bool(workload.spec.get("selector")))
    step = _Step(workload, pods)
    if not workload.is_deleted:
        writes += step.writes(cluster, turn)
    writes += status_write(workload, step.status(turn))
    return Result(writes)


def _ends(status: Json) -> list[Json]:
    kinds = ("Complete", "Failed")
    return [item for item in status.get("conditions") or () if item["type"] in kinds]


class _Step:
    """One turn of a Job."""

    def __init__(self, workload: Workload, pods: Sequence[Pod]) -> None:
        self._workload = workload
        spec, status = workload.spec, workload.status
        self._active = [pod for pod in pods if is_active(pod)]
        ended = {
            phase: [pod for pod in pods if pod.status.phase == phase]
            for phase in ("Succeeded", "Failed")
        }
        self._is_indexed = spec.get("completionMode") == "Indexed"
        self._indexes = indexes_of(status.get("completedIndexes", ""))
        self._indexes |= {index_of(pod) for pod in ended["Succeeded"]} - {-1}
        succeeded = len(self._indexes) if self._is_indexed else len(ended["Succeeded"])
        self._succeeded = max(succeeded, int(status.get("succeeded") or 0))
        self._failed = max(len(ended["Failed"]), int(status.get("failed") or 0))
        self._completions: int | None = spec.get("completions")
        self._has_failed = self._failed > int(spec.get("backoffLimit", 6))
        self._is_suspended = bool(spec.get("suspend"))

    @property
    def _is_complete(self) -> bool:
        if self._completions is not None:
            return self._succeeded >= self._completions
        return self._succeeded > 0 and not self._active

    def writes(self, cluster: ControlledObjects, turn: Turn) -> list[Write]:
        """Returns the pods to create or to delete."""
        desired = self._desired()
        excess = len(self._active) - desired
        if excess > 0:
            ended = first_to_delete(self._active, self._active, min(excess, BURST), turn.now_s)
            return [delete_pod(pod) for pod in ended]
        missing = min(-excess, BURST)
        if not self._is_indexed:
            return self._creations([None] * missing, cluster, turn)
        taken = self._indexes | {index_of(pod) for pod in self._active}
        free = (index for index in range(self._completions or 0) if index not in taken)
        return self._creations(list(islice(free, missing)), cluster, turn)

    def _desired(self) -> int:
        """Returns how many pods should be active."""
        if self._is_suspended or self._has_failed:
            return 0
        parallelism = int(self._workload.spec.get("parallelism", 1))
        if self._completions is None:
            return len(self._active) if self._succeeded else parallelism
        return max(0, min(parallelism, self._completions - self._succeeded))

    def _creations(
        self, indexes: Iterable[int | None], cluster: ControlledObjects, turn: Turn
    ) -> list[Write]:
        workload, writes, names = self._workload, list[Write](), set[str]()
        metadata = workload.metadata
        for index in indexes:
            base = f"{metadata.name}-" if index is None else f"{metadata.name}-{index}-"
            name = generated_pod_name(base, turn.suffix, names)
            while f"{metadata.namespace}/{name}" in cluster.pods:
                name = generated_pod_name(base, turn.suffix, names)
            names.add(name)
            create = new_pod(workload, name)
            _identify(create, workload, index)
            writes.append(create)
        return writes

    def status(self, turn: Turn) -> Json:
        """Returns the status."""
        old, now = self._workload.status, rfc3339(turn.now_s)
        status: Json = {
            **old,
            "active": len(self._active),
            "ready": sum(map(is_ready, self._active)),
            "succeeded": self._succeeded,
            "failed": self._failed,
        }
        if not self._is_suspended:
            status["startTime"] = old.get("startTime") or now
        if self._is_indexed:
            status["completedIndexes"] = indexes_text(self._indexes)
        if self._has_failed:
            text = "Job has reached the specified backoff limit"
            _end(status, ("FailureTarget", "Failed"), "BackoffLimitExceeded", text, now)
            status |= {"active": 0, "ready": 0}
        elif self._is_complete:
            text = "Reached expected number of succeeded pods"
            _end(status, ("SuccessCriteriaMet", "Complete"), "CompletionsReached", text, now)
            status |= {"active": 0, "ready": 0, "completionTime": now}
        return status


def _end(status: Json, kinds: Sequence[str], reason: str, message: str, now: str) -> None:
    added = [
        {
            "type": kind,
            "status": "True",
            "lastProbeTime": now,
            "lastTransitionTime": now,
            "reason": reason,
            "message": message,
        }
        for kind in kinds
    ]
    status["conditions"] = [*(status.get("conditions") or ()), *added]


def _identify(create: Create, workload: Workload, index: int | None) -> None:
    """Gives a pod the labels of its Job, and its index."""
    metadata = create.manifest["metadata"]
    labels = metadata.setdefault("labels", {})
    for label in NAME_LABELS:
        labels.setdefault(label, workload.metadata.name)
    for label in UID_LABELS:
        labels.setdefault(label, workload.metadata.uid)
    if index is None:
        return
    labels[INDEX] = str(index)
    metadata.setdefault("annotations", {})[INDEX] = str(index)
    spec = create.manifest["spec"]
    spec["hostname"] = f"{workload.metadata.name}-{index}"
    source = {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}}
    for container in [*spec.get("initContainers", ()), *spec["containers"]]:
        present = container.get("env") or []
        if not any(item["name"] == "JOB_COMPLETION_INDEX" for item in present):
            entry = {"name": "JOB_COMPLETION_INDEX", "valueFrom": source}
            container["env"] = [*present, entry]


def index_of(pod: Pod) -> int:
    """Returns the completion index of a pod; -1 = it has none."""
    text = pod.metadata.annotations.get(INDEX, "")
    return int(text) if text.isascii() and text.isdigit() else -1


def indexes_of(text: str) -> set[int]:
    """Returns the indexes of a text such as "0-2,5"."""
    indexes: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        indexes |= set(range(int(first), int(last or first) + 1))
    return indexes


def indexes_text(indexes: Iterable[int]) -> str:
    """Returns indexes as a text such as "0-2,5"."""
    parts: list[list[int]] = []
    for index in sorted(indexes):
        if parts and parts[-1][-1] == index - 1:
            parts[-1][1:] = [index]
        else:
            parts.append([index])
    return ",".join("-".join(map(str, part)) for part in parts)
