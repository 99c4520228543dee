"""The four volume plugins once more, one node at a time, walking every object and every pod.

Written from the reference page and the upstream source, not from the columns and indexes. Nothing
here uses code of ``mooring.plugins`` or of ``mooring.state.volumes.storage``; the objects are in
plain dicts, and selectors are matched here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from mooring.framework import SKIP, Cycle, FilterStatuses, NodeInfo, NodeView, Reject, Status
from mooring.framework.status import Skip
from mooring.objects.meta import key
from mooring.objects.pod import Pod, Volume
from mooring.objects.storage import (
    PersistentVolume,
    PersistentVolumeClaim,
)
from mooring.state import PodInfo

ZONES = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
BETA_CLASS = "volume.beta.kubernetes.io/storage-class"


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
    """The common part of the reference plugins."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        return FilterStatuses.of(self.status(cycle, node) for node in nodes)

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
                for node in NodeView.all_nodes(cycle.snapshot)
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
        """Returns the claim's volume, or what is wrong with it."""
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


# ---------------------------------------------------------------- claims


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
