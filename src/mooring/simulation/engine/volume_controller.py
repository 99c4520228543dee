"""The volume controller and the provisioners of a simulation: they act on a write at once."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from mooring.client import ObjectChange
from mooring.objects.storage import PersistentVolume, PersistentVolumeClaim
from mooring.objects.volume_claims import (
    SELECTED_NODE,
    claim_class,
    is_bound_to,
    is_fully_bound,
    volume_class,
)
from mooring.objects.volume_index import VolumeIndex
from mooring.simulation.engine.object_table import ObjectTable
from mooring.simulation.volume_controller import (
    Bound,
    bound_at_once,
    completed,
    provisioned_at_once,
    provisioned_on_node,
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
        self._volumes = VolumeIndex()

    def start(self) -> None:
        """Watches volumes and claims."""
        self._volumes = VolumeIndex(self._table.objects("PersistentVolume").values())
        self._table.follow("PersistentVolume", self._update_index)
        self._table.listen(self.on_change, KINDS)

    def _update_index(self, change: ObjectChange) -> None:
        if change.new is None:
            self._volumes.delete(change.old.metadata.name)
        else:
            self._volumes.put(change.new)

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
            claims = self._table.objects("PersistentVolumeClaim")
            self._put(completed(change.new, claims.get))
        elif change.old is None:
            self._bind_claim_to(change.new)

    def _put(self, bound: Bound | None) -> None:
        if bound is not None:
            self._table.put(bound.volume)
            self._table.put(bound.claim)

    def _bound_at_once(self, claim: PersistentVolumeClaim) -> Bound | None:
        storage_class = self._table.objects("StorageClass").get(claim_class(claim))
        return bound_at_once(claim, storage_class, self._volumes)

    def _provisioned_at_once(self, claim: PersistentVolumeClaim) -> Bound | None:
        storage_class = self._table.objects("StorageClass").get(claim_class(claim))
        return _as_new(provisioned_at_once(claim, storage_class))

    def _bind_claim_to(self, volume: PersistentVolume) -> None:
        """Binds a claim that waits for a volume such as a new one."""
        class_name = volume_class(volume)
        for claim in self._table.objects("PersistentVolumeClaim").values():
            if is_fully_bound(claim) or claim_class(claim) != class_name:
                continue
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

    def _provisioned(self, claim: PersistentVolumeClaim) -> Bound | None:
        node_name = claim.metadata.annotations.get(SELECTED_NODE, "")
        storage_class = self._table.objects("StorageClass").get(claim_class(claim))
        node = self._table.objects("Node").get(node_name)
        csi_node = self._table.objects("CSINode").get(node_name)
        return _as_new(provisioned_on_node(claim, storage_class, node, csi_node))


def _as_new(bound: Bound | None) -> Bound | None:
    """Returns a binding whose volume does not exist yet."""
    if bound is None:
        return None
    metadata = replace(bound.volume.metadata, resource_version="")
    return bound._replace(volume=replace(bound.volume, metadata=metadata))
