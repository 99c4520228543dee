"""Validation of a change of a pod's resources (``pods/resize``), with kube-apiserver's messages.

Source: pkg/apis/core/validation/validation.go (ValidatePodResize and what it calls).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from mooring.apiserver.errors import Errors, forbidden_field, invalid
from mooring.apiserver.validation.pod import validate_pod_spec
from mooring.apiserver.validation.pods.annotations import MIRROR
from mooring.apiserver.validation.pods.containers import validate_init_resize
from mooring.objects.qos_class import qos_class

if TYPE_CHECKING:
    from mooring.apiserver.types import Object


_MUTABLE: Final = frozenset(("cpu", "memory"))
_IMMUTABLE_PROBLEM: Final = "only cpu and memory resources are mutable"


def validate_resize(new: Object, old: Object) -> Errors:
    """Validates a change of a pod's resources."""
    spec, before = new["spec"], old["spec"]
    whole = _problem_of_pod(old)
    if whole:
        return [forbidden_field("[]", whole)]
    errors = [*validate_pod_spec(new)]
    if not any(validate_init_resize(before)):
        errors += validate_init_resize(spec)
    status = old["status"]
    if qos_class(spec) != status.get("qosClass", qos_class(before)):
        problem = "Pod QOS Class may not change as a result of resizing"
        errors.append(invalid("spec", new["status"].get("qosClass", ""), problem))
    if not _is_supported(status):
        problem = "Pod running on node without support for resize"
        errors.append(forbidden_field("spec", problem))
    errors += _errors_of_whole(spec.get("resources"), before.get("resources"))
    order = [*_errors_of_order(spec, before)]
    if order:
        return [*errors, *order]
    errors += _errors_of_removal(spec, before, "initContainers")
    errors += _errors_of_removal(spec, before, "containers")
    errors += _errors_of_containers(spec, before)
    errors += _errors_of_init_containers(spec, before)
    return errors


def _problem_of_pod(pod: Object) -> str:
    if MIRROR in (pod["metadata"].get("annotations") or {}):
        return "static pods cannot be resized"
    is_windows = (pod["spec"].get("os") or {}).get("name") == "windows"
    return "windows pods cannot be resized" if is_windows else ""


def _is_supported(status: Object) -> bool:
    """Returns False if the kubelet of a running pod does not report its resources."""
    for container in status.get("containerStatuses") or ():
        if (container.get("state") or {}).get("running") is not None:
            return container.get("resources") is not None
    return True


def _errors_of_whole(new: Object | None, old: Object | None) -> Errors:
    """Yields the errors of the resources of the whole pod."""
    if old is not None and new is None:
        if _amounts(old):
            yield forbidden_field("spec.resources", "pod-level resources cannot be removed")
        return
    new, before = new or {}, old or {}
    if not _amounts(new) and not _amounts(before):
        return
    for name in ("requests", "limits"):
        if _is_removed(new, before, name):
            problem = f"pod-level resource {name} cannot be removed"
            yield forbidden_field(f"spec.resources.{name}", problem)
    if _immutable_part(new) != _immutable_part(before):
        yield forbidden_field("spec", f"{_IMMUTABLE_PROBLEM} at pod-level")


def _amounts(resources: Object) -> bool:
    return bool(resources.get("requests") or resources.get("limits"))


def _errors_of_order(new: Object, old: Object) -> Errors:
    """Yields the errors of containers that are added, removed, renamed or reordered."""
    for kind in ("containers", "initContainers"):
        containers, before = new.get(kind) or (), old.get(kind) or ()
        if len(containers) != len(before):
            yield forbidden_field(f"spec.{kind}", f"{kind} may not be added or removed on resize")
            continue
        for number, (container, other) in enumerate(zip(containers, before, strict=True)):
            if container["name"] != other["name"]:
                problem = f"{kind} may not be renamed or reordered on resize"
                yield forbidden_field(f"spec.{kind}[{number}].name", problem)


def _pairs(new: Object, old: Object, kind: str) -> Iterator[tuple[str, Object, Object]]:
    """Yields the field of each container, the container and the one before."""
    containers, before = new.get(kind) or (), old.get(kind) or ()
    for number, (container, other) in enumerate(zip(containers, before, strict=True)):
        yield f"spec.{kind}[{number}]", container, other


def _errors_of_removal(new: Object, old: Object, kind: str) -> Errors:
    for field, container, before in _pairs(new, old, kind):
        for name in ("requests", "limits"):
            if _is_removed(container["resources"], before["resources"], name):
                problem = f"resource {name} cannot be removed"
                yield forbidden_field(f"{field}.resources.{name}", problem)


def _is_removed(new: Object, old: Object, name: str) -> bool:
    return not (new.get(name) or {}).keys() >= (old.get(name) or {}).keys()


def _errors_of_containers(new: Object, old: Object) -> Errors:
    for _, container, before in _pairs(new, old, "containers"):
        if _fixed_part(container) != _whole(before):
            yield forbidden_field("spec", _IMMUTABLE_PROBLEM)


def _errors_of_init_containers(new: Object, old: Object) -> Errors:
    for field, container, before in _pairs(new, old, "initContainers"):
        if _fixed_part(container) != _whole(before):
            problem = "only cpu and memory resources for init or sidecar containers are mutable"
            yield forbidden_field(field, problem)
        if container == before or container.get("restartPolicy") == "Always":
            continue
        for policy in container.get("resizePolicy") or ():
            if policy["restartPolicy"] == "RestartContainer":
                problem = "non-sidecar init containers with a resize policy of RestartContainer "
                yield forbidden_field(field, f"{problem}cannot be resized")


def _whole(container: Object) -> Object:
    """Returns what a resize may not change; claims are among it."""
    resources = container["resources"]
    part = _immutable_part(resources)
    return {**container, "resources": {**part, "claims": resources.get("claims") or []}}


def _fixed_part(container: Object) -> Object:
    """Returns the same of a new container, whose claims upstream does not compare with any."""
    return {**container, "resources": {**_immutable_part(container["resources"]), "claims": []}}


def _immutable_part(resources: Mapping[str, Object]) -> Object:
    return {
        name: {
            resource: amount
            for resource, amount in (resources.get(name) or {}).items()
            if resource not in _MUTABLE
        }
        for name in ("requests", "limits")
    }
