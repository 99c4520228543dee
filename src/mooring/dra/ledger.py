"""The devices that one search has taken so far, and the limits for one more.

Source: k8s.io/dynamic-resource-allocation structured/internal/incubating/allocator_incubating.go
(allocateDevice, rollbackDevice).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mooring.dra.allocated import AllocatedState
from mooring.dra.capacity import Amounts, consumed_amount, has_capacity
from mooring.dra.constraints import Constraint, constraint_of
from mooring.dra.counters import AvailableCounters, ConsumedCounters
from mooring.dra.devices import DeviceID, SliceDevice
from mooring.dra.errors import AllocationError
from mooring.dra.pools import NodePools
from mooring.dra.requests import Choice, PreparedClaim
from mooring.objects.resource import DeviceTaint, DeviceToleration


class Taken(NamedTuple):
    """A device taken for a choice; ``consumes_counters`` tells how to release it."""

    choice: Choice
    device: SliceDevice
    consumes_counters: bool


class Ledger:
    """The devices that one search on one node has taken.

    Attributes:
        taken: Per claim, the devices in the order in which they were taken.
    """

    def __init__(
        self,
        pools: NodePools,
        claims: Sequence[PreparedClaim],
        allocated: AllocatedState,
        available: AvailableCounters,
    ) -> None:
        self.taken: list[list[Taken]] = [[] for _ in claims]
        self._pools = pools
        self._allocated = allocated
        self._counters = ConsumedCounters(available)
        self._constraints: list[list[Constraint]] = [
            [constraint_of(spec) for spec in claim.constraints] for claim in claims
        ]
        #: Device -> the claims that use it; shared devices are not counted here.
        self._users: dict[DeviceID, list[int]] = {}
        #: Shared device -> what each of its shares consumes.
        self._shares: dict[DeviceID, list[Amounts]] = {}

    def is_in_use(self, claim: int, choice: Choice, device: SliceDevice) -> bool:
        """Returns whether a choice of a claim cannot have a device because of its users.

        A choice with admin access can have devices that others use, but each only once per claim.
        """
        users = self._users.get(device.id)
        if choice.is_admin:
            return users is not None and claim in users
        return bool(users) or device.id in self._allocated.dedicated

    def has_capacity(self, choice: Choice, device: SliceDevice) -> bool:
        """Returns whether the device has enough capacity left for a choice."""
        if not device.capacity and not choice.capacity:
            return True
        used = self._shares.get(device.id, ())
        consumed = self._allocated.consumed.get(device.id)
        if consumed is not None:
            used = (consumed, *used)
        return has_capacity(device.capacity, choice.capacity, used)

    def take(self, claim: int, choice: Choice, device: SliceDevice) -> bool:
        """Takes a device that is not in use, unless it is tainted or exceeds a limit.

        Raises:
            AllocationError: a constraint is violated, and the choice requests all devices.
        """
        if device.is_blocked:
            return False
        consumes = self._consumes_counters(device)
        if consumes and not self._counters.consume(self._pools.by_key[device.pool_key], device):
            return False
        if self._is_allowed(claim, choice, device):
            self._record(claim, Taken(choice, device, consumes))
            return True
        if consumes:
            self._counters.release(self._pools.by_key[device.pool_key], device)
        return False

    def release(self, claim: int) -> None:
        """Releases the device that the claim took last."""
        choice, device, consumes = self.taken[claim].pop()
        if device.is_shared:
            _pop(self._shares, device.id)
        else:
            _pop(self._users, device.id)
        for constraint in self._constraints[claim]:
            constraint.remove(choice.parent, choice.sub)
        if consumes:
            self._counters.release(self._pools.by_key[device.pool_key], device)

    def _consumes_counters(self, device: SliceDevice) -> bool:
        """Returns whether taking the device consumes counters: further shares of one do not."""
        if not device.consumption:
            return False
        has_shares = device.id in self._allocated.consumed or device.id in self._shares
        return not (device.is_shared and has_shares)

    def _is_allowed(self, claim: int, choice: Choice, device: SliceDevice) -> bool:
        """Checks taints, constraints and, for all devices, capacity; counts it in constraints."""
        if not _tolerates_all(choice.tolerations, device.taints):
            return False
        constraints = self._constraints[claim]
        for number, constraint in enumerate(constraints):
            if constraint.add(choice.parent, choice.sub, device):
                continue
            for counted in constraints[:number]:
                counted.remove(choice.parent, choice.sub)
            if choice.wants_all:
                raise AllocationError(
                    f"{choice.where}: cannot add device {device.id} "
                    "because a claim constraint would not be satisfied"
                )
            return False
        # The capacity for an exact count was checked before.
        if not choice.wants_all or self.has_capacity(choice, device):
            return True
        for counted in constraints:
            counted.remove(choice.parent, choice.sub)
        return False

    def _record(self, claim: int, taken: Taken) -> None:
        choice, device, _ = taken
        if device.is_shared:
            self._shares.setdefault(device.id, []).append(
                {
                    name: consumed_amount(capacity, choice.capacity.get(name)).nanos
                    for name, capacity in device.capacity.items()
                }
            )
        else:
            self._users.setdefault(device.id, []).append(claim)
        self.taken[claim].append(taken)


def _pop(lists: dict[DeviceID, list[Amounts]] | dict[DeviceID, list[int]], key: DeviceID) -> None:
    """Removes the last entry of a list, and the list with its last entry."""
    entries = lists[key]
    entries.pop()
    if not entries:
        del lists[key]


def _tolerates_all(
    tolerations: tuple[DeviceToleration, ...], taints: tuple[DeviceTaint, ...]
) -> bool:
    if not taints:
        return True
    return all(any(tolerates(toleration, taint) for toleration in tolerations) for taint in taints)


def tolerates(toleration: DeviceToleration, taint: DeviceTaint) -> bool:
    """Returns whether a toleration matches; empty effect and key match all of them.

    Source: k8s.io/dynamic-resource-allocation resourceclaim (ToleratesTaint).
    """
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    return toleration.operator == "Exists"
