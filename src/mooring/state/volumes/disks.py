"""The disks that pods describe themselves, and on which nodes each of them is in use.

Only those that two pods cannot use at will: Google and Amazon disks, iSCSI targets, Ceph images.

Source: pkg/scheduler/framework/plugins/volumerestrictions (isVolumeConflict).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from mooring.objects.pod import Pod, Volume


class Disk(NamedTuple):
    """One way to reach a disk; a Ceph image has one for each of its monitors.

    ``is_shared``: it is only read, so that others who only read it do no harm.
    """

    identity: tuple[str, ...]
    is_shared: bool


def disks_of(pod: Pod) -> tuple[Disk, ...]:
    """Returns the disks that the pod describes, one for each volume and way to reach it."""
    if not pod.spec.volumes:
        return ()
    return tuple(disk for volume in pod.spec.volumes for disk in _disks(volume))


def describes_disk(volume: Volume) -> bool:
    """Returns whether it is of a kind that two pods cannot use at will."""
    return (
        volume.gce_persistent_disk is not None
        or volume.aws_elastic_block_store is not None
        or volume.iscsi is not None
        or volume.rbd is not None
    )


def conflict_count(wanted: Iterable[Disk], held: Iterable[Disk]) -> int:
    """In how many ways ``wanted`` and ``held`` get in each other's way; 0 = they do not.

    Complexity: O(wanted + held).
    """
    users: dict[tuple[str, ...], list[int]] = {}
    for other in held:
        users.setdefault(other.identity, [0, 0])[not other.is_shared] += 1
    if not users:
        return 0
    found = ((own.is_shared, *users.get(own.identity, (0, 0))) for own in wanted)
    return sum(alone if is_shared else sharing + alone for is_shared, sharing, alone in found)


class Disks:
    """How many pods use each disk on each node, those that only read it and the others."""

    def __init__(self) -> None:
        #: Identity -> row -> [sharing, not sharing].
        self._users: dict[tuple[str, ...], dict[int, list[int]]] = {}

    def __len__(self) -> int:
        """How many disks are in use."""
        return len(self._users)

    def add(self, row: int, disks: tuple[Disk, ...]) -> None:
        """A pod on ``row`` uses these."""
        for identity, is_shared in disks:
            counts = self._users.setdefault(identity, {}).setdefault(row, [0, 0])
            counts[not is_shared] += 1

    def remove(self, row: int, disks: tuple[Disk, ...]) -> None:
        """It does not any more."""
        for identity, is_shared in disks:
            rows = self._users[identity]
            counts = rows[row]
            counts[not is_shared] -= 1
            if counts == [0, 0]:
                del rows[row]
                if not rows:
                    del self._users[identity]

    def conflicts(self, wanted: Iterable[Disk]) -> dict[int, int]:
        """Row -> in how many ways pods there get in the way of ``wanted``."""
        found: dict[int, int] = {}
        for identity, is_shared in wanted:
            for row, (sharing, alone) in self._users.get(identity, {}).items():
                count = alone if is_shared else alone + sharing
                if count:
                    found[row] = found.get(row, 0) + count
        return found

    def items(self) -> dict[tuple[tuple[str, ...], int], tuple[int, int]]:
        """(Identity, row) -> (sharing, not sharing), for the audit."""
        return {
            (identity, row): (sharing, alone)
            for identity, rows in self._users.items()
            for row, (sharing, alone) in rows.items()
        }


def _disks(volume: Volume) -> list[Disk]:
    found = []
    if volume.gce_persistent_disk is not None:
        google = volume.gce_persistent_disk
        found.append(Disk(("gce", google.pd_name), google.read_only))
    if volume.aws_elastic_block_store is not None:
        found.append(Disk(("aws", volume.aws_elastic_block_store.volume_id), is_shared=False))
    if volume.iscsi is not None:
        found.append(Disk(("iscsi", volume.iscsi.iqn), volume.iscsi.read_only))
    if volume.rbd is not None:
        ceph = volume.rbd
        found += [
            Disk(("rbd", monitor, ceph.pool, ceph.image), ceph.read_only)
            for monitor in dict.fromkeys(ceph.monitors)
        ]
    return found
