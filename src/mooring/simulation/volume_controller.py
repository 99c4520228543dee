"""The parts of the PV controller and the external provisioners that a scheduler waits for.

Pure functions that return the bound volume and claim. Neither the offline scheduler nor the
embedded API server has a controller, so this stands in for it.

Source: pkg/controller/volume/persistentvolume/pv_controller.go (bind); external-provisioner's
naming of volumes. *Differs:* provisioning takes no time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from msgspec.structs import replace

from mooring.objects.csi_migration import ZONE, in_tree_plugin
from mooring.objects.meta import (
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    ObjectMeta,
)
from mooring.objects.node import Node
from mooring.objects.selectors import SelectorError, compile_label_selector
from mooring.objects.storage import (
    CSINode,
    CSIPersistentVolume,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimStatus,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
    StorageClass,
    VolumeNodeAffinity,
)
from mooring.objects.volume_claims import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    NO_PROVISIONER,
    STORAGE,
    WAIT_FOR_FIRST_CONSUMER,
    amount,
    claim_class,
    is_bound_to,
    is_fully_bound,
    reference_to,
)
from mooring.objects.volume_index import VolumeIndex
from mooring.plugins.volume_binding.bind_volumes import bound_volume

#: Default reclaim policy of provisioned volumes.
_DELETE: Final = "Delete"
#: Default mode of volumes.
_FILESYSTEM: Final = "Filesystem"

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


def is_immediate(storage_class: StorageClass | None) -> bool:
    """Returns whether claims of a class are bound without a pod; None = there is no such class."""
    return storage_class is None or storage_class.volume_binding_mode != WAIT_FOR_FIRST_CONSUMER


def matching_volume(
    claim: PersistentVolumeClaim, volumes: VolumeIndex, *, waits_for_pod: bool
) -> PersistentVolume | None:
    """Returns the volume that a claim is bound to without a pod.

    That is the one whose claimRef names the claim, else the smallest free one that satisfies it.

    Source: staging/src/k8s.io/component-helpers/storage/volume/pv_helpers.go (FindMatchingVolume).

    Args:
        claim: A claim without a volume.
        volumes: All volumes.
        waits_for_pod: Whether the scheduler chooses among the free ones.
    """
    spec = claim.spec
    try:
        selector = None if spec.selector is None else compile_label_selector(spec.selector)
    except SelectorError:
        return None
    for volume in volumes.meant_for(claim):
        if _has_what_is_requested(volume, spec):
            return volume
    if waits_for_pod:
        return None
    for volume in volumes.free(claim_class(claim), amount(spec.resources.requests)):
        if (
            set(spec.access_modes) <= set(volume.spec.access_modes)
            and (selector is None or selector.matches(volume.metadata.labels))
            and _has_what_is_requested(volume, spec)
        ):
            return volume
    return None


def bound_at_once(
    claim: PersistentVolumeClaim,
    storage_class: StorageClass | None,
    volumes: VolumeIndex,
) -> Bound | None:
    """Returns the binding of a claim to an existing volume, without a pod; None = it waits.

    Args:
        claim: The claim.
        storage_class: Its class; None = there is none.
        volumes: All volumes.
    """
    if is_fully_bound(claim) or claim.metadata.deletion_timestamp is not None:
        return None
    volume: PersistentVolume | None
    if claim.spec.volume_name:
        volume = volumes.get(claim.spec.volume_name)
        if volume is None or not (
            volume.spec.claim_ref is None or is_bound_to(volume.spec.claim_ref, claim)
        ):
            return None
    else:
        waits = not is_immediate(storage_class)
        volume = matching_volume(claim, volumes, waits_for_pod=waits)
    return None if volume is None else bind(bound_volume(volume, claim), claim)


def provisioned_at_once(
    claim: PersistentVolumeClaim, storage_class: StorageClass | None
) -> Bound | None:
    """Returns a new volume for a claim that waits for no pod, bound to it; None = none is made.

    Args:
        claim: A claim for which no volume exists.
        storage_class: Its class; None = there is none.
    """
    if is_fully_bound(claim) or claim.spec.volume_name or storage_class is None:
        return None
    if claim.metadata.deletion_timestamp is not None or not is_immediate(storage_class):
        return None
    if storage_class.provisioner in ("", NO_PROVISIONER):
        return None
    return provision(claim, storage_class, {}, None)


def completed(
    volume: PersistentVolume, claim_of: Callable[[str], PersistentVolumeClaim | None]
) -> Bound | None:
    """Returns the binding that a claimRef of a volume asks for; None = it has none, or is bound.

    Args:
        volume: The volume.
        claim_of: Returns the claim with a key.
    """
    reference = volume.spec.claim_ref
    if reference is None:
        return None
    claim = claim_of(f"{reference.namespace}/{reference.name}")
    if claim is None or is_fully_bound(claim) or not is_bound_to(reference, claim):
        return None
    return bind(volume, claim)


def provisioned_on_node(
    claim: PersistentVolumeClaim,
    storage_class: StorageClass | None,
    node: Node | None,
    csi_node: CSINode | None,
) -> Bound | None:
    """Returns a new volume for a claim whose pod goes to a node; None = none is made.

    Args:
        claim: The claim.
        storage_class: Its class; None = there is none.
        node: The node that the scheduler selected; None = there is none.
        csi_node: The CSINode of that node.
    """
    if is_fully_bound(claim) or storage_class is None or node is None:
        return None
    if storage_class.provisioner in ("", NO_PROVISIONER):
        return None
    return provision(claim, storage_class, node.metadata.labels, csi_node)


def _has_what_is_requested(volume: PersistentVolume, spec: PersistentVolumeClaimSpec) -> bool:
    return (
        volume.metadata.deletion_timestamp is None
        and amount(volume.spec.capacity) >= amount(spec.resources.requests)
        and (volume.spec.volume_mode or _FILESYSTEM) == (spec.volume_mode or _FILESYSTEM)
        and (volume.spec.volume_attributes_class_name or "")
        == (spec.volume_attributes_class_name or "")
    )


def reclaimed(volume: PersistentVolume) -> PersistentVolume | None:
    """Returns the volume after its claim was deleted; None = it is deleted, too."""
    if volume.spec.persistent_volume_reclaim_policy == _DELETE:
        return None
    return replace(volume, status=replace(volume.status, phase="Released"))


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
