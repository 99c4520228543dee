"""Compares each number that says whether something has changed with what has changed.

Plugins keep results as long as a version stays the same. So one version must not name two contents:
whatever changes what a reader gets has to raise it, also the end of an assumption.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from mooring.state.cache import Cache


class Content(NamedTuple):
    """A version, and what it is the version of.

    Attributes:
        name: For messages.
        version: Returns the version.
        content: Returns what readers get; objects are compared by their identity.
    """

    name: str
    version: Callable[[], object]
    content: Callable[[], Sequence[Any]]


class ContentVersions:
    """Compares versions with contents, whenever it is called.

    Args:
        contents: Those to compare.
        report: Called with each version that names two contents.
    """

    def __init__(self, contents: Sequence[Content], report: Callable[[str], None]) -> None:
        self._contents, self._report = contents, report
        #: Name -> the version and the content of the last call.
        self._last: dict[str, tuple[object, Sequence[Any]]] = {}

    def compare(self) -> None:
        """Compares all with the call before."""
        for name, version, content in self._contents:
            now = version(), content()
            before, self._last[name] = self._last.get(name, now), now
            if before[0] == now[0] and not _are_same(before[1], now[1]):
                self._report(f"{name} have changed, but their version is still {now[0]}")


def _are_same(before: Sequence[Any], after: Sequence[Any]) -> bool:
    """Returns whether both have the same objects; texts and sets are compared by value."""
    return len(before) == len(after) and all(
        old is new or (isinstance(old, str | frozenset) and old == new)
        for old, new in zip(before, after, strict=True)
    )


def of_storage(cache: Cache) -> list[Content]:
    """Returns the versions of volumes and claims, and of what can be provisioned."""
    storage = cache.storage
    objects = storage.objects

    def volumes() -> list[Any]:
        claims = [storage.current_claim(name) for name in objects.claims]
        return claims + [storage.current_volume(name) for name in objects.volumes]

    def provisioning() -> list[Any]:
        return [*objects.classes.values(), *storage._drivers.values()]

    return [
        Content("volumes and claims", lambda: storage.version, volumes),
        Content("classes and drivers", lambda: storage.room_version, provisioning),
    ]


def of_devices(cache: Cache) -> list[Content]:
    """Returns the versions of claims of devices, and of the devices in use."""
    devices = cache.devices
    state = devices.allocated

    def in_use() -> list[Any]:
        return [frozenset(state.dedicated), frozenset(state.shared)]

    return [
        Content("claims of devices", lambda: devices.claims.version, devices.claims.all),
        Content("devices in use", lambda: devices.in_use.version, in_use),
    ]
