"""The scale subresource: desired and observed replicas of a workload.

Source: pkg/registry/apps/{deployment,replicaset,statefulset}/storage, pkg/registry/core/
replicationcontroller/storage; autoscaling/v1 conversions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mooring.apiserver.custom.paths import find
from mooring.apiserver.errors import conflict, internal_error, invalid_object, quoted
from mooring.apiserver.names import path_segment
from mooring.apiserver.registry.registry import storage_conflict
from mooring.apiserver.validation.metadata import validate_metadata
from mooring.apiserver.validation.rules import not_negative

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mooring.apiserver.registry.registry import Target
    from mooring.apiserver.resources import CustomVersion
    from mooring.apiserver.types import Object

_COPIED = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
_OPERATORS = {"In": "in", "NotIn": "notin"}


def scale_of(obj: Object, custom: CustomVersion | None = None) -> Object:
    """Returns the Scale of a workload; ``custom`` is the definition of a custom resource."""
    metadata = {name: obj["metadata"][name] for name in _COPIED if name in obj["metadata"]}
    if custom is not None:
        return _scale_of_custom(obj, metadata, custom.scale or {})
    spec, status = obj["spec"], obj.get("status", {})
    replicas = spec.get("replicas", 0)
    scale: Object = {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": {"replicas": replicas} if replicas else {},
        "status": {"replicas": status.get("replicas", 0)},
    }
    selector = _text(spec.get("selector", {}), is_map=obj["kind"] == "ReplicationController")
    if selector:
        scale["status"]["selector"] = selector
    return scale


def _scale_of_custom(obj: Object, metadata: Object, paths: Mapping[str, str]) -> Object:
    def value_of(name: str) -> Any:
        return next(iter(find(obj, paths[name])), None) if paths.get(name) else None

    replicas = value_of("specReplicasPath")
    scale: Object = {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": {"replicas": replicas} if replicas else {},
        "status": {"replicas": value_of("statusReplicasPath") or 0},
    }
    selector = value_of("labelSelectorPath")
    if selector:
        scale["status"]["selector"] = selector
    return scale


def check_replicas(obj: Object, custom: CustomVersion | None) -> None:
    """Checks that a custom object has the field of its replicas, as a read of its Scale needs it.

    Raises:
        ApiStatusError: 500.
    """
    path = (custom.scale or {}).get("specReplicasPath") if custom is not None else None
    if path and not any(True for _ in find(obj, path)):
        raise internal_error(f"the spec replicas field {quoted(path)} does not exist")


def check_scale(scale: Object, present: Object, target: Target, *, is_patch: bool) -> None:
    """Checks a Scale that a client has sent for a workload.

    Raises:
        ApiStatusError: 409, 422.
    """
    metadata = scale["metadata"]
    errors = [
        *validate_metadata(metadata, namespaced=True, check_name=path_segment, any_finalizer=True),
        *not_negative(scale["spec"], "spec", "replicas"),
    ]
    if errors:
        raise invalid_object("Scale", target.name, errors, group="autoscaling")
    uid = metadata.get("uid")
    if not uid or uid == present["metadata"]["uid"]:
        return
    precondition = f"UID in precondition: {uid}"
    if not is_patch:
        raise storage_conflict(target, precondition, "UID", present)
    text = f"Precondition failed: {precondition}, UID in object meta: {present['metadata']['uid']}"
    raise conflict(target.resource.group, f"{target.resource.name}/scale", target.name, text)


def apply_scale(obj: Object, scale: Object, *, custom: CustomVersion | None = None) -> Object:
    """Sets the replicas of a workload to those of a Scale; returns the workload."""
    replicas = scale["spec"].get("replicas", 0)
    path = (custom.scale or {})["specReplicasPath"] if custom is not None else ".spec.replicas"
    *parents, last = path.removeprefix(".").split(".")
    parent = obj
    for step in parents:
        parent = parent.setdefault(step, {})
    parent[last] = replicas
    version = scale["metadata"].get("resourceVersion")
    if version:
        obj["metadata"]["resourceVersion"] = version
    return obj


def _text(selector: Object, *, is_map: bool) -> str:
    """Returns a label selector as text."""
    labels = selector if is_map else selector.get("matchLabels", {})
    terms = [(key, f"{key}={value}") for key, value in labels.items()]
    for condition in () if is_map else selector.get("matchExpressions", ()):
        key, operator = condition["key"], condition["operator"]
        if operator in _OPERATORS:
            values = ",".join(sorted(condition["values"]))
            terms.append((key, f"{key} {_OPERATORS[operator]} ({values})"))
        else:
            terms.append((key, key if operator == "Exists" else f"!{key}"))
    return ",".join(text for _, text in sorted(terms))
