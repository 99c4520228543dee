"""Inline disks of pods, and the nodes on which each is in use.

Only those with restrictions on sharing: GCE and AWS disks, iSCSI targets, Ceph RBD images.

Source: pkg/scheduler/framework/plugins/volumerestrictions (isVolumeConflict).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from mooring.objects.pod import Pod, Volume


class Disk(NamedTuple):
    """One identity of a disk; a Ceph image has one per monitor.

    ``is_shared``: mounted read-only, so it does not conflict with other read-only mounts.
    """

    identity: tuple[str, ...]
    is_shared: bool


def disks_of(pod: Pod) -> tuple[Disk, ...]:
    """Returns the inline disks of the pod, one per volume and identity."""
    if not pod.spec.volumes:
        return ()
    return tuple(disk for volume in pod.spec.volumes for disk in _disks(volume))


def describes_disk(volume: Volume) -> bool:
    """Returns whether the volume is an inline disk with restrictions on sharing."""
    return (
        volume.gce_persistent_disk is not None
        or volume.aws_elastic_block_store is not None
        or volume.iscsi is not None
        or volume.rbd is not None
    )


def conflict_count(requested: Iterable[Disk], in_use: Iterable[Disk]) -> int:
    """Returns the number of conflicts between requested disks and disks in use.

    Complexity: O(requested + in_use).
    """
    users: dict[tuple[str, ...], list[int]] = {}
    for other in in_use:
        users.setdefault(other.identity, [0, 0])[not other.is_shared] += 1
    if not users:
        return 0
    uses = ((own.is_shared, *users.get(own.identity, (0, 0))) for own in requested)
    return sum(alone if is_shared else sharing + alone for is_shared, sharing, alone in uses)


class Disks:
    """The number of pods that use each disk on each node, read-only or not."""

    def __init__(self) -> None:
        #: Identity -> row -> [sharing, not sharing].
        self._users: dict[tuple[str, ...], dict[int, list[int]]] = {}

    def __len__(self) -> int:
        """Returns the number of disks in use."""
        return len(self._users)

    def add(self, row: int, disks: tuple[Disk, ...]) -> None:
        """Adds the disks of a pod on ``row``."""
        for identity, is_shared in disks:
            counts = self._users.setdefault(identity, {}).setdefault(row, [0, 0])
            counts[not is_shared] += 1

    def remove(self, row: int, disks: tuple[Disk, ...]) -> None:
        """Removes the disks of a pod on ``row``."""
        for identity, is_shared in disks:
            rows = self._users[identity]
            counts = rows[row]
            counts[not is_shared] -= 1
            if counts == [0, 0]:
                del rows[row]
                if not rows:
                    del self._users[identity]

    def conflicts(self, requested: Iterable[Disk]) -> dict[int, int]:
        """Returns row -> number of conflicts of pods there with the requested disks."""
        conflicts: dict[int, int] = {}
        for identity, is_shared in requested:
            for row, (sharing, alone) in self._users.get(identity, {}).items():
                count = alone if is_shared else alone + sharing
                if count:
                    conflicts[row] = conflicts.get(row, 0) + count
        return conflicts

    def items(self) -> dict[tuple[tuple[str, ...], int], tuple[int, int]]:
        """Returns (identity, row) -> (sharing, not sharing), for the audit."""
        return {
            (identity, row): (sharing, alone)
            for identity, rows in self._users.items()
            for row, (sharing, alone) in rows.items()
        }


def _disks(volume: Volume) -> list[Disk]:
    disks = []
    if volume.gce_persistent_disk is not None:
        gce = volume.gce_persistent_disk
        disks.append(Disk(("gce", gce.pd_name), gce.read_only))
    if volume.aws_elastic_block_store is not None:
        disks.append(Disk(("aws", volume.aws_elastic_block_store.volume_id), is_shared=False))
    if volume.iscsi is not None:
        disks.append(Disk(("iscsi", volume.iscsi.iqn), volume.iscsi.read_only))
    if volume.rbd is not None:
        rbd = volume.rbd
        disks += [
            Disk(("rbd", monitor, rbd.pool, rbd.image), rbd.read_only)
            for monitor in dict.fromkeys(rbd.monitors)
        ]
    return disks
