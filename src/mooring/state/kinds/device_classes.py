"""The device classes, and the extended resources that map to them."""

from __future__ import annotations

from typing import Final

from mooring.objects.resource import DeviceClass

#: The resource with this prefix and a class name maps to that class implicitly.
RESOURCE_PREFIX: Final = "deviceclass.resource.kubernetes.io/"


class DeviceClasses:
    """Resource name -> its device classes. Owned by the Cache.

    Source: k8s.io/dynamic-resource-allocation deviceclass/extendedresourcecache.
    """

    def __init__(self) -> None:
        #: Rises with every change.
        self.version = 0
        self._resource_of: dict[str, str] = {}
        self._classes_of: dict[str, dict[str, None]] = {}

    def __len__(self) -> int:
        """Returns the number of classes."""
        return len(self._resource_of)

    def put(self, obj: DeviceClass) -> None:
        """Adds or updates a class."""
        name = obj.metadata.name
        self.remove("DeviceClass", name)
        self.version += 1
        self._resource_of[name] = obj.spec.extended_resource_name or ""
        for resource in self._resources(name):
            self._classes_of.setdefault(resource, {})[name] = None

    def remove(self, _kind: str, name: str) -> None:
        """Removes a class. Unknown names are ignored."""
        if name not in self._resource_of:
            return
        self.version += 1
        for resource in self._resources(name):
            classes = self._classes_of[resource]
            del classes[name]
            if not classes:
                del self._classes_of[resource]
        del self._resource_of[name]

    def class_of(self, resource: str) -> str | None:
        """Returns the name of a class of the resource; None if it has none."""
        classes = self._classes_of.get(resource)
        return min(classes) if classes else None

    def _resources(self, name: str) -> list[str]:
        own = self._resource_of[name]
        return [RESOURCE_PREFIX + name, own] if own else [RESOURCE_PREFIX + name]
