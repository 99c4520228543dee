"""Writes of claims whose versions are watched, and of which some fail, for ``node_devices_run``."""

from __future__ import annotations

from typing import Any, Final

from mooring.clock import Rng
from mooring.errors import ApiError
from mooring.objects.meta import key
from mooring.objects.pod import Pod
from mooring.objects.resource import AllocationResult, ResourceClaim
from mooring.simulation.offline_claims import OfflineClaims
from mooring.state import PodInfo
from mooring.state.cache import Cache

#: So many reservations of created claims fail, and so many records in the status of a pod.
FAILED_SHARE: Final = 0.3
#: The container, the resource, and the request that it uses.
Use = tuple[str, str, str]


class WatchedClaims(OfflineClaims):
    """Writes claims to a cache; each write has to name the newest version.

    Attributes:
        problems: Writes of older versions.
        created: The keys of the claims that PreBind has created, and nothing has deleted.
        recorded: UID of a pod -> the claim of its status, and its mappings.
        observed: The keys of the claims that have to be in the cache.
        fails: Draws which writes of created claims fail; None = none does.
    """

    def __init__(self, cache: Cache) -> None:
        super().__init__(cache)
        self.problems: list[str] = []
        self.created: set[str] = set()
        self.recorded: dict[str, tuple[ResourceClaim, list[Use]]] = {}
        self.observed: set[str] = set()
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
        """Notes what is recorded, or fails.

        Raises:
            ApiError: it fails.
        """
        self._fail()
        self.recorded[pod.uid] = (
            claim,
            [(it.container_name, it.resource_name, it.request_name) for it in mappings],
        )

    async def observe(self, claim: ResourceClaim) -> None:
        """Notes that a claim has to be in the cache."""
        self.observed.add(key(claim))

    def problems_with(self, pod: Pod, specs: list[dict[str, Any]]) -> list[str]:
        """Returns what is wrong with the claim for extended resources of a bound pod.

        Args:
            pod: The pod, whose binding has written everything.
            specs: That of its claim, or none.
        """
        recorded = self.recorded.pop(pod.metadata.uid, None)
        if recorded is None or not specs:
            is_wrong = recorded is not None or bool(specs)
            return [f"{pod.metadata.name}: {recorded} is recorded, of {specs}"] if is_wrong else []
        claim, mappings = recorded
        expected = [
            (it["name"], it["exactly"]["deviceClassName"], it["exactly"]["count"])
            for it in specs[0]["requests"]
        ]
        requests = [
            (it.name, it.exactly.device_class_name, it.exactly.count)
            for it in claim.spec.devices.requests
            if it.exactly is not None
        ]
        main = pod.spec.containers[0]
        due = [(main.name, *main.resources.requests, name) for name, _, _ in expected]
        problems = []
        if requests != expected or mappings != due:
            texts = f"{requests} with {mappings}, not {expected} with {due}"
            problems.append(f"{pod.metadata.name}: {key(claim)} requests {texts}")
        if claim.status.allocation is None or key(claim) not in self.observed:
            problems.append(f"{key(claim)} is {claim.status}, observed: {sorted(self.observed)}")
        return problems

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
