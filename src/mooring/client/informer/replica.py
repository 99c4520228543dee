"""The local copy of the objects of one kind, with a callback for every change.

A replica applies lists and watch events in their order. It stores the newest version of each object
and reports every change once::

    list ────> replacing() ──┐
                             ├──> objects, then on_change(ObjectChange)
    watch ───> apply() ──────┘

Old versions are ignored: a watch may resume too early, and a list may repeat current objects. A
replica does no I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from mooring.client.informer.watch_events import WatchEvent

#: Changes reported per slice of a list; at 10-50 us each a slice takes a few milliseconds.
SLICE: Final = 200

#: Digits of a resourceVersion that is a number; etcd's revisions have at most 19.
DIGITS_MAX: Final = 64


class ObjectChange(NamedTuple):
    """An object was added (``old`` is None), changed, or deleted (``new`` is None).

    Attributes:
        old: The previous version; handlers were called with exactly this one before.
        new: The current version.
        last: The last version of a deleted object; None if the deletion was missed while there
        was no watch, so that ``old`` may be stale.
    """

    old: Any
    new: Any
    last: Any = None


OnChange = Callable[[ObjectChange], None]


@dataclass
class Statistics:
    """Counters of a replica since its start."""

    events: int = 0
    duplicates: int = 0
    malformed: int = 0
    unknown_types: int = 0
    lists: int = 0
    missed_deletes: int = 0


class Replica:
    """The objects of one kind, as of the last event or list.

    Attributes:
        objects: Key -> object; read-only.
        version: The resourceVersion of the replica; "" before the first list.
        statistics: Counters of events.
    """

    def __init__(self, on_change: OnChange) -> None:
        self.objects: dict[str, Any] = {}
        self.version = ""
        self.statistics = Statistics()
        self._number: int | None = None
        self._on_change = on_change

    def apply(self, event: WatchEvent) -> None:
        """Applies one event of a watch that started at ``version`` or before."""
        number = number_of(event.version)
        if self._is_known(event.version, number):
            self.statistics.duplicates += event.type != "BOOKMARK"
            return
        if event.type == "BOOKMARK":
            pass
        elif event.type == "DELETED":
            self.statistics.events += 1
            self._remove(event)
        elif event.type in ("ADDED", "MODIFIED"):
            self.statistics.events += 1
            self._put(event)
        else:
            self.statistics.unknown_types += 1
        if is_position(event.version):
            self.version, self._number = event.version, number

    def replacing(
        self, listed: Mapping[str, Any], unreadable: Mapping[str, str], version: str
    ) -> Iterator[None]:
        """Applies a complete list in slices: other tasks may run at every yield.

        First come the objects of the list, in its order, then the deleted ones. An object that
        exists but cannot be decoded keeps its last version. Only at the end of the iterator does
        ``objects`` equal the list.

        Args:
            listed: Key -> object.
            unreadable: Key -> UID of objects that cannot be decoded.
            version: The resourceVersion of the list.
        """
        self.statistics.lists += 1
        self.statistics.malformed += len(unreadable)
        change_count = 0
        for key, obj in listed.items():
            change_count += self._store(key, obj)
            if change_count >= SLICE:
                change_count = 0
                yield
        for key in [key for key in self.objects if key not in listed]:
            old = self.objects[key]
            if unreadable.get(key) == old.metadata.uid:
                continue
            self.statistics.missed_deletes += 1
            self._drop(key, last=None)
            change_count += 1
            if change_count >= SLICE:
                change_count = 0
                yield
        self.version, self._number = version, number_of(version)

    def _is_known(self, version: str, number: int | None) -> bool:
        """Returns whether ``version`` is not newer than ours: versions are ordered numbers."""
        if number is None or self._number is None:
            return bool(version) and version == self.version
        return number <= self._number

    def _put(self, event: WatchEvent) -> None:
        old = self.objects.get(event.key)
        if event.obj is not None:
            self._store(event.key, event.obj)
            return
        self.statistics.malformed += 1
        if old is not None and event.uid and old.metadata.uid != event.uid:
            self.statistics.missed_deletes += 1
            self._drop(event.key, last=None)

    def _store(self, key: str, new: Any) -> bool:
        """Stores a version of an object; returns whether it is new."""
        old = self.objects.get(key)
        if old is not None and old.metadata.uid != new.metadata.uid:
            # Another object of this name: report two changes, not an update of the old one.
            self.statistics.missed_deletes += 1
            self._drop(key, last=None)
            old = None
        if old is not None and old.metadata.resource_version == new.metadata.resource_version:
            return False
        self.objects[key] = new
        self._on_change(ObjectChange(old, new))
        return True

    def _remove(self, event: WatchEvent) -> None:
        old = self.objects.get(event.key)
        if old is not None:
            is_same = event.obj is not None and old.metadata.uid == event.obj.metadata.uid
            self._drop(event.key, last=event.obj if is_same else None)

    def _drop(self, key: str, *, last: Any) -> None:
        self._on_change(ObjectChange(self.objects.pop(key), None, last))


def number_of(version: str) -> int | None:
    """Returns a resourceVersion as a number, if it is one, as those of Kubernetes' own kinds are.

    A longer one than any server has is none: Python refuses to convert thousands of digits.

    Source: KEP-5504, comparable resource versions: decimal, without leading zeros.
    """
    is_number = len(version) <= DIGITS_MAX and version.isascii() and version.isdigit()
    return int(version) if is_number else None


def is_position(version: str) -> bool:
    """Returns whether a watch from this resourceVersion has exactly what changed after it.

    Without a version, and from "0", it begins with what exists at any time: what was deleted
    before would stay in the replica.

    Source: k8s.io/apiserver pkg/storage/etcd3/watcher.go (areInitialEventsRequired).
    """
    return bool(version) and number_of(version) != 0
