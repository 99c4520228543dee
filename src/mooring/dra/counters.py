"""Counters that devices of a pool share.

Both tables are keyed by the name of the pool **without its driver**, as upstream's are: if two
drivers have pools of one name, both use the counters of the pool whose device was tried first.

Source: k8s.io/dynamic-resource-allocation structured/internal/incubating/allocator_incubating.go
(checkAvailableCounters).
"""

from __future__ import annotations

from collections.abc import Mapping

from mooring.dra.allocated import AllocatedState
from mooring.dra.devices import CounterKey, SliceDevice
from mooring.dra.pools import Pool


class AvailableCounters:
    """The remaining counters of each pool in the cluster, computed once per attempt."""

    def __init__(self, allocated: AllocatedState) -> None:
        self._allocated = allocated
        self._of_pool: dict[str, dict[CounterKey, int]] = {}

    def of(self, pool: Pool) -> Mapping[CounterKey, int]:
        """Returns the counters of the pool, in billionths; negative if they are overdrawn."""
        name = pool.key[1]
        available = self._of_pool.get(name)
        if available is None:
            available = self._of_pool[name] = self._compute(pool)
        return available

    def _compute(self, pool: Pool) -> dict[CounterKey, int]:
        available = dict(pool.counters)
        for device in (*pool.devices, *pool.other_devices):
            if device.consumption and self._allocated.uses(device.id):
                _add(available, device, -1)
        return available


class ConsumedCounters:
    """The consumption of the devices that one search has taken."""

    def __init__(self, available: AvailableCounters) -> None:
        self._available = available
        self._of_pool: dict[str, dict[CounterKey, int]] = {}

    def consume(self, pool: Pool, device: SliceDevice) -> bool:
        """Adds a device; False = a counter of the pool is exceeded, and nothing is added."""
        available = self._available.of(pool)
        consumed = self._of_pool.setdefault(pool.key[1], {})
        for key, amount in device.consumption:
            consumed[key] = consumed.get(key, 0) + amount
        if all(left >= consumed.get(key, 0) for key, left in available.items()):
            return True
        self.release(pool, device)
        return False

    def release(self, pool: Pool, device: SliceDevice) -> None:
        """Removes a device that was added."""
        consumed = self._of_pool[pool.key[1]]
        for key, amount in device.consumption:
            consumed[key] -= amount


def _add(counters: dict[CounterKey, int], device: SliceDevice, sign: int) -> None:
    for key, amount in device.consumption:
        if key in counters:
            counters[key] += sign * amount
