"""VolumeRestrictions: disks that two pods cannot share, and ReadWriteOncePod claims."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace

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
from mooring.objects.pod import Pod, Volume
from mooring.objects.storage import PersistentVolumeClaim
from mooring.objects.volume_claims import READ_WRITE_ONCE_POD, volume_sources
from mooring.state import PodInfo
from mooring.state.types import Bools, Ints
from mooring.state.volumes.disks import Disk, conflict_count, describes_disk, disks_of

REASON_DISK = "node(s) had no available disk"
REASON_CLAIM = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already "
    "in-use by another pod"
)


@dataclass(frozen=True, slots=True)
class RestrictionsState:
    """The filter state.

    Attributes:
        disks: The disks in the pod's own volumes.
        claims: The names of its ReadWriteOncePod claims.
        in_use: The number of those that other pods use.
        in_use_by_node: The same on each of m hypothetical nodes, int64 shape (m,); None = without.
    """

    disks: tuple[Disk, ...]
    claims: frozenset[str]
    in_use: int
    in_use_by_node: Ints | None = None


class VolumeRestrictions:
    """Rejects nodes where another pod has a disk that cannot be shared.

    Rejects every node while another pod uses a claim with the access mode ReadWriteOncePod.
    Preemption may resolve both.

    Source: pkg/scheduler/framework/plugins/volumerestrictions/volume_restrictions.go.
    """

    name = "VolumeRestrictions"
    needs = ("PersistentVolumeClaim",)

    def sign(self, pod: PodInfo) -> Hashable:
        """Returns the pod's namespace, its claims and its disks: what the hints read."""
        return pod.metadata.namespace, _claim_names(pod.pod), disks_of(pod.pod)

    def batch_signature(self, pod: PodInfo) -> Hashable:
        """Returns the sources of the pod's volumes."""
        return volume_sources(pod.pod)

    def applies_to(self, pod: PodInfo) -> bool:
        """Returns whether the pod has volumes from claims, or disks."""
        return any(map(_may_be_restricted, pod.spec.volumes))

    def pre_filter(self, cycle: Cycle) -> Status | Skip | None:
        """Looks up the claims; skips a pod without disks or used ReadWriteOncePod claims."""
        pod, volumes = cycle.pod.pod, cycle.pod.spec.volumes
        if not volumes:
            return SKIP
        namespace, storage = pod.metadata.namespace, cycle.snapshot.storage
        once_pod, has_disks = [], False
        for volume in volumes:
            has_disks = has_disks or describes_disk(volume)
            if volume.persistent_volume_claim is None:
                continue
            name = volume.persistent_volume_claim.claim_name
            claim = storage.claim(f"{namespace}/{name}")
            if claim is None:
                return Reject(f'persistentvolumeclaim "{name}" not found', resolvable=False)
            if READ_WRITE_ONCE_POD in claim.spec.access_modes:
                once_pod.append(name)
        claims = frozenset(once_pod)
        in_use = sum(storage.use.is_claim_used(f"{namespace}/{name}") for name in claims)
        if not in_use and not has_disks:
            return SKIP
        cycle[self] = RestrictionsState(disks_of(pod), claims, in_use)
        return None

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        """Rejects by disks first, then by claims."""
        state: RestrictionsState = cycle[self]
        codes = np.zeros(len(nodes), dtype=np.uint16)
        if state.in_use_by_node is not None:
            codes[state.in_use_by_node > 0] = 2
        elif state.in_use > 0:
            codes[:] = 2
        if state.disks:
            codes[_has_conflict(state.disks, nodes)] = 1
        return FilterStatuses(codes, [Reject(REASON_DISK), Reject(REASON_CLAIM)])

    def apply_deltas(
        self,
        cycle: Cycle,  # noqa: ARG002
        state: RestrictionsState,
        nodes: NodeView,
    ) -> RestrictionsState:
        """Returns the state with added and removed pods included in the claims in use.

        As upstream, a volume of such a pod counts if its claim has the same name, in any namespace.
        """
        if not state.claims:
            return state

        def uses(pod: PodInfo) -> int:
            return sum(name in state.claims for name in _claim_names(pod.pod))

        delta = nodes.change(uses, ("ReadWriteOncePod", state.claims))
        return replace(state, in_use_by_node=state.in_use + delta)

    def events(self) -> list[ClusterEventWithHint]:
        """Registers deleted pods, added nodes and added claims."""
        deleted = ClusterEvent(EventResource.POD, ActionType.DELETE)
        claim = ClusterEvent(EventResource.PERSISTENT_VOLUME_CLAIM, ActionType.ADD)
        return [
            ClusterEventWithHint(deleted, _after_pod_deleted, pure=True),
            ClusterEventWithHint(ClusterEvent(EventResource.NODE, ActionType.ADD)),
            ClusterEventWithHint(claim, _after_claim_added, pure=True),
        ]


def _has_conflict(disks: tuple[Disk, ...], nodes: NodeView) -> Bools:
    """Returns the nodes where a pod uses one of the disks in a conflicting way."""
    counts = nodes.snapshot.storage.use.disks.conflicts(disks)
    if not counts and not any(nodes.added):
        return np.zeros(len(nodes), dtype=np.bool_)  # removed pods have no conflict, either
    count_by_row = np.zeros(nodes.snapshot.nodes.capacity, dtype=np.int64)
    count_by_row[list(counts)] = list(counts.values())
    count = nodes.take(count_by_row)
    if not nodes.has_deltas:
        return count > 0

    def conflicts(pod: PodInfo) -> int:
        return conflict_count(disks, disks_of(pod.pod))

    return count + nodes.change(conflicts, ("disks", disks)) > 0


def _may_be_restricted(volume: Volume) -> bool:
    """Returns whether the volume is a claim, or a disk."""
    return volume.persistent_volume_claim is not None or describes_disk(volume)


def _claim_names(pod: Pod) -> tuple[str, ...]:
    """Returns the names of the pod's claims, with duplicates."""
    if not pod.spec.volumes:
        return ()
    claims = (volume.persistent_volume_claim for volume in pod.spec.volumes)
    return tuple(claim.claim_name for claim in claims if claim is not None)


def _after_pod_deleted(pod: PodInfo, old: Pod, _: Pod | None) -> QueueingHint:
    """Queues if the deleted pod had a conflicting disk or the same claim, in the same namespace."""
    if old.metadata.namespace != pod.metadata.namespace:
        return QueueingHint.SKIP
    has_disk = conflict_count(disks_of(pod.pod), disks_of(old)) > 0
    has_claim = not set(_claim_names(pod.pod)).isdisjoint(_claim_names(old))
    return QueueingHint.queue_if(has_disk or has_claim)


def _after_claim_added(
    pod: PodInfo, _: PersistentVolumeClaim | None, new: PersistentVolumeClaim
) -> QueueingHint:
    """Queues if the claim is one of the pod's."""
    is_own = new.metadata.namespace == pod.metadata.namespace
    helps = is_own and new.metadata.name in _claim_names(pod.pod)
    return QueueingHint.queue_if(helps)
