"""Finds objects that the pods of a workload refer to, and that its files do not have.

A dump without the claims of its pods gives answers that are wrong for the cluster that it is from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from mooring.objects.codec.decode import to_builtins
from mooring.objects.counts import counted
from mooring.objects.defaulting.storage import is_default_class
from mooring.objects.meta import key
from mooring.objects.pod import Pod
from mooring.objects.resource import ResourceClaim
from mooring.objects.storage import PersistentVolumeClaim, StorageClass
from mooring.objects.volume_claims import claim_class, claim_uses
from mooring.simulation.workload import Workload

#: Names that a note lists.
NAMED: Final = 3

#: Stands for the default storage class, which has no certain name.
DEFAULT_CLASS: Final = "(a default one)"

#: What to do about it.
ADVICE: Final = "write a complete dump with: mooring dump"


def missing_objects(workload: Workload) -> dict[str, list[str]]:
    """Returns kind -> keys of objects that pods or claims refer to, and that do not exist."""
    existing: dict[str, set[str]] = {}
    for obj in workload.objects:
        existing.setdefault(type(obj).__name__, set()).add(key(obj))
        if isinstance(obj, StorageClass) and is_default_class(to_builtins(obj)):
            existing["StorageClass"].add(DEFAULT_CLASS)
    missing: dict[str, dict[str, None]] = {}
    for kind, name in _references(workload):
        if name not in existing.get(kind, ()):
            missing.setdefault(kind, {})[name] = None
    if _selects_namespaces(workload.pending) and "Namespace" not in existing:
        namespaces = {pod.metadata.namespace: None for pod in workload.pods}
        missing["Namespace"] = dict(sorted(namespaces.items()))
    return {kind: list(names) for kind, names in missing.items()}


def notes_of(missing: dict[str, list[str]]) -> list[str]:
    """Returns a sentence for each kind of missing objects."""
    texts = []
    for kind, names in missing.items():
        first = ", ".join(names[:NAMED]) + (", ..." if len(names) > NAMED else "")
        verb = "is" if len(names) == 1 else "are"
        texts.append(f"{counted(len(names), kind)} {verb} not in the input: {first}; {ADVICE}")
    return texts


def _references(workload: Workload) -> Iterator[tuple[str, str]]:
    """Yields kind and key of everything that a decision about the pods reads."""
    for pod in workload.pods:
        yield from _of_pod(pod)
    for obj in workload.objects:
        if isinstance(obj, PersistentVolumeClaim):
            yield from _of_volume_claim(obj)
        elif isinstance(obj, ResourceClaim):
            yield from _of_device_claim(obj)
    for item in workload.controlled:
        for template in item["spec"].get("volumeClaimTemplates") or ():
            yield from _of_class(template["spec"].get("storageClassName"))


def _of_pod(pod: Pod) -> Iterator[tuple[str, str]]:
    namespace = pod.metadata.namespace
    if pod.spec.node_name:
        yield "Node", pod.spec.node_name
    for use in claim_uses(pod):
        # The claim of an ephemeral volume is made after its pod.
        if not use.is_ephemeral or pod.spec.node_name:
            yield "PersistentVolumeClaim", f"{namespace}/{use.name}"
    needs_templates = not pod.spec.node_name and not pod.status.resource_claim_statuses
    for entry in pod.spec.resource_claims:
        if entry.resource_claim_name is not None:
            yield "ResourceClaim", f"{namespace}/{entry.resource_claim_name}"
        elif entry.resource_claim_template_name is not None and needs_templates:
            yield "ResourceClaimTemplate", f"{namespace}/{entry.resource_claim_template_name}"


def _of_volume_claim(claim: PersistentVolumeClaim) -> Iterator[tuple[str, str]]:
    if claim.spec.volume_name:
        yield "PersistentVolume", claim.spec.volume_name
    else:
        yield from _of_class(claim_class(claim) or claim.spec.storage_class_name)


def _of_class(name: str | None) -> Iterator[tuple[str, str]]:
    """Yields the storage class of an unbound claim; the empty name says that it has none."""
    if name != "":
        yield "StorageClass", DEFAULT_CLASS if name is None else name


def _of_device_claim(claim: ResourceClaim) -> Iterator[tuple[str, str]]:
    if claim.status.allocation is not None:
        return
    for request in claim.spec.devices.requests:
        choices: Iterable[Any] = request.first_available or (
            () if request.exactly is None else (request.exactly,)
        )
        for choice in choices:
            if choice.device_class_name:
                yield "DeviceClass", choice.device_class_name


def _selects_namespaces(pods: Iterable[Pod]) -> bool:
    """Returns whether an affinity term selects namespaces by their labels."""
    return any(
        term.namespace_selector is not None
        for pod in pods
        if pod.spec.affinity is not None
        for affinity in (pod.spec.affinity.pod_affinity, pod.spec.affinity.pod_anti_affinity)
        if affinity is not None
        for term in (
            *affinity.required_during_scheduling_ignored_during_execution,
            *(
                weighted.pod_affinity_term
                for weighted in affinity.preferred_during_scheduling_ignored_during_execution
            ),
        )
    )
