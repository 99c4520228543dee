"""The Job controller: pods until enough of them have succeeded.

Source: pkg/controller/job/job_controller.go, indexed_job_utils.go;
pkg/controller/ttlafterfinished/ttlafterfinished_controller.go.
Differs: pods get no finalizer; ``JobRecord`` remembers which pods are counted instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final

from mooring.clock import rfc3339
from mooring.simulation.controllers.job_pods.ended_pods import restarts_of
from mooring.simulation.controllers.job_pods.indexes import INDEX, index_of, indexes_text
from mooring.simulation.controllers.job_pods.policies import success_message
from mooring.simulation.controllers.job_pods.record import JobRecord, replaces_only_failed
from mooring.simulation.controllers.objects import (
    Create,
    Delete,
    Json,
    Note,
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
    seconds_of,
)

if TYPE_CHECKING:
    from mooring.objects.pod import Pod
    from mooring.simulation.controllers.cluster import ControlledObjects

NAME_LABELS: Final = ("job-name", "batch.kubernetes.io/job-name")
UID_LABELS: Final = ("controller-uid", "batch.kubernetes.io/controller-uid")
FAILURE_COUNT: Final = "batch.kubernetes.io/job-index-failure-count"
CONTROLLER: Final = "kubernetes.io/job-controller"
#: Fields of the status in which zero is a value.
_POINTERS: Final = ("ready", "terminating")
#: Pods created or deleted in one turn.
BURST: Final = 500
#: The condition that says how a Job will end -> the one that it has then.
_ENDS: Final = {"FailureTarget": "Failed", "SuccessCriteriaMet": "Complete"}


def sync_job(workload: Workload, cluster: ControlledObjects, turn: Turn) -> Result:
    """Returns the writes of the next step of a Job."""
    if workload.spec.get("managedBy", CONTROLLER) != CONTROLLER:
        return Result([])  # another controller is responsible
    ended = _condition(workload.status, *_ENDS.values())
    if ended is not None:
        return _after_end(workload, ended, turn)
    pods, writes = claim_pods(workload, cluster, adopts=bool(workload.spec.get("selector")))
    uid = workload.metadata.uid
    record = cluster.job_records.get(uid)
    if record is None:
        record = cluster.job_records[uid] = JobRecord(workload, pods)
    record.count(workload, pods, turn.now_s)
    step = _Step(workload, pods, record, turn)
    if not workload.is_deleted:
        writes += step.writes(cluster)
    writes += status_write(workload, step.status(), pointers=_POINTERS)
    return Result(writes, step.again_s, step.notes)


def _condition(status: Json, *kinds: str) -> Json | None:
    for item in status.get("conditions") or ():
        if item["type"] in kinds and item["status"] == "True":
            return dict(item)
    return None


def _after_end(workload: Workload, ended: Json, turn: Turn) -> Result:
    """Deletes a Job that has ended when its time to live is over."""
    ttl_s = workload.spec.get("ttlSecondsAfterFinished")
    if ttl_s is None or workload.is_deleted or not turn.has_deadlines:
        return Result([])
    left_s = seconds_of(ended["lastTransitionTime"]) + ttl_s - turn.now_s
    if left_s > 0:
        return Result([], left_s)
    metadata = workload.metadata
    return Result([Delete("Job", metadata.namespace, metadata.name, metadata.uid, "Foreground")])


class _Step:
    """One turn of a Job.

    Attributes:
        again_s: The next turn is after so many seconds; None = when something changes.
        notes: Events besides those of the writes.
    """

    def __init__(
        self, workload: Workload, pods: Sequence[Pod], record: JobRecord, turn: Turn
    ) -> None:
        self.again_s: float | None = None
        self.notes: tuple[Note, ...] = ()
        self._workload = workload
        self._record = record
        self._turn = turn
        spec = workload.spec
        self._active = [pod for pod in pods if is_active(pod)]
        self._terminating = [
            pod
            for pod in pods
            if pod.metadata.deletion_timestamp is not None
            and pod.status.phase not in ("Succeeded", "Failed")
        ]
        self._is_indexed = spec.get("completionMode") == "Indexed"
        self._succeeded = len(record.completed) if self._is_indexed else record.succeeded
        self._completions: int | None = spec.get("completions")
        self._is_suspended = bool(spec.get("suspend"))
        self._start = self._start_time()
        self._end = _condition(workload.status, *_ENDS) or self._new_end()
        self._n_deleted = 0

    # -- the end ----------------------------------------------------------------------------------

    def _start_time(self) -> str | None:
        """Returns since when the Job is active; a suspended one begins anew when it goes on."""
        if self._is_suspended:
            return None
        start: str | None = self._workload.status.get("startTime")
        return start or rfc3339(self._turn.now_s)

    def _new_end(self) -> Json | None:
        """Returns how the Job will end, as the condition that says so; None = it goes on."""
        failure = self._failure()
        if failure is not None:
            return self._condition("FailureTarget", *failure)
        if self._is_indexed:
            text = success_message(self._workload.spec.get("successPolicy"), self._record.completed)
            if text:
                return self._condition("SuccessCriteriaMet", "SuccessPolicy", text)
        return None

    def _failure(self) -> tuple[str, str] | None:
        """Returns why the Job has failed, in the order of the controller's questions."""
        spec, record = self._workload.spec, self._record
        if record.message:
            return "PodFailurePolicy", record.message
        limit = int(spec.get("backoffLimit", 6))
        if record.failed > limit or self._restarts() >= max(limit, 1):
            return "BackoffLimitExceeded", "Job has reached the specified backoff limit"
        if self._is_past_deadline():
            return "DeadlineExceeded", "Job was active longer than specified deadline"
        n_failed, most = len(record.failed_indexes), spec.get("maxFailedIndexes")
        if most is not None and n_failed > most:
            text = "Job has exceeded the specified maximal number of failed indexes"
            return "MaxFailedIndexesExceeded", text
        if n_failed and n_failed + self._succeeded >= (self._completions or 0):
            return "FailedIndexes", "Job has failed indexes"
        return None

    def _restarts(self) -> int:
        """Returns how often containers have started again, where that counts: with OnFailure."""
        if self._workload.spec["template"]["spec"].get("restartPolicy") != "OnFailure":
            return 0
        return sum(map(restarts_of, (*self._active, *self._terminating)))

    def _is_past_deadline(self) -> bool:
        deadline_s = self._workload.spec.get("activeDeadlineSeconds")
        if deadline_s is None or self._start is None or not self._turn.has_deadlines:
            return False
        left_s: float = seconds_of(self._start) + deadline_s - self._turn.now_s
        if left_s > 0:
            self._look_again(left_s)
        return left_s <= 0

    def _is_complete(self) -> bool:
        if len(self._active) > self._n_deleted:
            return False
        if self._completions is not None:
            return self._succeeded >= self._completions
        return self._succeeded > 0

    def _look_again(self, wait_s: float) -> None:
        self.again_s = wait_s if self.again_s is None else min(wait_s, self.again_s)

    # -- pods -------------------------------------------------------------------------------------

    def writes(self, cluster: ControlledObjects) -> list[Write]:
        """Returns the pods to create or to delete."""
        desired = self._desired()
        excess = len(self._active) - desired
        if excess > 0:
            now_s, self._n_deleted = self._turn.now_s, min(excess, BURST)
            ended = first_to_delete(self._active, self._active, self._n_deleted, now_s)
            return [delete_pod(pod) for pod in ended]
        waited_for = self._terminating if replaces_only_failed(self._workload.spec) else []
        missing = min(-excess - len(waited_for), BURST)
        if missing <= 0:
            return []
        if not self._has_limit_per_index:
            wait_s = self._record.wait_s(self._turn.now_s)
            if wait_s > 0:
                self._look_again(wait_s)
                return []
        if not self._is_indexed:
            return self._creations([None] * missing, cluster)
        return self._creations(self._free_indexes(missing, waited_for), cluster)

    def _desired(self) -> int:
        """Returns how many pods should be active."""
        if self._is_suspended or self._end is not None:
            return 0
        parallelism = int(self._workload.spec.get("parallelism", 1))
        if self._completions is None:
            return len(self._active) if self._succeeded else parallelism
        return max(0, min(parallelism, self._completions - self._succeeded))

    @property
    def _has_limit_per_index(self) -> bool:
        return self._workload.spec.get("backoffLimitPerIndex") is not None

    def _free_indexes(self, count: int, waited_for: Iterable[Pod]) -> list[int]:
        """Returns the first indexes that need a pod; those that wait for their backoff do not."""
        record = self._record
        taken = record.completed | record.failed_indexes
        taken |= {index_of(pod) for pod in (*self._active, *waited_for)}
        free = (index for index in range(self._completions or 0) if index not in taken)
        first = list(islice(free, count))
        if not self._has_limit_per_index:
            return first
        waits = {index: record.wait_s(self._turn.now_s, index) for index in first}
        later = [wait_s for wait_s in waits.values() if wait_s > 0]
        if later:
            self._look_again(min(later))
        return [index for index in first if not waits[index]]

    def _creations(self, indexes: Iterable[int | None], cluster: ControlledObjects) -> list[Write]:
        workload, writes, names = self._workload, list[Write](), set[str]()
        metadata, suffix = workload.metadata, self._turn.suffix
        for index in indexes:
            base = f"{metadata.name}-" if index is None else f"{metadata.name}-{index}-"
            name = generated_pod_name(base, suffix, names)
            while f"{metadata.namespace}/{name}" in cluster.pods:
                name = generated_pod_name(base, suffix, names)
            names.add(name)
            create = new_pod(workload, name, generated_from=base)
            _identify(create, workload, index)
            if index is not None and self._has_limit_per_index:
                count = str(self._record.failures_of(index))
                create.manifest["metadata"]["annotations"][FAILURE_COUNT] = count
            writes.append(create)
        return writes

    # -- status -----------------------------------------------------------------------------------

    def status(self) -> Json:
        """Returns the status."""
        old, record = self._workload.status, self._record
        status: Json = {
            **old,
            "active": len(self._active),
            "ready": sum(map(is_ready, self._active)),
            "terminating": len(self._terminating),
            "succeeded": self._succeeded,
            "failed": record.failed,
            "startTime": self._start,
        }
        if self._is_indexed:
            status["completedIndexes"] = indexes_text(record.completed)
            if self._has_limit_per_index:
                status["failedIndexes"] = indexes_text(record.failed_indexes)
        if self._end is None and self._is_complete():
            text = "Reached expected number of succeeded pods"
            self._end = self._condition("SuccessCriteriaMet", "CompletionsReached", text)
        if self._end is not None:
            self._add_end(status, self._end)
        elif not self._workload.is_deleted:
            self._tell_suspension(status)
        return status

    def _tell_suspension(self, status: Json) -> None:
        """Sets the condition of a Job that is suspended, or goes on."""
        conditions = list(status.get("conditions") or ())
        before = next((item for item in conditions if item["type"] == "Suspended"), None)
        state = "True" if self._is_suspended else "False"
        if (before["status"] if before is not None else "False") == state:
            return
        text = "Job suspended" if self._is_suspended else "Job resumed"
        reason = text.title().replace(" ", "")
        new = {**self._condition("Suspended", reason, text), "status": state}
        status["conditions"] = [item for item in conditions if item is not before] + [new]
        self.notes = (Note("Normal", reason.removeprefix("Job"), text),)

    def _add_end(self, status: Json, end: Json) -> None:
        """Adds the condition of the coming end; that of the end when all pods have gone."""
        conditions = list(status.get("conditions") or ())
        if not any(item["type"] == end["type"] for item in conditions):
            conditions.append(end)
        if len(self._active) <= self._n_deleted:
            status |= {"active": 0, "ready": 0}
            if not (self._n_deleted or self._terminating):
                kind = _ENDS[end["type"]]
                conditions.append(self._condition(kind, end["reason"], end["message"]))
                if kind == "Complete":
                    status["completionTime"] = rfc3339(self._turn.now_s)
        status["conditions"] = conditions

    def _condition(self, kind: str, reason: str, message: str) -> Json:
        now = rfc3339(self._turn.now_s)
        return {
            "type": kind,
            "status": "True",
            "lastProbeTime": now,
            "lastTransitionTime": now,
            "reason": reason,
            "message": message,
        }


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
    # Both can be null in a file that is not validated.
    for container in [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]:
        present = container.get("env") or []
        if not any(item["name"] == "JOB_COMPLETION_INDEX" for item in present):
            entry = {"name": "JOB_COMPLETION_INDEX", "valueFrom": source}
            container["env"] = [*present, entry]
