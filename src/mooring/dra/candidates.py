"""The devices of one node that match a choice, whether they are in use or not."""

from __future__ import annotations

from collections.abc import Callable

from mooring.dra.devices import DeviceID, SliceDevice
from mooring.dra.errors import AllocationError
from mooring.dra.nodes import TargetNode
from mooring.dra.pools import NodePools
from mooring.dra.requests import RESULTS_MAX, Choice, PreparedClaim
from mooring.dra.selectors import Selectors

#: Returns whether a device has enough capacity for a choice.
CapacityCheck = Callable[[Choice, SliceDevice], bool]


class Candidates:
    """Choice -> devices, for one search.

    Attributes:
        of_all: The devices of each choice that requests all of them; filled by ``check``.
    """

    def __init__(self, node: TargetNode, pools: NodePools, selectors: Selectors) -> None:
        self.of_all: dict[Choice, list[SliceDevice]] = {}
        self._node = node
        self._pools = pools
        self._selectors = selectors
        self._matches: dict[tuple[Choice, DeviceID], bool] = {}

    def check(self, claim: PreparedClaim, has_capacity: CapacityCheck) -> None:
        """Checks a claim before the search, and lists the devices of requests for all of them.

        Raises:
            AllocationError: the claim cannot be allocated on any node.
        """
        least = 0
        for request in claim.requests:
            numbers = [self._number_of(choice, has_capacity) for choice in request.choices]
            least += min(numbers)
        if least > RESULTS_MAX:
            raise AllocationError(
                f"claim {claim.key}: number of requested devices {least} "
                f"exceeds the claim limit of {RESULTS_MAX}"
            )
        if claim.constraint_problem:
            raise AllocationError(claim.constraint_problem)

    def matches(self, choice: Choice, device: SliceDevice) -> bool:
        """Returns whether all selectors are true and the node can use the device.

        Raises:
            AllocationError: a selector is invalid or failed.
        """
        cached = self._matches.get((choice, device.id))
        if cached is None:
            cached = self._evaluate(choice, device)
            self._matches[choice, device.id] = cached
        return cached

    def _number_of(self, choice: Choice, has_capacity: CapacityCheck) -> int:
        if choice.problem:
            raise AllocationError(choice.problem)
        if not choice.wants_all:
            return choice.count
        self.of_all[choice] = self._all_of(choice, has_capacity)
        return len(self.of_all[choice])

    def _all_of(self, choice: Choice, has_capacity: CapacityCheck) -> list[SliceDevice]:
        devices = []
        for pool in self._pools.pools:
            if pool.state:
                state = "being updated" if pool.state == "incomplete" else "invalid"
                raise AllocationError(
                    f"{choice.where}: asks for all devices, "
                    f"but resource pool {pool.name} is currently {state}"
                )
            devices += [
                device
                for device in pool.devices
                if self.matches(choice, device) and has_capacity(choice, device)
            ]
        return devices

    def _evaluate(self, choice: Choice, device: SliceDevice) -> bool:
        if not device.is_selectable:
            return False
        for condition in choice.conditions:
            answer = self._selectors.answer(condition.expression, device)
            if answer is False:
                return False
            if answer is not True:
                raise AllocationError(f"{condition.owner}{answer}")
        return device.is_on(self._node)
