"""The cache of a scheduler, a model of its volumes, and the pods that events queue."""

from __future__ import annotations

import asyncio
from collections import Counter
from types import SimpleNamespace
from typing import Any, Final

from mooring.clock import seeded_random
from mooring.cluster_event import ActionType, EventResource, QueueingHint
from mooring.config.types import VolumeBindingArgs
from mooring.objects.pod import Pod
from mooring.objects.quantity import Quantity
from mooring.plugins.volume_binding import VolumeBinding
from mooring.scheduler.plugin_handle import PluginHandle
from mooring.state import PodInfo
from mooring.state.cache import Cache
from mooring.virtual_loop import LoopClock
from tests.faults.parts.volumes_model import View
from tests.faults.parts.volumes_places import VolumePlaces
from tests.faults.parts.volumes_scores import VolumeScores
from tests.faults.parts.volumes_server import CLAIM, STEP_S, VOLUME, VolumeServer
from tests.faults.twins.leftovers import CacheLeftovers

#: Seconds that PreBind waits for the controller.
TIMEOUT_S: Final = 12.0
#: In such seeds, modulo six, volumes and nodes are anywhere.
WIDE: Final = 4
#: In such seeds, modulo four, a zone may have two pools.
SECOND_POOLS: Final = 2
#: In such seeds nodes are scored by the capacity of their storage.
SCORED_EVERY: Final = 2
#: In such seeds, modulo five, pods have several claims that are alike, of one class, for many
#: volumes. Added to the seed for these draws.
COMPETING: Final = 2
COMPETING_SEED: Final = 1 << 41
NAMESPACED: Final = (CLAIM, "CSIStorageCapacity")
UPDATES: Final = {
    "Node": ActionType.UPDATE_NODE_LABEL,
}


class VolumeWatch:
    """The cache, and what has been reported to it.

    Attributes:
        problems: Differences to the model.
        paths: What happened, and how often.
        rng: Draws what happens.
        places: Draws where volumes and nodes are.
    """

    def __init__(self, seed: int) -> None:
        self.problems: list[str] = []
        self.paths: Counter[str] = Counter()
        self.rng = rng = seeded_random(seed)
        self._cache = Cache()
        self._leftovers = CacheLeftovers(self._cache)
        pools = seeded_random(seed + 3_000_000) if seed % 4 == SECOND_POOLS else None
        self.places = VolumePlaces(seeded_random(seed + 4_000_000) if seed % 6 == WIDE else None)
        self._server = VolumeServer(rng, self._on_change, self.places, pools)
        if seed % 5 == COMPETING:
            self._server.competing = seeded_random(seed + COMPETING_SEED)
        clock = LoopClock(asyncio.get_running_loop())
        self._stores: dict[str, dict[str, Any]] = {VOLUME: {}, CLAIM: {}}
        backend: Any = SimpleNamespace(store=self._stores.get)
        client: Any = SimpleNamespace(patch=self._patch)
        self._handle = PluginHandle(self._cache, client, clock=clock, rng=rng, backend=backend)
        has_scores = seed % SCORED_EVERY == 0
        self._scores = VolumeScores(seeded_random(seed + 5_000_000) if has_scores else None)
        args = VolumeBindingArgs(
            bind_timeout_seconds=int(TIMEOUT_S), shape=self._scores.points() or None
        )
        self._plugin = VolumeBinding(args, self._handle, self._scores.gates)
        self._view = View({})
        #: Changes that are reported after the attempt in which an extender is called.
        self._buffered: list[tuple[str, str, Any]] | None = None
        #: Pods that were rejected, and have to wait for an event.
        self._rejected: dict[str, Pod] = {}
        self._woken: dict[str, asyncio.Event] = {}

    async def _patch(self, kind: str, name: str, patch: Any, *, namespace: str) -> Any:
        return await self._server.patch(kind, name, patch, namespace=namespace)

    def _on_change(self, kind: str, name: str, obj: Any) -> None:
        if self._buffered is not None:
            self._buffered.append((kind, name, obj))
            return
        self._deliver(kind, name, obj)

    def _deliver(self, kind: str, name: str, obj: Any) -> None:
        """Reports a version, if it is the newest one, and checks who is queued by it."""
        before = self._view.objects.get((kind, name))
        if obj is not self._server.stored.get((kind, name)) or obj is before:
            return
        if before is not None and obj is not None and before.metadata.uid != obj.metadata.uid:
            self._apply(kind, name, before, None)
            before = None
        self._apply(kind, name, before, obj)

    def _apply(self, kind: str, name: str, before: Any, obj: Any) -> None:
        fitted = {uid: self._fits(pod) for uid, pod in self._rejected.items()}
        full_name = f"default/{name}" if kind in NAMESPACED else name
        self._overlay()
        self._to_cache(kind, full_name, obj)
        if obj is None:
            self._view.objects.pop((kind, name), None)
        else:
            self._view.objects[kind, name] = obj
        self._overlay()
        if kind in self._stores:
            store = self._stores[kind]
            store.pop(full_name, None)
            if obj is not None:
                store[full_name] = obj
            self._handle.changed(kind, full_name)
        queued = self._queued(kind, before, obj)
        is_capacity = kind == "CSIStorageCapacity" and before is not None and obj is not None
        if queued and is_capacity and _limit(obj) <= _limit(before):
            self.problems.append(f"{sorted(queued)} are queued by {name}, which has not grown")
        for uid, pod in list(self._rejected.items()):
            helps = not fitted[uid] and self._fits(pod)
            # Like the API of upstream, a driver that stops to report its capacity queues no pod
            # whose claims are of that driver; and nothing is queued by a deletion.
            if helps and uid not in queued and obj is not None and kind != "CSIDriver":
                self.problems.append(f"{pod.metadata.name} fits after a change of {kind} {name}")
            self.paths["helped"] += helps
            if uid in queued:
                self._woken[uid].set()

    def _to_cache(self, kind: str, full_name: str, obj: Any) -> None:
        if kind == "Node":
            if obj is None:
                self._cache.remove_node(full_name)
            else:
                self._cache.put_node(obj)
        elif obj is None:
            self._cache.remove_object(kind, full_name)
        else:
            self._cache.put_object(kind, obj)

    def _queued(self, kind: str, before: Any, obj: Any) -> set[str]:
        """Returns the rejected pods that a hint of the plugin queues."""
        queued: set[str] = set()
        if obj is None:
            return queued
        action = UPDATES.get(kind, ActionType.UPDATE) if before is not None else ActionType.ADD
        if kind == "Node" and before is not None and before.metadata.labels == obj.metadata.labels:
            return queued
        for entry in self._plugin.events():
            resource = entry.event.resource
            name = resource.value if isinstance(resource, EventResource) else resource
            if name.split("/")[-1] != kind or not entry.event.action & action:
                continue
            for uid, pod in self._rejected.items():
                hint = entry.hint
                if hint is None or hint(PodInfo(pod), before, obj) is QueueingHint.QUEUE:
                    queued.add(uid)
        return queued

    def _on_csi_node(self, before: Any, after: Any) -> None:
        """Checks whether rejected pods are queued: by a new CSINode, and by migrated plugins.

        Source: pkg/scheduler/framework/plugins/volumebinding (isSchedulableAfterCSINodeChange).
        """
        helps = before is None or before.metadata.annotations != after.metadata.annotations
        due = set(self._rejected) if helps else set()
        if (queued := self._queued("CSINode", before, after)) != due:
            name = after.metadata.name
            self.problems.append(f"CSINode {name} queues {sorted(queued)}, not {sorted(due)}")

    def _overlay(self) -> None:
        """Copies what is assumed, which ``AttachedVolumes`` compares with its own model."""
        volumes, claims = self._cache.storage.assumed()
        self._view.assumed = {(VOLUME, name): obj for name, obj in volumes.items()}
        self._view.assumed |= {(CLAIM, obj.metadata.name): obj for obj in claims.values()}

    def _fits(self, pod: Pod) -> bool:
        """Returns whether some node is feasible, by the model."""
        self._overlay()
        if self._view.problem(pod):
            return False
        claims = self._view.claims(pod)
        return any(not self._view.plan(claims, node).reasons for node in self._view.all("Node"))

    async def _call_extender(self) -> None:
        """Waits in the middle of an attempt; changes are reported after it."""
        self._buffered = []
        await asyncio.sleep(STEP_S * self.rng.randrange(3))

    def _end_buffering(self) -> None:
        buffered, self._buffered = self._buffered, None
        for change in buffered or ():
            self._deliver(*change)


def _limit(capacity: Any) -> int:
    """Returns the largest volume that a capacity allows, in bytes; -1 if it says nothing."""
    raw = capacity.maximum_volume_size or capacity.capacity
    return -1 if raw is None else Quantity.from_wire(raw).value()
