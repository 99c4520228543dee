"""Volumes and claims on a server, their slow watch, their controller, and users who change them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from mooring.clock import Rng
from mooring.errors import ApiError, Conflict, NotFound, OutcomeUnknown, Unreachable
from mooring.objects.codec.decode import convert
from mooring.objects.meta import ObjectReference
from mooring.objects.volume_claims import reference_to
from mooring.testing import make_node
from tests.faults.parts.volumes_model import COMPLETED, MARK, SELECTED_NODE, Objects, is_bound
from tests.faults.parts.volumes_places import HOST, ZONE, ZONES, VolumePlaces

VOLUME, CLAIM = "PersistentVolume", "PersistentVolumeClaim"
NODES: Final = ("node-0", "node-1", "node-2", "node-3")
DRIVER: Final = "csi.example.com"
STEP_S: Final = 0.5
FIRST, AT_ONCE = "WaitForFirstConsumer", "Immediate"
NONE: Final = "kubernetes.io/no-provisioner"
#: Class -> its provisioner, binding mode, and the zones where it is allowed.
CLASSES: Final[Mapping[str, tuple[str, str, tuple[str, ...]]]] = {
    "static": (NONE, FIRST, ()),
    "immediate": (NONE, AT_ONCE, ()),
    "made": (DRIVER, FIRST, ()),
    "zonal": (DRIVER, FIRST, ("a",)),
}
#: Of the steps in which capacities change besides, in runs with second pools.
POOLS_SHARE: Final = 0.4
VOLUMES_MAX: Final = 12
#: In runs in which claims compete: the most volumes, those at the start, and the share of claims
#: and volumes that are alike but for their size.
MORE_VOLUMES: Final = 24
FIRST_VOLUMES: Final = 14
ALIKE_SHARE: Final = 0.8
GI: Final = 1 << 30
DELETED: Final = "2026-01-01T00:00:00Z"
WEIGHTS: Final = {
    "volume": 5,
    "free_volume": 3,
    "drop_volume": 1,
    "drop_claim": 1,
    "terminate_claim": 1,
    "touch": 3,
    "move_node": 1,
    "drop_node": 1,
    "capacity": 3,
    "driver": 1,
    "steal": 1,
    "reset": 1,
}


class StoredVolumes:
    """The stored objects, their watch, and the API that the plugin writes to.

    Attributes:
        stored: By kind and name.
        is_passive: No more faults, and users do nothing.
        competing: Draws claims and volumes that are alike; None = there are none but by chance.
        count: The number of objects so far.

    Args:
        rng: Draws what happens.
        deliver: Called with the kind, the name and the newest version of a changed object.
        places: Draws where volumes and nodes are.
    """

    def __init__(
        self, rng: Rng, deliver: Callable[[str, str, Any], None], places: VolumePlaces
    ) -> None:
        self._places = places
        self.stored: Objects = {}
        self.is_passive = False
        self.competing: Rng | None = None
        self.count = 0
        self._version = 0
        self._rng, self._deliver = rng, deliver
        self._lag_steps = rng.choice((1, 3, 8))
        self._fault_rate = rng.choice((0.0, 0.1, 0.3))
        self._refusal_rate = rng.choice((0.0, 0.2, 0.6))
        self._pause_steps = rng.choice((2, 8, 30))

    def put(self, kind: str, obj: Any) -> Any:
        """Stores a new version, which the watch reports later."""
        self._version += 1
        metadata = replace(obj.metadata, resource_version=str(self._version))
        name = obj.metadata.name
        self.stored[kind, name] = stored = replace(obj, metadata=metadata)
        self._watch(kind, name)
        return stored

    def remove(self, kind: str, name: str) -> None:
        """Removes an object."""
        if self.stored.pop((kind, name), None) is not None:
            self._watch(kind, name)

    def _watch(self, kind: str, name: str) -> None:
        delay_s = STEP_S * self._rng.randrange(self._lag_steps)
        loop = asyncio.get_running_loop()
        loop.call_later(delay_s, lambda: self._deliver(kind, name, self.stored.get((kind, name))))

    def _make(self, kind: str, name: str, body: Mapping[str, Any]) -> Any:
        self.count += 1
        metadata = {"name": name, "uid": f"{name}-{self.count}"}
        if kind in (CLAIM, "CSIStorageCapacity"):
            metadata["namespace"] = "default"
        more = body.get("metadata", {})
        return self.put(kind, convert({**body, "metadata": {**metadata, **more}}, kind))

    async def patch(self, kind: str, name: str, patch: Any, *, namespace: str) -> Any:
        """Merges a patch, as the API server does, or fails."""
        del namespace
        rng = self._rng
        await asyncio.sleep(STEP_S * rng.randrange(3))
        fault = ""
        if not self.is_passive and rng.random() < self._fault_rate:
            fault = rng.choice(("refused", "unreachable", "lost"))
        if fault == "refused":
            raise ApiError("refused", status=403)
        if fault == "unreachable":
            raise Unreachable("cannot connect")
        stored = self.stored.get((kind, name))
        if stored is None:
            raise NotFound("not found", status=404)
        version = patch["metadata"].get("resourceVersion", "")
        if version not in ("", stored.metadata.resource_version):
            raise Conflict("changed", status=409)
        added = patch["metadata"].get("annotations", {})
        annotations = {**stored.metadata.annotations, **added}
        merged = replace(stored, metadata=replace(stored.metadata, annotations=annotations))
        if kind == VOLUME:
            owner = msgspec.convert(patch["spec"]["claimRef"], ObjectReference)
            merged = replace(merged, spec=replace(merged.spec, claim_ref=owner))
        result = self.put(kind, merged)
        await asyncio.sleep(STEP_S * rng.randrange(2))
        if fault == "lost":
            raise OutcomeUnknown("no answer")
        return result

    def is_alike(self) -> bool:
        """Returns whether the next object is one of those that are alike."""
        return self.competing is not None and self.competing.random() < ALIKE_SHARE

    def class_of_claim(self, drawn: str) -> str:
        """Returns the class of a claim: the drawn one, or that of claims that compete."""
        return "static" if self.is_alike() else drawn

    def _items(self) -> list[tuple[tuple[str, str], Any]]:
        return sorted(self.stored.items(), key=lambda item: item[0])

    def _any(self, kind: str) -> Any:
        some = [obj for (other, _), obj in self._items() if other == kind]
        return self._rng.choice(some) if some else None

    def _new_volume(self, name: str, class_name: str, size: int, key_: str, value: str) -> Any:
        rng = self._rng
        spec: dict[str, Any] = {
            "capacity": {"storage": f"{size}Gi"},
            "accessModes": rng.choice((["ReadWriteOnce"], ["ReadWriteOnce", "ReadOnlyMany"])),
            "storageClassName": class_name,
            "csi": {"driver": DRIVER, "volumeHandle": name},
            "volumeMode": rng.choice((None,) * 5 + ("Block",)),
        }
        if key_:
            others = [other for other in (ZONES if key_ == ZONE else NODES) if other != value]
            values = [value, rng.choice(others)] if rng.random() < 0.25 else [value]
            rng.shuffle(values)
            terms = self._places.terms(key_, values)
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
        if self.is_alike():
            spec |= {"accessModes": ["ReadWriteOnce"], "volumeMode": None}
        labels = rng.choice(({}, {"disk": "fast"}))
        status = {"phase": rng.choice(("Available", "Available", "Pending"))}
        body = {"metadata": {"labels": labels}, "spec": spec, "status": status}
        return self._make(VOLUME, name, body)


class VolumeController(StoredVolumes):
    """Binds claims and volumes, provisions, and frees volumes."""

    async def control(self) -> None:
        """Binds and provisions, one step at a time, with pauses."""
        while True:
            steps = 1 if self.is_passive else self._rng.randrange(1, self._pause_steps)
            await asyncio.sleep(STEP_S * steps)
            for kind, name in self._shuffled():
                if (kind, name) not in self.stored:
                    continue
                if kind == CLAIM:
                    self._sync_claim(self.stored[kind, name])
                elif kind == VOLUME:
                    self._sync_volume(self.stored[kind, name])

    def _shuffled(self) -> list[tuple[str, str]]:
        names = list(self.stored)
        self._rng.shuffle(names)
        return names if self.is_passive else names[: len(names) // 2]

    def _sync_claim(self, claim: Any) -> None:
        if is_bound(claim) or claim.metadata.deletion_timestamp is not None:
            return
        own = claim.metadata
        volumes = [obj for (kind, _), obj in sorted(self._items()) if kind == VOLUME]
        named = self.stored.get((VOLUME, claim.spec.volume_name))
        naming = [
            volume
            for volume in ([named] if claim.spec.volume_name else volumes)
            if volume is not None
            and (owner := volume.spec.claim_ref) is not None
            and owner.name == own.name
            and owner.uid in ("", own.uid)
        ]
        provisioner, mode, _ = CLASSES[claim.spec.storage_class_name]
        if not naming and mode == AT_ONCE and not claim.spec.volume_name:
            naming = [
                volume
                for volume in volumes
                if volume.spec.claim_ref is None
                and volume.spec.storage_class_name == claim.spec.storage_class_name
            ]
        node_name = own.annotations.get(SELECTED_NODE)
        if not naming and named is not None and named.spec.claim_ref is None:
            naming = [named]
        if naming:
            self._bind(claim, naming[0])
        elif provisioner != NONE and node_name is not None and not claim.spec.volume_name:
            self._provision(claim, node_name)

    def _bind(self, claim: Any, volume: Any) -> None:
        """Writes the volume, or the claim if that is done."""
        owner = volume.spec.claim_ref
        if owner is None or owner.uid != claim.metadata.uid:
            self.put(
                VOLUME,
                replace(volume, spec=replace(volume.spec, claim_ref=reference_to(claim))),
            )
            return
        self.put(VOLUME, replace(volume, status=replace(volume.status, phase="Bound")))
        annotations = {**claim.metadata.annotations, COMPLETED: "yes"}
        self.put(
            CLAIM,
            replace(
                claim,
                metadata=replace(claim.metadata, annotations=annotations),
                spec=replace(claim.spec, volume_name=volume.metadata.name),
                status=replace(claim.status, phase="Bound"),
            ),
        )

    def _provision(self, claim: Any, node_name: str) -> None:
        """Creates a volume in the zone of the node, or has the scheduler choose again."""
        node = self.stored.get(("Node", node_name))
        if node is None or (not self.is_passive and self._rng.random() < self._refusal_rate):
            annotations = dict(claim.metadata.annotations)
            del annotations[SELECTED_NODE]
            self.put(
                CLAIM, replace(claim, metadata=replace(claim.metadata, annotations=annotations))
            )
            return
        name = f"made-{self.count}"
        labels = node.metadata.labels
        in_zone = (ZONE, labels[ZONE]) if ZONE in labels else (HOST, node_name)
        key_, value = self._rng.choice((in_zone, (HOST, node_name)))
        class_name = claim.spec.storage_class_name
        made = self._new_volume(name, class_name, 9, key_, value)
        self.put(VOLUME, replace(made, spec=replace(made.spec, claim_ref=reference_to(claim))))

    def _sync_volume(self, volume: Any) -> None:
        owner = volume.spec.claim_ref
        if owner is None:
            if volume.status.phase != "Available":
                self.put(VOLUME, replace(volume, status=replace(volume.status, phase="Available")))
            return
        claim = self.stored.get((CLAIM, owner.name))
        is_owned = claim is not None and owner.uid in ("", claim.metadata.uid)
        if is_owned and claim is not None:
            is_owned = claim.spec.volume_name in ("", volume.metadata.name)
        if not is_owned:
            self._release(volume)

    def _release(self, volume: Any) -> None:
        """Frees a volume; one that was provisioned is removed."""
        if volume.metadata.name.startswith("made-"):
            self.remove(VOLUME, volume.metadata.name)
            return
        left = {name: value for name, value in volume.metadata.annotations.items() if name != MARK}
        self.put(
            VOLUME,
            replace(
                volume,
                metadata=replace(volume.metadata, annotations=left),
                spec=replace(volume.spec, claim_ref=None),
                status=replace(volume.status, phase="Available"),
            ),
        )


class VolumeServer(VolumeController):
    """The users, who create claims and change anything.

    Args:
        rng: Draws what happens.
        deliver: See ``StoredVolumes``.
        places: See ``StoredVolumes``.
        pools: Draws the second pools of zones; None = there are none.
    """

    def __init__(
        self,
        rng: Rng,
        deliver: Callable[[str, str, Any], None],
        places: VolumePlaces,
        pools: Rng | None = None,
    ) -> None:
        super().__init__(rng, deliver, places)
        self._pools = pools
        self._weights = {name: it * rng.choice((0, 1, 1, 3)) for name, it in WEIGHTS.items()}

    def prepare(self) -> None:
        """Creates the nodes, classes, a driver and some volumes; all is known at once."""
        for number, name in enumerate(NODES):
            self.put("Node", make_node(name, labels={HOST: name, ZONE: ZONES[number % 2]}))
        for name, (provisioner, mode, zones) in CLASSES.items():
            body: dict[str, Any] = {"provisioner": provisioner, "volumeBindingMode": mode}
            if zones:
                rules = [{"key": ZONE, "values": list(zones)}]
                body["allowedTopologies"] = [{"matchLabelExpressions": rules}]
            self._make("StorageClass", name, body)
        self._put_driver(has_capacity=self._rng.random() < 0.5)
        for _ in range(4 if self.competing is None else FIRST_VOLUMES):
            self._volume()
        for kind, name in self.stored:
            self._deliver(kind, name, self.stored[kind, name])

    def act(self) -> None:
        """Changes something; with second pools, capacities most often."""
        if self._pools is not None and self._pools.random() < POOLS_SHARE:
            self._capacity()
        names, weights = list(self._weights), list(self._weights.values())
        if any(weights):
            action: Callable[[], None] = getattr(self, f"_{self._rng.choices(names, weights)[0]}")
            action()

    def add_claim(self, name: str, class_name: str) -> None:
        """Creates a claim."""
        rng = self._rng
        spec: dict[str, Any] = {
            "accessModes": [rng.choice(("ReadWriteOnce",) * 3 + ("ReadOnlyMany",))],
            "resources": {"requests": {"storage": str(rng.randrange(1, 6) * GI)}},
            "storageClassName": class_name,
            "volumeMode": rng.choice((None,) * 5 + ("Filesystem", "Block")),
        }
        volume = self._any(VOLUME)
        if self.is_alike():
            size = str(1 if rng.random() < 0.5 else 2 * GI)
            spec |= {"accessModes": ["ReadWriteOnce"], "volumeMode": None}
            spec["resources"] = {"requests": {"storage": size}}
        elif volume is not None and rng.random() < 0.1:
            spec["volumeName"] = volume.metadata.name
        if rng.random() < 0.1:
            spec["selector"] = {"matchLabels": {"disk": "fast"}}
        self._make(CLAIM, name, {"spec": spec})

    def _volume(self) -> None:
        rng = self._rng
        most = VOLUMES_MAX if self.competing is None else MORE_VOLUMES
        if sum(kind == VOLUME for kind, _ in self.stored) >= most:
            return
        pairs = [(ZONE, zone) for zone in ZONES] + [(HOST, name) for name in NODES] + [("", "")]
        class_name = rng.choice(("static", "static", "immediate", "made"))
        class_name = "static" if self.is_alike() else class_name
        name = f"volume-{rng.randrange(100)}-{self.count}"
        self._new_volume(name, class_name, rng.randrange(1, 8), *rng.choice(pairs))

    def _free_volume(self) -> None:
        if (volume := self._any(VOLUME)) is not None and volume.spec.claim_ref is not None:
            claim = self.stored.get((CLAIM, volume.spec.claim_ref.name))
            if claim is None or not is_bound(claim):
                self._release(volume)

    def _drop_volume(self) -> None:
        if (volume := self._any(VOLUME)) is not None:
            self.remove(VOLUME, volume.metadata.name)

    def _drop_claim(self) -> None:
        if (claim := self._any(CLAIM)) is not None:
            self.remove(CLAIM, claim.metadata.name)

    def _terminate_claim(self) -> None:
        if (claim := self._any(CLAIM)) is not None and not is_bound(claim):
            metadata = replace(claim.metadata, deletion_timestamp=DELETED)
            self.put(CLAIM, replace(claim, metadata=metadata))

    def _touch(self) -> None:
        kind = self._rng.choice((VOLUME, CLAIM))
        if (obj := self._any(kind)) is not None:
            labels = {**obj.metadata.labels, "touched": str(self._rng.randrange(9))}
            self.put(kind, replace(obj, metadata=replace(obj.metadata, labels=labels)))

    def _move_node(self) -> None:
        if (node := self._any("Node")) is not None:
            labels = self._places.moved(node.metadata.labels, self._rng.choice(ZONES))
            self.put("Node", replace(node, metadata=replace(node.metadata, labels=labels)))

    def _drop_node(self) -> None:
        """Removes a node, or makes one that is missing anew."""
        missing = [name for name in NODES if ("Node", name) not in self.stored]
        if missing:
            labels = self._places.moved({HOST: missing[0]}, self._rng.choice(ZONES))
            self.put("Node", make_node(missing[0], labels=labels))
        else:
            self.remove("Node", self._rng.choice(NODES))

    def _capacity(self) -> None:
        """Changes a capacity, or removes it."""
        rng = self._rng
        class_name, zone = rng.choice(("made", "zonal")), rng.choice(ZONES)
        zone = self._places.zone(zone)
        name = f"{class_name}-{zone}"
        if self._pools is not None:
            # A second pool of the same zone has a capacity of its own.
            name += self._pools.choice(("", "-second"))
        if rng.random() < 0.2:
            self.remove("CSIStorageCapacity", name)
            return
        body: dict[str, Any] = {
            "storageClassName": class_name,
            "nodeTopology": {"matchLabels": {ZONE: zone}},
            "capacity": f"{rng.randrange(0, 8)}Gi",
        }
        if rng.random() < 0.3:
            body["maximumVolumeSize"] = f"{rng.randrange(1, 4)}Gi"
        before = self.stored.get(("CSIStorageCapacity", name))
        if before is None:
            self._make("CSIStorageCapacity", name, body)
            return
        after = convert({**body, "metadata": {"name": name}}, "CSIStorageCapacity")
        self.put("CSIStorageCapacity", replace(after, metadata=before.metadata))

    def _driver(self) -> None:
        driver = self.stored["CSIDriver", DRIVER]
        self._put_driver(has_capacity=not driver.spec.storage_capacity)

    def _put_driver(self, *, has_capacity: bool) -> None:
        self._make("CSIDriver", DRIVER, {"spec": {"storageCapacity": has_capacity}})

    def _steal(self) -> None:
        """Binds a free volume to a claim, as another component does."""
        volume, claim = self._any(VOLUME), self._any(CLAIM)
        if volume is None or claim is None or volume.spec.claim_ref is not None:
            return
        owner = ObjectReference(
            kind=CLAIM, namespace="default", name=claim.metadata.name, uid=claim.metadata.uid
        )
        if self._rng.random() < 0.3:
            owner = replace(owner, uid="")
        self.put(VOLUME, replace(volume, spec=replace(volume.spec, claim_ref=owner)))

    def _reset(self) -> None:
        """Takes the UID from the reference of a volume, or the selected node from a claim."""
        claim, volume = self._any(CLAIM), self._any(VOLUME)
        if self._rng.random() < 0.5 and claim is not None and not is_bound(claim):
            metadata = replace(claim.metadata, annotations={})
            self.put(CLAIM, replace(claim, metadata=metadata))
        elif volume is not None and volume.spec.claim_ref is not None:
            owner = replace(volume.spec.claim_ref, uid="")
            self.put(VOLUME, replace(volume, spec=replace(volume.spec, claim_ref=owner)))
