"""VolumeRestrictions: disks that two pods cannot share, and claims that are for one pod alone."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace

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
from mooring.objects.pod import Pod
from mooring.objects.storage import PersistentVolumeClaim
from mooring.objects.volume_claims import READ_WRITE_ONCE_POD
from mooring.state import PodInfo
from mooring.state.volumes.disks import Disk, conflict_count, describes_disk, disks_of

REASON_DISK = "node(s) had no available disk"
REASON_CLAIM = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already "
    "in-use by another pod"
)

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RestrictionsState:
    """What filter needs.

    Attributes:
        disks: Those that the pod describes itself.
        claims: The names of its claims that are for one pod alone.
        in_use: How many of those another pod has.
        world: The same in each of m worlds, int64 shape (m,); None = as it is.
    """

    disks: tuple[Disk, ...]
    claims: frozenset[str]
    in_use: int
    world: Ints | None = None


class VolumeRestrictions:
    """Refuses nodes where another pod has a disk that cannot be shared.

    Refuses every node while another pod uses a claim with the access mode ReadWriteOncePod.
    Preemption can help against both.

    Source: pkg/scheduler/framework/plugins/volumerestrictions/volume_restrictions.go.
    """

    name = "VolumeRestrictions"
    needs = ("PersistentVolumeClaim",)

    def sign(self, pod: PodInfo) -> Hashable:
        """Returns the pod's namespace, its claims and its disks: what the hints read."""
        return pod.metadata.namespace, _claim_names(pod.pod), disks_of(pod.pod)

    def pre_filter(self, cycle: Cycle) -> Status | Skip | None:
        """Looks the claims up; skips a pod with nothing that another one may have."""
        pod, volumes = cycle.pod.pod, cycle.pod.spec.volumes
        if not volumes:
            return SKIP
        namespace, storage = pod.metadata.namespace, cycle.snapshot.storage
        alone, has_disks = [], False
        for volume in volumes:
            has_disks = has_disks or describes_disk(volume)
            if volume.persistent_volume_claim is None:
                continue
            name = volume.persistent_volume_claim.claim_name
            claim = storage.claim(f"{namespace}/{name}")
            if claim is None:
                return Reject(f'persistentvolumeclaim "{name}" not found', resolvable=False)
            if READ_WRITE_ONCE_POD in claim.spec.access_modes:
                alone.append(name)
        claims = frozenset(alone)
        in_use = sum(storage.use.is_claim_used(f"{namespace}/{name}") for name in claims)
        if not in_use and not has_disks:
            return SKIP
        cycle[self] = RestrictionsState(disks_of(pod), claims, in_use)
        return None

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        """Returns a disk that is taken comes before a claim that is."""
        state: RestrictionsState = cycle[self]
        codes = np.zeros(len(nodes), dtype=np.uint16)
        if state.world is not None:
            codes[state.world > 0] = 2
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
        """How many of the claims are in use with the pods that differ.

        As upstream: each volume of such a pod counts that has the name of such a claim, in
        whatever namespace.
        """
        if not state.claims:
            return state

        def uses(pod: PodInfo) -> int:
            return sum(name in state.claims for name in _claim_names(pod.pod))

        delta = nodes.change(uses, ("ReadWriteOncePod", state.claims))
        return replace(state, world=state.in_use + delta)

    def events(self) -> list[ClusterEventWithHint]:
        """Returns a pod that is in the way goes, a node comes, or a claim of the pod does."""
        deleted = ClusterEvent(EventResource.POD, ActionType.DELETE)
        claim = ClusterEvent(EventResource.PERSISTENT_VOLUME_CLAIM, ActionType.ADD)
        return [
            ClusterEventWithHint(deleted, _after_pod_deleted, pure=True),
            ClusterEventWithHint(ClusterEvent(EventResource.NODE, ActionType.ADD)),
            ClusterEventWithHint(claim, _after_claim_added, pure=True),
        ]


def _has_conflict(disks: tuple[Disk, ...], nodes: NodeView) -> Bools:
    """In which worlds a pod holds one of the disks in a way that does not go together."""
    found = nodes.snapshot.storage.use.disks.conflicts(disks)
    if not found and not any(nodes.added):
        return np.zeros(len(nodes), dtype=np.bool_)  # whoever left had none of them, either
    count = np.zeros(nodes.snapshot.nodes.capacity, dtype=np.int64)
    count[list(found)] = list(found.values())
    held = nodes.take(count)
    if not nodes.has_deltas:
        return held > 0

    def conflicts(pod: PodInfo) -> int:
        return conflict_count(disks, disks_of(pod.pod))

    return held + nodes.change(conflicts, ("disks", disks)) > 0


def _claim_names(pod: Pod) -> tuple[str, ...]:
    """Returns the claims that the pod uses by name, as often as it does."""
    if not pod.spec.volumes:
        return ()
    claims = (volume.persistent_volume_claim for volume in pod.spec.volumes)
    return tuple(claim.claim_name for claim in claims if claim is not None)


def _after_pod_deleted(pod: PodInfo, old: Pod, _: Pod | None) -> QueueingHint:
    """The pod was of the same namespace, and had a disk or a claim that this one wants."""
    if old.metadata.namespace != pod.metadata.namespace:
        return QueueingHint.SKIP
    has_disk = conflict_count(disks_of(pod.pod), disks_of(old)) > 0
    has_claim = not set(_claim_names(pod.pod)).isdisjoint(_claim_names(old))
    return QueueingHint.QUEUE if has_disk or has_claim else QueueingHint.SKIP


def _after_claim_added(
    pod: PodInfo, _: PersistentVolumeClaim | None, new: PersistentVolumeClaim
) -> QueueingHint:
    """It is a claim of this pod."""
    is_own = new.metadata.namespace == pod.metadata.namespace
    helps = is_own and new.metadata.name in _claim_names(pod.pod)
    return QueueingHint.QUEUE if helps else QueueingHint.SKIP
