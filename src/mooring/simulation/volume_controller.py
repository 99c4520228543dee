"""The parts of the PV controller and the external provisioners that a scheduler waits for.

Pure functions that return the bound volume and claim. Neither the offline scheduler nor the
embedded API server has a controller, so this stands in for it.

Source: pkg/controller/volume/persistentvolume/pv_controller.go (bind); external-provisioner's
naming of volumes. *Differs:* no finalizers, no deletion protection; provisioning takes no time.
"""

from __future__ import annotations

import re
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

#: Default reclaim policy of provisioned volumes.
_DELETE: Final = "Delete"

#: The names of CSI drivers, in lower case; those of provisioners may have a slash.
_DRIVER: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_DRIVER_LENGTH_MAX: Final = 63

#: Where the volumes of provisioners lie that are no CSI drivers, as "rancher.io/local-path".
_HOST_FOLDER: Final = "/opt/volumes"


class Bound(NamedTuple):
    """A volume and the claim that is bound to it."""

    volume: PersistentVolume
    claim: PersistentVolumeClaim


def bind(volume: PersistentVolume, claim: PersistentVolumeClaim) -> Bound:
    """Returns both sides of a completed binding; ``volume`` has its claimRef already."""
    annotations = {BIND_COMPLETED: "yes"}
    if not claim.spec.volume_name:
        annotations[BOUND_BY_CONTROLLER] = "yes"
    metadata = replace(
        claim.metadata,
        resource_version="",
        annotations={**claim.metadata.annotations, **annotations},
    )
    bound_claim = replace(
        claim,
        metadata=metadata,
        spec=replace(claim.spec, volume_name=volume.metadata.name),
        status=PersistentVolumeClaimStatus(
            phase="Bound",
            access_modes=volume.spec.access_modes,
            capacity=dict(volume.spec.capacity),
        ),
    )
    bound_volume = replace(
        volume,
        metadata=replace(volume.metadata, resource_version=""),
        status=PersistentVolumeStatus(phase="Bound"),
    )
    return Bound(bound_volume, bound_claim)


def provision(
    claim: PersistentVolumeClaim,
    storage_class: StorageClass,
    labels: Mapping[str, str],
    csi_node: CSINode | None,
) -> Bound:
    """Returns a new volume for a claim, bound to it.

    Args:
        claim: The claim to provision for.
        storage_class: The claim's class.
        labels: Of the selected node; empty for a claim that does not wait for a pod.
        csi_node: The CSINode of the selected node.
    """
    kind = in_tree_plugin(storage_class.provisioner)
    driver = kind.driver if kind is not None else storage_class.provisioner
    is_csi = len(driver) <= _DRIVER_LENGTH_MAX and _DRIVER.fullmatch(driver.lower()) is not None
    name = f"pvc-{claim.metadata.uid or f'{claim.metadata.namespace}-{claim.metadata.name}'}"
    size = claim.spec.resources.requests.get(STORAGE, "0")
    metadata = ObjectMeta(name=name, uid=name, creation_timestamp=claim.metadata.creation_timestamp)
    spec = PersistentVolumeSpec(
        capacity={STORAGE: size},
        csi=CSIPersistentVolume(driver=driver, volume_handle=name) if is_csi else None,
        host_path=None if is_csi else {"path": f"{_HOST_FOLDER}/{name}"},
        access_modes=claim.spec.access_modes,
        claim_ref=replace(reference_to(claim), resource_version=""),
        persistent_volume_reclaim_policy=storage_class.reclaim_policy or _DELETE,
        storage_class_name=claim_class(claim),
        mount_options=storage_class.mount_options,
        volume_mode=claim.spec.volume_mode,
        node_affinity=_node_affinity(driver, labels, csi_node),
        volume_attributes_class_name=claim.spec.volume_attributes_class_name if is_csi else None,
    )
    return bind(PersistentVolume(metadata=metadata, spec=spec), claim)


def _node_affinity(
    driver: str, labels: Mapping[str, str], csi_node: CSINode | None
) -> VolumeNodeAffinity | None:
    """Returns the volume's node affinity: by the driver's topology keys, else by zone."""
    keys: tuple[str, ...] = (ZONE,)
    for csi_driver in csi_node.spec.drivers if csi_node is not None else ():
        if csi_driver.name == driver and csi_driver.topology_keys:
            keys = csi_driver.topology_keys
    expressions = tuple(
        NodeSelectorRequirement(key=key, operator="In", values=(labels[key],))
        for key in keys
        if key in labels
    )
    if not expressions:
        return None
    term = NodeSelectorTerm(match_expressions=expressions)
    return VolumeNodeAffinity(required=NodeSelector(node_selector_terms=(term,)))
