"""Changes that help on every node: claims, classes, gates, affinity; and one more node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from mooring.explain.changes.change import EDIT_POD, NEW_NODE, OBJECT, SuggestedChange
from mooring.explain.reasons.case import Case, similar
from mooring.explain.reasons.volumes import labels_of_volumes
from mooring.objects.meta import LabelSelector, ObjectMeta, ObjectReference, key
from mooring.objects.node import Node
from mooring.objects.pod import Pod
from mooring.objects.storage import (
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
    StorageClass,
)
from mooring.objects.volume_claims import (
    BIND_COMPLETED,
    WAIT_FOR_FIRST_CONSUMER,
    claim_class,
    claim_uses,
    is_fully_bound,
)
from mooring.simulation.utilization import Utilization

HOSTNAME: Final = "kubernetes.io/hostname"

#: The name of a node and the start of the names of volumes that exist only in trials.
TRIAL: Final = "mooring-explain-trial"

#: Groups of nodes of which one more node is tried.
GROUPS_TRIED: Final = 12


def without_gates(case: Case) -> Iterator[SuggestedChange]:
    """Yields the removal of the pod's scheduling gates."""
    gates = [gate.name for gate in case.pod.spec.scheduling_gates]
    if gates:

        def edit(pod: Pod) -> Pod:
            return replace(pod, spec=replace(pod.spec, scheduling_gates=()))

        noun = "gate" if len(gates) == 1 else "gates"
        text = f"remove the scheduling {noun} {', '.join(gates)} from the pod"
        yield SuggestedChange(text, EDIT_POD, "gates", edit)


def for_claims(case: Case) -> Iterator[SuggestedChange]:
    """Yields a change for each claim of the pod that is not usable."""
    namespace, storage = case.pod.metadata.namespace, case.snapshot.storage
    names = [
        claim.metadata.name
        for claim in storage.objects.claims.values()
        if claim.metadata.namespace == namespace
    ]
    for use in claim_uses(case.pod):
        claim = storage.claim(f"{namespace}/{use.name}")
        if claim is None:
            near = similar(use.name, names)
            if near is not None and not use.is_ephemeral:
                yield _renamed(use.name, near)
            yield _new_claim(namespace, use.name)
        elif not is_fully_bound(claim):
            name = claim_class(claim)
            if name and storage.storage_class(name) is None:
                yield _new_class(name)
            yield volume_for(claim)


def corrected_affinity(case: Case) -> Iterator[SuggestedChange]:
    """Yields, for each label that pod affinity requires and no pod has, the most similar one."""
    affinity = case.pod.spec.affinity
    pods = None if affinity is None else affinity.pod_affinity
    terms = () if pods is None else pods.required_during_scheduling_ignored_during_execution
    for index, term in enumerate(terms):
        labels = {} if term.label_selector is None else term.label_selector.match_labels
        for name, value in labels.items():
            values = {info.metadata.labels.get(name, "") for info in case.pods}
            near = None if value in values else similar(value, values)
            if near is not None:
                yield _with_affinity_label(index, name, value, near)


def _with_affinity_label(index: int, name: str, old: str, new: str) -> SuggestedChange:
    def edit(pod: Pod) -> Pod:
        affinity = pod.spec.affinity
        if affinity is None or affinity.pod_affinity is None:
            return pod
        pods = affinity.pod_affinity
        terms = list(pods.required_during_scheduling_ignored_during_execution)
        selector = terms[index].label_selector or LabelSelector()
        selector = replace(selector, match_labels={**selector.match_labels, name: new})
        terms[index] = replace(terms[index], label_selector=selector)
        pods = replace(pods, required_during_scheduling_ignored_during_execution=tuple(terms))
        changed = replace(affinity, pod_affinity=pods)
        return replace(pod, spec=replace(pod.spec, affinity=changed))

    text = f"require pods with {name}={new} in the pod's affinity (instead of {name}={old})"
    return SuggestedChange(text, EDIT_POD, f"affinity {index} {name}", edit)


def _renamed(name: str, near: str) -> SuggestedChange:
    def edit(pod: Pod) -> Pod:
        volumes = tuple(
            replace(
                volume,
                persistent_volume_claim=replace(volume.persistent_volume_claim, claim_name=near),
            )
            if volume.persistent_volume_claim is not None
            and volume.persistent_volume_claim.claim_name == name
            else volume
            for volume in pod.spec.volumes
        )
        return replace(pod, spec=replace(pod.spec, volumes=volumes))

    text = f"name claim {near} in the pod (instead of {name})"
    return SuggestedChange(text, EDIT_POD, f"claim {name}", edit)


def _new_claim(namespace: str, name: str) -> SuggestedChange:
    claim = PersistentVolumeClaim(metadata=ObjectMeta(name=name, namespace=namespace))
    text = f"create claim {namespace}/{name}, bound to a volume that all nodes reach"
    return SuggestedChange(text, OBJECT, f"create claim {name}", adds=_bound(claim))


def _new_class(name: str) -> SuggestedChange:
    storage_class = StorageClass(
        metadata=ObjectMeta(name=name),
        provisioner=TRIAL,
        volume_binding_mode=WAIT_FOR_FIRST_CONSUMER,
    )
    text = f"create class {name} with a provisioner and {WAIT_FOR_FIRST_CONSUMER}"
    return SuggestedChange(text, OBJECT, f"class {name}", adds=(storage_class,))


def volume_for(claim: PersistentVolumeClaim) -> SuggestedChange:
    """Returns a volume for an unbound claim, which all nodes reach."""
    size = claim.spec.resources.requests.get("storage", "0")
    name = claim_class(claim)
    of_class = f" of class {name}" if name else ""
    text = f"bind claim {key(claim)} to a volume of {size}{of_class} that all nodes reach"
    return SuggestedChange(text, OBJECT, f"volume {key(claim)}", adds=_bound(claim))


def _bound(claim: PersistentVolumeClaim) -> tuple[PersistentVolume, PersistentVolumeClaim]:
    """Returns a claim with a volume of its own."""
    own = claim.metadata
    volume = f"{TRIAL}-{own.name}"
    annotations = {**own.annotations, BIND_COMPLETED: "yes"}
    spec: PersistentVolumeClaimSpec = replace(claim.spec, volume_name=volume)
    bound = replace(claim, metadata=replace(own, annotations=annotations), spec=spec)
    reference = ObjectReference(namespace=own.namespace, name=own.name, uid=own.uid)
    return (
        PersistentVolume(
            metadata=ObjectMeta(name=volume),
            spec=PersistentVolumeSpec(claim_ref=reference, storage_class_name=claim_class(claim)),
            status=PersistentVolumeStatus(phase="Bound"),
        ),
        bound,
    )


def more_nodes(case: Case, utilization: Utilization) -> Iterator[SuggestedChange]:
    """Yields one more node of each group of nodes with the same taints and labels."""
    kinds: dict[object, tuple[str, Node]] = {}
    for node in case.nodes:
        if node.metadata.name in utilization.nodes:
            group = utilization.nodes[node.metadata.name].group
            labels = {k: v for k, v in node.metadata.labels.items() if k != HOSTNAME}
            kind = group, node.spec.taints, frozenset(labels.items())
            kinds.setdefault(kind, (group, node))
    tried = list(kinds.values())[:GROUPS_TRIED]
    for group, node in tried:
        yield _another(node, group, {})
    labels = labels_of_volumes(case)
    if not any(labels.items() <= node.metadata.labels.items() for node in case.nodes):
        for group, node in tried:
            yield _another(node, group, labels)


def _another(node: Node, group: str, more: dict[str, str]) -> SuggestedChange:
    """Returns one more node like another, with further labels."""
    labels = node.metadata.labels | more
    if HOSTNAME in labels:
        labels[HOSTNAME] = TRIAL
    metadata = ObjectMeta(name=TRIAL, labels=labels)
    spec = replace(node.spec, unschedulable=False)
    text = f"add a node like {node.metadata.name} ({group})"
    if more:
        text += f" with {', '.join(f'{key}={value}' for key, value in more.items())}"
    copy = replace(node, metadata=metadata, spec=spec)
    return SuggestedChange(text, NEW_NODE, "new node", adds=(copy,))
