"""The workloads of an input that pods come from, and edits of their pod templates.

A pod that a controller creates is no object of the input: an edit of it is one of its template, and
then its ReplicaSet and it have other names. So it is known by its workload and its number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any, NamedTuple

import msgspec

from mooring.objects.codec.decode import encode
from mooring.objects.meta import controller_of
from mooring.objects.pod import Pod
from mooring.objects.types import Object

_HASH_LABEL = "pod-template-hash"
_CONTAINERS = ("containers", "initContainers")


class CreatedPod(NamedTuple):
    """A pod that a controller creates.

    Attributes:
        workload: The position of its workload among those of the input.
        number: How many pods of the workload were created before.
    """

    workload: int
    number: int

    @classmethod
    def of(cls, pod: Pod, created: Sequence[Pod], workloads: Sequence[Object]) -> CreatedPod | None:
        """Returns which pod of which workload it is; None if its workload is not in the input.

        Args:
            pod: One of ``created``.
            created: All pods that controllers create, in order.
            workloads: Those of the input.
        """
        root = workload_of_pod(pod, workloads)
        if root is None:
            return None
        own = [item for item in created if workload_of_pod(item, workloads) == root]
        return cls(root, own.index(pod))

    def among(self, created: Sequence[Pod], workloads: Sequence[Object]) -> Pod | None:
        """Returns the pod among those of a changed input; None if there are fewer now."""
        own = [item for item in created if workload_of_pod(item, workloads) == self.workload]
        return own[self.number] if self.number < len(own) else None


def workload_of_pod(pod: Pod, workloads: Sequence[Object]) -> int | None:
    """Returns the position of the workload that a pod comes from."""
    owner = controller_of(pod.metadata)
    if owner is None:
        return None
    end = pod.metadata.labels.get(_HASH_LABEL, "")
    deployment = owner.name.removesuffix(f"-{end}") if owner.kind == "ReplicaSet" and end else ""
    cron_job = owner.name.rpartition("-")[0] if owner.kind == "Job" else ""
    names = {(owner.kind, owner.name), ("Deployment", deployment), ("CronJob", cron_job)}
    namespace = pod.metadata.namespace
    for place, workload in enumerate(workloads):
        metadata = workload["metadata"]
        is_near = metadata.get("namespace", "default") == namespace
        if is_near and (workload["kind"], metadata["name"]) in names:
            return place
    return None


def with_edited_template(workload: Object, pod: Pod, edit: Callable[[Pod], Pod]) -> Object | None:
    """Returns a workload whose pods are edited as this one is.

    None = the edit changes what the controller sets: labels, or the node of a daemon pod.
    """
    before, after = _as_json(pod), _as_json(edit(pod))
    if before.get("metadata") != after.get("metadata"):
        return None
    old, new = before["spec"], after["spec"]
    names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    if workload["kind"] == "DaemonSet" and "affinity" in names:
        return None
    changed = deepcopy(workload)
    spec = changed["spec"]
    if workload["kind"] == "CronJob":
        spec = spec["jobTemplate"]["spec"]
    template = spec["template"]["spec"]
    for name in names:
        if name in _CONTAINERS:
            template[name] = _merged(template.get(name) or [], old[name], new[name])
        elif name in new:
            template[name] = new[name]
        else:
            template.pop(name, None)
    return changed


def _as_json(pod: Pod) -> Object:
    document: Object = msgspec.json.decode(encode(pod))
    return document


def _merged(containers: list[Object], old: list[Any], new: list[Any]) -> list[Object]:
    """Returns containers with the fields that an edit has changed; the others stay."""
    merged = []
    for container, before, after in zip(containers, old, new, strict=True):
        names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
        edited = {name: after[name] for name in names if name in after}
        others = {name: value for name, value in container.items() if name not in names}
        merged.append({**others, **edited})
    return merged
