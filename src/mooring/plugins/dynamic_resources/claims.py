"""The claims of a pod: those of its spec, and the special one for its extended resources.

Source: pkg/scheduler/framework/plugins/dynamicresources/{dynamicresources,claims}.go;
k8s.io/dynamic-resource-allocation resourceclaim.
"""

from __future__ import annotations

import json

from mooring.dra import AllocationError
from mooring.objects.meta import controller_of, key
from mooring.objects.pod import Pod, PodResourceClaim
from mooring.objects.resource import ResourceClaim
from mooring.state.devices.claims import Claims
from mooring.state.devices.devices import Devices


class ClaimProblem(Exception):
    """A claim of the pod cannot be used now; the message is that of the rejection."""


class PodClaims:
    """The claims of a pod in order; the special one is the last. They do not change.

    Attributes:
        user: The claims of the pod's spec.
        special: The claim for the pod's extended resources; None = it needs none.
        all: All claims.
        to_allocate: The claims without an allocation.
    """

    __slots__ = ("all", "special", "to_allocate", "user")

    def __init__(
        self, user: tuple[ResourceClaim, ...], special: ResourceClaim | None = None
    ) -> None:
        self.user = user
        self.special = special
        self.all = user if special is None else (*user, special)
        self.to_allocate = tuple([claim for claim in self.all if claim.status.allocation is None])

    @property
    def user_to_allocate(self) -> tuple[ResourceClaim, ...]:
        """The claims of the pod's spec without an allocation."""
        if self.special is None:
            return self.to_allocate
        return tuple([claim for claim in self.to_allocate if claim is not self.special])


def user_claims(pod: Pod, claims: Claims) -> tuple[ResourceClaim, ...]:
    """Returns the claims of the pod's spec, in order.

    Raises:
        ClaimProblem: one does not exist, is being deleted, or belongs to another pod.
    """
    return tuple(
        [
            claim
            for entry in pod.spec.resource_claims
            if (claim := claim_of(pod, entry, claims)) is not None
        ]
    )


def claim_of(pod: Pod, entry: PodResourceClaim, claims: Claims) -> ResourceClaim | None:
    """Returns the claim of one entry; None if no claim is needed for it.

    Raises:
        ClaimProblem: it does not exist, is being deleted, or belongs to another pod.
    """
    name = entry.resource_claim_name
    is_generated = name is None
    if name is None:
        name = _generated_name(pod, entry)
    if name is None:
        return None
    claim_key = f"{pod.metadata.namespace}/{name}"
    claim = claims.get(claim_key)
    if claim is None:
        raise ClaimProblem(f'could not find ResourceClaim "{claim_key}"')
    if claim.metadata.deletion_timestamp is not None:
        raise ClaimProblem(f'resourceclaim "{name}" is being deleted')
    if is_generated and not _is_owner(pod, claim):
        raise ClaimProblem(
            f"ResourceClaim {claim_key} was not created for Pod {key(pod)} (Pod is not owner)"
        )
    return claim


def _generated_name(pod: Pod, entry: PodResourceClaim) -> str | None:
    """Returns the name of the claim that was made from a template; None if none is needed."""
    if entry.resource_claim_template_name is None:
        quoted = json.dumps(entry.name)
        raise ClaimProblem(
            f'pod "{key(pod)}", spec.resourceClaim {quoted}: none of the supported fields are set'
        )
    for status in pod.status.resource_claim_statuses:
        if status.name == entry.name:
            return status.resource_claim_name
    raise ClaimProblem(f'pod "{key(pod)}": ResourceClaim not created yet')


def _is_owner(pod: Pod, claim: ResourceClaim) -> bool:
    owner = controller_of(claim.metadata)
    return owner is not None and owner.uid == pod.metadata.uid


def is_reserved_for(pod_uid: str, claim: ResourceClaim) -> bool:
    """Returns whether the claim is allocated, and the pod is among its users."""
    return claim.status.allocation is not None and any(
        user.uid == pod_uid for user in claim.status.reserved_for
    )


def check_unallocated(claims: PodClaims, devices: Devices, *, is_known: bool) -> None:
    """Checks the claims that are to be allocated; the special one has no requests yet.

    Args:
        claims: The claims.
        devices: The devices of the cluster.
        is_known: Whether equal requests passed these checks with the same device classes.

    Raises:
        ClaimProblem: a claim is in flight for another pod, or a device class does not exist.
        AllocationError: a request names no device class.
    """
    for claim in claims.to_allocate:
        if devices.in_use.in_flight(claim.metadata.uid) is not None:
            raise ClaimProblem(f"resource claim {key(claim)} is in the process of being allocated")
        if not is_known and claim is not claims.special:
            _check_requests(claim, devices)


def _check_requests(claim: ResourceClaim, devices: Devices) -> None:
    for request in claim.spec.devices.requests:
        if request.exactly is not None:
            classes = {request.name: request.exactly.device_class_name}
        else:
            classes = {
                f"{request.name}/{alternative.name}": alternative.device_class_name
                for alternative in request.first_available
            }
        if request.exactly is None and classes and not devices.features.has_alternatives:
            raise ClaimProblem(
                f"resource claim {key(claim)}, request {request.name}: "
                "has subrequests, but the DRAPrioritizedList feature is disabled"
            )
        if not classes:
            raise ClaimProblem(
                f"resource claim {key(claim)}, request {request.name}: unknown request type"
            )
        for name, class_name in classes.items():
            if not class_name:
                raise AllocationError(f"request {name}: unsupported request type")
            if devices.classes.get(class_name) is None:
                raise ClaimProblem(f"request {name}: device class {class_name} does not exist")
