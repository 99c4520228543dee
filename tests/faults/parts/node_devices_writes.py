"""Writes of claims whose versions are watched, and of which some fail, for ``node_devices_run``."""

from __future__ import annotations

from typing import Any, Final

from mooring.clock import Rng
from mooring.errors import ApiError
from mooring.objects.meta import key
from mooring.objects.resource import AllocationResult, ResourceClaim
from mooring.simulation.offline_claims import OfflineClaims
from mooring.state import PodInfo
from mooring.state.cache import Cache

#: So many reservations of created claims fail, and so many records in the status of a pod.
FAILED_SHARE: Final = 0.3


class WatchedClaims(OfflineClaims):
    """Writes claims to a cache; each write has to name the newest version.

    Attributes:
        problems: Writes of older versions.
        created: The keys of the claims that PreBind has created, and nothing has deleted.
        fails: Draws which writes of created claims fail; None = none does.
    """

    def __init__(self, cache: Cache) -> None:
        super().__init__(cache)
        self.problems: list[str] = []
        self.created: set[str] = set()
        self.fails: Rng | None = None

    async def create(self, claim: ResourceClaim) -> ResourceClaim:
        """Creates a claim, which is in no cache yet."""
        created = await super().create(claim)
        self.created.add(key(created))
        return created

    async def reserve(
        self, claim: ResourceClaim, pod: PodInfo, allocation: AllocationResult | None
    ) -> ResourceClaim:
        """Reserves a claim, or fails if it was created for the pod.

        Raises:
            ApiError: it fails.
        """
        if key(claim) in self.created:
            self._fail()
        return await super().reserve(claim, pod, allocation)

    async def record(self, pod: PodInfo, claim: ResourceClaim, mappings: Any) -> None:
        """Does nothing, or fails.

        Raises:
            ApiError: it fails.
        """
        self._fail()

    def unreserve(self, claim: ResourceClaim, pod: PodInfo) -> None:
        """Removes the pod from the users of a claim."""
        self._check("unreserve", claim)
        super().unreserve(claim, pod)

    def delete(self, claim: ResourceClaim) -> None:
        """Deletes a claim."""
        self._check("delete", claim)
        self.created.discard(key(claim))
        super().delete(claim)

    def _fail(self) -> None:
        if self.fails is not None and self.fails.random() < FAILED_SHARE:
            raise ApiError("refused", status=403)

    def _check(self, word: str, claim: ResourceClaim) -> None:
        stored = self._cache.devices.claims.get(key(claim))
        if stored is not None and stored.status != claim.status:
            self.problems.append(f"{word} {key(claim)} as {claim.status}, not {stored.status}")
