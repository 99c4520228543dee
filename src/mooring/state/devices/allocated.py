"""The devices in use: those of allocated claims, and those of claims in flight.

A claim is *in flight* from Reserve until its allocation is written, or given up. Its devices count
as in use, but the claim itself does not have the allocation yet.

Source: pkg/scheduler/framework/plugins/dynamicresources/{allocateddevices,dra_manager}.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import chain

from msgspec.structs import replace

from mooring.dra import ALL_FEATURES, AllocatedState, DeviceFeatures, DeviceID
from mooring.dra.devices import PoolKey
from mooring.objects.quantity import Quantity
from mooring.objects.resource import DeviceRequestAllocationResult, ResourceClaim

#: Capacity name -> amount in billionths.
Amounts = dict[str, int]


class AllocatedDevices:
    """Devices in use, updated by each change of a claim.

    Devices are a set, not a count, as upstream's: if two claims have the same device and one of
    them is deallocated, the device is free.

    Attributes:
        state: What allocators read; it changes with the claims.
        version: Rises with every change.
    """

    def __init__(
        self,
        changed: Callable[[PoolKey], None] = lambda _: None,
        features: DeviceFeatures = ALL_FEATURES,
    ) -> None:
        """Starts without devices.

        Args:
            changed: Called with the pool of each device whose entries in ``state`` change.
            features: If devices cannot be shared, a claim with a share has the whole device.
        """
        self._changed = changed
        self._is_shareable = features.is_shareable
        self.version = 0
        self._dedicated: set[DeviceID] = set()
        self._shares: dict[DeviceID, set[str]] = {}
        self._consumed: dict[DeviceID, Amounts] = {}
        self._in_flight: dict[str, ResourceClaim] = {}
        #: UID of a claim in flight -> its devices that count as in use.
        self._devices_of: dict[str, list[DeviceID]] = {}
        #: Device -> UID of a claim in flight -> its results for this device.
        self._results: dict[DeviceID, dict[str, list[DeviceRequestAllocationResult]]] = {}
        # All devices in use, of both sources.
        self._all_dedicated: set[DeviceID] = set()
        self._all_shared: set[DeviceID] = set()
        self._all_consumed: dict[DeviceID, Amounts] = {}
        self.state = AllocatedState(self._all_dedicated, self._all_shared, self._all_consumed)

    # -- allocated claims -------------------------------------------------------------------------

    def claim_changed(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        """Follows a change of a claim: None = it did not exist, or it is deleted.

        *Differs:* upstream leaves everything as it is when one allocation replaces another. No API
        server allows that in one write, but a watch that was interrupted shows only the last of
        several: the claim was deallocated and allocated again, or deleted and created again.
        """
        before = old.status.allocation if old is not None else None
        after = new.status.allocation if new is not None else None
        if before is after or (before and after and before.devices == after.devices):
            return
        if before is not None and old is not None:
            self._discard(old)
        if after is not None and new is not None:
            self._add(new)

    def _add(self, claim: ResourceClaim) -> None:
        for device, result in self._results_of(claim):
            if result.share_id is None:
                self._dedicated.add(device)
            else:
                self._shares.setdefault(device, set()).add(result.share_id)
                _add_amounts(self._consumed, device, result)
            self._update(device)

    def _discard(self, claim: ResourceClaim) -> None:
        for device, result in self._results_of(claim):
            if result.share_id is None:
                self._dedicated.discard(device)
            else:
                shares = self._shares.get(device, set())
                shares.discard(result.share_id)
                if not shares:
                    self._shares.pop(device, None)
                self._subtract(device, amounts_of(result))
            self._update(device)

    def _subtract(self, device: DeviceID, amounts: Mapping[str, int]) -> None:
        """Subtracts consumed capacity; a device without any left has no entry."""
        consumed = self._consumed.get(device)
        if consumed is None or not amounts:
            return
        for name, amount in amounts.items():
            if name in consumed:
                consumed[name] -= amount
        if not any(consumed.values()):
            del self._consumed[device]

    # -- claims in flight -------------------------------------------------------------------------

    def begin(self, claim: ResourceClaim) -> None:
        """Marks a claim as in flight; it has the allocation that will be written."""
        uid = claim.metadata.uid
        self.end(uid)
        self._in_flight[uid] = claim
        devices = self._devices_of[uid] = []
        for device, result in self._results_of(claim):
            devices.append(device)
            self._results.setdefault(device, {}).setdefault(uid, []).append(result)
            self._update(device)

    def end(self, uid: str) -> bool:
        """Removes a claim in flight, and returns whether there was one with this UID."""
        if self._in_flight.pop(uid, None) is None:
            return False
        for device in self._devices_of.pop(uid):
            results = self._results.get(device)
            if results is not None:
                results.pop(uid, None)
                if not results:
                    del self._results[device]
            self._update(device)
        return True

    def in_flight(self, uid: str) -> ResourceClaim | None:
        """Returns the claim in flight with this UID; None = there is none."""
        return self._in_flight.get(uid)

    def all_in_flight(self) -> list[ResourceClaim]:
        """Returns all claims in flight, for the audit."""
        return list(self._in_flight.values())

    def _results_of(
        self, claim: ResourceClaim
    ) -> Iterator[tuple[DeviceID, DeviceRequestAllocationResult]]:
        """Yields the devices that count as in use; those with admin access do not."""
        allocation = claim.status.allocation
        if allocation is None:
            return
        for result in allocation.devices.results:
            if result.admin_access:
                continue
            device = DeviceID(result.driver, result.pool, result.device)
            if result.share_id is not None and not self._is_shareable:
                yield device, replace(result, share_id=None, consumed_capacity={})
            else:
                yield device, result

    # -- both -------------------------------------------------------------------------------------

    def _update(self, device: DeviceID) -> None:
        """Recomputes the entries of a device in ``state``.

        A claim that is reserved and written is in flight, allocated, and no longer in flight: only
        the first of these changes what allocators read.
        """
        self.version += 1
        was_dedicated = device in self._all_dedicated
        in_flight = self._results.get(device)
        if not self._is_shared(device) and not _has_shares(in_flight):
            if (in_flight is not None or device in self._dedicated) != was_dedicated:
                _set_member(self._all_dedicated, device, is_member=not was_dedicated)
                self._changed((device.driver, device.pool))
            return
        before = was_dedicated, device in self._all_shared, self._all_consumed.pop(device, None)
        results = list(chain.from_iterable((in_flight or {}).values()))
        shares = [result for result in results if result.share_id is not None]
        is_dedicated = device in self._dedicated or len(shares) < len(results)
        is_shared = device in self._shares or bool(shares)
        _set_member(self._all_dedicated, device, is_member=is_dedicated)
        _set_member(self._all_shared, device, is_member=is_shared)
        if device in self._consumed:
            self._all_consumed[device] = dict(self._consumed[device])
        for result in shares:
            _add_amounts(self._all_consumed, device, result)
        if (is_dedicated, is_shared, self._all_consumed.get(device)) != before:
            self._changed((device.driver, device.pool))

    def _is_shared(self, device: DeviceID) -> bool:
        """Returns whether the device has shares, or an entry of ``state`` has to be removed."""
        return (
            device in self._shares
            or device in self._all_shared
            or device in self._consumed
            or device in self._all_consumed
        )


def _has_shares(in_flight: Mapping[str, list[DeviceRequestAllocationResult]] | None) -> bool:
    """Returns whether a claim in flight has a share of the device."""
    for results in () if in_flight is None else in_flight.values():
        for result in results:
            if result.share_id is not None:
                return True
    return False


def amounts_of(result: DeviceRequestAllocationResult) -> Amounts:
    """Returns the capacity that a result consumes, in billionths."""
    return {name: Quantity.from_wire(raw).nanos for name, raw in result.consumed_capacity.items()}


def _add_amounts(
    consumed: dict[DeviceID, Amounts], device: DeviceID, result: DeviceRequestAllocationResult
) -> None:
    """Adds the capacity that a share consumes; without any, the device gets no entry."""
    if not result.consumed_capacity:
        return
    amounts = consumed.setdefault(device, {})
    for name, amount in amounts_of(result).items():
        amounts[name] = amounts.get(name, 0) + amount


def _set_member(members: set[DeviceID], device: DeviceID, *, is_member: bool) -> None:
    if is_member:
        members.add(device)
    else:
        members.discard(device)
