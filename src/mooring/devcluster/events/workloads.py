"""The events of the workload controllers: what they have written, or could not write.

The controllers return writes. This module says which event kube-controller-manager records with
each of them; the driver applies the writes and tells how each has ended.

Source: pkg/controller/controller_utils.go (pods), deployment/sync.go,
statefulset/stateful_pod_control.go, daemon/daemon_controller.go, job/job_controller.go,
cronjob/cronjob_controllerv2.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from mooring.devcluster.events.recorder import NORMAL, WARNING, EventRecorder, reference_to
from mooring.errors import AlreadyExists, ApiError, NotFound, SchedulerError
from mooring.simulation.controllers.cluster import ControlledObjects
from mooring.simulation.controllers.objects import (
    WORKLOAD_KINDS,
    Create,
    Delete,
    Json,
    Note,
    Patch,
    Workload,
    Write,
)

#: Kind -> the source of its controller's events.
_COMPONENTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "Deployment": "deployment-controller",
        "ReplicaSet": "replicaset-controller",
        "StatefulSet": "statefulset-controller",
        "DaemonSet": "daemonset-controller",
        "Job": "job-controller",
        "CronJob": "cronjob-controller",
        "ReplicationController": "replication-controller",
    }
)
_ENDS: Final = ("Complete", "Failed")


class TurnEvents:
    """The events of one turn of a workload.

    Args:
        recorder: Records them.
        workload: As the controller saw it.
        cluster: The objects, before the writes.
        writes: The writes of the turn.
    """

    def __init__(
        self,
        recorder: EventRecorder,
        workload: Workload,
        cluster: ControlledObjects,
        writes: Sequence[Write],
    ) -> None:
        self._recorder = recorder
        self._workload = workload
        self._cluster = cluster
        self._sizes = _sizes(cluster, writes) if workload.kind == "Deployment" else {}
        #: The pods that a StatefulSet creates: their claims come right before them.
        self._created_pods = [
            write.manifest["metadata"]["name"]
            for write in writes
            if isinstance(write, Create) and write.manifest["kind"] == "Pod"
        ]

    def note(self, notes: Sequence[Note]) -> None:
        """Records what the controller has noted."""
        for note in notes:
            self._record(note.type, note.reason, note.message)

    def before(self, write: Write) -> None:
        """Records what is recorded before a write."""
        if self._workload.kind != "DaemonSet" or not isinstance(write, Delete):
            return
        pod = self._cluster.pods.get(f"{write.namespace}/{write.name}")
        if pod is None:
            return
        text = f"daemon pod {write.namespace}/{write.name} on node {pod.spec.node_name}, will try"
        if pod.status.phase == "Failed":
            self._record(WARNING, "FailedDaemonPod", f"Found failed {text} to kill it")
        elif pod.status.phase == "Succeeded":
            self._record(NORMAL, "SucceededDaemonPod", f"Found succeeded {text} to delete it")

    def after(self, write: Write, error: SchedulerError | None = None) -> None:
        """Records how a write has ended.

        Args:
            write: The write.
            error: Why it failed; None = it did not.
        """
        if isinstance(error, (AlreadyExists, NotFound)):
            return
        if isinstance(write, Create):
            self._after_creation(write.manifest, error)
        elif isinstance(write, Delete):
            self._after_deletion(write, error)
        elif isinstance(write, Patch) and error is None:
            self._after_patch(write)

    # -- creations and deletions ------------------------------------------------------------------

    def _after_creation(self, manifest: Json, error: SchedulerError | None) -> None:
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        owner = self._workload.kind
        if owner == "StatefulSet":
            self._after_stateful_creation(kind, name, error)
        elif owner == "Deployment":
            size = manifest["spec"]["replicas"]
            if error is not None:
                text = f'Failed to create new replica set "{name}": {error_text(error)}'
                self._record(WARNING, "ReplicaSetCreateError", text)
            elif size > 0:
                self._record_scaling(name, 0, size)
        elif error is not None:
            what = " job" if owner == "CronJob" else ""
            self._record(WARNING, "FailedCreate", f"Error creating{what}: {error_text(error)}")
        elif owner == "CronJob":
            self._record(NORMAL, "SuccessfulCreate", f"Created job {name}")
        else:
            self._record(NORMAL, "SuccessfulCreate", f"Created pod: {name}")

    def _after_stateful_creation(self, kind: str, name: str, error: SchedulerError | None) -> None:
        owner = self._workload.metadata.name
        if kind == "Pod":
            text = f"Create Pod {name} in StatefulSet {owner}"
            self._record_outcome(text, "ful", "Create", error)
            return
        pod = next((pod for pod in self._created_pods if name.endswith(f"-{pod}")), "")
        link = " " if error is None else " for "
        text = f"Create Claim {name}{link}Pod {pod} in StatefulSet {owner}"
        self._record_outcome(text, "", "Create", error)
        if error is not None:
            text = f"Create Pod {pod} in StatefulSet {owner}"
            reason = f"failed to create PVC {name}: {error_text(error)}"
            self._record(WARNING, "FailedCreate", f"{text} failed error: {reason}")

    def _after_deletion(self, write: Delete, error: SchedulerError | None) -> None:
        owner = self._workload.kind
        if owner == "StatefulSet":
            text = f"Delete Pod {write.name} in StatefulSet {self._workload.metadata.name}"
            self._record_outcome(text, "ful", "Delete", error)
        elif owner == "CronJob" and error is not None:
            self._record(WARNING, "FailedDelete", f"Deleted job: {error_text(error)}")
        elif owner == "CronJob":
            self._record(NORMAL, "SuccessfulDelete", f"Deleted job {write.name}")
        elif write.kind != "Pod":
            return  # earlier ReplicaSets go without an event
        elif error is not None:
            self._record(WARNING, "FailedDelete", f"Error deleting: {error_text(error)}")
        else:
            self._record(NORMAL, "SuccessfulDelete", f"Deleted pod: {write.name}")

    def _record_outcome(
        self, text: str, ending: str, verb: str, error: SchedulerError | None
    ) -> None:
        """Records the end of a StatefulSet's action: "success", or "success" with an ending."""
        if error is None:
            self._record(NORMAL, f"Successful{verb}", f"{text} success{ending}")
        else:
            self._record(WARNING, f"Failed{verb}", f"{text} failed error: {error_text(error)}")

    # -- patches ----------------------------------------------------------------------------------

    def _after_patch(self, write: Patch) -> None:
        status = write.patch.get("status") or {}
        size = (write.patch.get("spec") or {}).get("replicas")
        if self._workload.kind == "Deployment" and write.kind == "ReplicaSet" and size is not None:
            before = self._sizes.get(write.name, size)
            self._sizes[write.name] = size
            if before != size:
                self._record_scaling(write.name, before, size)
        elif self._workload.kind == "Job":
            self._record_end(status)
        elif self._workload.kind == "CronJob" and "active" in status:
            self._record_ended_jobs(status["active"] or ())

    def _record_scaling(self, name: str, before: int, size: int) -> None:
        way = "up" if before < size else "down"
        text = f"Scaled {way} replica set {name} from {before} to {size}"
        self._record(NORMAL, "ScalingReplicaSet", text)

    def _record_end(self, status: Json) -> None:
        for condition in status.get("conditions") or ():
            if condition["status"] != "True" or condition["type"] not in _ENDS:
                continue
            if condition["type"] == "Failed":
                self._record(WARNING, condition["reason"], condition.get("message", ""))
                continue
            completions = self._workload.spec.get("completions")
            if completions is not None and status.get("succeeded", 0) > completions:
                text = "Too many succeeded pods running after completion count reached"
                self._record(WARNING, "TooManySucceededPods", text)
            self._record(NORMAL, "Completed", "Job completed")

    def _record_ended_jobs(self, active: Sequence[Json]) -> None:
        uids = {entry["uid"] for entry in active}
        for entry in self._workload.status.get("active") or ():
            if entry["uid"] in uids:
                continue
            job = self._cluster.workloads["Job"].get(f"{entry['namespace']}/{entry['name']}")
            if job is None or job.metadata.uid != entry["uid"]:
                self._record(NORMAL, "MissingJob", f"Active job went missing: {entry['name']}")
                continue
            for condition in job.status.get("conditions") or ():
                if condition["type"] in _ENDS and condition["status"] == "True":
                    text = f"Saw completed job: {entry['name']}, condition: {condition['type']}"
                    self._record(NORMAL, "SawCompletedJob", text)

    def _record(self, event_type: str, reason: str, message: str) -> None:
        workload = self._workload
        reference = reference_to(WORKLOAD_KINDS[workload.kind], workload.metadata)
        self._recorder.record(_COMPONENTS[workload.kind], reference, event_type, reason, message)


def _sizes(cluster: ControlledObjects, writes: Sequence[Write]) -> dict[str, int]:
    """Returns the sizes of the ReplicaSets that writes change, before them."""
    sizes: dict[str, int] = {}
    for write in writes:
        if isinstance(write, Patch) and write.kind == "ReplicaSet":
            replica_set = cluster.workloads["ReplicaSet"].get(f"{write.namespace}/{write.name}")
            if replica_set is not None:
                sizes[write.name] = replica_set.replicas
    return sizes


def error_text(error: SchedulerError) -> str:
    """Returns the server's text of an error, without the request."""
    return (isinstance(error, ApiError) and error.server_message) or str(error)
