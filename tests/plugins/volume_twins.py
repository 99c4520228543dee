"""The four volume plugins once more, one node at a time, walking every object and every pod.

Written from the reference page and the upstream source, not from the columns and indexes. Nothing
here uses code of ``mooring.plugins`` or of ``mooring.state.storage``; the objects are in plain
dicts, and selectors are matched here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mooring.framework import SKIP, Cycle, NodeInfo, NodeView, Reject, Status, Verdicts
from mooring.framework.verdict import NodeError, Skip
from mooring.objects.meta import LabelSelector, NodeSelectorTerm, key
from mooring.objects.pod import Pod, Volume
from mooring.objects.quantity import Quantity
from mooring.objects.storage import (
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
)
from mooring.state import PodInfo

ZONES = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
BETA_CLASS = "volume.beta.kubernetes.io/storage-class"

#: In-tree source -> (plugin, driver, is it taken for a volume of the driver).
IN_TREE = {
    "gce_persistent_disk": ("kubernetes.io/gce-pd", "pd.csi.storage.gke.io", True),
    "aws_elastic_block_store": ("kubernetes.io/aws-ebs", "ebs.csi.aws.com", True),
    "cinder": ("kubernetes.io/cinder", "cinder.csi.openstack.org", True),
    "azure_disk": ("kubernetes.io/azure-disk", "disk.csi.azure.com", True),
    "azure_file": ("kubernetes.io/azure-file", "file.csi.azure.com", False),
    "vsphere_volume": ("kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com", False),
    "portworx_volume": ("kubernetes.io/portworx-volume", "pxd.portworx.com", True),
}


@dataclass
class Facts:
    """Every object by kind and key, and what is assumed of volumes and claims."""

    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    assumed: dict[str, dict[str, Any]] = field(default_factory=dict)

    def put(self, obj: Any) -> None:
        self.objects.setdefault(type(obj).__name__, {})[key(obj)] = obj

    def remove(self, kind: str, object_key: str) -> None:
        self.objects.get(kind, {}).pop(object_key, None)

    def get(self, kind: str, object_key: str) -> Any:
        return self.objects.get(kind, {}).get(object_key)

    def all(self, kind: str) -> Iterable[Any]:
        return self.objects.get(kind, {}).values()

    def current(self, kind: str, object_key: str) -> Any:
        assumed = self.assumed.get(kind, {}).get(object_key)
        return assumed if assumed is not None else self.get(kind, object_key)


class Twin:
    """What the twins have in common."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts

    def filter(self, cycle: Cycle, nodes: NodeView) -> Verdicts:
        return Verdicts.of(self.status(cycle, node) for node in nodes)

    def status(self, cycle: Cycle, node: NodeInfo) -> Status | None:
        raise NotImplementedError

    def claim(self, pod: PodInfo, name: str) -> PersistentVolumeClaim | None:
        found: PersistentVolumeClaim | None = self.facts.get(
            "PersistentVolumeClaim", f"{pod.metadata.namespace}/{name}"
        )
        return found


# ---------------------------------------------------------------- VolumeRestrictions


class RestrictionsTwin(Twin):
    name = "VolumeRestrictions"

    def pre_filter(self, cycle: Cycle) -> Status | Skip | None:
        alone = set()
        for volume in cycle.pod.spec.volumes:
            if volume.persistent_volume_claim is None:
                continue
            name = volume.persistent_volume_claim.claim_name
            claim = self.claim(cycle.pod, name)
            if claim is None:
                return Reject(f'persistentvolumeclaim "{name}" not found', resolvable=False)
            if "ReadWriteOncePod" in claim.spec.access_modes:
                alone.add(name)
        used = 0
        for name in alone:
            users = [
                pod
                for node in NodeView.everything(cycle.snapshot)
                for pod in node.pods
                if pod.metadata.namespace == cycle.pod.metadata.namespace
                and name in claim_names(pod)
            ]
            used += bool(users)
        if not used and not any(map(is_disk, cycle.pod.spec.volumes)):
            return SKIP
        cycle[self] = (alone, used)
        return None

    def status(self, cycle: Cycle, node: NodeInfo) -> Status | None:
        for own in cycle.pod.spec.volumes:
            for pod in node.pods:
                if any(clash(own, other) for other in pod.spec.volumes):
                    return Reject("node(s) had no available disk")
        if cycle[self][1] > 0:
            return Reject(
                "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access "
                "mode already in-use by another pod"
            )
        return None

    def add_pod(self, cycle: Cycle, state: Any, pod: PodInfo, node: NodeInfo) -> Any:
        return (state[0], state[1] + sum(name in state[0] for name in claim_names(pod)))

    def remove_pod(self, cycle: Cycle, state: Any, pod: PodInfo, node: NodeInfo) -> Any:
        return (state[0], state[1] - sum(name in state[0] for name in claim_names(pod)))


def claim_names(pod: PodInfo) -> list[str]:
    claims = [volume.persistent_volume_claim for volume in pod.spec.volumes]
    return [claim.claim_name for claim in claims if claim is not None]


def is_disk(volume: Volume) -> bool:
    return any(
        getattr(volume, kind) is not None
        for kind in ("gce_persistent_disk", "aws_elastic_block_store", "iscsi", "rbd")
    )


def clash(one: Volume, other: Volume) -> bool:
    a, b = one.gce_persistent_disk, other.gce_persistent_disk
    if a and b and a.pd_name == b.pd_name and not (a.read_only and b.read_only):
        return True
    c, d = one.aws_elastic_block_store, other.aws_elastic_block_store
    if c and d and c.volume_id == d.volume_id:
        return True
    e, f = one.iscsi, other.iscsi
    if e and f and e.iqn == f.iqn and not (e.read_only and f.read_only):
        return True
    g, h = one.rbd, other.rbd
    return bool(
        g
        and h
        and set(g.monitors) & set(h.monitors)
        and (g.pool, g.image) == (h.pool, h.image)
        and not (g.read_only and h.read_only)
    )


# ---------------------------------------------------------------- VolumeZone


class ZoneTwin(Twin):
    name = "VolumeZone"

    def pre_filter(self, cycle: Cycle) -> Status | Skip | None:
        wanted: list[tuple[str, set[str]]] = []
        for name in claim_names(cycle.pod):
            found = self.volume(cycle.pod, name)
            if isinstance(found, str):
                return Reject(found, resolvable=False)
            if found is not None:
                wanted += zones_of(found)
        if not wanted:
            return SKIP
        cycle[self] = wanted
        return None

    def volume(self, pod: PodInfo, name: str) -> PersistentVolume | str | None:
        """The claim's volume, or what is wrong with it."""
        if not name:
            return "PersistentVolumeClaim had no name"
        claim = self.claim(pod, name)
        if claim is None:
            return f'persistentvolumeclaim "{name}" not found'
        if claim.spec.volume_name:
            volume: PersistentVolume | None = self.facts.get(
                "PersistentVolume", claim.spec.volume_name
            )
            return volume or f'persistentvolume "{claim.spec.volume_name}" not found'
        class_name = class_of(claim)
        if not class_name:
            return "PersistentVolumeClaim had no pv name and storageClass name"
        found = self.facts.get("StorageClass", class_name)
        if found is None:
            return f'storageclass.storage.k8s.io "{class_name}" not found'
        if found.volume_binding_mode is None:
            return f'VolumeBindingMode not set for StorageClass "{class_name}"'
        is_late = found.volume_binding_mode == "WaitForFirstConsumer"
        return None if is_late else "PersistentVolume had no name"

    def status(self, cycle: Cycle, node: NodeInfo) -> Status | None:
        labels = node.labels
        if not any(name in labels for name in (*ZONES, *ZONES.values())):
            return None
        for name, values in cycle[self]:
            value = labels.get(name, labels.get(ZONES.get(name, name)))
            if value is None or value not in values:
                return Reject("node(s) had no available volume zone", resolvable=False)
        return None


def zones_of(volume: PersistentVolume) -> list[tuple[str, set[str]]]:
    found = []
    for name, value in volume.metadata.labels.items():
        parts = {part.strip() for part in value.split("__")}
        if name in (*ZONES, *ZONES.values()) and "" not in parts:
            found.append((name, parts))
    return found


# ---------------------------------------------------------------- NodeVolumeLimits


class Missing(Exception):
    """A claim that does not exist."""


class Broken(Exception):
    """Volumes that cannot be counted."""


class LimitsTwin(Twin):
    name = "NodeVolumeLimits"

    def pre_filter(self, cycle: Cycle) -> Skip | None:
        for volume in cycle.pod.spec.volumes:
            if volume.persistent_volume_claim or volume.ephemeral or source_of(volume):
                return None
        return SKIP

    def status(self, cycle: Cycle, node: NodeInfo) -> Status | None:
        csi_node: CSINode | None = self.facts.get("CSINode", node.name)
        try:
            new = self.attachable(cycle.pod.pod, csi_node, is_new=True)
        except Missing as error:
            return Reject(str(error), resolvable=False)
        except Broken as error:
            return NodeError(str(error))
        limits = {
            driver.name: driver.allocatable.count
            for driver in (csi_node.spec.drivers if csi_node else ())
            if driver.allocatable is not None and driver.allocatable.count is not None
        }
        if not new or not limits:
            return None
        held: dict[str, str] = {}
        for pod in node.pods:
            try:
                held.update(self.attachable(pod.pod, csi_node, is_new=False))
            except Broken as error:
                return NodeError(str(error))
        counts: dict[str, int] = {}
        for driver in [*held.values(), *self.attached(node.name, held).values()]:
            counts[driver] = counts.get(driver, 0) + 1
        wanted: dict[str, int] = {}
        for volume, driver in new.items():
            if volume not in held:
                wanted[driver] = wanted.get(driver, 0) + 1
        for driver, count in wanted.items():
            if driver in limits and counts.get(driver, 0) + count > limits[driver]:
                return Reject("node(s) exceed max volume count")
        return None

    def attached(self, node_name: str, held: Mapping[str, str]) -> dict[str, str]:
        found = {}
        for attachment in self.facts.all("VolumeAttachment"):
            name = attachment.spec.source.persistent_volume_name
            volume = self.facts.get("PersistentVolume", name or "")
            if attachment.spec.node_name != node_name or not attachment.spec.attacher:
                continue
            if volume is None or volume.spec.csi is None:
                continue
            called = f"{attachment.spec.attacher}/{volume.spec.csi.volume_handle}"
            if called not in held:
                found[called] = attachment.spec.attacher
        return found

    def attachable(self, pod: Pod, csi_node: CSINode | None, *, is_new: bool) -> dict[str, str]:
        found: dict[str, str] = {}
        for volume in pod.spec.volumes:
            name = claim_of(pod, volume)
            if name is None:
                found.update(inline(volume, csi_node))
                continue
            if not name:
                raise Broken("PersistentVolumeClaim had no name")
            at = f"{pod.metadata.namespace}/{name}"
            claim = self.facts.get("PersistentVolumeClaim", at)
            if claim is None and is_new:
                problem = f'persistentvolumeclaim "{name}" not found'
                raise Missing(f"looking up PVC {at}: {problem}")
            if claim is None:
                continue
            if volume.ephemeral is not None and volume.persistent_volume_claim is None:
                problem = not_owned(pod, claim)
                if problem:
                    raise Broken(problem)
            driver, handle = self.driver_of(claim, csi_node)
            if driver and handle:
                found[f"{driver}/{handle}"] = driver
        return found

    def driver_of(self, claim: PersistentVolumeClaim, csi_node: CSINode | None) -> tuple[str, str]:
        volume = self.facts.get("PersistentVolume", claim.spec.volume_name)
        if volume is not None and claim.spec.volume_name:
            if volume.spec.csi is not None:
                return volume.spec.csi.driver, volume.spec.csi.volume_handle
            source = source_of(volume.spec)
            if source is None or not IN_TREE[source][2] or csi_node is None:
                return "", ""
            try:
                return IN_TREE[source][1], translated(volume, source)
            except Broken:
                return "", ""
        found = self.facts.get("StorageClass", class_of(claim))
        if not class_of(claim) or found is None:
            return "", ""
        handle = f"random-{key(claim)}"
        for plugin, driver, is_migrated in IN_TREE.values():
            if plugin == found.provisioner:
                return (driver, handle) if is_migrated and csi_node is not None else ("", "")
        return found.provisioner, handle


def source_of(volume: Any) -> str | None:
    for name in IN_TREE:
        if getattr(volume, name, None) is not None:
            return name
    return None


def inline(volume: Volume, csi_node: CSINode | None) -> dict[str, str]:
    name = source_of(volume)
    if name is None or csi_node is None or not IN_TREE[name][2]:
        return {}
    source, driver = getattr(volume, name), IN_TREE[name][1]
    try:
        if name == "gce_persistent_disk":
            handle = f"projects/UNSPECIFIED/zones/UNSPECIFIED/disks/{source.pd_name}"
        else:
            handle = handle_of(source, name)
    except Broken as error:
        text = f"converting volume({volume.name}) from inline to csi: {error}"
        raise Broken(text) from error
    return {f"{driver}/{handle}": driver}


def handle_of(source: Any, name: str) -> str:
    if name == "aws_elastic_block_store":
        if not source.volume_id.startswith("aws://"):
            return str(source.volume_id)
        found = re.fullmatch(r"aws://[^/]*/+(vol-[^/]*)/*", source.volume_id)
        if found is None:
            raise Broken(
                "failed to translate Kubernetes ID to EBS Volume ID "
                f"Invalid format for AWS volume ({source.volume_id})"
            )
        return found[1]
    if name == "azure_disk":
        if source.kind is not None and source.kind.lower() != "managed":
            raise Broken(f"kind({source.kind}) is not supported in csi migration")
        return str(source.disk_uri)
    return str(source.volume_id)


def translated(volume: PersistentVolume, name: str) -> str:
    source = getattr(volume.spec, name)
    if name != "gce_persistent_disk":
        return handle_of(source, name)
    labels = volume.metadata.labels
    written = labels.get("failure-domain.beta.kubernetes.io/zone") or labels.get(
        "topology.kubernetes.io/zone", ""
    )
    zones = written.split("__")
    if len(zones) == 1:
        where = f"zones/{zones[0] or 'UNSPECIFIED'}"
    else:
        regions = {"-".join(zone.split("-")[:2]) for zone in zones}
        if len(regions) != 1 or any(len(zone.split("-")) != 3 for zone in zones):
            raise Broken("failed to get region from zones")
        where = f"regions/{regions.pop()}"
    return f"projects/UNSPECIFIED/{where}/disks/{source.pd_name}"


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
    """What is asked of every volume, one that names the claim included."""
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
    """The affinity with the driver's own label of zones."""
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


def class_of(claim: PersistentVolumeClaim) -> str:
    beta = claim.metadata.annotations.get(BETA_CLASS)
    return beta if beta is not None else claim.spec.storage_class_name or ""


def volume_class_of(volume: PersistentVolume) -> str:
    return volume.metadata.annotations.get(BETA_CLASS, volume.spec.storage_class_name)


def is_bound(claim: PersistentVolumeClaim) -> bool:
    marked = "pv.kubernetes.io/bind-completed" in claim.metadata.annotations
    return marked and bool(claim.spec.volume_name)


def claim_of(pod: Pod, volume: Volume) -> str | None:
    if volume.persistent_volume_claim is not None:
        return volume.persistent_volume_claim.claim_name
    if volume.ephemeral is not None:
        return f"{pod.metadata.name}-{volume.name}"
    return None


def not_owned(pod: Pod, claim: PersistentVolumeClaim) -> str:
    owners = [owner.uid for owner in claim.metadata.owner_references if owner.controller]
    if owners[:1] == [pod.metadata.uid]:
        return ""
    return f"PVC {key(claim)} was not created for pod {key(pod)} (pod is not owner)"
