"""Claims and volumes, and how one tells that they belong together.

Source: component-helpers v0.36.3, storage/volume (helpers.go, pv_helpers.go) and
storage/ephemeral.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from mooring.objects.meta import ObjectReference, ResourceList, controller_of
from mooring.objects.pod import Pod, Volume
from mooring.objects.quantity import ZERO, Quantity
from mooring.objects.storage import PersistentVolume, PersistentVolumeClaim

#: Annotations of claims and volumes.
BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
_BETA_CLASS: Final = "volume.beta.kubernetes.io/storage-class"

#: The provisioner of classes whose volumes somebody makes by hand.
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"

WAIT_FOR_FIRST_CONSUMER: Final = "WaitForFirstConsumer"
READ_WRITE_ONCE_POD: Final = "ReadWriteOncePod"
STORAGE: Final = "storage"


class ClaimUse(NamedTuple):
    """A volume of a pod that is a claim; ``is_ephemeral``: made for this pod alone."""

    name: str
    is_ephemeral: bool


def claim_use(pod: Pod, volume: Volume) -> ClaimUse | None:
    """Returns the claim that a volume of the pod is; None if it is something else."""
    if volume.persistent_volume_claim is not None:
        return ClaimUse(volume.persistent_volume_claim.claim_name, is_ephemeral=False)
    if volume.ephemeral is not None:
        return ClaimUse(f"{pod.metadata.name}-{volume.name}", is_ephemeral=True)
    return None


def claim_uses(pod: Pod) -> list[ClaimUse]:
    """Returns the claims that the pod uses, in the order of its volumes; one may occur twice."""
    uses = (claim_use(pod, volume) for volume in pod.spec.volumes)
    return [use for use in uses if use is not None]


def ownership_problem(pod: Pod, claim: PersistentVolumeClaim) -> str:
    """Why an ephemeral volume's claim is not the pod's own; "" if it is."""
    own, owner = claim.metadata, controller_of(claim.metadata)
    is_owned = owner is not None and owner.uid == pod.metadata.uid
    if is_owned and own.namespace == pod.metadata.namespace:
        return ""
    return (
        f"PVC {own.namespace}/{own.name} was not created for pod "
        f"{pod.metadata.namespace}/{pod.metadata.name} (pod is not owner)"
    )


def claim_class(claim: PersistentVolumeClaim) -> str:
    """Returns the StorageClass that the claim asks for; "" = none."""
    beta = claim.metadata.annotations.get(_BETA_CLASS)
    return beta if beta is not None else claim.spec.storage_class_name or ""


def volume_class(volume: PersistentVolume) -> str:
    """Returns the StorageClass that the volume is of; "" = none."""
    beta = volume.metadata.annotations.get(_BETA_CLASS)
    return beta if beta is not None else volume.spec.storage_class_name


def is_fully_bound(claim: PersistentVolumeClaim) -> bool:
    """Returns whether the claim has its volume, and the controller is done with both."""
    return bool(claim.spec.volume_name) and BIND_COMPLETED in claim.metadata.annotations


def is_bound_to(reference: ObjectReference | None, claim: PersistentVolumeClaim) -> bool:
    """Returns whether a volume with this claimRef belongs to the claim, or is meant for it."""
    if reference is None:
        return False
    own = claim.metadata
    if (reference.namespace, reference.name) != (own.namespace, own.name):
        return False
    return not reference.uid or reference.uid == own.uid


def amount(resources: ResourceList, name: str = STORAGE) -> Quantity:
    """How much of a resource is listed; zero if it is not there."""
    raw = resources.get(name)
    return ZERO if raw is None else Quantity.from_wire(raw)


def reference_to(claim: PersistentVolumeClaim) -> ObjectReference:
    """What a volume's claimRef says when it is given to the claim."""
    own = claim.metadata
    return ObjectReference(
        kind="PersistentVolumeClaim",
        namespace=own.namespace,
        name=own.name,
        uid=own.uid,
        api_version="v1",
        resource_version=own.resource_version,
    )
