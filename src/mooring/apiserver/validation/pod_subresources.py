"""Validation of changes through the subresources of a pod, with kube-apiserver's messages.

Source: pkg/apis/core/validation/validation.go (ValidatePodResize,
ValidatePodEphemeralContainersUpdate). The status: ``status/pods.py``.
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING

from mooring.apiserver.errors import Errors, forbidden_field, invalid, quoted
from mooring.apiserver.object_fields import restore_fields
from mooring.apiserver.validation.pod import describe_difference, validate_pod_spec
from mooring.objects.qos_class import qos_class

if TYPE_CHECKING:
    from mooring.apiserver.types import Object


def validate_ephemeral(new: Object, old: Object) -> Errors:
    """Validates a change of a pod's ephemeral containers, which can only be added."""
    yield from validate_pod_spec(new)
    containers = {c["name"]: c for c in new["spec"].get("ephemeralContainers", ())}
    field = "spec.ephemeralContainers"
    for before in old["spec"].get("ephemeralContainers", ()):
        name = before["name"]
        lead = f"existing ephemeral containers {quoted(name)} may not be"
        if name not in containers:
            yield forbidden_field(field, f"{lead} removed\n")
        elif containers[name] != before:
            changed = sorted({*containers[name], *before})
            changed = [key for key in changed if containers[name].get(key) != before.get(key)]
            difference = describe_difference(containers[name], before, changed)
            yield forbidden_field(field, f"{lead} changed\n{difference}")


def validate_resize(new: Object, old: Object) -> Errors:
    """Validates a change of a running pod's resources."""
    yield from validate_pod_spec(new)
    spec, before = deepcopy(new["spec"]), old["spec"]
    for kind in ("containers", "initContainers"):
        containers, others = spec.get(kind) or (), before.get(kind) or ()
        if len(containers) == len(others):
            for container, other in zip(containers, others, strict=True):
                container["resources"] = other["resources"]
                restore_fields(container, other, "resizePolicy")
    restore_fields(spec, before, "resources")
    if spec != before:
        problem = "only cpu and memory resources are mutable"
        yield forbidden_field("spec", problem)
    if qos_class(new["spec"]) != old["status"].get("qosClass", qos_class(before)):
        problem = "Pod QOS Class may not change as a result of resizing"
        yield invalid("spec", qos_class(new["spec"]), problem)
