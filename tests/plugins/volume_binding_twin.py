"""VolumeBinding once more, one node at a time, walking every volume.

Written from the reference page and the upstream source; see ``volume_twins``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mooring.framework import SKIP, Cycle, NodeInfo, NodeView, Reject, Status
from mooring.framework.status import NodeError, Skip
from mooring.objects.meta import LabelSelector, NodeSelectorTerm
from mooring.objects.pod import Pod, Volume
from mooring.objects.quantity import Quantity
from mooring.objects.storage import (
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
)
from tests.plugins.volume_limits_twin import IN_TREE, Broken, source_of, translated
from tests.plugins.volume_twins import (
    Twin,
    claim_of,
    class_of,
    is_bound,
    not_owned,
    volume_class_of,
)

# ---------------------------------------------------------------- VolumeBinding


class BindingTwin(Twin):
    name = "VolumeBinding"

    def pre_filter(self, cycle: Cycle) -> Status | Skip | None:
        pod = cycle.pod.pod
        names = [(volume, claim_of(pod, volume)) for volume in pod.spec.volumes]
        if not any(name is not None for _, name in names):
            return SKIP
        for volume, name in names:
            problem = "" if name is None else self.problem(pod, volume, name)
            if problem:
                return Reject(problem, resolvable=False)
        bound, late, now = [], [], []
        for _, name in names:
            if name is None:
                continue
            claim = self.facts.current("PersistentVolumeClaim", f"{pod.metadata.namespace}/{name}")
            if is_bound(claim):
                bound.append(claim)
            elif self.is_late(claim) and not claim.spec.volume_name:
                late.append(claim)
            else:
                now.append(claim)
        if now:
            return Reject("pod has unbound immediate PersistentVolumeClaims", resolvable=False)
        cycle[self] = (bound, late)
        return None

    def pre_score(self, cycle: Cycle, nodes: NodeView) -> Skip | None:
        return SKIP

    def score(self, cycle: Cycle, nodes: NodeView) -> Any:
        raise NotImplementedError

    def problem(self, pod: Pod, volume: Volume, name: str) -> str:
        claim = self.facts.get("PersistentVolumeClaim", f"{pod.metadata.namespace}/{name}")
        is_ephemeral = volume.persistent_volume_claim is None
        if claim is None and is_ephemeral:
            waits = "waiting for ephemeral volume controller to create the"
            return f'{waits} persistentvolumeclaim "{name}"'
        if claim is None:
            return f'persistentvolumeclaim "{name}" not found'
        if claim.status.phase == "Lost":
            gone = f'persistentvolume "{claim.spec.volume_name}"'
            return f'persistentvolumeclaim "{name}" bound to non-existent {gone}'
        if claim.metadata.deletion_timestamp:
            return f'persistentvolumeclaim "{name}" is being deleted'
        return not_owned(pod, claim) if is_ephemeral else ""

    def is_late(self, claim: PersistentVolumeClaim) -> bool:
        found = self.facts.get("StorageClass", class_of(claim)) if class_of(claim) else None
        if found is not None and found.volume_binding_mode is None:
            raise Broken(f'VolumeBindingMode not set for StorageClass "{class_of(claim)}"')
        return found is not None and found.volume_binding_mode == "WaitForFirstConsumer"

    def status(self, cycle: Cycle, node: NodeInfo) -> Status | None:
        bound, late = cycle[self]
        try:
            reasons = self.look_at_bound(bound, node)
            reasons += self.look_at_late(late, node)
        except Broken as error:
            return NodeError(str(error))
        ordered = [reason for reason in REASONS if reason in reasons]
        return Reject(*ordered, resolvable=False) if ordered else None

    def look_at_bound(self, claims: list[PersistentVolumeClaim], node: NodeInfo) -> list[str]:
        for claim in claims:
            volume = self.facts.current("PersistentVolume", claim.spec.volume_name)
            if volume is None:
                return [GONE]
            terms = affinity(volume)
            source = source_of(volume.spec)
            csi_node = self.facts.get("CSINode", node.name)
            if source is not None and IN_TREE[source][2] and has_taken_over(csi_node, source):
                try:
                    translated(volume, source)
                except Broken as error:
                    raise Broken(f"could not translate pv: {error}") from error
                terms = csi_affinity(volume, source)
            if not reaches(terms, node.labels):
                return [CONFLICT]
        return []

    def look_at_late(self, claims: list[PersistentVolumeClaim], node: NodeInfo) -> list[str]:
        selected = "volume.kubernetes.io/selected-node"
        to_make: list[PersistentVolumeClaim] = []
        to_find: list[PersistentVolumeClaim] = []
        for claim in claims:
            at = claim.metadata.annotations.get(selected)
            if at is not None and at != node.name:
                return [NO_MATCH]
            (to_find if at is None else to_make).append(claim)
        to_find.sort(key=lambda claim: size(claim.spec.resources.requests))
        taken: set[str] = set()
        for claim in to_find:
            volume = self.smallest(claim, node, taken)
            if volume is None:
                to_make.append(claim)
            else:
                taken.add(volume.metadata.name)
        for claim in to_make:
            problem = self.cannot_make(claim, node)
            if problem:
                return [problem]
        return []

    def smallest(
        self, claim: PersistentVolumeClaim, node: NodeInfo, taken: set[str]
    ) -> PersistentVolume | None:
        selector = claim.spec.selector
        found: list[PersistentVolume] = []
        for name in sorted(self.facts.objects.get("PersistentVolume", {})):
            volume = self.facts.current("PersistentVolume", name)
            if volume_class_of(self.facts.get("PersistentVolume", name)) != class_of(claim):
                continue
            if name in taken or not is_candidate(claim, volume):
                continue
            is_near = reaches(affinity(volume), node.labels)
            if volume.spec.claim_ref is not None:
                return volume if is_near else None
            if volume.status.phase != "Available" or not is_near:
                continue
            if selector is not None and not selects(selector, volume.metadata.labels):
                continue
            if set(claim.spec.access_modes) <= set(volume.spec.access_modes):
                found.append(volume)
        return min(found, key=lambda volume: size(volume.spec.capacity), default=None)

    def cannot_make(self, claim: PersistentVolumeClaim, node: NodeInfo) -> str:
        found = self.facts.get("StorageClass", class_of(claim))
        if found.provisioner in ("", "kubernetes.io/no-provisioner"):
            return NO_MATCH
        terms = found.allowed_topologies
        if terms and not any(
            term.match_label_expressions
            and all(
                each.values and node.labels.get(each.key) in each.values
                for each in term.match_label_expressions
            )
            for term in terms
        ):
            return NO_MATCH
        driver = self.facts.get("CSIDriver", found.provisioner)
        wanted = claim.spec.resources.requests.get("storage")
        if wanted is None or driver is None or not driver.spec.storage_capacity:
            return ""
        for capacity in self.facts.all("CSIStorageCapacity"):
            if capacity.storage_class_name == class_of(claim) and has_room(
                capacity, Quantity.from_wire(wanted).value(), node
            ):
                return ""
        return NO_ROOM


CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
NO_MATCH = "node(s) didn't find available persistent volumes to bind"
NO_ROOM = "node(s) did not have enough free storage"
GONE = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
REASONS = (CONFLICT, NO_MATCH, NO_ROOM, GONE)


def is_candidate(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    """Returns what is asked of every volume, one that names the claim included."""
    reference, own = volume.spec.claim_ref, claim.metadata
    if reference is not None:
        if (reference.namespace, reference.name) != (own.namespace, own.name):
            return False
        if reference.uid not in ("", own.uid):
            return False
    if size(volume.spec.capacity) < size(claim.spec.resources.requests):
        return False
    if (volume.spec.volume_mode or "Filesystem") != (claim.spec.volume_mode or "Filesystem"):
        return False
    wanted = claim.spec.volume_attributes_class_name or ""
    if (volume.spec.volume_attributes_class_name or "") != wanted:
        return False
    return volume.metadata.deletion_timestamp is None


def has_room(capacity: CSIStorageCapacity, size_bytes: int, node: NodeInfo) -> bool:
    limit = capacity.maximum_volume_size
    limit = capacity.capacity if limit is None else limit
    if limit is None or capacity.node_topology is None:
        return False
    if Quantity.from_wire(limit).value() < size_bytes:
        return False
    return selects(capacity.node_topology, node.labels)


def has_taken_over(csi_node: CSINode | None, source: str) -> bool:
    if csi_node is None:
        return False
    written = csi_node.metadata.annotations.get("storage.alpha.kubernetes.io/migrated-plugins", "")
    return IN_TREE[source][0] in written.split(",")


CSI_ZONES = {
    "gce_persistent_disk": "topology.gke.io/zone",
    "aws_elastic_block_store": "topology.ebs.csi.aws.com/zone",
    "cinder": "topology.cinder.csi.openstack.org/zone",
}


def csi_affinity(volume: PersistentVolume, source: str) -> list[list[Any]] | None:
    """Returns the affinity with the driver's own label of zones."""
    terms = affinity(volume)
    new = CSI_ZONES.get(source)
    if new is None:
        return terms
    beta, current = "failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"
    keys = {condition[0] for term in terms or () for condition in term}
    for names in (keys, volume.metadata.labels):
        if current in names or beta in names:
            zone = current if current in names else beta
            break
    else:
        zone = current
    said = {c[0] for term in terms or () for c in term if c[2]}
    if zone in said:
        renamed = [[(new if c[0] == zone else c[0], *c[1:]) for c in term] for term in terms or ()]
        if zone == beta:
            old, region = "failure-domain.beta.kubernetes.io/region", ZONES_REGION
            renamed = [[(region if c[0] == old else c[0], *c[1:]) for c in t] for t in renamed]
        return renamed
    if zone in volume.metadata.labels:
        values = [part.strip() for part in volume.metadata.labels[zone].split("__")]
        values = [value for value in values if value]
        if values:
            return [[*term, (new, "In", values)] for term in (terms or [[]])]
    return terms


ZONES_REGION = "topology.kubernetes.io/region"


def affinity(volume: PersistentVolume) -> list[list[Any]] | None:
    """Terms of (key, operator, values); None = anywhere. What says nothing is left out."""
    found = volume.spec.node_affinity
    if found is None or found.required is None:
        return None
    terms = [term for term in found.required.node_selector_terms if says_something(term)]
    return [[(c.key, c.operator, c.values) for c in term.match_expressions] for term in terms]


def says_something(term: NodeSelectorTerm) -> bool:
    return bool(term.match_expressions or term.match_fields)


def reaches(terms: list[list[Any]] | None, labels: Mapping[str, str]) -> bool:
    return terms is None or any(all(holds(c, labels) for c in term) for term in terms)


def holds(condition: Any, labels: Mapping[str, str]) -> bool:
    name, operator, values = condition
    value = labels.get(name)
    return {
        "In": value in values,
        "NotIn": value not in values,
        "Exists": value is not None,
        "DoesNotExist": value is None,
    }[operator]


def selects(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
    pairs = all(labels.get(name) == value for name, value in selector.match_labels.items())
    return pairs and all(
        holds((each.key, each.operator, each.values), labels) for each in selector.match_expressions
    )


def size(amounts: Mapping[str, Any]) -> Quantity:
    return Quantity.from_wire(amounts.get("storage", "0"))
