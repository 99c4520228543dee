"""Resource claims without an API server: writes are applied to the cache at once."""

from __future__ import annotations

from msgspec.structs import replace

from mooring.framework.status import ClaimChange
from mooring.objects.meta import key
from mooring.objects.pod import ContainerExtendedResourceRequest, Pod
from mooring.objects.resource import (
    FINALIZER,
    AllocationResult,
    ResourceClaim,
    ResourceClaimStatus,
    pod_as_user,
)
from mooring.simulation.claim_controller import is_owned_by, release_of, released
from mooring.state import PodInfo
from mooring.state.cache import Cache


class OfflineClaims:
    """Stands in for the API server, for the plugin DynamicResources.

    Objects written here have no resourceVersion, so the cache always accepts them as newer.
    """

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        #: Claims written or deleted (None) since the last ``take_changes``, by key.
        self._changes: dict[str, ResourceClaim | None] = {}

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
        claim = replace(claim, metadata=metadata)
        users = (*status.reserved_for, pod_as_user(pod.metadata))
        return self._put(claim, replace(status, reserved_for=users))

    async def observe(self, claim: ResourceClaim) -> None:
        """Does nothing: the cache has it."""

    async def record(
        self,
        pod: PodInfo,
        claim: ResourceClaim,
        mappings: tuple[ContainerExtendedResourceRequest, ...],
    ) -> None:
        """Does nothing: no decision reads this status of a bound pod."""

    async def wait_removed(self, claim: ResourceClaim, pod: PodInfo) -> None:
        """Does nothing: ``unreserve`` has ended."""

    def unreserve(self, claim: ResourceClaim, pod: PodInfo) -> None:
        """Removes the pod from the users of the claim."""
        users = tuple(user for user in claim.status.reserved_for if user.uid != pod.uid)
        self._put(claim, replace(claim.status, reserved_for=users))

    def delete(self, claim: ResourceClaim) -> None:
        """Deletes the claim."""
        self._cache.remove_object("ResourceClaim", key(claim))
        self._changes[key(claim)] = None

    def apply(self, change: ClaimChange) -> None:
        """Applies the change that a PostFilter plugin asked for."""
        if change.is_deletion:
            self.delete(change.claim)
        else:
            self._put(change.claim, ResourceClaimStatus())

    def release(self, pod: Pod) -> None:
        """Takes a removed pod from the users of its claims, and deletes those made for it.

        Stands in for the resource claim controller.
        """
        for claim in self._claims_of(pod):
            if is_owned_by(claim, pod):
                self.delete(claim)
                continue
            release = release_of(claim, lambda user: user.uid == pod.metadata.uid)
            if release is not None:
                after = released(claim, release)
                self._put(after, after.status)

    def take_changes(self) -> tuple[tuple[ResourceClaim, ...], tuple[str, ...]]:
        """Returns the claims written since the last call, and the keys of the deleted ones."""
        if not self._changes:
            return (), ()
        changes, self._changes = self._changes, {}
        written = tuple(claim for claim in changes.values() if claim is not None)
        return written, tuple(name for name, claim in changes.items() if claim is None)

    def _claims_of(self, pod: Pod) -> list[ResourceClaim]:
        """Returns the existing claims of a pod, in the order of its spec."""
        claims = self._cache.devices.claims
        names = [entry.resource_claim_name for entry in pod.spec.resource_claims]
        names += [entry.resource_claim_name for entry in pod.status.resource_claim_statuses]
        keys = dict.fromkeys(f"{pod.metadata.namespace}/{name}" for name in names if name)
        existing = [claim for name in keys if (claim := claims.get(name)) is not None]
        special = claims.for_extended_resources(pod.metadata.name, pod.metadata.uid)
        return existing if special is None else [*existing, special]

    def _put(self, claim: ResourceClaim, status: ResourceClaimStatus) -> ResourceClaim:
        metadata = replace(claim.metadata, resource_version="")
        stored = replace(claim, metadata=metadata, status=status)
        self._cache.put_object("ResourceClaim", stored)
        self._changes[key(stored)] = stored
        return stored
