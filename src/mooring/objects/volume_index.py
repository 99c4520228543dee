"""Volumes by the claim that they are meant for, and free ones by class and size.

A volume controller looks for the volume of each claim; without an index it would compare all claims
with all volumes.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator

from mooring.objects.quantity import Quantity
from mooring.objects.storage import PersistentVolume, PersistentVolumeClaim
from mooring.objects.volume_claims import amount, is_bound_to, volume_class


class VolumeIndex:
    """Volumes by name, in the order of their first addition.

    Args:
        volumes: The volumes at the start.
    """

    def __init__(self, volumes: Iterable[PersistentVolume] = ()) -> None:
        self._volumes: dict[str, PersistentVolume] = {}
        #: (namespace, name) of a claim -> the names of the volumes whose claimRef names it.
        self._of_claim: dict[tuple[str, str], dict[str, None]] = {}
        #: Class -> the names of its free volumes.
        self._free: dict[str, dict[str, None]] = {}
        #: The same by size and name, of classes that were searched: quantities are read for it.
        self._by_size: dict[str, list[tuple[Quantity, str]]] = {}
        for volume in volumes:
            self.put(volume)

    def get(self, name: str) -> PersistentVolume | None:
        """Returns the volume with a name."""
        return self._volumes.get(name)

    def volumes(self) -> Iterable[PersistentVolume]:
        """Returns all volumes."""
        return self._volumes.values()

    def meant_for(self, claim: PersistentVolumeClaim) -> Iterator[PersistentVolume]:
        """Yields the volumes whose claimRef names the claim, with its UID or none."""
        own = claim.metadata
        for name in self._of_claim.get((own.namespace, own.name), ()):
            volume = self._volumes[name]
            if is_bound_to(volume.spec.claim_ref, claim):
                yield volume

    def free(self, class_name: str, smallest: Quantity) -> Iterator[PersistentVolume]:
        """Yields the free volumes of a class from a size on: the smallest first, then by name."""
        if class_name not in self._by_size:
            names = self._free.get(class_name, ())
            self._by_size[class_name] = sorted(_sized(self._volumes[name]) for name in names)
        by_size = self._by_size[class_name]
        for place in range(bisect_left(by_size, (smallest, "")), len(by_size)):
            yield self._volumes[by_size[place][1]]

    def put(self, volume: PersistentVolume) -> None:
        """Adds a volume, or replaces the one with its name."""
        name = volume.metadata.name
        if name in self._volumes:
            self._forget(self._volumes[name])
        self._volumes[name] = volume
        reference = volume.spec.claim_ref
        if reference is not None:
            names = self._of_claim.setdefault((reference.namespace, reference.name), {})
            names[name] = None
        elif _is_free(volume):
            class_name = volume_class(volume)
            self._free.setdefault(class_name, {})[name] = None
            if class_name in self._by_size:
                insort(self._by_size[class_name], _sized(volume))

    def delete(self, name: str) -> None:
        """Removes a volume."""
        self._forget(self._volumes.pop(name))

    def _forget(self, volume: PersistentVolume) -> None:
        """Removes a volume from all but the names."""
        name, reference = volume.metadata.name, volume.spec.claim_ref
        if reference is not None:
            of_claim = (reference.namespace, reference.name)
            del self._of_claim[of_claim][name]
            if not self._of_claim[of_claim]:
                del self._of_claim[of_claim]
        elif _is_free(volume):
            class_name = volume_class(volume)
            del self._free[class_name][name]
            by_size = self._by_size.get(class_name)
            if by_size is not None:
                del by_size[bisect_left(by_size, _sized(volume))]


def _is_free(volume: PersistentVolume) -> bool:
    return volume.spec.claim_ref is None and volume.status.phase == "Available"


def _sized(volume: PersistentVolume) -> tuple[Quantity, str]:
    return amount(volume.spec.capacity), volume.metadata.name
