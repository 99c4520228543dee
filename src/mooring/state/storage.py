"""Volumes, claims, classes and drivers, by name."""

from __future__ import annotations

from typing import Any, Final

from mooring.objects.meta import key

#: The kinds that are kept here.
STORAGE_KINDS: Final = (
    "PersistentVolume",
    "PersistentVolumeClaim",
    "StorageClass",
    "CSINode",
    "CSIDriver",
    "CSIStorageCapacity",
    "VolumeAttachment",
)


class Storage:
    """What volume plugins read. The Cache is the one owner."""

    def __init__(self) -> None:
        self._objects: dict[str, dict[str, Any]] = {kind: {} for kind in STORAGE_KINDS}

    def put(self, obj: Any) -> None:
        """An object is new or changed."""
        self._objects[obj.kind][key(obj)] = obj

    def remove(self, kind: str, object_key: str) -> None:
        """The object is gone. Unknown ones are fine."""
        self._objects[kind].pop(object_key, None)
