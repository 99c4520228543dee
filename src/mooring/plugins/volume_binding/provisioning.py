"""The nodes where a new volume can be provisioned, cached by storage class and size.

The result depends on the claim's class and size, on the drivers' reported capacity, and on the
labels of nodes; the cache is invalidated when those change.

Source: pkg/scheduler/framework/plugins/volumebinding/binder.go (checkVolumeProvisions).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from mooring.objects.quantity import Quantity
from mooring.objects.storage import PersistentVolumeClaim, StorageClass
from mooring.objects.volume_claims import NO_PROVISIONER, STORAGE, claim_class
from mooring.plugins.volume_binding.matches import NO_FREE_STORAGE, NO_VOLUME_TO_BIND, Bits
from mooring.state import Snapshot
from mooring.state.columns.caches import LRUCache
from mooring.state.types import Bools, Rows
from mooring.state.volumes.storage import Storage
from mooring.state.volumes.topology import topology_of_class

#: A claim's size as in the manifest; None = not set.
Size = str | int | float | None

#: Maximum number of cached results, each of one byte per row.
CACHED_CHECKS_MAX: Final = 256


class ProvisioningChecks:
    """The reasons against provisioning a volume on each row. One per plugin.

    Complexity: O(1) if class and size are cached, else O(rows).
    """

    def __init__(self) -> None:
        #: (class, size as in the manifest) -> bits by row.
        self._cache: LRUCache[tuple[str, Size], Bits] = LRUCache(CACHED_CHECKS_MAX)
        self._storage: Storage | None = None
        self._versions = -1, -1

    def blocking_reasons(self, snapshot: Snapshot, claim: PersistentVolumeClaim) -> Bits | None:
        """Returns the reasons against a new volume by row, uint8 shape (capacity,); read-only.

        None = there is no such class.
        """
        storage, name = snapshot.storage, claim_class(claim)
        storage_class = storage.storage_class(name)
        if storage_class is None:
            return None
        self._invalidate_if_stale(storage)
        size = claim.spec.resources.requests.get(STORAGE)
        bits = self._cache.recent((name, size))
        if bits is None:
            rows = np.arange(snapshot.nodes.capacity, dtype=np.intp)
            bits = self._cache.put((name, size), _bits(storage, storage_class, size, rows))
        return bits

    def _invalidate_if_stale(self, storage: Storage) -> None:
        """Clears the cache if capacities or labels have changed."""
        versions = storage.room_version, storage.reaches.version
        if storage is not self._storage or versions != self._versions:
            self._cache.clear()
            self._storage, self._versions = storage, versions


def _bits(storage: Storage, storage_class: StorageClass, size: Size, rows: Rows) -> Bits:
    bits = np.zeros(len(rows), dtype=np.uint8)
    if storage_class.provisioner in ("", NO_PROVISIONER):
        bits[:] = NO_VOLUME_TO_BIND
        return bits
    has_capacity = _has_capacity(storage, storage_class, size, rows)
    if has_capacity is not None:
        bits[~has_capacity] = NO_FREE_STORAGE
    reach = topology_of_class(storage_class.allowed_topologies)
    bits[~storage.reaches.reachable_rows(reach, rows)] = NO_VOLUME_TO_BIND
    return bits


def _has_capacity(
    storage: Storage, storage_class: StorageClass, size: Size, rows: Rows
) -> Bools | None:
    """Returns the rows where the driver has capacity; None = the driver does not report it."""
    driver = storage.driver(storage_class.provisioner)
    if size is None or driver is None or not driver.spec.storage_capacity:
        return None
    capacities = storage.capacities(storage_class.metadata.name)
    if capacities is None:
        return np.zeros(len(rows), dtype=np.bool_)
    return capacities.can_hold(Quantity.from_wire(size).value(), rows)
