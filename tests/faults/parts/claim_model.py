"""A model of each claim: the version that the scheduler knows, and the devices that are in use.

::

    watch reports a version ──> reported, known (the newer one)
    a reservation is stored ──> known
    Reserve ──> in flight ── written, failed, unreserved ──> not in flight

A device is in use while a known claim is allocated to it, or one in flight.
"""

from __future__ import annotations

from typing import NamedTuple

from mooring.objects.resource import ResourceClaim
from tests.faults.parts.claim_server import Stored, users_of


class DeviceName(NamedTuple):
    """A device: its pool and its name in it."""

    pool: str
    device: str


class Known(NamedTuple):
    """A version of a claim."""

    version: int
    uid: str
    users: frozenset[str]
    devices: frozenset[DeviceName]


def known(claim: Stored) -> Known:
    """Returns a stored claim, as the model sees it."""
    metadata, allocation = claim["metadata"], claim["status"].get("allocation")
    results = allocation["devices"]["results"] if allocation else ()
    return Known(
        int(metadata["resourceVersion"]),
        metadata["uid"],
        frozenset(users_of(claim)),
        frozenset(DeviceName(result["pool"], result["device"]) for result in results),
    )


def devices_of(claim: ResourceClaim) -> frozenset[DeviceName]:
    """Returns the devices of a decoded claim."""
    allocation = claim.status.allocation
    results = allocation.devices.results if allocation is not None else ()
    return frozenset(DeviceName(result.pool, result.device) for result in results)


class ClaimModel:
    """The claims that one process of the scheduler knows.

    Attributes:
        in_flight: UIDs of a claim and the pod that allocates it -> its devices, from Reserve to the
            end of its write.
        written: UID of a claim -> the newest version that this process itself has stored.
    """

    def __init__(self) -> None:
        self.in_flight: dict[tuple[str, str], frozenset[DeviceName]] = {}
        self.written: dict[str, int] = {}
        self._known: dict[str, Known] = {}
        self._reported: dict[str, Known] = {}

    def report(self, name: str, claim: Known | None) -> None:
        """Follows a report of the watch; None = the claim is gone."""
        if claim is None:
            self._known.pop(name, None)
            self._reported.pop(name, None)
            return
        for versions in (self._known, self._reported):
            if name not in versions or claim.version > versions[name].version:
                versions[name] = claim

    def store(self, name: str, claim: Known) -> None:
        """Follows a write that was answered."""
        self.written[claim.uid] = max(claim.version, self.written.get(claim.uid, 0))
        if name in self._known and claim.version >= self._known[name].version:
            self._known[name] = claim

    def get(self, name: str) -> Known | None:
        """Returns the newest version of a claim; None = there is none."""
        return self._known.get(name)

    def end_flights(self, pod_uid: str) -> None:
        """Ends what a pod allocates; its claims are those that the watch reported last."""
        for flight in [flight for flight in self.in_flight if flight[1] == pod_uid]:
            del self.in_flight[flight]
            self.written.pop(flight[0], None)
            for name, claim in self._reported.items():
                if claim.uid == flight[0]:
                    self._known[name] = claim

    def in_use(self) -> set[DeviceName]:
        """Returns the devices that must not be given to another claim."""
        devices = [*self.in_flight.values(), *(claim.devices for claim in self._known.values())]
        return set().union(*devices)
