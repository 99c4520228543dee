"""The devices that are in use in the cluster, as one search reads them."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field

from mooring.dra.capacity import Amounts
from mooring.dra.devices import DeviceID


@dataclass(frozen=True, slots=True)
class AllocatedState:
    """Devices in use; the owner may change what is in it between two attempts.

    Attributes:
        dedicated: Devices that one claim uses alone.
        shared: Devices with shares in use.
        consumed: What shares consume of each capacity, in billionths.
    """

    dedicated: Set[DeviceID] = frozenset()
    shared: Set[DeviceID] = frozenset()
    consumed: Mapping[DeviceID, Amounts] = field(default_factory=dict)

    def uses(self, device: DeviceID) -> bool:
        """Returns whether the device is in use, alone or shared."""
        return device in self.dedicated or device in self.shared or device in self.consumed
