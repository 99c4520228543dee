"""The controllers that protect claims and volumes of a simulation that are in use.

A claim that is deleted stays while a pod with a node mounts it, and a bound volume while its claim
exists: they have a deletion timestamp, and go with what uses them.

Source: pkg/controller/volume/{pvcprotection,pvprotection}.
Differs: new objects get no finalizers. An object of the input with finalizers of others stays.
"""

from __future__ import annotations

from typing import Final

from mooring.client import ObjectChange
from mooring.objects.meta import key
from mooring.objects.pod import Pod
from mooring.objects.storage import PersistentVolume, PersistentVolumeClaim
from mooring.objects.volume_claims import (
    CLAIM_PROTECTION,
    VOLUME_PROTECTION,
    claim_uses,
    is_bound_to,
    ownership_problem,
)
from mooring.simulation.engine.object_table import ObjectTable
from mooring.simulation.engine.volume_controller import VolumeController

_CLAIM: Final = "PersistentVolumeClaim"
_VOLUME: Final = "PersistentVolume"
_FINALIZERS: Final = {CLAIM_PROTECTION, VOLUME_PROTECTION}


def start_volume_controllers(table: ObjectTable) -> None:
    """Starts the controllers that bind and release volumes, and those that protect them."""
    VolumeController(table).start()
    StorageProtection(table).start()


class StorageProtection:
    """Keeps deleted claims and volumes until nothing uses them.

    Args:
        table: The objects.
    """

    def __init__(self, table: ObjectTable) -> None:
        self._table = table
        #: Claim -> the pods with a node that mount it, in the order of their writes.
        self._users: dict[str, dict[str, None]] = {}

    def start(self) -> None:
        """Protects claims and volumes; after the volume controller, which releases volumes."""
        for pod in self._table.objects("Pod").values():
            self._update_users(ObjectChange(None, pod))
        self._table.follow("Pod", self._update_users)
        self._table.protect(_CLAIM, self._is_claim_used)
        self._table.protect(_VOLUME, self._is_volume_used)
        self._table.listen(self._on_change, ("Pod", _CLAIM))

    def _update_users(self, change: ObjectChange) -> None:
        old, new = change.old, change.new
        if old is not None and old.spec.node_name:
            for claim in _mounted(old):
                users = self._users.get(claim, {})
                users.pop(key(old), None)
                if not users:
                    self._users.pop(claim, None)
        if new is not None and new.spec.node_name:
            for claim in _mounted(new):
                self._users.setdefault(claim, {})[key(new)] = None

    def _on_change(self, kind: str, change: ObjectChange) -> None:
        """Deletes what was only kept for an object that is gone."""
        if change.new is not None:
            return
        if kind == "Pod":
            for claim in _mounted(change.old):
                self._delete(_CLAIM, claim)
        elif change.old.spec.volume_name:
            self._delete(_VOLUME, change.old.spec.volume_name)

    def _delete(self, kind: str, object_key: str) -> None:
        obj = self._table.objects(kind).get(object_key)
        if obj is None or obj.metadata.deletion_timestamp is None:
            return
        if _FINALIZERS.issuperset(obj.metadata.finalizers):
            self._table.delete(kind, object_key)

    def _is_claim_used(self, claim: PersistentVolumeClaim) -> bool:
        pods = self._table.objects("Pod")
        return any(_uses(pods[user], claim) for user in self._users.get(key(claim), ()))

    def _is_volume_used(self, volume: PersistentVolume) -> bool:
        reference = volume.spec.claim_ref
        if reference is None or volume.status.phase != "Bound":
            return False
        claims = self._table.objects(_CLAIM)
        claim = claims.get(f"{reference.namespace}/{reference.name}")
        return claim is not None and is_bound_to(reference, claim)


def _mounted(pod: Pod) -> list[str]:
    """Returns the keys of the claims that a pod mounts."""
    if not pod.spec.volumes:
        return []
    return [f"{pod.metadata.namespace}/{use.name}" for use in claim_uses(pod)]


def _uses(pod: Pod, claim: PersistentVolumeClaim) -> bool:
    """Returns True if a pod that mounts a claim of this name mounts this one."""
    return any(
        use.name == claim.metadata.name and not (use.is_ephemeral and ownership_problem(pod, claim))
        for use in claim_uses(pod)
    )
