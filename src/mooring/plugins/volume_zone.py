"""VolumeZone: rejects nodes outside the zones and regions in the labels of the pod's volumes."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from mooring.cluster_event import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    QueueingHint,
)
from mooring.framework import SKIP, Cycle, FilterStatuses, NodeView, Reject, Status
from mooring.framework.status import Skip
from mooring.objects.csi_migration import BETA_REGION, BETA_ZONE, REGION, ZONE
from mooring.objects.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from mooring.objects.volume_claims import WAIT_FOR_FIRST_CONSUMER, claim_class, volume_sources
from mooring.state import PodInfo
from mooring.state.columns.labels import MISSING
from mooring.state.types import Bools
from mooring.state.volumes.storage import Storage

REASON = "node(s) had no available volume zone"

#: The labels that count, in kube-scheduler's order.
TOPOLOGY_LABELS: Final = (BETA_ZONE, BETA_REGION, ZONE, REGION)

_CURRENT: Final = {BETA_ZONE: ZONE, BETA_REGION: REGION}
_DELIMITER: Final = "__"


class Topology(NamedTuple):
    """A requirement of a volume: the node's label must have one of the values."""

    key: str
    values: frozenset[str]


@dataclass(frozen=True, slots=True)
class ZoneState:
    """The requirements of all volumes of the pod."""

    topologies: tuple[Topology, ...]


class VolumeZone:
    """Rejects nodes outside the zone or region of a volume of the pod.

    Nodes without any zone or region label accept every volume.

    Source: pkg/scheduler/framework/plugins/volumezone/volume_zone.go.
    """

    name = "VolumeZone"
    needs = ("PersistentVolume", "PersistentVolumeClaim", "StorageClass")

    def sign(self, pod: PodInfo) -> Hashable:
        """Returns the pod's namespace and the names of its claims: what the hints read."""
        return pod.metadata.namespace, _claim_names(pod)

    def batch_signature(self, pod: PodInfo) -> Hashable:
        """Returns the sources of the pod's volumes."""
        return volume_sources(pod.pod)

    def applies_to(self, pod: PodInfo) -> bool:
        """Returns whether the pod has claims."""
        return bool(_claim_names(pod))

    def pre_filter(self, cycle: Cycle) -> Status | Skip | None:
        """Looks up the volumes of the pod's claims; skips a pod whose volumes have no zone."""
        if not cycle.pod.spec.volumes:
            return SKIP
        storage = cycle.snapshot.storage
        topologies: dict[Topology, None] = {}
        for name in _claim_names(cycle.pod):
            volume = _volume_of(storage, cycle.pod.metadata.namespace, name)
            if isinstance(volume, Status):
                return volume
            if volume is not None:
                topologies.update(dict.fromkeys(topologies_of(volume)))
        if not topologies:
            return SKIP
        cycle[self] = ZoneState(tuple(topologies))
        return None

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        """Rejects nodes that have zone or region labels, but other values."""
        state: ZoneState = cycle[self]
        is_outside = np.zeros(len(nodes), dtype=np.bool_)
        for topology in state.topologies:
            is_outside |= ~_matches(topology, nodes)
        if is_outside.any():
            is_outside &= _has_any_topology_label(nodes)
        return FilterStatuses.reject(is_outside, Reject(REASON, resolvable=False))

    def events(self) -> list[ClusterEventWithHint]:
        """Registers storage classes, nodes and their labels, claims and volumes."""
        change = ActionType.ADD | ActionType.UPDATE
        node = ActionType.ADD | ActionType.UPDATE_NODE_LABEL
        of_class = ClusterEvent(EventResource.STORAGE_CLASS, ActionType.ADD)
        claim = ClusterEvent(EventResource.PERSISTENT_VOLUME_CLAIM, change)
        volume = ClusterEvent(EventResource.PERSISTENT_VOLUME, change)
        return [
            ClusterEventWithHint(of_class, _after_class_added, pure=True),
            ClusterEventWithHint(ClusterEvent(EventResource.NODE, node)),
            ClusterEventWithHint(claim, _after_claim_change, pure=True),
            ClusterEventWithHint(volume, _after_volume_change, pure=True),
        ]


def topologies_of(volume: PersistentVolume) -> list[Topology]:
    """Returns the requirements in a volume's labels; ignores labels with an empty part."""
    topologies = []
    for key in TOPOLOGY_LABELS:
        label_value = volume.metadata.labels.get(key)
        if label_value is None:
            continue
        values = frozenset(value.strip() for value in label_value.split(_DELIMITER))
        if "" not in values:
            topologies.append(Topology(key, values))
    return topologies


def _volume_of(storage: Storage, namespace: str, name: str) -> PersistentVolume | Status | None:
    """Returns the claim's volume or a rejection; None if binding waits for the pod's node."""
    if not name:
        return _reject("PersistentVolumeClaim had no name")
    claim = storage.claim(f"{namespace}/{name}")
    if claim is None:
        return _reject(f'persistentvolumeclaim "{name}" not found')
    volume_name = claim.spec.volume_name
    if not volume_name:
        return _status_without_volume(storage, claim)
    volume = storage.volume(volume_name)
    if volume is None:
        return _reject(f'persistentvolume "{volume_name}" not found')
    return volume


def _status_without_volume(storage: Storage, claim: PersistentVolumeClaim) -> Status | None:
    """Returns the rejection for a claim without a volume; None if binding waits for the pod."""
    name = claim_class(claim)
    if not name:
        return _reject("PersistentVolumeClaim had no pv name and storageClass name")
    storage_class = storage.storage_class(name)
    if storage_class is None:
        return _reject(f'storageclass.storage.k8s.io "{name}" not found')
    if storage_class.volume_binding_mode is None:
        return _reject(f'VolumeBindingMode not set for StorageClass "{name}"')
    if storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER:
        return None
    return _reject("PersistentVolume had no name")


def _reject(reason: str) -> Status:
    return Reject(reason, resolvable=False)


def _matches(topology: Topology, nodes: NodeView) -> Bools:
    """Returns the nodes with one of the values; a missing beta label falls back to the GA one."""
    matches = _has_value(topology.key, topology.values, nodes)
    current = _CURRENT.get(topology.key)
    if current is not None:
        codes, _ = nodes.label(topology.key)
        matches |= (codes == MISSING) & _has_value(current, topology.values, nodes)
    return matches


def _has_value(key: str, values: frozenset[str], nodes: NodeView) -> Bools:
    codes, column = nodes.label(key)
    is_value = np.zeros(len(column.values) + 1, dtype=np.bool_)  # the last: no such label
    for value in values:
        is_value[column.values.find(value)] = True
    is_value[MISSING] = False
    return is_value[codes]


def _has_any_topology_label(nodes: NodeView) -> Bools:
    """Returns the nodes with any zone or region label."""
    has_label = np.zeros(len(nodes), dtype=np.bool_)
    for key in TOPOLOGY_LABELS:
        has_label |= nodes.label(key)[0] != MISSING
    return has_label


def _claim_names(pod: PodInfo) -> tuple[str, ...]:
    claims = (volume.persistent_volume_claim for volume in pod.spec.volumes)
    return tuple(claim.claim_name for claim in claims if claim is not None)


def _after_class_added(_: PodInfo, __: StorageClass | None, new: StorageClass) -> QueueingHint:
    """Queues if claims of the class wait for their pod; the mode of a class never changes."""
    return QueueingHint.queue_if(new.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER)


def _after_claim_change(
    pod: PodInfo, _: PersistentVolumeClaim | None, new: PersistentVolumeClaim
) -> QueueingHint:
    """Queues if the claim is one of the pod's."""
    is_own = new.metadata.namespace == pod.metadata.namespace
    return QueueingHint.queue_if(is_own and new.metadata.name in _claim_names(pod))


def _after_volume_change(
    _: PodInfo, old: PersistentVolume | None, new: PersistentVolume
) -> QueueingHint:
    """Queues if the volume is new or its topology labels changed."""
    return QueueingHint.queue_if(old is None or topologies_of(old) != topologies_of(new))
