"""The subresource pods/binding: validates a scheduler's decision and assigns the pod.

Source: pkg/registry/core/pod/storage/storage.go (BindingREST), validation.ValidatePodBinding, the
admission plugin PodTopologyLabels. As there, the node's existence and capacity are not checked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.apiserver.errors import (
    ApiStatusError,
    FieldError,
    bad_request,
    conflict,
    not_supported,
    quoted,
    required,
)
from mooring.apiserver.registry.pod_strategy import set_condition
from mooring.apiserver.registry.registry import Registry, Target, check_namespace, storage_conflict

if TYPE_CHECKING:
    from mooring.apiserver.types import Object


def bind(registry: Registry, target: Target, binding: Object, *, dry_run: bool = False) -> None:
    """Assigns a pod to the node that the binding names.

    Raises:
        ApiStatusError: 400, 404, 409, or 500 for a binding without a node (as upstream).
    """
    metadata = binding["metadata"]
    check_namespace(target, metadata)
    registry.admission.check_namespace(target.resource, target.namespace, target.name)
    if metadata.get("name", "") != target.name:
        raise bad_request("name in URL does not match name in Binding object")
    _validate(binding["target"])
    node = binding["target"]["name"]
    labels = dict(metadata.get("labels", {}))
    if binding["target"].get("kind") == "Node":
        labels.update(registry.admission.topology_labels(node))
    present = registry.get(target)
    pod = present.object()
    _check_preconditions(target, metadata, pod)
    _check_bindable(target, pod)
    pod["spec"]["nodeName"] = node
    pod["status"].pop("nominatedNodeName", None)
    if annotations := metadata.get("annotations"):
        pod["metadata"].setdefault("annotations", {}).update(annotations)
    if labels:
        pod["metadata"].setdefault("labels", {}).update(labels)
    set_condition(pod["status"], {"type": "PodScheduled", "status": "True"}, registry.now())
    if not dry_run:
        registry.collection(target.resource).replace(target.key, pod)


def _validate(node: Object) -> None:
    errors: list[FieldError] = []
    kind = node.get("kind", "")
    if kind not in ("", "Node"):
        errors.append(not_supported("target.kind", kind, ["Node", "<empty>"]))
    if not node.get("name"):
        errors.append(required("target.name"))
    if errors:
        # Upstream makes no Status of these: they become code 500 without a reason.
        message = ", ".join(f"{error.field}: {error.body}" for error in errors)
        raise ApiStatusError(500, "", f"[{message}]" if len(errors) > 1 else message)


def _check_preconditions(target: Target, metadata: Object, pod: Object) -> None:
    for field, name in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        required = metadata.get(field)
        if required and required != pod["metadata"][field]:
            raise storage_conflict(target, f"{name} in precondition: {required}", name, pod)


def _check_bindable(target: Target, pod: Object) -> None:
    name, spec = target.name, pod["spec"]
    if "deletionTimestamp" in pod["metadata"]:
        message = f"pod {name} is being deleted, cannot be assigned to a host"
    elif spec.get("nodeName"):
        message = f"pod {name} is already assigned to node {quoted(spec['nodeName'])}"
    elif spec.get("schedulingGates"):
        message = f"pod {name} has non-empty .spec.schedulingGates"
    else:
        return
    raise conflict("", "pods/binding", name, message)
