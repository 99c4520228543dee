"""The seam to the API server: the writes of PreBind and Unreserve.

A decision only marks claims as in flight. A handle with an attribute ``claim_writer`` writes them.
"""

from __future__ import annotations

from typing import Any, Protocol

from mooring.errors import PluginError
from mooring.objects.pod import ContainerExtendedResourceRequest
from mooring.objects.resource import AllocationResult, ResourceClaim
from mooring.state import PodInfo


class ClaimWriter(Protocol):
    """Writes claims for a pod."""

    async def create(self, claim: ResourceClaim) -> ResourceClaim:
        """Creates the claim for the extended resources of a pod; returns it as stored.

        Args:
            claim: With the name ``<extended-resources>`` and the requests of the node.
        """
        ...

    async def reserve(
        self, claim: ResourceClaim, pod: PodInfo, allocation: AllocationResult | None
    ) -> ResourceClaim:
        """Reserves a claim for the pod, and writes its allocation if it is new.

        Args:
            claim: The version for which the node was selected.
            pod: The pod.
            allocation: The devices of this attempt; None = those that the claim has.

        Returns:
            The claim as the API server stored it.
        """
        ...

    async def observe(self, claim: ResourceClaim) -> None:
        """Stores a created claim in the cache once the watch has reported it."""
        ...

    async def record(
        self,
        pod: PodInfo,
        claim: ResourceClaim,
        mappings: tuple[ContainerExtendedResourceRequest, ...],
    ) -> None:
        """Writes the claim for extended resources and its mappings into the status of the pod."""
        ...

    async def wait_removed(self, claim: ResourceClaim, pod: PodInfo) -> None:
        """Waits until a removal that ``unreserve`` has started for this pod has ended."""
        ...

    def unreserve(self, claim: ResourceClaim, pod: PodInfo) -> None:
        """Starts to remove the pod from the users of a claim; failures are only logged."""
        ...

    def delete(self, claim: ResourceClaim) -> None:
        """Starts to delete a claim that PreBind created; failures are only logged."""
        ...


def writer_of(handle: Any) -> ClaimWriter | None:
    """Returns the writer of a plugin handle; None = it cannot write claims."""
    writer: ClaimWriter | None = getattr(handle, "claim_writer", None)
    return writer


def require_writer(handle: Any) -> ClaimWriter:
    """Returns the writer of a plugin handle.

    Raises:
        PluginError: it cannot write claims, so the pod must not be bound.
    """
    writer = writer_of(handle)
    if writer is None:
        raise PluginError(
            "DynamicResources", "PreBind", "allocations of resource claims cannot be written"
        )
    return writer
