"""What becomes of a pod when it is created or changed.

Source: pkg/registry/core/pod/strategy.go.
"""

from __future__ import annotations

from copy import deepcopy

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
    """Gives a new pod its status, and completes its spec."""
    status: Object = {"phase": "Pending", "qosClass": qos_class(pod["spec"])}
    if pod["spec"].get("schedulingGates"):
        status["conditions"] = [{**GATED, "lastTransitionTime": now}]
    pod["status"] = status
    prepare_spec(pod)


def prepare_status(new: Object, old: Object) -> None:
    """Only the status changes, and labels and annotations with it."""
    new["spec"] = old["spec"]
    metadata, before = new["metadata"], old["metadata"]
    metadata.pop("deletionTimestamp", None)
    if "ownerReferences" in before:
        metadata["ownerReferences"] = before["ownerReferences"]
    else:
        metadata.pop("ownerReferences", None)
    status, before_status = new["status"], old["status"]
    if "qosClass" not in status and "qosClass" in before_status:
        status["qosClass"] = before_status["qosClass"]
    _keep_observed_generations(status, before_status)


def _keep_observed_generations(status: Object, before: Object) -> None:
    """Who does not know of observedGeneration must not lose it."""
    if "observedGeneration" not in status and "observedGeneration" in before:
        status["observedGeneration"] = before["observedGeneration"]
    known: dict[str, list[int]] = {}
    for condition in before.get("conditions", ()):
        known.setdefault(condition["type"], []).append(condition.get("observedGeneration", 0))
    for condition in status.get("conditions", ()):
        generations = known.get(condition["type"])
        generation = generations.pop(0) if generations else 0
        if generation and not condition.get("observedGeneration"):
            condition["observedGeneration"] = generation


def prepare_ephemeral(new: Object, old: Object) -> None:
    """Only the ephemeral containers change."""
    wanted = new["spec"].get("ephemeralContainers")
    new["spec"] = {**old["spec"], "ephemeralContainers": wanted}
    if not wanted:
        del new["spec"]["ephemeralContainers"]
    new["status"] = old["status"]
    keep_metadata(new, old)


def prepare_resize(new: Object, old: Object) -> None:
    """Only the resources of containers change."""
    asked, spec = new["spec"], deepcopy(old["spec"])
    for kind in ("containers", "initContainers"):
        wishes, containers = asked.get(kind) or (), spec.get(kind) or ()
        if [each["name"] for each in wishes] != [each["name"] for each in containers]:
            return
        for wish, container in zip(wishes, containers, strict=True):
            container["resources"] = wish["resources"]
            if "resizePolicy" in wish:
                container["resizePolicy"] = wish["resizePolicy"]
    if "resources" in asked:
        spec["resources"] = asked["resources"]
    metadata = {**old["metadata"], "resourceVersion": new["metadata"].get("resourceVersion", "")}
    new["spec"], new["status"], new["metadata"] = spec, old["status"], metadata


def set_condition(status: Object, condition: Object, now: str) -> None:
    """Sets a condition of a pod; its time changes only if its status does."""
    conditions = status.setdefault("conditions", [])
    full = {"lastProbeTime": None, "lastTransitionTime": now, **condition}
    for position, present in enumerate(conditions):
        if present["type"] == condition["type"]:
            if present["status"] == condition["status"]:
                full["lastTransitionTime"] = present["lastTransitionTime"]
            conditions[position] = full
            return
    conditions.append(full)
