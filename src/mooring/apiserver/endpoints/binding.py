"""pods/binding: a scheduler's decision, checked once more and written.

Source: pkg/registry/core/pod/storage/storage.go (BindingREST), validation.ValidatePodBinding, the
admission plugin PodTopologyLabels. As there, whether the node exists or has room is not checked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.apiserver.errors import (
    FieldFault,
    Refused,
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
    """Puts a pod on the node that the binding names.

    Raises:
        Refused: 400, 404, 409, or 500 for a binding without a node (as upstream).
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
    faults: list[FieldFault] = []
    kind = node.get("kind", "")
    if kind not in ("", "Node"):
        faults.append(not_supported("target.kind", kind, ["Node", "<empty>"]))
    if not node.get("name"):
        faults.append(required("target.name"))
    if faults:
        # Upstream forgets to make a Status of these: they come out as code 500 without a reason.
        said = ", ".join(f"{fault.field}: {fault.body}" for fault in faults)
        raise Refused(500, "", f"[{said}]" if len(faults) > 1 else said)


def _check_preconditions(target: Target, metadata: Object, pod: Object) -> None:
    for field, name in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        wanted = metadata.get(field)
        if wanted and wanted != pod["metadata"][field]:
            raise storage_conflict(target, f"{name} in precondition: {wanted}", name, pod)


def _check_bindable(target: Target, pod: Object) -> None:
    name, spec = target.name, pod["spec"]
    if "deletionTimestamp" in pod["metadata"]:
        why = f"pod {name} is being deleted, cannot be assigned to a host"
    elif spec.get("nodeName"):
        why = f"pod {name} is already assigned to node {quoted(spec['nodeName'])}"
    elif spec.get("schedulingGates"):
        why = f"pod {name} has non-empty .spec.schedulingGates"
    else:
        return
    raise conflict("", "pods/binding", name, why)
