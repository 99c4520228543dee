"""The PV controller of an in-memory cluster: binds claims to free or newly provisioned volumes.

The embedded API server has no such controller, and pods wait for it. ``volume_controller`` has the
logic; this module watches and writes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from mooring.client import Client, ObjectChange
from mooring.client.retry import Sleep
from mooring.clock import Clock, Rng
from mooring.devcluster.events.claims import ClaimEvents
from mooring.devcluster.events.recorder import EventRecorder
from mooring.devcluster.work_queue import WorkQueue
from mooring.errors import Conflict, NotFound, SchedulerError
from mooring.objects.codec.decode import to_builtins
from mooring.objects.meta import key
from mooring.objects.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from mooring.objects.volume_claims import (
    NO_PROVISIONER,
    SELECTED_NODE,
    claim_class,
    is_fully_bound,
    volume_class,
)
from mooring.objects.volume_index import VolumeIndex
from mooring.simulation.volume_controller import (
    Bound,
    bound_at_once,
    is_immediate,
    provision,
    reclaimed,
)

_VOLUME: Final = "PersistentVolume"
_CLAIM: Final = "PersistentVolumeClaim"
#: How long a claim waits after a conflict, until the watch has reported what has changed.
_CONFLICT_RETRY_S: Final = 0.01

_log = logging.getLogger(__name__)


class VolumeActor:
    """Binds claims to volumes and provisions volumes.

    Args:
        client: A client that may update volumes and claims.
        clock: For the watches.
        rng: For the watches.
        sleep: Sleeps so many seconds.
        events: Records what happens to claims; None = it is not recorded.
    """

    def __init__(
        self,
        client: Client,
        *,
        clock: Clock,
        rng: Rng,
        sleep: Sleep = asyncio.sleep,
        events: EventRecorder | None = None,
    ) -> None:
        self._client = client
        self._sleep = sleep
        self._events = None if events is None else ClaimEvents(events)
        self._volumes = VolumeIndex()
        #: Class -> the keys of its claims that are not bound.
        self._unbound: dict[str, dict[str, None]] = {}
        handlers = {_VOLUME: self._on_volume, _CLAIM: self._on_claim}
        self._work: WorkQueue[tuple[str, str]] = WorkQueue(
            client, handlers, self._sync, _log_failure, clock=clock, rng=rng, sleep=sleep
        )

    async def run(self) -> None:
        """Binds volumes until cancelled."""
        await self._work.run()

    def _on_volume(self, change: ObjectChange) -> None:
        volume: PersistentVolume | None = change.new
        if volume is None:
            self._volumes.delete(change.old.metadata.name)
            return
        self._volumes.put(volume)
        reference = volume.spec.claim_ref
        if reference is not None:
            claim_key = f"{reference.namespace}/{reference.name}"
            self._work.add((_CLAIM, claim_key))
        elif volume.status.phase in ("", "Pending"):
            self._work.add((_VOLUME, volume.metadata.name))
        else:  # an unbound claim may match it
            for claim_key in self._unbound.get(volume_class(volume), ()):
                self._work.add((_CLAIM, claim_key))

    def _on_claim(self, change: ObjectChange) -> None:
        claim: PersistentVolumeClaim | None = change.new
        if change.old is not None:
            self._unbound.get(claim_class(change.old), {}).pop(key(change.old), None)
        if claim is None:
            if change.old.spec.volume_name:
                self._work.add((_VOLUME, change.old.spec.volume_name))
        elif not is_fully_bound(claim):
            self._unbound.setdefault(claim_class(claim), {})[key(claim)] = None
            self._work.add((_CLAIM, key(claim)))

    def _objects(self, kind: str) -> Mapping[str, Any]:
        return self._work.objects(kind)

    async def _sync(self, item: tuple[str, str]) -> None:
        kind, name = item
        if kind == _VOLUME:
            await self._sync_volume(name)
        else:
            await self._sync_claim(name)

    async def _sync_volume(self, name: str) -> None:
        """Makes a new volume available; releases or deletes the volume of a deleted claim."""
        volume: PersistentVolume | None = self._objects(_VOLUME).get(name)
        if volume is None or volume.metadata.deletion_timestamp is not None:
            return
        reference = volume.spec.claim_ref
        if reference is None:
            await self._write_status(_VOLUME, name, {"phase": "Available"})
            return
        claim = self._objects(_CLAIM).get(f"{reference.namespace}/{reference.name}")
        if not reference.uid or (claim is not None and claim.metadata.uid == reference.uid):
            return
        released = reclaimed(volume)
        if released is None:
            await self._client.delete(_VOLUME, name, uid=volume.metadata.uid)
        elif released.status.phase != volume.status.phase:
            await self._write_status(_VOLUME, name, {"phase": released.status.phase})

    # -- binding and provisioning -----------------------------------------------------------------

    async def _sync_claim(self, claim_key: str) -> None:
        claim: PersistentVolumeClaim | None = self._objects(_CLAIM).get(claim_key)
        if claim is None or is_fully_bound(claim) or claim.metadata.deletion_timestamp is not None:
            return
        storage_class = await self._storage_class(claim)
        bound = bound_at_once(claim, storage_class, self._volumes)
        if bound is not None:
            try:
                await self._write(bound, is_new=False)
            except Conflict:  # the volume has changed meanwhile: another claim may have it
                await self._sleep(_CONFLICT_RETRY_S)
                self._work.add((_CLAIM, claim_key))
            return
        if claim.spec.volume_name:
            return  # waits for the volume that it names
        node_name = claim.metadata.annotations.get(SELECTED_NODE, "")
        if storage_class is None or not (is_immediate(storage_class) or node_name):
            if self._events is not None:
                self._events.on_unbound(claim, storage_class)
            return
        if storage_class.provisioner not in ("", NO_PROVISIONER):
            bound = await self._provisioned(claim, storage_class, node_name)
            await self._write(bound, is_new=True)
            if self._events is not None:
                self._events.on_provisioned(claim, bound.volume, storage_class)

    async def _storage_class(self, claim: PersistentVolumeClaim) -> StorageClass | None:
        name = claim_class(claim)
        storage_class: StorageClass | None = await self._get("StorageClass", name) if name else None
        return storage_class

    async def _provisioned(
        self, claim: PersistentVolumeClaim, storage_class: StorageClass, node_name: str
    ) -> Bound:
        if not node_name:
            return provision(claim, storage_class, {}, None)
        node = await self._get("Node", node_name)
        labels = node.metadata.labels if node is not None else {}
        return provision(claim, storage_class, labels, await self._get("CSINode", node_name))

    async def _get(self, kind: str, name: str) -> Any:
        try:
            return await self._client.get(kind, name)
        except NotFound:
            return None

    # -- writing ----------------------------------------------------------------------------------

    async def _write(self, bound: Bound, *, is_new: bool) -> None:
        volume, claim = bound
        name, metadata = volume.metadata.name, claim.metadata
        if is_new:
            await self._client.create(replace(volume, metadata=replace(volume.metadata, uid="")))
        else:
            # The version that was looked at: another claim may have taken the volume since then.
            own = {
                "annotations": volume.metadata.annotations,
                "resourceVersion": self._objects(_VOLUME)[name].metadata.resource_version,
            }
            patch = {
                "metadata": own,
                "spec": {"claimRef": to_builtins(volume.spec.claim_ref)},
            }
            await self._client.patch(_VOLUME, name, patch)
        await self._write_status(_VOLUME, name, {"phase": "Bound"})
        patch = {"metadata": {"annotations": metadata.annotations}, "spec": {"volumeName": name}}
        await self._client.patch(_CLAIM, metadata.name, patch, namespace=metadata.namespace)
        await self._write_status(_CLAIM, key(claim), to_builtins(claim.status))

    async def _write_status(self, kind: str, object_key: str, status: Any) -> None:
        namespace, _, name = object_key.rpartition("/")
        await self._client.patch(
            kind, name, {"status": status}, namespace=namespace, subresource="status"
        )


def _log_failure(item: tuple[str, str], error: SchedulerError) -> None:
    """Logs an error; the object was changed or deleted, and that event queues it again."""
    _log.info("binding a volume failed", extra={"object": item[1], "error": str(error)})
