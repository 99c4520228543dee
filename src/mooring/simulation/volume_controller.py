"""What a volume controller and the provisioners do, as far as a scheduler waits for it.

Pure functions: from a claim and what it is given, to both of them as they are afterwards. There is
no controller offline and none beside the embedded API server, so this stands in for it.

Source: pkg/controller/volume/persistentvolume/pv_controller.go (bind); external-provisioner's
naming of volumes. *Differs:* no finalizers, no deletion protection; a volume is there at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from msgspec.structs import replace

from mooring.objects.csi_migration import ZONE, in_tree_plugin
from mooring.objects.meta import (
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    ObjectMeta,
)
from mooring.objects.storage import (
    CSINode,
    CSIPersistentVolume,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimStatus,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
    StorageClass,
    VolumeNodeAffinity,
)
from mooring.objects.volume_claims import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    STORAGE,
    claim_class,
    reference_to,
)

#: What becomes of a made volume when its claim is gone, unless the class says otherwise.
_DELETE: Final = "Delete"


class Bound(NamedTuple):
    """A volume and the claim that it belongs to."""

    volume: PersistentVolume
    claim: PersistentVolumeClaim


def bind(volume: PersistentVolume, claim: PersistentVolumeClaim) -> Bound:
    """Both sides of a binding; the volume names the claim already."""
    marks = {BIND_COMPLETED: "yes"}
    if not claim.spec.volume_name:
        marks[BOUND_BY_CONTROLLER] = "yes"
    metadata = replace(
        claim.metadata, resource_version="", annotations={**claim.metadata.annotations, **marks}
    )
    bound = replace(
        claim,
        metadata=metadata,
        spec=replace(claim.spec, volume_name=volume.metadata.name),
        status=PersistentVolumeClaimStatus(
            phase="Bound",
            access_modes=volume.spec.access_modes,
            capacity=dict(volume.spec.capacity),
        ),
    )
    given = replace(
        volume,
        metadata=replace(volume.metadata, resource_version=""),
        status=PersistentVolumeStatus(phase="Bound"),
    )
    return Bound(given, bound)


def provision(
    claim: PersistentVolumeClaim,
    found: StorageClass,
    labels: Mapping[str, str],
    csi_node: CSINode | None,
) -> Bound:
    """Makes a volume for a claim.

    Args:
        claim: Whose it will be.
        found: Its class.
        labels: Of the node that it is made for; none for a claim that does not wait for a pod.
        csi_node: What the drivers of that node say.
    """
    kind = in_tree_plugin(found.provisioner)
    driver = kind.driver if kind is not None else found.provisioner
    name = f"pvc-{claim.metadata.uid or f'{claim.metadata.namespace}-{claim.metadata.name}'}"
    size = claim.spec.resources.requests.get(STORAGE, "0")
    metadata = ObjectMeta(name=name, uid=name, creation_timestamp=claim.metadata.creation_timestamp)
    spec = PersistentVolumeSpec(
        capacity={STORAGE: size},
        csi=CSIPersistentVolume(driver=driver, volume_handle=name),
        access_modes=claim.spec.access_modes,
        claim_ref=replace(reference_to(claim), resource_version=""),
        persistent_volume_reclaim_policy=found.reclaim_policy or _DELETE,
        storage_class_name=claim_class(claim),
        mount_options=found.mount_options,
        volume_mode=claim.spec.volume_mode,
        node_affinity=_near(driver, labels, csi_node),
        volume_attributes_class_name=claim.spec.volume_attributes_class_name,
    )
    return bind(PersistentVolume(metadata=metadata, spec=spec), claim)


def _near(
    driver: str, labels: Mapping[str, str], csi_node: CSINode | None
) -> VolumeNodeAffinity | None:
    """The nodes like this one: by the labels that the driver places volumes by, else by zone."""
    keys: tuple[str, ...] = (ZONE,)
    for each in csi_node.spec.drivers if csi_node is not None else ():
        if each.name == driver and each.topology_keys:
            keys = each.topology_keys
    expressions = tuple(
        NodeSelectorRequirement(key=key, operator="In", values=(labels[key],))
        for key in keys
        if key in labels
    )
    if not expressions:
        return None
    term = NodeSelectorTerm(match_expressions=expressions)
    return VolumeNodeAffinity(required=NodeSelector(node_selector_terms=(term,)))
