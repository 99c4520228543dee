"""The scale subresource: how many replicas of a workload there should be, and are.

Source: pkg/registry/apps/{deployment,replicaset,statefulset}/storage, pkg/registry/core/
replicationcontroller/storage; autoscaling/v1 conversions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.apiserver.errors import FieldFault, bad_request, conflict, invalid, invalid_object

if TYPE_CHECKING:
    from mooring.apiserver.types import Object

_COPIED = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
_OPERATORS = {"In": "in", "NotIn": "notin"}


def scale_of(found: Object) -> Object:
    """Returns the Scale of a workload."""
    metadata = {name: found["metadata"][name] for name in _COPIED if name in found["metadata"]}
    spec, status = found["spec"], found.get("status", {})
    replicas = spec.get("replicas", 0)
    scale: Object = {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": {"replicas": replicas} if replicas else {},
        "status": {"replicas": status.get("replicas", 0)},
    }
    selector = _text(spec.get("selector", {}), is_map=found["kind"] == "ReplicationController")
    if selector:
        scale["status"]["selector"] = selector
    return scale


def scaled(found: Object, scale: Object, *, name: str) -> Object:
    """Returns the workload with the replicas that a Scale asks for.

    Raises:
        Refused: 400, 409, 422.
    """
    metadata = scale["metadata"]
    if metadata.get("name", "") != name:
        raise bad_request(
            f"the name of the object ({metadata.get('name', '')}) does not match the name on "
            f"the URL ({name})"
        )
    replicas = scale["spec"].get("replicas", 0)
    if replicas < 0:
        problem = "must be greater than or equal to 0"
        faults: list[FieldFault] = [invalid("spec.replicas", replicas, problem)]
        raise invalid_object("Scale", name, faults, group="autoscaling")
    uid = metadata.get("uid")
    if uid and uid != found["metadata"]["uid"]:
        text = (
            f"Precondition failed: UID in precondition: {uid}, UID in object meta: "
            f"{found['metadata']['uid']}"
        )
        raise conflict("", "scale", name, text)
    found["spec"]["replicas"] = replicas
    version = metadata.get("resourceVersion")
    if version:
        found["metadata"]["resourceVersion"] = version
    return found


def _text(selector: Object, *, is_map: bool) -> str:
    """Returns a label selector as text."""
    labels = selector if is_map else selector.get("matchLabels", {})
    parts = [(key, f"{key}={value}") for key, value in labels.items()]
    for condition in () if is_map else selector.get("matchExpressions", ()):
        key, operator = condition["key"], condition["operator"]
        if operator in _OPERATORS:
            values = ",".join(sorted(condition["values"]))
            parts.append((key, f"{key} {_OPERATORS[operator]} ({values})"))
        else:
            parts.append((key, key if operator == "Exists" else f"!{key}"))
    return ",".join(text for _, text in sorted(parts))
