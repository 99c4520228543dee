"""The claims and phases that controllers set before a pod is scheduled; there is no API server.

A cluster makes the claims of a pod's templates as soon as the pod exists, and a new volume
``Available``.

Source: pkg/controller/volume/persistentvolume/pv_controller.go (syncVolume), of volumes.
"""

from __future__ import annotations

from msgspec.structs import replace

from mooring.objects.meta import KubernetesObject, key
from mooring.objects.pod import Pod
from mooring.objects.resource import ResourceClaim, ResourceClaimTemplate
from mooring.objects.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from mooring.objects.volume_claims import claim_class
from mooring.objects.volume_index import VolumeIndex
from mooring.simulation.claim_controller import (
    entries_to_generate,
    generated_claim,
    with_statuses,
)
from mooring.simulation.ephemeral_volumes import has_ephemeral_volumes, stored_claims
from mooring.simulation.volume_controller import bound_at_once, provisioned_at_once
from mooring.simulation.workload import Workload


def with_controller_results(workload: Workload) -> Workload:
    """Returns the workload with the phases of new volumes, and the claims of pods from templates.

    A pod whose template does not exist stays as it is: it is unschedulable.
    """
    workload = _with_volumes(workload)
    templates = {
        key(obj): obj for obj in workload.objects if isinstance(obj, ResourceClaimTemplate)
    }
    if not templates:
        return workload
    claims = {key(obj): obj for obj in workload.objects if isinstance(obj, ResourceClaim)}
    generated: list[KubernetesObject] = []
    pending = []
    for pod in workload.pending:
        names, new_claims = new_claims_of(pod, templates, claims)
        generated += new_claims
        claims.update({key(claim): claim for claim in new_claims})
        if names:
            status = replace(pod.status, resource_claim_statuses=with_statuses(pod, names))
            pod = replace(pod, status=status)
        pending.append(pod)
    return workload._replace(objects=[*workload.objects, *generated], pending=pending)


def _with_volumes(workload: Workload) -> Workload:
    """Returns the workload with claims of ephemeral volumes, and with bound volumes.

    A claim that does not wait for a pod is bound to a volume that exists. One is made for a claim
    that no API server has stored; for a stored one, the provisioner has had its time.
    """
    others: list[KubernetesObject] = []
    classes: dict[str, StorageClass] = {}
    claims: dict[str, PersistentVolumeClaim] = {}
    volumes = VolumeIndex()
    for obj in workload.objects:
        if isinstance(obj, PersistentVolume):
            volumes.put(_available(obj))
        elif isinstance(obj, PersistentVolumeClaim):
            claims[key(obj)] = obj
        else:
            others.append(obj)
            if isinstance(obj, StorageClass):
                classes[obj.metadata.name] = obj
    for pod in filter(has_ephemeral_volumes, workload.pending):
        for claim in stored_claims(pod, classes.values()):
            claims.setdefault(key(claim), claim)
    for claim_key, claim in claims.items():
        storage_class = classes.get(claim_class(claim))
        bound = bound_at_once(claim, storage_class, volumes)
        if bound is None and not claim.metadata.resource_version:
            bound = provisioned_at_once(claim, storage_class)
        if bound is not None:
            volumes.put(bound.volume)
            claims[claim_key] = bound.claim
    return workload._replace(objects=[*volumes.volumes(), *claims.values(), *others])


def _available(volume: PersistentVolume) -> PersistentVolume:
    """Returns a new volume that no claim uses with its phase; another one as it is."""
    reference = volume.spec.claim_ref
    is_used = reference is not None and reference.uid
    if is_used or volume.status.phase not in ("", "Pending"):
        return volume
    return replace(volume, status=replace(volume.status, phase="Available"))


def new_claims_of(
    pod: Pod, templates: dict[str, ResourceClaimTemplate], claims: dict[str, ResourceClaim]
) -> tuple[dict[str, str], list[ResourceClaim]]:
    """Returns the names of a pod's new claims by entry, and the claims."""
    namespace = pod.metadata.namespace
    names: dict[str, str] = {}
    new_claims = []
    for entry in entries_to_generate(pod, lambda name: claims.get(f"{namespace}/{name}")):
        template = templates.get(f"{namespace}/{entry.resource_claim_template_name}")
        if template is None:
            continue
        claim = generated_claim(pod, entry, template)
        name = _unused_name(claim.metadata.generate_name, namespace, claims)
        metadata = replace(
            claim.metadata,
            name=name,
            generate_name="",
            uid=f"{pod.metadata.uid}-{entry.name}",
            creation_timestamp=pod.metadata.creation_timestamp,
        )
        names[entry.name] = name
        new_claims.append(replace(claim, metadata=metadata))
    return names, new_claims


def _unused_name(prefix: str, namespace: str, claims: dict[str, ResourceClaim]) -> str:
    """Returns a name with a number instead of random characters, so that runs are equal."""
    number = 0
    while f"{namespace}/{prefix}{number:05}" in claims:
        number += 1
    return f"{prefix}{number:05}"
