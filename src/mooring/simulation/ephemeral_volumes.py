"""The controller of ephemeral volumes: a pod gets a claim for each of them.

Source: pkg/controller/volume/ephemeral/controller.go.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from mooring.objects.codec.decode import to_builtins
from mooring.objects.defaulting.storage import default_storage_class
from mooring.objects.meta import ObjectMeta, OwnerReference
from mooring.objects.pod import Pod
from mooring.objects.storage import (
    PersistentVolumeClaim,
    PersistentVolumeClaimStatus,
    StorageClass,
)
from mooring.objects.volume_claims import claim_use


def has_ephemeral_volumes(pod: Pod) -> bool:
    """Returns whether a volume of the pod needs a claim that is made for it."""
    volumes = pod.spec.volumes
    return bool(volumes) and any(volume.ephemeral is not None for volume in volumes)


def ephemeral_claims(pod: Pod) -> list[PersistentVolumeClaim]:
    """Returns the claims of a pod's ephemeral volumes, as the controller creates them."""
    metadata = pod.metadata
    owner = OwnerReference(
        api_version="v1", kind="Pod", name=metadata.name, uid=metadata.uid, controller=True
    )
    claims = []
    for volume in pod.spec.volumes:
        use = claim_use(pod, volume)
        if use is None or volume.ephemeral is None or not volume.ephemeral.volume_claim_template:
            continue
        template = volume.ephemeral.volume_claim_template
        claim = ObjectMeta(
            name=use.name,
            namespace=metadata.namespace,
            labels=dict(template.metadata.labels),
            annotations=dict(template.metadata.annotations),
            owner_references=(owner,),
        )
        claims.append(PersistentVolumeClaim(metadata=claim, spec=template.spec))
    return claims


def stored_claims(pod: Pod, classes: Iterable[StorageClass]) -> list[PersistentVolumeClaim]:
    """Returns these claims as an API server stores them.

    Args:
        pod: The pod.
        classes: All storage classes; a claim without a class gets the default one.
    """
    return [_stored(pod, claim, classes) for claim in ephemeral_claims(pod)]


def _stored(
    pod: Pod, claim: PersistentVolumeClaim, classes: Iterable[StorageClass]
) -> PersistentVolumeClaim:
    metadata = replace(
        claim.metadata,
        uid=f"{pod.metadata.uid}-{claim.metadata.name}",
        creation_timestamp=pod.metadata.creation_timestamp,
    )
    spec = claim.spec
    if spec.storage_class_name is None:
        spec = replace(spec, storage_class_name=default_storage_class(map(to_builtins, classes)))
    if spec.volume_mode is None:
        spec = replace(spec, volume_mode="Filesystem")
    status = PersistentVolumeClaimStatus(phase="Pending")
    return replace(claim, metadata=metadata, spec=spec, status=status)
