"""Applies the API server's defaults and admission to objects from files.

A scheduler never sees the file that a person wrote: defaults are filled in first, label keys are
merged into selectors, a priority class becomes a number. The rules are those of ``defaulting``,
which the embedded API server follows too; here is only how they apply to files: objects of any
order, new ones and ones that an API server has stored already (dumps), which stay as they are.
Recordings are never admitted: they hold what a scheduler saw.

Differs: nodes do not start with a not-ready taint, since no controller would take it away. Limit
ranges and webhooks are not applied. A pod whose runtime class is not among the files has none. A
pod that names no class keeps a priority of its own, since files for trying things out say
``priority: 100`` and no more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from mooring.errors import ConfigError
from mooring.objects.codec.decode import convert
from mooring.objects.defaulting import pods, storage
from mooring.objects.defaulting.priority import PriorityClasses, PriorityRefused, system_classes
from mooring.objects.defaulting.runtime_classes import RuntimeClassRefused, apply_runtime_class
from mooring.objects.schema.checks import find_problems, without_wrong_types
from mooring.objects.schema.decoding import WrongType, reader_of
from mooring.objects.schema.types import struct_of
from mooring.objects.types import Object

if TYPE_CHECKING:
    from mooring.objects.kinds import Kind


DEFAULT_NAMESPACE = "default"

#: When objects were made that do not say; any moment does, if it is the same in every run.
CREATED = "2000-01-01T00:00:00Z"

#: Kinds that the admission of other objects looks at, and the fields that it looks at.
_LOOKED_AT = frozenset(("PriorityClass", "RuntimeClass", "StorageClass", "Node"))
_FIELDS = ("kind", "value", "globalDefault", "preemptionPolicy", "overhead", "scheduling")
_METADATA_FIELDS = ("name", "labels", "annotations", "creationTimestamp")


class Neighbors:
    """The objects that the admission of other objects reads."""

    def __init__(self, objects: Iterable[Object] = ()) -> None:
        """Takes the objects of a cluster, with defaults; those of other kinds are ignored."""
        by_kind: dict[str, list[Object]] = {kind: [] for kind in _LOOKED_AT}
        for obj in objects:
            if obj["kind"] in by_kind:
                by_kind[obj["kind"]].append(obj)
        self.priority_classes = PriorityClasses([*system_classes(), *by_kind["PriorityClass"]])
        self.storage_class = storage.default_storage_class(by_kind["StorageClass"])
        self.runtime_classes = {obj["metadata"]["name"]: obj for obj in by_kind["RuntimeClass"]}
        self.topology_labels = {
            node["metadata"]["name"]: pods.topology_labels(node["metadata"].get("labels") or {})
            for node in by_kind["Node"]
        }


def part_looked_at(obj: Object) -> Object | None:
    """Returns what the admission of other objects reads of this one; None = nothing.

    Nodes can be large, and all of them wait until the last object is read.
    """
    if obj["kind"] not in _LOOKED_AT:
        return None
    metadata = obj["metadata"]
    part = {name: obj[name] for name in _FIELDS if name in obj}
    part["metadata"] = {name: metadata[name] for name in _METADATA_FIELDS if name in metadata}
    return part


def is_admitted_alone(obj: Object) -> bool:
    """Returns whether no other object matters for the admission of this one."""
    return obj["kind"] == "Pod" and pods.is_stored(obj) and "priority" in obj["spec"]


def with_defaults(raw: Object, kind: Kind) -> Object:
    """Returns an object as an API server decodes it: defaults, canonical quantities and times.

    Unknown fields are left out, and so are fields that no scheduler reads if they have a wrong
    type; ``raw`` is not changed.

    Raises:
        ConfigError: A field that a scheduler reads has a wrong type.
    """
    type_name = struct_of(kind.group, kind.name)
    try:
        obj = reader_of(type_name).read(raw)
    except WrongType:
        convert(raw, kind)
        problems = list(find_problems(type_name, raw))
        obj = reader_of(type_name).read(without_wrong_types(raw, problems))
    return with_head(obj, kind)


def with_head(obj: Object, kind: Kind) -> Object:
    """Gives a decoded object its kind, version and namespace, and returns it."""
    obj["kind"], obj["apiVersion"] = kind.name, kind.api_version
    metadata = obj["metadata"]
    if not kind.namespaced:
        metadata.pop("namespace", None)
    elif not metadata.get("namespace"):
        metadata["namespace"] = DEFAULT_NAMESPACE
    return obj


def admit(obj: Object, neighbors: Neighbors) -> None:
    """Changes an object with defaults as admission and preparation of an API server do.

    Raises:
        ConfigError: The pod names a priority class that does not exist, or contradicts it.
    """
    if obj["kind"] == "Pod":
        _admit_pod(obj, neighbors)
    elif obj["kind"] == "PersistentVolumeClaim":
        if neighbors.storage_class is not None and not storage.has_class(obj):
            obj["spec"]["storageClassName"] = neighbors.storage_class
        storage.prepare_claim_spec(obj)


def _admit_pod(pod: Object, neighbors: Neighbors) -> None:
    spec = pod["spec"]
    is_stored = pods.is_stored(pod)
    # What has been stored has the right priority and overhead, whatever the classes say today.
    is_admitted = is_stored and "priority" in spec
    if not is_admitted:
        _set_priority(pod, neighbors.priority_classes)
    pods.add_default_tolerations(pod)
    if not is_admitted:
        _apply_runtime_class(pod, neighbors.runtime_classes)
    if is_stored:
        pods.prepare_stored_spec(pod)
    else:
        pods.add_topology_labels(pod, neighbors.topology_labels.get(spec.get("nodeName", ""), {}))
        pods.prepare_spec(pod)
    pod["status"].setdefault("phase", "Pending")


def _apply_runtime_class(pod: Object, classes: Mapping[str, Object]) -> None:
    runtime_class = classes.get(pod["spec"].get("runtimeClassName", ""))
    if runtime_class is None:
        return
    try:
        apply_runtime_class(pod, runtime_class)
    except RuntimeClassRefused as why:
        name = pod["spec"]["runtimeClassName"]
        raise ConfigError(str(why), path="spec.runtimeClassName", value=name) from None


def _set_priority(pod: Object, classes: PriorityClasses) -> None:
    spec = pod["spec"]
    names_class = bool(spec.get("priorityClassName"))
    if not names_class and "priority" in spec:
        return
    own_policy = None if names_class or classes.default else spec.pop("preemptionPolicy", None)
    try:
        classes.apply(pod)
    except PriorityRefused as why:
        raise ConfigError(
            why.message, path=f"spec.{why.field}", value=why.value, suggestion=why.suggestion
        ) from None
    if own_policy is not None:
        spec["preemptionPolicy"] = own_policy
