"""The volume controller and the provisioners of a simulation: they act on a write at once."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from mooring.client import ObjectChange
from mooring.objects.storage import PersistentVolume, PersistentVolumeClaim
from mooring.objects.volume_claims import (
    NO_PROVISIONER,
    SELECTED_NODE,
    claim_class,
    is_bound_to,
    is_fully_bound,
)
from mooring.simulation.engine.object_table import ObjectTable
from mooring.simulation.volume_controller import Bound, bind, provision

#: The kinds that it acts on.
KINDS: Final = ("PersistentVolume", "PersistentVolumeClaim")


class VolumeController:
    """Completes bindings that the scheduler began, and makes volumes for claims with a node.

    Args:
        table: The objects.
    """

    def __init__(self, table: ObjectTable) -> None:
        self._table = table

    def start(self) -> None:
        """Watches volumes and claims."""
        self._table.listen(self.on_change, KINDS)

    def on_change(self, kind: str, change: ObjectChange) -> None:
        """Acts on a volume or a claim."""
        bound = None
        if change.new is None:
            return
        if kind == "PersistentVolume":
            bound = self._bound_volume(change.new)
        elif kind == "PersistentVolumeClaim":
            bound = self._provisioned(change.new)
        if bound is None:
            return
        self._table.put(bound.volume)
        self._table.put(bound.claim)

    def _bound_volume(self, volume: PersistentVolume) -> Bound | None:
        reference = volume.spec.claim_ref
        if reference is None:
            return None
        claims = self._table.objects("PersistentVolumeClaim")
        claim = claims.get(f"{reference.namespace}/{reference.name}")
        if claim is None or is_fully_bound(claim) or not is_bound_to(reference, claim):
            return None
        return bind(volume, claim)

    def _provisioned(self, claim: PersistentVolumeClaim) -> Bound | None:
        node_name = claim.metadata.annotations.get(SELECTED_NODE, "")
        storage_class = self._table.objects("StorageClass").get(claim_class(claim))
        node = self._table.objects("Node").get(node_name)
        if is_fully_bound(claim) or storage_class is None or node is None:
            return None
        if storage_class.provisioner in ("", NO_PROVISIONER):
            return None
        csi_node = self._table.objects("CSINode").get(node_name)
        bound = provision(claim, storage_class, node.metadata.labels, csi_node)
        metadata = replace(bound.volume.metadata, resource_version="")
        return Bound(replace(bound.volume, metadata=metadata), bound.claim)
