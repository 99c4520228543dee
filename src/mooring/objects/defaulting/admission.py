"""What an API server does to objects before it stores them, for objects that come from files.

A scheduler never sees the file that a person wrote: defaults are filled in first, label keys are
merged into selectors, a priority class becomes a number. ``admit`` does it to the objects of a
reading, in order; ``admit_pod`` and ``admit_node`` to one. Objects that an API server has stored
already (dumps) pass unchanged. Recordings are never admitted: they hold what a scheduler saw.

Source: pkg/apis/{core,storage}/v1/defaults.go, pkg/registry/core/pod/strategy.go, and the admission
plugins Priority, DefaultTolerationSeconds and DefaultStorageClass, which every cluster runs.
Differs: nodes do not start with a not-ready taint, since no controller would take it away. Limit
ranges, runtime classes and webhooks are not known here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from msgspec.structs import replace

from mooring.errors import ConfigError
from mooring.objects.defaulting.label_keys import with_label_keys_merged
from mooring.objects.defaulting.pod_defaults import rounded_to_milli, with_defaults
from mooring.objects.defaulting.priority import PriorityClasses
from mooring.objects.kinds import KINDS
from mooring.objects.meta import KubernetesObject, ObjectMeta, PriorityClass
from mooring.objects.node import Node
from mooring.objects.pod import Pod, Toleration
from mooring.objects.storage import PersistentVolume, PersistentVolumeClaim, StorageClass

DEFAULT_NAMESPACE = "default"

#: When objects were made that do not say; any moment does, if it is the same in every run.
CREATED = "2000-01-01T00:00:00Z"

#: How long a pod stays on a node that has stopped answering.
NOT_READY_TOLERATION_SECONDS = 300
_LOST_NODE_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")

_DEFAULT_CLASS_ANNOTATIONS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)

_Stored = TypeVar("_Stored", bound=KubernetesObject)


def admit(
    objects: Iterable[KubernetesObject],
    *,
    created: str = CREATED,
    places: Sequence[tuple[str, int]] = (),
) -> list[KubernetesObject]:
    """Returns all objects as a scheduler would see them, in the same order.

    Priority classes and storage classes among them count for all. Missing UIDs are numbered, so
    equal input gives equal output.

    Args:
        objects: As they were read.
        created: The creation time of objects without one, RFC 3339.
        places: File and document of each object, for errors.

    Raises:
        ConfigError: An API server would refuse a pod: its priority class does not exist, or it
            contradicts that class. Names the object, and its place if that is given.
    """
    found = list(objects)
    classes = PriorityClasses(each for each in found if isinstance(each, PriorityClass))
    storage_class = default_storage_class(each for each in found if isinstance(each, StorageClass))
    taken = {each.metadata.uid for each in found}
    admitted: list[KubernetesObject] = []
    number = 0
    for position, each in enumerate(found):
        metadata = each.metadata
        uid = metadata.uid
        while not uid or (not metadata.uid and uid in taken):
            number += 1
            uid = f"00000000-0000-4000-8000-{number:012x}"
        try:
            stored = _admit_one(each, classes, storage_class)
        except ConfigError as error:
            if position >= len(places):
                raise
            file, document = places[position]
            raise error.located(file=file, document=document) from error
        admitted.append(with_identity(stored, uid=uid, created=created))
    return admitted


def admit_pod(pod: Pod, *, priority_classes: Iterable[PriorityClass] = ()) -> Pod:
    """Returns a pod with defaults, merged label keys, priority and default tolerations.

    Raises:
        ConfigError: Its priority class does not exist, or it contradicts that class.

    Example:
        >>> from mooring.objects.meta import ResourceRequirements
        >>> from mooring.objects.pod import Container, PodSpec
        >>> box = Container(resources=ResourceRequirements(limits={"cpu": "2"}))
        >>> admit_pod(Pod(spec=PodSpec(containers=(box,)))).spec.containers[0].resources.requests
        {'cpu': '2'}
    """
    return _admit_pod(pod, PriorityClasses(priority_classes))


def admit_node(node: Node) -> Node:
    """Returns a node with ``allocatable`` taken from ``capacity`` if it is missing."""
    status = node.status
    capacity = rounded_to_milli(status.capacity)
    allocatable = rounded_to_milli(status.allocatable) or capacity
    return replace(node, status=replace(status, capacity=capacity, allocatable=allocatable))


def admit_claim(
    claim: PersistentVolumeClaim, *, default_class: str | None = None
) -> PersistentVolumeClaim:
    """A claim with the default storage class if it names none; the empty name asks for none."""
    spec = claim.spec
    name = spec.storage_class_name
    if name is None and not _has_beta_class(claim.metadata):
        name = default_class
    mode = spec.volume_mode or "Filesystem"
    phase = claim.status.phase or "Pending"
    return replace(
        claim,
        spec=replace(spec, storage_class_name=name, volume_mode=mode),
        status=replace(claim.status, phase=phase),
    )


def default_storage_class(classes: Iterable[StorageClass]) -> str | None:
    """The name of the cluster's default storage class: of several the newest, then by name."""
    marked = [
        each
        for each in classes
        if any(each.metadata.annotations.get(key) == "true" for key in _DEFAULT_CLASS_ANNOTATIONS)
    ]
    by_name = sorted(marked, key=lambda each: each.metadata.name)
    newest = sorted(by_name, key=lambda each: each.metadata.creation_timestamp or "", reverse=True)
    return newest[0].metadata.name if newest else None


def with_identity(stored: _Stored, *, uid: str, created: str) -> _Stored:
    """Returns the object with a UID, a creation time and, if its kind has one, a namespace."""
    metadata = stored.metadata
    namespace = metadata.namespace
    if not namespace and KINDS[stored.kind].namespaced:
        namespace = DEFAULT_NAMESPACE
    filled = replace(
        metadata,
        uid=metadata.uid or uid,
        namespace=namespace,
        creation_timestamp=metadata.creation_timestamp or created,
    )
    # The protocol says that there is metadata; that it is a struct is known of every kind.
    return stored if filled == metadata else replace(stored, metadata=filled)  # type: ignore[type-var]


def _admit_one(
    each: KubernetesObject, classes: PriorityClasses, storage_class: str | None
) -> KubernetesObject:
    match each:
        case Pod():
            return _admit_pod(each, classes)
        case Node():
            return admit_node(each)
        case PersistentVolumeClaim():
            return admit_claim(each, default_class=storage_class)
        case PersistentVolume():
            mode = each.spec.volume_mode or "Filesystem"
            return replace(each, spec=replace(each.spec, volume_mode=mode))
        case StorageClass():
            return replace(each, volume_binding_mode=each.volume_binding_mode or "Immediate")
    return each


def _admit_pod(pod: Pod, classes: PriorityClasses) -> Pod:
    admitted = with_label_keys_merged(with_defaults(pod))
    if not _is_stored(pod) or pod.spec.priority is None:
        admitted = classes.applied_to(admitted)
    return _with_default_tolerations(admitted)


def _is_stored(pod: Pod) -> bool:
    """Whether an API server has had the pod: then its priority is right, whatever classes say."""
    return bool(pod.metadata.uid and pod.metadata.creation_timestamp)


def _with_default_tolerations(pod: Pod) -> Pod:
    """Returns the pod, tolerating lost nodes for a while unless it says how long itself."""
    tolerations = pod.spec.tolerations
    missing = tuple(
        Toleration(
            key=taint,
            operator="Exists",
            effect="NoExecute",
            toleration_seconds=NOT_READY_TOLERATION_SECONDS,
        )
        for taint in _LOST_NODE_TAINTS
        if not any(
            each.key in (taint, "") and each.effect in ("NoExecute", "") for each in tolerations
        )
    )
    return replace(pod, spec=replace(pod.spec, tolerations=tolerations + missing))


def _has_beta_class(metadata: ObjectMeta) -> bool:
    """Returns whether the claim names its class in the old way, by an annotation."""
    return "volume.beta.kubernetes.io/storage-class" in metadata.annotations
