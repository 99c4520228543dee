"""Rules for creating and changing pods.

Source: pkg/registry/core/pod/strategy.go.
"""

from __future__ import annotations

from copy import deepcopy

from mooring.apiserver.object_fields import restore_fields
from mooring.apiserver.registry.strategy import keep_metadata
from mooring.apiserver.types import Object
from mooring.objects.defaulting.pods import prepare_spec
from mooring.objects.qos_class import qos_class

GATED = {
    "type": "PodScheduled",
    "status": "False",
    "lastProbeTime": None,
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
}


def prepare_create(pod: Object, now: str) -> None:
    """Sets the status of a new pod, and completes its spec."""
    status: Object = {"phase": "Pending", "qosClass": qos_class(pod["spec"])}
    if pod["spec"].get("schedulingGates"):
        status["conditions"] = [{**GATED, "lastTransitionTime": now}]
    pod["status"] = status
    prepare_spec(pod)


def prepare_status(new: Object, old: Object) -> None:
    """Restores all fields except the status, labels and annotations."""
    new["spec"] = old["spec"]
    metadata, before = new["metadata"], old["metadata"]
    metadata.pop("deletionTimestamp", None)
    restore_fields(metadata, before, "ownerReferences")
    status, before_status = new["status"], old["status"]
    if "qosClass" not in status and "qosClass" in before_status:
        status["qosClass"] = before_status["qosClass"]
    _keep_observed_generations(status, before_status)
    _drop_gated(status)


def _drop_gated(status: Object) -> None:
    """Drops the fields of features that are off by default.

    They are DRANodeAllocatableResources and ImageVolumeWithDigest.
    """
    status.pop("nodeAllocatableResourceClaimStatuses", None)
    for name in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"):
        for container in status.get(name) or ():
            for mount in container.get("volumeMounts") or ():
                mount.pop("volumeStatus", None)


def _keep_observed_generations(status: Object, before: Object) -> None:
    """Restores observedGeneration where a client that does not know it omits it."""
    if "observedGeneration" not in status and "observedGeneration" in before:
        status["observedGeneration"] = before["observedGeneration"]
    generations_by_type: dict[str, list[int]] = {}
    for condition in before.get("conditions", ()):
        generations_by_type.setdefault(condition["type"], []).append(
            condition.get("observedGeneration", 0)
        )
    for condition in status.get("conditions", ()):
        generations = generations_by_type.get(condition["type"])
        generation = generations.pop(0) if generations else 0
        if generation and not condition.get("observedGeneration"):
            condition["observedGeneration"] = generation


def prepare_ephemeral(new: Object, old: Object) -> None:
    """Restores all fields except the ephemeral containers."""
    ephemeral = new["spec"].get("ephemeralContainers")
    new["spec"] = {**old["spec"], "ephemeralContainers": ephemeral}
    if not ephemeral:
        del new["spec"]["ephemeralContainers"]
    new["status"] = old["status"]
    keep_metadata(new, old)


def prepare_resize(new: Object, old: Object) -> None:
    """Restores all fields except the resources of containers, unless containers are others."""
    new_spec, spec = new["spec"], deepcopy(old["spec"])
    kinds = ("containers", "initContainers")
    if any(len(new_spec.get(kind) or ()) != len(spec.get(kind) or ()) for kind in kinds):
        return  # the validation refuses it
    for kind in kinds:
        if kind in new_spec:
            spec[kind] = _with_new_resources(spec.get(kind) or [], new_spec[kind] or [])
    if "resources" in new_spec:
        spec["resources"] = new_spec["resources"]
    else:
        spec.pop("resources", None)
    new["spec"], new["status"] = spec, old["status"]
    keep_metadata(new, old)


def _with_new_resources(old: list[Object], new: list[Object]) -> list[Object]:
    """Returns the old containers with the new resources; the new ones if they have other names."""
    if [container["name"] for container in new] != [container["name"] for container in old]:
        return new
    for container, new_container in zip(old, new, strict=True):
        container["resources"] = new_container["resources"]
        container.pop("resizePolicy", None)
        if "resizePolicy" in new_container:
            container["resizePolicy"] = new_container["resizePolicy"]
    return old


def set_condition(status: Object, condition: Object, now: str) -> None:
    """Sets a condition of a pod; its time changes only if its status does."""
    conditions = status.setdefault("conditions", [])
    new_condition = {"lastProbeTime": None, "lastTransitionTime": now, **condition}
    for position, present in enumerate(conditions):
        if present["type"] == condition["type"]:
            if present["status"] == condition["status"]:
                new_condition["lastTransitionTime"] = present["lastTransitionTime"]
            conditions[position] = new_condition
            return
    conditions.append(new_condition)
