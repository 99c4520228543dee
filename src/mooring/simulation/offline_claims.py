"""Resource claims without an API server: writes are applied to the cache at once."""

from __future__ import annotations

from msgspec.structs import replace

from mooring.framework.status import ClaimChange
from mooring.objects.meta import key
from mooring.objects.pod import ContainerExtendedResourceRequest
from mooring.objects.resource import (
    FINALIZER,
    AllocationResult,
    ResourceClaim,
    ResourceClaimConsumerReference,
    ResourceClaimStatus,
)
from mooring.state import PodInfo
from mooring.state.cache import Cache


class OfflineClaims:
    """Stands in for the API server, for the plugin DynamicResources.

    Objects written here have no resourceVersion, so the cache always accepts them as newer.
    """

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    async def create(self, claim: ResourceClaim) -> ResourceClaim:
        """Returns the claim with a name and a UID, as an API server does."""
        metadata = claim.metadata
        # An API server appends five random characters.
        name = f"{metadata.generate_name}{metadata.uid[:5]}"
        metadata = replace(metadata, name=name, generate_name="", resource_version="")
        return replace(claim, metadata=metadata, status=ResourceClaimStatus())

    async def reserve(
        self, claim: ResourceClaim, pod: PodInfo, allocation: AllocationResult | None
    ) -> ResourceClaim:
        """Stores the claim with its allocation and the pod as a user."""
        metadata, status = claim.metadata, claim.status
        if allocation is not None:
            finalizers = dict.fromkeys([*metadata.finalizers, FINALIZER])
            metadata = replace(metadata, finalizers=tuple(finalizers))
            status = replace(status, allocation=allocation)
        user = ResourceClaimConsumerReference(
            resource="pods", name=pod.metadata.name, uid=pod.metadata.uid
        )
        stored = replace(
            claim,
            metadata=replace(metadata, resource_version=""),
            status=replace(status, reserved_for=(*status.reserved_for, user)),
        )
        self._cache.put_object("ResourceClaim", stored)
        return stored

    async def observe(self, claim: ResourceClaim) -> None:
        """Does nothing: the cache has it."""

    async def record(
        self,
        pod: PodInfo,
        claim: ResourceClaim,
        mappings: tuple[ContainerExtendedResourceRequest, ...],
    ) -> None:
        """Does nothing: no decision reads this status of a bound pod."""

    def unreserve(self, claim: ResourceClaim, pod: PodInfo) -> None:
        """Removes the pod from the users of the claim."""
        users = tuple(user for user in claim.status.reserved_for if user.uid != pod.uid)
        self._put(claim, replace(claim.status, reserved_for=users))

    def delete(self, claim: ResourceClaim) -> None:
        """Deletes the claim."""
        self._cache.remove_object("ResourceClaim", key(claim))

    def apply(self, change: ClaimChange) -> None:
        """Applies the change that a PostFilter plugin asked for."""
        if change.is_deletion:
            self.delete(change.claim)
        else:
            self._put(change.claim, ResourceClaimStatus())

    def _put(self, claim: ResourceClaim, status: ResourceClaimStatus) -> None:
        metadata = replace(claim.metadata, resource_version="")
        self._cache.put_object("ResourceClaim", replace(claim, metadata=metadata, status=status))
