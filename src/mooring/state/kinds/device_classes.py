"""The device classes, and the extended resources that map to them."""

from __future__ import annotations

from typing import Final

from mooring.objects.resource import DeviceClass

#: The resource with this prefix and a class name maps to that class implicitly.
RESOURCE_PREFIX: Final = "deviceclass.resource.kubernetes.io/"


class DeviceClasses:
    """Name -> class, and extended resource -> its class. Owned by the Cache.

    If several classes name the same extended resource, the one that was created last has it, of
    equally old ones the first by name. The map follows the changes of classes as upstream's does,
    with its slips: a class that loses the comparison is not entered at all, its implicit name
    included; and when one of the two is deleted, the resource has no class until another is
    updated.

    Source: k8s.io/dynamic-resource-allocation deviceclass/extendedresourcecache.
    """

    def __init__(self, *, maps_resources: bool = True) -> None:
        """Starts without classes.

        Args:
            maps_resources: Whether extended resources stand for classes (DRAExtendedResource).
        """
        self._maps_resources = maps_resources
        #: Rises with every change.
        self.version = 0
        self._classes: dict[str, DeviceClass] = {}
        self._class_of: dict[str, DeviceClass] = {}

    def __len__(self) -> int:
        """Returns the number of classes."""
        return len(self._classes)

    def put(self, obj: DeviceClass) -> None:
        """Adds or updates a class."""
        name = obj.metadata.name
        old = self._classes.get(name)
        self._classes[name] = obj
        self.version += 1
        if not self._maps_resources:
            return
        resource = obj.spec.extended_resource_name
        rival = self._class_of.get(resource) if resource is not None else None
        if rival is not None and not _is_preferred(obj, rival):
            return
        if old is not None:
            self._unmap(old)
        if resource is not None:
            self._class_of[resource] = obj
        self._class_of[RESOURCE_PREFIX + name] = obj

    def remove(self, _kind: str, name: str) -> None:
        """Removes a class. Unknown names are ignored."""
        obj = self._classes.pop(name, None)
        if obj is not None:
            self.version += 1
            self._unmap(obj)

    def get(self, name: str) -> DeviceClass | None:
        """Returns the class with this name; None = there is none."""
        return self._classes.get(name)

    def names(self) -> list[str]:
        """Returns the names of all classes."""
        return list(self._classes)

    def class_of(self, resource: str) -> str | None:
        """Returns the name of the class of an extended resource; None if it has none."""
        obj = self._class_of.get(resource)
        return obj.metadata.name if obj is not None else None

    def _unmap(self, obj: DeviceClass) -> None:
        self._class_of.pop(RESOURCE_PREFIX + obj.metadata.name, None)
        if obj.spec.extended_resource_name is not None:
            self._class_of.pop(obj.spec.extended_resource_name, None)


def _is_preferred(obj: DeviceClass, rival: DeviceClass) -> bool:
    """Returns whether a class takes an extended resource from another one."""
    # Times in one format: their texts are in order of time.
    created = obj.metadata.creation_timestamp or ""
    rival_created = rival.metadata.creation_timestamp or ""
    if created != rival_created:
        return created > rival_created
    return obj.metadata.name < rival.metadata.name
