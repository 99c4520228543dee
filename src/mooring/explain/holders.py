"""Finds which claims and pods use the devices that are in use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from mooring.dra import DeviceID
from mooring.dra.devices import SliceDevice
from mooring.objects.meta import key
from mooring.objects.resource import ResourceClaim
from mooring.state.devices.devices import Devices

#: Limits of the output.
EXAMPLES: Final = 3
HOLDERS_SHOWN: Final = 4
USERS_SHOWN: Final = 3


class Holders:
    """Device -> the claims that have it, those in flight included."""

    def __init__(self, devices: Devices) -> None:
        self._claims: dict[DeviceID, dict[str, ResourceClaim]] = {}
        self._in_flight = {claim.metadata.uid for claim in devices.in_use.all_in_flight()}
        for claim in (*devices.claims.all(), *devices.in_use.all_in_flight()):
            allocation = claim.status.allocation
            for result in () if allocation is None else allocation.devices.results:
                if not result.admin_access:
                    device = DeviceID(result.driver, result.pool, result.device)
                    self._claims.setdefault(device, {})[claim.metadata.uid or key(claim)] = claim

    def has(self, device: SliceDevice) -> bool:
        """Returns whether a claim has the device."""
        return device.id in self._claims

    def lines(self, devices: Iterable[SliceDevice], verb: str) -> Iterator[str]:
        """Yields who has these devices, a line for each claim.

        Args:
            devices: The devices.
            verb: How they are used: "taken" or "shared".
        """
        by_claim: dict[str, tuple[ResourceClaim, list[str]]] = {}
        for device in devices:
            for uid, claim in self._claims.get(device.id, {}).items():
                by_claim.setdefault(uid, (claim, []))[1].append(str(device.id))
        for uid, (claim, names) in list(by_claim.items())[:HOLDERS_SHOWN]:
            users = "being allocated" if uid in self._in_flight else users_text(claim)
            yield f"{verb} by claim {key(claim)} ({users}): {examples(names)}"
        rest = len(by_claim) - HOLDERS_SHOWN
        if rest > 0:
            yield f"... and {verb} by {rest} more {'claim' if rest == 1 else 'claims'}"


def users_text(claim: ResourceClaim) -> str:
    """Returns for which pods a claim is reserved."""
    users = claim.status.reserved_for
    if not users:
        return "reserved for no pod"
    names = [f"{user.resource.removesuffix('s')} {user.name}" for user in users[:USERS_SHOWN]]
    rest = len(users) - USERS_SHOWN
    return ", ".join([*names, f"{rest} more"] if rest > 0 else names)


def examples(names: Iterable[str]) -> str:
    """Returns the first names of a list, with "..." if there are more."""
    listed = list(names)
    text = ", ".join(listed[:EXAMPLES])
    return f"{text}, ..." if len(listed) > EXAMPLES else text


def devices_text(count: int) -> str:
    """Returns "1 device" or "3 devices"."""
    return "1 device" if count == 1 else f"{count} devices"
