"""VolumeZone: a pod goes where its volumes are, by the zone and region in the volumes' labels."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

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
from mooring.objects.volume_claims import WAIT_FOR_FIRST_CONSUMER, claim_class
from mooring.state import PodInfo
from mooring.state.columns.labels import MISSING
from mooring.state.volumes.storage import Storage

REASON = "node(s) had no available volume zone"

#: The labels that count, in the order in which kube-scheduler looks at them.
TOPOLOGY_LABELS: Final = (BETA_ZONE, BETA_REGION, ZONE, REGION)

_CURRENT: Final = {BETA_ZONE: ZONE, BETA_REGION: REGION}
_DELIMITER: Final = "__"

Bools = npt.NDArray[np.bool_]


class Topology(NamedTuple):
    """Where a volume is: the label must have one of the values."""

    key: str
    values: frozenset[str]


@dataclass(frozen=True, slots=True)
class ZoneState:
    """Where all volumes of the pod are."""

    topologies: tuple[Topology, ...]


class VolumeZone:
    """Refuses nodes outside the zone or region of a volume of the pod.

    Nodes without any label of a zone or region take every volume.

    Source: pkg/scheduler/framework/plugins/volumezone/volume_zone.go.
    """

    name = "VolumeZone"
    needs = ("PersistentVolume", "PersistentVolumeClaim", "StorageClass")

    def sign(self, pod: PodInfo) -> Hashable:
        """Returns the pod's namespace and the claims that it uses by name: what the hints read."""
        return pod.metadata.namespace, _claim_names(pod)

    def pre_filter(self, cycle: Cycle) -> Status | Skip | None:
        """Finds the volumes of the pod's claims; skips a pod whose volumes are in no zone."""
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
        """Refuses nodes that are in a zone or region, but in another one."""
        state: ZoneState = cycle[self]
        is_elsewhere = np.zeros(len(nodes), dtype=np.bool_)
        for topology in state.topologies:
            is_elsewhere |= ~_is_in(topology, nodes)
        if is_elsewhere.any():
            is_elsewhere &= _is_anywhere(nodes)
        return FilterStatuses.refuse(is_elsewhere, Reject(REASON, resolvable=False))

    def events(self) -> list[ClusterEventWithHint]:
        """A class that waits for pods, a node or its labels, a claim of the pod, a volume."""
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
    """Where a volume is, by its labels; a label with an empty part says nothing."""
    found = []
    for key in TOPOLOGY_LABELS:
        written = volume.metadata.labels.get(key)
        if written is None:
            continue
        values = frozenset(value.strip() for value in written.split(_DELIMITER))
        if "" not in values:
            found.append(Topology(key, values))
    return found


def _volume_of(storage: Storage, namespace: str, name: str) -> PersistentVolume | Status | None:
    """Returns the claim's volume; None if it is made once the pod has a node."""
    if not name:
        return _refusal("PersistentVolumeClaim had no name")
    claim = storage.claim(f"{namespace}/{name}")
    if claim is None:
        return _refusal(f'persistentvolumeclaim "{name}" not found')
    volume_name = claim.spec.volume_name
    if not volume_name:
        return _refusal_without_volume(storage, claim)
    volume = storage.volume(volume_name)
    if volume is None:
        return _refusal(f'persistentvolume "{volume_name}" not found')
    return volume


def _refusal_without_volume(storage: Storage, claim: PersistentVolumeClaim) -> Status | None:
    """What is wrong with a claim that has no volume; None if it waits for a pod."""
    name = claim_class(claim)
    if not name:
        return _refusal("PersistentVolumeClaim had no pv name and storageClass name")
    found = storage.storage_class(name)
    if found is None:
        return _refusal(f'storageclass.storage.k8s.io "{name}" not found')
    if found.volume_binding_mode is None:
        return _refusal(f'VolumeBindingMode not set for StorageClass "{name}"')
    if found.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER:
        return None
    return _refusal("PersistentVolume had no name")


def _refusal(reason: str) -> Status:
    return Reject(reason, resolvable=False)


def _is_in(topology: Topology, nodes: NodeView) -> Bools:
    """Which nodes have one of the values; without a beta label, the current one is looked at."""
    found = _has_value(topology.key, topology.values, nodes)
    current = _CURRENT.get(topology.key)
    if current is not None:
        codes, _ = nodes.label(topology.key)
        found |= (codes == MISSING) & _has_value(current, topology.values, nodes)
    return found


def _has_value(key: str, values: frozenset[str], nodes: NodeView) -> Bools:
    codes, column = nodes.label(key)
    is_wanted = np.zeros(len(column.values) + 1, dtype=np.bool_)  # the last: no such label
    for value in values:
        is_wanted[column.values.find(value)] = True
    is_wanted[MISSING] = False
    return is_wanted[codes]


def _is_anywhere(nodes: NodeView) -> Bools:
    """Which nodes have a label of a zone or region at all."""
    found = np.zeros(len(nodes), dtype=np.bool_)
    for key in TOPOLOGY_LABELS:
        found |= nodes.label(key)[0] != MISSING
    return found


def _claim_names(pod: PodInfo) -> tuple[str, ...]:
    claims = (volume.persistent_volume_claim for volume in pod.spec.volumes)
    return tuple(claim.claim_name for claim in claims if claim is not None)


def _answer(helps: bool) -> QueueingHint:
    return QueueingHint.QUEUE if helps else QueueingHint.SKIP


def _after_class_added(_: PodInfo, __: StorageClass | None, new: StorageClass) -> QueueingHint:
    """Claims of the class wait for their pod. The mode of a class never changes."""
    return _answer(new.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER)


def _after_claim_change(
    pod: PodInfo, _: PersistentVolumeClaim | None, new: PersistentVolumeClaim
) -> QueueingHint:
    """It is a claim of the pod."""
    is_own = new.metadata.namespace == pod.metadata.namespace
    return _answer(is_own and new.metadata.name in _claim_names(pod))


def _after_volume_change(
    _: PodInfo, old: PersistentVolume | None, new: PersistentVolume
) -> QueueingHint:
    """There is another volume, or one is somewhere else now."""
    return _answer(old is None or topologies_of(old) != topologies_of(new))
