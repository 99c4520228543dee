"""What may not be changed through the subresources of a pod, in kube-apiserver's words.

Source: pkg/apis/core/validation/validation.go (ValidatePodStatusUpdate, ValidatePodResize,
ValidatePodEphemeralContainersUpdate).
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING

from mooring.apiserver import names
from mooring.apiserver.errors import FieldError, forbidden_field, invalid, quoted
from mooring.apiserver.validation.metadata import IMMUTABLE, each
from mooring.apiserver.validation.pod import difference_of, set_aside, validate_pod_spec
from mooring.objects.qos_class import qos_class

if TYPE_CHECKING:
    from mooring.apiserver.types import Object


def validate_status(new: Object, old: Object) -> list[FieldError]:
    """What is wrong with a change of a pod's status."""
    status, before = new["status"], old["status"]
    errors: list[FieldError] = []
    nominated, earlier = status.get("nominatedNodeName", ""), before.get("nominatedNodeName", "")
    field = "status.nominatedNodeName"
    if nominated and nominated != earlier:
        errors += each(field, nominated, names.dns_subdomain(nominated))
        if old["spec"].get("nodeName"):
            problem = "may not be set on pods that are already bound to a node"
            errors.append(forbidden_field(field, problem))
    if status.get("observedGeneration", 0) < 0:
        problem = "must be a non-negative integer"
        errors.append(invalid("status.observedGeneration", status["observedGeneration"], problem))
    quality = status.get("qosClass", "")
    if quality != before.get("qosClass", ""):
        errors.append(invalid("status.qosClass", quality, IMMUTABLE))
    return errors


def validate_ephemeral(new: Object, old: Object) -> list[FieldError]:
    """What is wrong with a change of a pod's ephemeral containers: they only become more."""
    errors = validate_pod_spec(new)
    found = {each["name"]: each for each in new["spec"].get("ephemeralContainers", ())}
    field = "spec.ephemeralContainers"
    for before in old["spec"].get("ephemeralContainers", ()):
        name = before["name"]
        lead = f"existing ephemeral containers {quoted(name)} may not be"
        if name not in found:
            errors.append(forbidden_field(field, f"{lead} removed\n"))
        elif found[name] != before:
            changed = sorted({*found[name], *before})
            changed = [each for each in changed if found[name].get(each) != before.get(each)]
            shown = difference_of(found[name], before, changed)
            errors.append(forbidden_field(field, f"{lead} changed\n{shown}"))
    return errors


def validate_resize(new: Object, old: Object) -> list[FieldError]:
    """What is wrong with a change of a running pod's resources."""
    errors = validate_pod_spec(new)
    spec, before = deepcopy(new["spec"]), old["spec"]
    for kind in ("containers", "initContainers"):
        containers, others = spec.get(kind) or (), before.get(kind) or ()
        if len(containers) == len(others):
            for container, other in zip(containers, others, strict=True):
                container["resources"] = other["resources"]
                set_aside(container, other, "resizePolicy")
    set_aside(spec, before, "resources")
    if spec != before:
        problem = "only cpu and memory resources are mutable"
        errors.append(forbidden_field("spec", problem))
    if qos_class(new["spec"]) != old["status"].get("qosClass", qos_class(before)):
        problem = "Pod QOS Class may not change as a result of resizing"
        errors.append(invalid("spec", qos_class(new["spec"]), problem))
    return errors
