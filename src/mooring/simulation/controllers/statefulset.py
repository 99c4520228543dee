"""The StatefulSet controller: pods with ordinals, names and volume claims of their own.

Source: pkg/controller/statefulset/stateful_set_control.go, stateful_set_utils.go.
Differs: ControllerRevisions are not read: a pod below the partition gets its template from memory,
and the newest one if that is not there; claims are kept when pods go
(``persistentVolumeClaimRetentionPolicy`` is not read); MaxUnavailableStatefulSet is off, as
upstream by default.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Final

from mooring.objects.pod import FINISHED_PHASES
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
    available_in_s,
    claim_pods,
    delete_pod,
    is_ready,
    new_pod,
    next_available_s,
    template_hash,
)

if TYPE_CHECKING:
    from mooring.objects.pod import Pod
    from mooring.simulation.controllers.cluster import ControlledObjects

REVISION_LABEL: Final = "controller-revision-hash"
NAME_LABEL: Final = "statefulset.kubernetes.io/pod-name"
INDEX_LABEL: Final = "apps.kubernetes.io/pod-index"

_ORDINAL = re.compile(r"(.*)-([0-9]+)")


def sync_stateful_set(workload: Workload, cluster: ControlledObjects, turn: Turn) -> Result:
    """Returns the writes of the next step of a StatefulSet."""
    pods, writes = claim_pods(workload, cluster)
    by_ordinal = {ordinal_of(pod.metadata.name, workload): pod for pod in pods}
    by_ordinal.pop(-1, None)
    step = _Step(workload, by_ordinal, cluster.templates_of(workload), turn)
    if not workload.is_deleted:
        writes += step.writes()
    writes += status_write(workload, step.status(), pointers=("collisionCount",))
    return Result(writes, next_available_s(pods, workload.min_ready_s, turn.now_s))


def ordinal_of(name: str, workload: Workload) -> int:
    """Returns the ordinal of a pod of the StatefulSet; -1 if the name has none."""
    match = _ORDINAL.fullmatch(name)
    is_own = match is not None and match[1] == workload.metadata.name
    return int(match[2]) if match is not None and is_own else -1


class _Step:
    """One turn of a StatefulSet."""

    def __init__(
        self,
        workload: Workload,
        pods: Mapping[int, Pod],
        templates: Iterable[Json],
        turn: Turn,
    ) -> None:
        self._workload = workload
        self._templates = templates
        self._pods = pods
        self._now_s = turn.now_s
        self._is_ordered = workload.spec.get("podManagementPolicy") != "Parallel"
        start = (workload.spec.get("ordinals") or {}).get("start", 0)
        self._ordinals = range(start, start + workload.replicas)
        digest = template_hash(workload.spec["template"])
        self._revision = f"{workload.metadata.name}-{digest}"

    def writes(self) -> list[Write]:
        """Returns the writes: pods that are missing first, then scaling down, then updates."""
        writes, blocks = self._fill()
        if blocks:
            return writes
        condemned = self._condemn()
        if condemned is not None:
            return [*writes, *condemned]
        return [*writes, *self._update()]

    def _fill(self) -> tuple[list[Write], bool]:
        """Returns the writes for missing and finished pods, and whether nothing else may happen."""
        writes: list[Write] = []
        waits = False
        for ordinal in self._ordinals:
            pod = self._pods.get(ordinal)
            if pod is None:
                writes += self._creation(ordinal)
            elif pod.status.phase in FINISHED_PHASES:
                if pod.metadata.deletion_timestamp is None:
                    writes.append(delete_pod(pod))
            elif self._is_available(pod):
                continue
            waits = True
            if self._is_ordered:
                return writes, True
        return writes, bool(writes) or (waits and self._is_ordered)

    def _condemn(self) -> list[Write] | None:
        """Returns the writes that scale down; None if there is nothing to scale down."""
        condemned = sorted((o for o in self._pods if o not in self._ordinals), reverse=True)
        if not condemned:
            return None
        if not self._is_ordered:
            living = [self._pods[o] for o in condemned]
            return [delete_pod(pod) for pod in living if not pod.metadata.deletion_timestamp]
        pod = self._pods[condemned[0]]
        first_unavailable = next(
            (o for o in reversed(condemned) if not self._is_available(self._pods[o])), None
        )
        may_go = self._is_available(pod) or first_unavailable == condemned[0]
        return [delete_pod(pod)] if may_go and not pod.metadata.deletion_timestamp else []

    def _update(self) -> list[Write]:
        """Returns the deletion of the highest old pod, if all pods above it are new."""
        strategy = self._workload.spec.get("updateStrategy") or {}
        if strategy.get("type") == "OnDelete":
            return []
        lowest = (strategy.get("rollingUpdate") or {}).get("partition", 0)
        pods = [self._pods[ordinal] for ordinal in self._ordinals]
        for pod in reversed(pods[lowest:]):
            if self._is_old(pod):
                return [delete_pod(pod)]
            if not self._is_available(pod):
                break
        return []

    def _is_old(self, pod: Pod) -> bool:
        label = pod.metadata.labels.get(REVISION_LABEL, "")
        return label != self._revision and pod.metadata.deletion_timestamp is None

    def _is_available(self, pod: Pod) -> bool:
        """Returns whether a pod is available and stays."""
        wait_s = available_in_s(pod, self._workload.min_ready_s, self._now_s)
        is_running = pod.status.phase == "Running" and not pod.metadata.deletion_timestamp
        return is_running and wait_s == 0

    def _creation(self, ordinal: int) -> Iterator[Write]:
        """Returns the writes for a pod and its claims."""
        workload = self._workload
        name = f"{workload.metadata.name}-{ordinal}"
        revision, template = self._version_of(ordinal)
        prefix = f"{workload.metadata.name}-"
        pod = new_pod(workload, name, template, generated_from=prefix).manifest
        labels = pod["metadata"].setdefault("labels", {})
        labels |= {NAME_LABEL: name, INDEX_LABEL: str(ordinal), REVISION_LABEL: revision}
        spec = pod["spec"]
        spec["hostname"] = name
        if workload.spec.get("serviceName"):
            spec["subdomain"] = workload.spec["serviceName"]
        templates: Sequence[Json] = workload.spec.get("volumeClaimTemplates") or ()
        volumes = {volume["name"]: volume for volume in spec.get("volumes") or ()}
        for template in templates:
            claim = self._claim(template, name)
            yield Create(claim)
            reference = {"claimName": claim["metadata"]["name"]}
            volume_name = template["metadata"]["name"]
            volumes[volume_name] = {"name": volume_name, "persistentVolumeClaim": reference}
        if volumes:
            spec["volumes"] = list(volumes.values())
        yield Create(pod)

    def _version_of(self, ordinal: int) -> tuple[str, Json]:
        """Returns the revision and the template of a new pod: old ones below the partition."""
        workload = self._workload
        strategy = workload.spec.get("updateStrategy") or {}
        partition = (strategy.get("rollingUpdate") or {}).get("partition", 0)
        current = workload.status.get("currentRevision")
        if ordinal < self._ordinals.start + partition and strategy.get("type") != "OnDelete":
            for template in self._templates:
                if current == f"{workload.metadata.name}-{template_hash(template)}":
                    return current, template
        return self._revision, workload.spec["template"]

    def _claim(self, template: Json, pod_name: str) -> Json:
        metadata = template["metadata"]
        selected = (self._workload.spec.get("selector") or {}).get("matchLabels") or {}
        own: Json = {
            "name": f"{metadata['name']}-{pod_name}",
            "namespace": self._workload.metadata.namespace,
            "labels": {**(metadata.get("labels") or {}), **selected},
        }
        if metadata.get("annotations"):
            own["annotations"] = dict(metadata["annotations"])
        spec = deepcopy(template["spec"])
        return {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": own,
            "spec": spec,
        }

    def status(self) -> Json:
        """Returns the status."""
        workload, pods = self._workload, list(self._pods.values())
        ready = [pod for pod in pods if pod.status.phase == "Running" and is_ready(pod)]
        waits = [available_in_s(pod, workload.min_ready_s, self._now_s) for pod in ready]
        before = workload.status.get("currentRevision") or self._revision
        living = [pod for pod in pods if pod.metadata.deletion_timestamp is None]
        labels = [pod.metadata.labels.get(REVISION_LABEL, "") for pod in living]
        updated = labels.count(self._revision)
        is_complete = updated == len(pods) == len(ready) == workload.replicas
        return {
            "observedGeneration": workload.metadata.generation,
            "replicas": len(pods),
            "readyReplicas": len(ready),
            "availableReplicas": sum(wait == 0 for wait in waits),
            "currentReplicas": updated if is_complete else labels.count(before),
            "updatedReplicas": updated,
            "currentRevision": self._revision if is_complete else before,
            "updateRevision": self._revision,
            "collisionCount": workload.status.get("collisionCount") or 0,
            "conditions": workload.status.get("conditions"),
        }
