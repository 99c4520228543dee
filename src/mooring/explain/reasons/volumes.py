"""Explains the plugins of volumes: the claim, its class and provisioner, the volumes by name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mooring.explain.reasons.case import Case, count_text, names_text, similar
from mooring.objects.csi_migration import BETA_REGION, BETA_ZONE, REGION, ZONE
from mooring.objects.meta import NodeSelector, key
from mooring.objects.node import Node
from mooring.objects.selectors import compile_label_selector, compile_node_selector
from mooring.objects.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from mooring.objects.volume_claims import (
    WAIT_FOR_FIRST_CONSUMER,
    amount,
    claim_class,
    claim_uses,
    is_bound_to,
    is_fully_bound,
    volume_class,
)
from mooring.plugins.volume_zone import topologies_of
from mooring.state.volumes.disks import conflict_count, disks_of

#: Volumes of a class whose problems are listed.
VOLUMES_SHOWN: Final = 4

#: The provisioner of classes without one.
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
ONCE_POD: Final = "ReadWriteOncePod"
_NEVER: Final = ("", NO_PROVISIONER)


def claims_of(case: Case) -> Iterator[PersistentVolumeClaim]:
    """Yields the claims of the pod that exist."""
    for use in claim_uses(case.pod):
        claim = case.snapshot.storage.claim(f"{case.pod.metadata.namespace}/{use.name}")
        if claim is not None:
            yield claim


# ---- the pod ----


def pod_causes(case: Case) -> Iterator[str]:
    """Yields why a claim of the pod is not usable, whatever the node."""
    namespace, storage = case.pod.metadata.namespace, case.snapshot.storage
    for use in claim_uses(case.pod):
        claim = storage.claim(f"{namespace}/{use.name}")
        if claim is None:
            yield _missing(case, use.name, is_ephemeral=use.is_ephemeral)
        elif claim.status.phase == "Lost":
            yield f"{_label(claim)} is Lost: its volume {claim.spec.volume_name} does not exist"
        elif claim.metadata.deletion_timestamp is not None:
            yield f"{_label(claim)} is being deleted since {claim.metadata.deletion_timestamp}"
        elif not is_fully_bound(claim):
            yield from _unbound(case, claim)


def _missing(case: Case, name: str, *, is_ephemeral: bool) -> str:
    namespace, claims = case.pod.metadata.namespace, case.snapshot.storage.objects.claims
    if is_ephemeral:
        return (
            f"claim {namespace}/{name} does not exist: the controller of ephemeral volumes has"
            " not made it"
        )
    of_namespace = [
        claim.metadata.name for claim in claims.values() if claim.metadata.namespace == namespace
    ]
    near = similar(name, of_namespace)
    hint = f" (did you mean {near}?)" if near else ""
    return f"claim {namespace}/{name} does not exist{hint}"


def _unbound(case: Case, claim: PersistentVolumeClaim) -> Iterator[str]:
    """Yields what an unbound claim waits for."""
    name, storage = claim_class(claim), case.snapshot.storage
    if claim.spec.volume_name:
        volume = storage.volume(claim.spec.volume_name)
        exists = "whose binding is not complete" if volume else "which does not exist"
        yield f"{_label(claim)} names volume {claim.spec.volume_name}, {exists}"
        return
    storage_class = storage.storage_class(name) if name else None
    if not name:
        yield f"{_label(claim)} has no class and is unbound: it waits for a volume without class"
    elif storage_class is None:
        near = similar(name, storage.objects.classes)
        hint = f" (did you mean {near}?)" if near else ""
        yield f"{_label(claim)} waits for class {name}, which does not exist{hint}"
    elif storage_class.volume_binding_mode != WAIT_FOR_FIRST_CONSUMER:
        yield f"{_label(claim)} is unbound; its {_class_text(storage_class)} is Immediate"
        if storage_class.provisioner in _NEVER:
            yield "  it waits for a volume: the class provisions none"
        else:
            yield f"  it waits for the provisioner {storage_class.provisioner} to make a volume"
    else:
        return
    yield from (f"  {line}" for line in _volumes(case, claim, None))


# ---- VolumeBinding on a node ----


def binding_causes(case: Case, node: Node) -> Iterator[str]:
    """Yields which claim finds no volume on a node, and which volume is only for other nodes."""
    storage = case.snapshot.storage
    for claim in claims_of(case):
        if is_fully_bound(claim):
            volume = storage.volume(claim.spec.volume_name)
            if volume is None:
                yield f"{_label(claim)}: its volume {claim.spec.volume_name} does not exist"
            elif not _is_reachable(volume, node):
                yield f"{_label(claim)}: volume {volume.metadata.name} is only for {_where(volume)}"
            continue
        if claim.spec.volume_name or any(_free_for(case, claim, node)):
            continue
        yield from _not_found(case, claim, node)


def _not_found(case: Case, claim: PersistentVolumeClaim, node: Node) -> Iterator[str]:
    name = claim_class(claim)
    storage_class = case.snapshot.storage.storage_class(name)
    if storage_class is None:
        yield f"{_label(claim)}: class {name or '(none)'} does not exist"
        return
    label = f"{_label(claim)} of {_class_text(storage_class)}"
    reasons = list(_volumes(case, claim, node))
    if storage_class.provisioner in _NEVER:
        if not reasons:
            yield f"{label}: there is no volume of the class, and it provisions none"
        for reason in reasons:
            yield f"{label}: {reason}"
        return
    topologies = storage_class.allowed_topologies
    if topologies and not _is_allowed(storage_class, node):
        yield f"{label}: allowedTopologies of the class exclude the node"
        return
    driver = case.snapshot.storage.driver(storage_class.provisioner)
    if driver is not None and driver.spec.storage_capacity and not reasons:
        size = amount(claim.spec.resources.requests)
        yield f"{label}: the driver reports too little capacity here for {size}"
        return
    for reason in reasons:
        yield f"{label}: {reason}"


def _is_allowed(storage_class: StorageClass, node: Node) -> bool:
    return any(
        all(
            node.metadata.labels.get(item.key) in item.values
            for item in term.match_label_expressions
        )
        for term in storage_class.allowed_topologies
    )


def _free_for(case: Case, claim: PersistentVolumeClaim, node: Node) -> Iterator[PersistentVolume]:
    """Yields the volumes that can be bound to a claim on a node."""
    for volume, problem in _of_class(case, claim):
        if not problem and _is_reachable(volume, node):
            yield volume


def _of_class(case: Case, claim: PersistentVolumeClaim) -> list[tuple[PersistentVolume, str]]:
    """Returns the volumes of the claim's class, each with why it does not do on any node."""

    def compute() -> list[tuple[PersistentVolume, str]]:
        volumes = case.snapshot.storage.objects.volumes.values()
        name = claim_class(claim)
        return [
            (volume, _problem(volume, claim)) for volume in volumes if volume_class(volume) == name
        ]

    return case.once(("volumes", key(claim)), compute)


def _volumes(case: Case, claim: PersistentVolumeClaim, node: Node | None) -> Iterator[str]:
    """Yields why each volume of the class does not do; those that are nearest first."""
    problems = [
        (volume, problem or f"is only for {_where(volume)}")
        for volume, problem in _of_class(case, claim)
        if problem or (node is not None and not _is_reachable(volume, node))
    ]
    problems.sort(key=lambda item: not item[1].startswith("is only for"))
    for volume, problem in problems[:VOLUMES_SHOWN]:
        yield f"volume {volume.metadata.name} {problem}"
    rest = len(problems) - VOLUMES_SHOWN
    if rest > 0:
        yield f"... and {count_text(rest, 'more volume')} of the class"


def _problem(volume: PersistentVolume, claim: PersistentVolumeClaim) -> str:
    """Returns why a volume cannot be bound to the claim, whatever the node; "" = it can."""
    spec, reference = volume.spec, volume.spec.claim_ref
    if reference is not None and not is_bound_to(reference, claim):
        return f"belongs to claim {reference.namespace}/{reference.name}"
    if volume.metadata.deletion_timestamp is not None:
        return "is being deleted"
    if reference is None and volume.status.phase != "Available":
        phase = volume.status.phase
        return f"has the phase {phase}" if phase else "is not Available yet: it has no phase"
    size, requested = amount(spec.capacity), amount(claim.spec.resources.requests)
    if size < requested:
        return f"is too small: {_raw(spec.capacity)} of {_raw(claim.spec.resources.requests)}"
    modes = set(claim.spec.access_modes) - set(spec.access_modes)
    if modes:
        return f"has not the access mode {names_text(sorted(modes))}"
    if (spec.volume_mode or "Filesystem") != (claim.spec.volume_mode or "Filesystem"):
        return f"has the volumeMode {spec.volume_mode or 'Filesystem'}"
    selector = claim.spec.selector
    if selector is not None and not compile_label_selector(selector).matches(
        volume.metadata.labels
    ):
        return f"is not selected by {compile_label_selector(selector)}"
    return ""


def _raw(resources: dict[str, str | int | float]) -> str:
    return str(resources.get("storage", "0"))


def _is_reachable(volume: PersistentVolume, node: Node) -> bool:
    required = _required(volume)
    if required is None:
        return True
    return compile_node_selector(required).matches(node.metadata.labels, node.metadata.name)


def _required(volume: PersistentVolume) -> NodeSelector | None:
    affinity = volume.spec.node_affinity
    return affinity.required if affinity is not None else None


def _where(volume: PersistentVolume) -> str:
    """Returns the nodes of a volume: "nodes with zone=a"."""
    required = _required(volume)
    terms = compile_node_selector(required).terms if required is not None else ()
    texts = [", ".join(str(item) for item in (*term.expressions, *term.fields)) for term in terms]
    return f"nodes with {' or '.join(texts)}" if texts else "no node"


def _label(claim: PersistentVolumeClaim) -> str:
    return f"claim {key(claim)}"


def _class_text(storage_class: StorageClass) -> str:
    return f"class {storage_class.metadata.name} (provisioner {storage_class.provisioner})"


def labels_of_volumes(case: Case) -> dict[str, str]:
    """Returns the labels that a node needs for the volumes of the pod: of zones, for example."""
    storage, labels = case.snapshot.storage, dict[str, str]()
    for claim in claims_of(case):
        volume = storage.volume(claim.spec.volume_name) if claim.spec.volume_name else None
        if volume is not None:
            labels |= _first_labels(_required(volume))
            labels |= {item.key: min(item.values) for item in topologies_of(volume)}
            continue
        storage_class = storage.storage_class(claim_class(claim))
        for term in () if storage_class is None else storage_class.allowed_topologies[:1]:
            for item in term.match_label_expressions:
                labels[item.key] = next(iter(item.values), "")
    return labels


def _first_labels(selector: NodeSelector | None) -> dict[str, str]:
    """Returns labels of the nodes that the first term of a selector selects."""
    terms = () if selector is None else selector.node_selector_terms[:1]
    return {
        item.key: item.values[0]
        for term in terms
        for item in term.match_expressions
        if item.operator == "In" and item.values
    }


# ---- VolumeZone, NodeVolumeLimits, VolumeRestrictions ----


def zone_causes(case: Case, node: Node) -> Iterator[str]:
    """Yields the volume whose zone or region is not the node's."""
    labels = node.metadata.labels
    current = {BETA_ZONE: ZONE, BETA_REGION: REGION}
    for claim in claims_of(case):
        volume = case.snapshot.storage.volume(claim.spec.volume_name)
        for topology in topologies_of(volume) if volume is not None else ():
            value = labels.get(topology.key, labels.get(current.get(topology.key, "")))
            if volume is not None and value not in topology.values:
                values = " or ".join(sorted(topology.values))
                has = f"the node has {value}" if value else "the node has no such label"
                yield (
                    f"{_label(claim)}: volume {volume.metadata.name} is in"
                    f" {topology.key}={values}, {has}"
                )


def limit_causes(case: Case, node: Node) -> Iterator[str]:
    """Yields the driver whose limit of volumes is reached."""
    storage, name = case.snapshot.storage, node.metadata.name
    counted = storage.use.usage_if_scheduled(case.pod)
    if counted.problem is not None:
        yield f"the volumes of the pod cannot be counted: {counted.problem.text}"
    by_driver: dict[str, int] = {}
    for driver in counted.volumes.values():
        by_driver[driver] = by_driver.get(driver, 0) + 1
    for driver, added in by_driver.items():
        limit = storage.csi_nodes.limit(driver, name)
        remaining = storage.use.attached_volumes.remaining(driver, name)
        if added > remaining:
            used = storage.use.attached_volumes.count(driver, name)
            yield (
                f"driver {driver}: {used} of {count_text(limit, 'volume')} attached, the pod needs"
                f" {added} more"
            )


def restriction_pod_causes(case: Case) -> Iterator[str]:
    """Yields the claims that do not exist."""
    namespace = case.pod.metadata.namespace
    for use in claim_uses(case.pod):
        if case.snapshot.storage.claim(f"{namespace}/{use.name}") is None:
            yield _missing(case, use.name, is_ephemeral=use.is_ephemeral)


def restriction_causes(case: Case, node: Node) -> Iterator[str]:
    """Yields the pods that use a ReadWriteOncePod claim, or a disk that cannot be shared."""
    disks = disks_of(case.pod)
    for info in case.pods_on(node.metadata.name) if disks else ():
        if conflict_count(disks, disks_of(info.pod)):
            yield f"pod {info.key} uses the same disk, which cannot be shared"
    for claim in claims_of(case):
        if ONCE_POD not in claim.spec.access_modes:
            continue
        for info in case.pods:
            names = [use.name for use in claim_uses(info.pod)]
            is_same = info.metadata.namespace == case.pod.metadata.namespace
            if is_same and claim.metadata.name in names:
                yield f"{_label(claim)} ({ONCE_POD}) is used by pod {info.key} on {info.node_name}"
