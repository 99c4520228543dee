"""The parts of the resource claim controller that a scheduler waits for.

Pure functions: they make the claims of a pod from templates, and take pods that are gone from the
users of a claim. Neither the offline scheduler nor the embedded API server has a controller, so
this stands in for it.

Source: pkg/controller/resourceclaim/controller.go (handleClaim, syncClaim).
Differs: no pod groups; no events for templates that do not exist.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from msgspec.structs import replace

from mooring.objects.meta import ObjectMeta, OwnerReference, controller_of
from mooring.objects.pod import FINISHED_PHASES, Pod, PodResourceClaim, PodResourceClaimStatus
from mooring.objects.resource import (
    FINALIZER,
    ResourceClaim,
    ResourceClaimConsumerReference,
    ResourceClaimTemplate,
)

#: Annotation of generated claims: the entry of ``spec.resourceClaims`` they were made for.
POD_CLAIM: Final = "resource.kubernetes.io/pod-claim-name"

#: A name has 63 characters: 57, a hyphen and 5 random ones.
_BASE_LENGTH_MAX: Final = 57


def entries_to_generate(
    pod: Pod, claim_of: Callable[[str], ResourceClaim | None]
) -> list[PodResourceClaim]:
    """Returns the entries of a pod with a template whose claim does not exist yet.

    Args:
        pod: The pod.
        claim_of: Returns the claim with this name in the pod's namespace.
    """
    statuses = {
        status.name: status.resource_claim_name for status in pod.status.resource_claim_statuses
    }
    entries = []
    for entry in pod.spec.resource_claims:
        if entry.resource_claim_template_name is None or entry.resource_claim_name is not None:
            continue
        if entry.name in statuses:
            name = statuses[entry.name]
            claim = claim_of(name) if name is not None else None
            if name is None or (claim is not None and is_owned_by(claim, pod)):
                continue
        entries.append(entry)
    return entries


def generated_claim(
    pod: Pod, entry: PodResourceClaim, template: ResourceClaimTemplate
) -> ResourceClaim:
    """Returns a pod's new claim from a template; it has a generateName and no name."""
    metadata = template.spec.metadata
    owner = OwnerReference(
        api_version="v1", kind="Pod", name=pod.metadata.name, uid=pod.metadata.uid, controller=True
    )
    return ResourceClaim(
        metadata=ObjectMeta(
            generate_name=_generate_name(pod.metadata.name, entry.name),
            namespace=pod.metadata.namespace,
            labels=dict(metadata.labels),
            annotations={**metadata.annotations, POD_CLAIM: entry.name},
            owner_references=(owner,),
        ),
        spec=template.spec.spec,
    )


def _generate_name(pod_name: str, entry_name: str) -> str:
    """Returns the prefix of a claim's name; both parts of a long one are cut in proportion."""
    prefix = f"{pod_name}-{entry_name}-"
    length = len(prefix)
    if length <= _BASE_LENGTH_MAX:
        return prefix
    pod_part = pod_name[: len(pod_name) * _BASE_LENGTH_MAX // length]
    return f"{pod_part}-{entry_name[: len(entry_name) * _BASE_LENGTH_MAX // length]}"


def with_statuses(pod: Pod, names: Mapping[str, str]) -> tuple[PodResourceClaimStatus, ...]:
    """Returns the pod's claim statuses after claims were made; ``names``: entry -> claim."""
    others = [status for status in pod.status.resource_claim_statuses if status.name not in names]
    made = [
        PodResourceClaimStatus(name=key, resource_claim_name=name) for key, name in names.items()
    ]
    return (*others, *made)


class Release(NamedTuple):
    """The change of a claim after users are gone.

    Attributes:
        reserved_for: The remaining users.
        clears_allocation: True if the allocation is removed, and with it the finalizer.
    """

    reserved_for: tuple[ResourceClaimConsumerReference, ...]
    clears_allocation: bool


def release_of(
    claim: ResourceClaim, is_gone: Callable[[ResourceClaimConsumerReference], bool]
) -> Release | None:
    """Returns the release of the users that are gone; None if the claim stays as it is.

    Users that are no pods are kept. Only a claim with the finalizer loses its allocation: it was
    allocated by a scheduler.
    """
    status = claim.status
    remaining = tuple(
        user
        for user in status.reserved_for
        if user.api_group or user.resource != "pods" or not is_gone(user)
    )
    is_protected = FINALIZER in claim.metadata.finalizers
    if len(remaining) < len(status.reserved_for):
        return Release(remaining, clears_allocation=not remaining and is_protected)
    if is_protected and claim.metadata.deletion_timestamp is not None and not remaining:
        return Release(remaining, clears_allocation=True)
    return None


def released(claim: ResourceClaim, release: Release) -> ResourceClaim:
    """Returns the claim after a release."""
    metadata = claim.metadata
    status = replace(claim.status, reserved_for=release.reserved_for)
    if release.clears_allocation:
        status = replace(status, allocation=None, devices=())
        metadata = replace(metadata, finalizers=without_protection(metadata.finalizers))
    return replace(claim, metadata=metadata, status=status)


def without_protection(finalizers: Iterable[str]) -> tuple[str, ...]:
    """Returns the finalizers without the one of allocated claims."""
    return tuple(name for name in finalizers if name != FINALIZER)


def is_owned_by(claim: ResourceClaim, pod: Pod) -> bool:
    """Returns whether the claim was made for this pod."""
    owner = controller_of(claim.metadata)
    return owner is not None and owner.uid == pod.metadata.uid


def is_done(pod: Pod) -> bool:
    """Returns whether a pod will not run any more: finished, or deleted before it was bound."""
    is_deleted = pod.metadata.deletion_timestamp is not None
    return pod.status.phase in FINISHED_PHASES or (is_deleted and not pod.spec.node_name)
