"""Volumes, claims, classes and drivers, indexed for the volume plugins.

Decisions count at once: a volume that will be bound to a claim, and a claim whose volume will be
provisioned, are *assumed* in the version that will be written.

::

                assume_volume, assume_claim              put: the API server has a newer version,
    current -----------------------------> assumed ---------------------------> current
        ^                                      |                       remove: it was deleted
        +--------------------------------------+
              restore_...: it was not written

Only the code that matches claims with volumes reads assumed versions; all other code reads the API
server's.

Source: pkg/scheduler/framework/plugins/volumebinding/{assume_cache,passive_assume_cache}.go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from mooring.errors import InvariantViolation
from mooring.objects.meta import key
from mooring.objects.storage import (
    CSIDriver,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from mooring.objects.volume_claims import volume_class
from mooring.state.tables.nodes import NodeTable
from mooring.state.volumes.capacity import Capacities, CapacitiesByClass
from mooring.state.volumes.csi_nodes import CSINodes
from mooring.state.volumes.free_index.free_volumes import FreeVolumes
from mooring.state.volumes.limits import CLAIM, CLASS, VolumeObjects
from mooring.state.volumes.topology import TopologyMasks
from mooring.state.volumes.usage import VolumeUse

#: The kinds that ``Storage`` stores.
STORAGE_KINDS: Final = (
    "PersistentVolume",
    "PersistentVolumeClaim",
    "StorageClass",
    "CSINode",
    "CSIDriver",
    "CSIStorageCapacity",
    "VolumeAttachment",
)


#: The kinds that determine where new volumes can be provisioned.
PROVISIONING_KINDS: Final = ("StorageClass", "CSIDriver", "CSIStorageCapacity")


class Storage:
    """The objects that volume plugins read. Owned by the Cache; only Reserve makes assumptions."""

    def __init__(self, nodes: NodeTable) -> None:
        self.reaches = TopologyMasks(nodes)
        self.csi_nodes = CSINodes(nodes)
        self.objects = VolumeObjects()
        self.use = VolumeUse(nodes, self.objects, self.csi_nodes)
        #: Rises with every change, except of pods and nodes.
        self.version = 0
        #: Rises with every change of PROVISIONING_KINDS.
        self.room_version = 0
        self._nodes = nodes
        self._drivers: dict[str, CSIDriver] = {}
        self._assumed_volumes: dict[str, PersistentVolume] = {}
        self._assumed_claims: dict[str, PersistentVolumeClaim] = {}
        #: Class -> its free volumes; claim -> the volumes that name it.
        self._free: dict[str, FreeVolumes] = {}
        self._named: dict[str, dict[str, None]] = {}
        #: Volume -> the class in which it is free, or the claim that it names.
        self._listed: dict[str, tuple[str, str]] = {}
        self._capacities = CapacitiesByClass(nodes, self.reaches)
        self._put: dict[str, Callable[[Any], None]] = {
            "PersistentVolume": self._put_volume,
            "PersistentVolumeClaim": self._put_claim,
            "StorageClass": self._put_class,
            "CSINode": self.csi_nodes.put,
            "CSIDriver": self._put_driver,
            "CSIStorageCapacity": self._capacities.put,
            "VolumeAttachment": self.use.put_attachment,
        }
        self._remove: dict[str, Callable[[str], None]] = {
            "PersistentVolume": self._remove_volume,
            "PersistentVolumeClaim": self._remove_claim,
            "StorageClass": self._remove_class,
            "CSINode": self.csi_nodes.remove,
            "CSIDriver": self._remove_driver,
            "CSIStorageCapacity": self._capacities.remove,
            "VolumeAttachment": self.use.remove_attachment,
        }

    # -- changes of objects -----------------------------------------------------------------------

    def put(self, obj: Any) -> None:
        """Adds or updates an object."""
        kind = type(obj).__name__
        self.version += 1
        self.room_version += kind in PROVISIONING_KINDS
        self._put[kind](obj)

    def remove(self, kind: str, object_key: str) -> None:
        """Removes an object. Unknown keys are ignored."""
        self.version += 1
        self.room_version += kind in PROVISIONING_KINDS
        self._remove[kind](object_key)

    def update_row(self, node_name: str) -> None:
        """Updates the columns after a row of the node table got the node of this name."""
        self.csi_nodes.update_row(node_name)

    # -- queries, without assumed versions --------------------------------------------------------

    def claim(self, claim_key: str) -> PersistentVolumeClaim | None:
        """Returns the claim called "namespace/name"."""
        return self.objects.claims.get(claim_key)

    def volume(self, name: str) -> PersistentVolume | None:
        """Returns the volume of this name."""
        return self.objects.volumes.get(name)

    def storage_class(self, name: str) -> StorageClass | None:
        """Returns the class of this name."""
        return self.objects.classes.get(name)

    def driver(self, name: str) -> CSIDriver | None:
        """Returns the CSI driver of this name."""
        return self._drivers.get(name)

    def capacities(self, class_name: str) -> Capacities | None:
        """Returns the storage capacities of the class; None = there are none."""
        return self._capacities.get(class_name)

    # -- queries, with assumed versions -----------------------------------------------------------

    def current_claim(self, claim_key: str) -> PersistentVolumeClaim | None:
        """Returns the claim, in its assumed version if it has one."""
        return self._assumed_claims.get(claim_key) or self.objects.claims.get(claim_key)

    def current_volume(self, name: str) -> PersistentVolume | None:
        """Returns the volume, in its assumed version if it has one."""
        return self._assumed_volumes.get(name) or self.objects.volumes.get(name)

    def free_volumes(self, class_name: str) -> FreeVolumes | None:
        """Returns the volumes of the class that can be bound to a claim; None = there are none."""
        return self._free.get(class_name)

    def volumes_naming(self, claim_key: str, class_name: str) -> list[PersistentVolume]:
        """Returns the volumes of the class that name this claim, by its namespace and name."""
        names = sorted(self._named.get(claim_key, ()))
        if not names:
            return []
        volumes = [(name, self.current_volume(name)) for name in names]
        return [
            volume
            for name, volume in volumes
            if volume is not None and volume_class(self.objects.volumes[name]) == class_name
        ]

    def assumed(self) -> tuple[dict[str, PersistentVolume], dict[str, PersistentVolumeClaim]]:
        """Returns the assumed versions by key. Shared: read-only."""
        return self._assumed_volumes, self._assumed_claims

    def listings(self) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
        """Returns class -> free volumes, claim -> volumes that name it, sorted; for the audit."""
        free = {
            name: sorted(volume.metadata.name for volume in free_volumes.volumes())
            for name, free_volumes in self._free.items()
        }
        return free, {claim: sorted(names) for claim, names in self._named.items()}

    # -- assuming ---------------------------------------------------------------------------------

    def assume_volume(self, volume: PersistentVolume) -> None:
        """Overlays an assumed volume until a newer resourceVersion arrives.

        Raises:
            InvariantViolation: if there is no such volume.
        """
        name = volume.metadata.name
        if name not in self.objects.volumes:
            raise InvariantViolation(f"cannot assume volume {name}: no such volume")
        self._assumed_volumes[name] = volume
        self.version += 1
        self._list(name)

    def assume_claim(self, claim: PersistentVolumeClaim) -> None:
        """Overlays an assumed claim until a newer resourceVersion arrives.

        Raises:
            InvariantViolation: if there is no such claim.
        """
        claim_key = key(claim)
        if claim_key not in self.objects.claims:
            raise InvariantViolation(f"cannot assume claim {claim_key}: no such claim")
        self._assumed_claims[claim_key] = claim
        self.version += 1

    def restore_volume(self, volume: PersistentVolume) -> None:
        """Reverts this assumed volume. Ignored if it is no longer assumed."""
        name = volume.metadata.name
        if self._assumed_volumes.get(name) is volume:
            del self._assumed_volumes[name]
            self.version += 1
            self._list(name)

    def restore_claim(self, claim: PersistentVolumeClaim) -> None:
        """Reverts this assumed claim. Ignored if it is no longer assumed."""
        if self._assumed_claims.get(key(claim)) is claim:
            del self._assumed_claims[key(claim)]
            self.version += 1

    # -- kind by kind -----------------------------------------------------------------------------

    def _put_volume(self, volume: PersistentVolume) -> None:
        name = volume.metadata.name
        assumed = self._assumed_volumes.get(name)
        if assumed is not None and _is_newer(assumed, volume):
            del self._assumed_volumes[name]
        self.objects.volumes[name] = volume
        self._list(name)
        self.use.volume_changed(name)

    def _remove_volume(self, name: str) -> None:
        if self.objects.volumes.pop(name, None) is None:
            return
        self._assumed_volumes.pop(name, None)
        self._list(name)
        self.use.volume_changed(name)

    def _put_claim(self, claim: PersistentVolumeClaim) -> None:
        claim_key = key(claim)
        assumed = self._assumed_claims.get(claim_key)
        if assumed is not None and _is_newer(assumed, claim):
            del self._assumed_claims[claim_key]
        self.objects.claims[claim_key] = claim
        self.use.changed(CLAIM, claim_key)

    def _remove_claim(self, claim_key: str) -> None:
        self._assumed_claims.pop(claim_key, None)
        if self.objects.claims.pop(claim_key, None) is not None:
            self.use.changed(CLAIM, claim_key)

    def _put_class(self, storage_class: StorageClass) -> None:
        self.objects.classes[storage_class.metadata.name] = storage_class
        self.use.changed(CLASS, storage_class.metadata.name)

    def _remove_class(self, name: str) -> None:
        if self.objects.classes.pop(name, None) is not None:
            self.use.changed(CLASS, name)

    def _put_driver(self, driver: CSIDriver) -> None:
        self._drivers[driver.metadata.name] = driver

    def _remove_driver(self, name: str) -> None:
        self._drivers.pop(name, None)

    # -- lists of volumes -------------------------------------------------------------------------

    def _list(self, name: str) -> None:
        """Moves a volume to the list of its claim or class, if it belongs to one."""
        before, after = self._listed.get(name), self._list_of(name)
        if before is not None and before != after:
            del self._listed[name]
            self._unlist(name, *before)
        if after is None:
            return
        kind, list_key = self._listed[name] = after
        if kind == CLAIM:
            self._named.setdefault(list_key, {})[name] = None
            return
        free = self._free.get(list_key)
        if free is None:
            free = self._free[list_key] = FreeVolumes(self._nodes, self.reaches)
        volume = self.current_volume(name)
        assert volume is not None
        free.put(volume)

    def _unlist(self, name: str, kind: str, list_key: str) -> None:
        if kind == CLAIM:
            of_claim = self._named[list_key]
            del of_claim[name]
            if not of_claim:
                del self._named[list_key]
            return
        free = self._free[list_key]
        free.remove(name)
        if not len(free):
            del self._free[list_key]

    def _list_of(self, name: str) -> tuple[str, str] | None:
        """Returns the claim that the volume names, else its class if it is free, else None."""
        volume = self.current_volume(name)
        if volume is None:
            return None
        reference = volume.spec.claim_ref
        if reference is not None:
            return CLAIM, f"{reference.namespace}/{reference.name}"
        is_terminating = volume.metadata.deletion_timestamp is not None
        if is_terminating or volume.status.phase != "Available":
            return None
        return CLASS, volume_class(self.objects.volumes[name])


def _is_newer(assumed: Any, current: Any) -> bool:
    """Returns whether the API server's object is newer than the base of the assumed version.

    An object without resourceVersion, as offline, is always newer.
    """
    before, after = assumed.metadata.resource_version, current.metadata.resource_version
    return not after or before != after
