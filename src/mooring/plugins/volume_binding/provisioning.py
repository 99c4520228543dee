"""Where a new volume can be made: what is said of one claim holds for the next of its kind.

It follows from the claim's class and size, from what drivers say of their room, and from the
labels of nodes: as long as those stay, it is looked up.

Source: pkg/scheduler/framework/plugins/volumebinding/binder.go (checkVolumeProvisions).
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

import numpy as np

from mooring.objects.quantity import Quantity
from mooring.objects.storage import PersistentVolumeClaim, StorageClass
from mooring.objects.volume_claims import NO_PROVISIONER, STORAGE, claim_class
from mooring.plugins.volume_binding.matches import NO_ROOM, NOTHING_TO_BIND, Bits, Bools, Rows
from mooring.state import Snapshot
from mooring.state.volumes.storage import Storage
from mooring.state.volumes.topology import topology_of_class

#: A claim's size as it is written; None = it says nothing of it.
Size = str | int | float | None

#: Kinds of claims that are remembered, of a byte a row each.
KINDS_KEPT: Final = 256


class ProvisioningChecks:
    """What is against making a volume on each row. One per plugin.

    Complexity: O(1) for a claim like one before, O(rows) for a new one.
    """

    def __init__(self) -> None:
        #: (Class, size as it is written) -> bits by row.
        self._kept: OrderedDict[tuple[str, Size], Bits] = OrderedDict()
        self._storage: Storage | None = None
        self._versions = -1, -1

    def against(self, snapshot: Snapshot, claim: PersistentVolumeClaim) -> Bits | None:
        """What is against a volume for this claim, uint8 shape (capacity,); read only.

        None = there is no such class.
        """
        storage, name = snapshot.storage, claim_class(claim)
        found = storage.storage_class(name)
        if found is None:
            return None
        self._invalidate_if_stale(storage)
        kind = name, claim.spec.resources.requests.get(STORAGE)
        bits = self._kept.get(kind)
        if bits is None:
            rows = np.arange(snapshot.nodes.capacity, dtype=np.intp)
            bits = self._kept[kind] = _bits(storage, found, kind[1], rows)
            if len(self._kept) > KINDS_KEPT:
                self._kept.popitem(last=False)
        return bits

    def _invalidate_if_stale(self, storage: Storage) -> None:
        """Forgets everything if it follows from something that is not so any more."""
        versions = storage.room_version, storage.reaches.version
        if storage is not self._storage or versions != self._versions:
            self._kept.clear()
            self._storage, self._versions = storage, versions


def _bits(storage: Storage, found: StorageClass, size: Size, rows: Rows) -> Bits:
    bits = np.zeros(len(rows), dtype=np.uint8)
    if found.provisioner in ("", NO_PROVISIONER):
        bits[:] = NOTHING_TO_BIND
        return bits
    has_room = _has_room(storage, found, size, rows)
    if has_room is not None:
        bits[~has_room] = NO_ROOM
    reach = topology_of_class(found.allowed_topologies)
    bits[~storage.reaches.reachable_rows(reach, rows)] = NOTHING_TO_BIND
    return bits


def _has_room(storage: Storage, found: StorageClass, size: Size, rows: Rows) -> Bools | None:
    """Where the driver has room; None = it does not say, so everywhere."""
    driver = storage.driver(found.provisioner)
    if size is None or driver is None or not driver.spec.storage_capacity:
        return None
    capacities = storage.capacities(found.metadata.name)
    if capacities is None:
        return np.zeros(len(rows), dtype=np.bool_)
    return capacities.can_hold(Quantity.from_wire(size).value(), rows)
