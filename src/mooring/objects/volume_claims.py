"""Relations between pods, claims and volumes.

Source: component-helpers v0.36.3, storage/volume (helpers.go, pv_helpers.go) and
storage/ephemeral.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, NamedTuple

from msgspec import json, structs

from mooring.objects.meta import ObjectReference, ResourceList, controller_of
from mooring.objects.pod import Pod, Volume
from mooring.objects.quantity import ZERO, Quantity
from mooring.objects.storage import PersistentVolume, PersistentVolumeClaim

#: Annotations of claims and volumes.
BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
BETA_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
#: Finalizers of claims and volumes that may be in use.
CLAIM_PROTECTION: Final = "kubernetes.io/pvc-protection"
VOLUME_PROTECTION: Final = "kubernetes.io/pv-protection"

#: The provisioner of classes whose volumes are created manually.
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"

WAIT_FOR_FIRST_CONSUMER: Final = "WaitForFirstConsumer"
READ_WRITE_ONCE_POD: Final = "ReadWriteOncePod"
STORAGE: Final = "storage"


def volume_sources(pod: Pod) -> Hashable:
    """Returns the sources of the volumes that a scheduler reads, whatever the volumes' names.

    Source: staging/src/k8s.io/kube-scheduler/framework/signers.go (VolumesSigner).
    """
    nameless = (structs.replace(volume, name="") for volume in pod.spec.volumes)
    return tuple(sorted(json.encode(volume) for volume in nameless if volume != _NO_SOURCE))


_NO_SOURCE: Final = Volume()


class ClaimUse(NamedTuple):
    """The claim of a pod's volume; ``is_ephemeral``: created for this pod alone."""

    name: str
    is_ephemeral: bool


def claim_use(pod: Pod, volume: Volume) -> ClaimUse | None:
    """Returns the claim of a volume of the pod; None if the volume is not a claim."""
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
    """Returns the error if an ephemeral volume's claim is not owned by the pod, else ""."""
    own, owner = claim.metadata, controller_of(claim.metadata)
    is_owned = owner is not None and owner.uid == pod.metadata.uid
    if is_owned and own.namespace == pod.metadata.namespace:
        return ""
    return (
        f"PVC {own.namespace}/{own.name} was not created for pod "
        f"{pod.metadata.namespace}/{pod.metadata.name} (pod is not owner)"
    )


def claim_class(claim: PersistentVolumeClaim) -> str:
    """Returns the StorageClass name of the claim; "" = none."""
    beta = claim.metadata.annotations.get(BETA_CLASS)
    return beta if beta is not None else claim.spec.storage_class_name or ""


def volume_class(volume: PersistentVolume) -> str:
    """Returns the StorageClass name of the volume; "" = none."""
    beta = volume.metadata.annotations.get(BETA_CLASS)
    return beta if beta is not None else volume.spec.storage_class_name


def is_fully_bound(claim: PersistentVolumeClaim) -> bool:
    """Returns whether the claim has a volume, and the controller has completed the binding."""
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
    """Returns the amount of a resource; zero if it is not listed."""
    raw = resources.get(name)
    return ZERO if raw is None else Quantity.from_wire(raw)


def reference_to(claim: PersistentVolumeClaim) -> ObjectReference:
    """Returns the claimRef of a volume that is bound to the claim."""
    own = claim.metadata
    return ObjectReference(
        kind="PersistentVolumeClaim",
        namespace=own.namespace,
        name=own.name,
        uid=own.uid,
        api_version="v1",
        resource_version=own.resource_version,
    )
