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
from mooring.simulation.volume_controller import (
    Bound,
    bind,
    bound_at_once,
    provision,
    provisioned_at_once,
    reclaimed,
)

#: The kinds that it acts on.
KINDS: Final = ("PersistentVolume", "PersistentVolumeClaim")


class VolumeController:
    """Completes bindings that the scheduler began, and makes volumes for claims with a node.

    Claims that do not wait for a pod are bound to volumes that exist, or that are made for new
    claims. A volume whose claim is deleted is released, or deleted as well.

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
        if change.new is None:
            if kind == "PersistentVolumeClaim":
                self._reclaim(change.old)
        elif kind == "PersistentVolumeClaim":
            bound = self._provisioned(change.new) or self._bound_at_once(change.new)
            if bound is None and change.old is None:
                bound = self._provisioned_at_once(change.new)
            self._put(bound)
        elif change.new.spec.claim_ref is not None:
            self._put(self._bound_volume(change.new))
        elif change.old is None:
            self._bind_claim_to(change.new)

    def _put(self, bound: Bound | None) -> None:
        if bound is not None:
            self._table.put(bound.volume)
            self._table.put(bound.claim)

    def _bound_at_once(self, claim: PersistentVolumeClaim) -> Bound | None:
        storage_class = self._table.objects("StorageClass").get(claim_class(claim))
        return bound_at_once(claim, storage_class, self._table.objects("PersistentVolume"))

    def _provisioned_at_once(self, claim: PersistentVolumeClaim) -> Bound | None:
        storage_class = self._table.objects("StorageClass").get(claim_class(claim))
        return _as_new(provisioned_at_once(claim, storage_class))

    def _bind_claim_to(self, volume: PersistentVolume) -> None:
        """Binds a claim that waits for a volume such as a new one."""
        for claim in [*self._table.objects("PersistentVolumeClaim").values()]:
            bound = self._bound_at_once(claim)
            if bound is not None and bound.volume.metadata.name == volume.metadata.name:
                self._put(bound)
                return

    def _reclaim(self, claim: PersistentVolumeClaim) -> None:
        """Releases or deletes the volume of a claim that was deleted."""
        volume = self._table.objects("PersistentVolume").get(claim.spec.volume_name)
        if volume is None or not is_bound_to(volume.spec.claim_ref, claim):
            return
        released = reclaimed(volume)
        if released is None:
            self._table.delete("PersistentVolume", volume.metadata.name)
        else:
            self._table.put(released)

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
        return _as_new(provision(claim, storage_class, node.metadata.labels, csi_node))


def _as_new(bound: Bound | None) -> Bound | None:
    """Returns a binding whose volume does not exist yet."""
    if bound is None:
        return None
    metadata = replace(bound.volume.metadata, resource_version="")
    return bound._replace(volume=replace(bound.volume, metadata=metadata))
