"""The objects of one kind as the API server has them, and the news about them.

A replica is told what lists and watches say, in the order in which they say it. It keeps the newest
state of each object and passes on every difference, once::

    list ────> replacing() ──┐
                             ├──> objects, then on_change(Change)
    watch ───> apply() ──────┘

What it was told before changes nothing: a watch may be resumed from too early, a list may repeat
what is known. It neither waits nor knows where the news comes from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from mooring.client.informer.watch_events import WatchEvent

#: Differences handed over at a time after a list; at 10-50 us each that is a few milliseconds.
SLICE: Final = 200


class Change(NamedTuple):
    """One object came (``old`` is None), changed, or went (``new`` is None).

    Attributes:
        old: What the replica had; handlers have seen exactly this one before.
        new: What it has now.
        last: Of one that went: its last state; None if the end itself was missed, while there was
            no watch, so that ``old`` may be out of date.
    """

    old: Any
    new: Any
    last: Any = None


OnChange = Callable[[Change], None]


@dataclass
class Statistics:
    """What happened to a replica since its start; numbers only grow."""

    events: int = 0
    duplicates: int = 0
    malformed: int = 0
    unknown_types: int = 0
    lists: int = 0
    missed_deletes: int = 0


class Replica:
    """The known objects of one kind.

    Attributes:
        objects: Key -> object; read it, never write to it.
        version: The resourceVersion up to which everything is known; "" before the first list.
        statistics: Counts of what happened.
    """

    def __init__(self, on_change: OnChange) -> None:
        self.objects: dict[str, Any] = {}
        self.version = ""
        self.statistics = Statistics()
        self._number: int | None = None
        self._on_change = on_change

    def apply(self, event: WatchEvent) -> None:
        """Takes in one event of a watch that began at ``version`` or before."""
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
        if event.version:
            self.version, self._number = event.version, number

    def replacing(
        self, listed: Mapping[str, Any], unreadable: Mapping[str, str], version: str
    ) -> Iterator[None]:
        """Takes in a whole list, in slices: others may run whenever the iterator yields.

        First come the objects of the list, in its order, then those that are gone. An object that
        is there but cannot be read stays as it was last read. Only at the end of the iterator does
        ``objects`` equal the list.

        Args:
            listed: Key -> object.
            unreadable: Key -> UID of those that are there but cannot be read.
            version: Of the list.
        """
        self.statistics.lists += 1
        self.statistics.malformed += len(unreadable)
        n_told = 0
        for key, obj in listed.items():
            n_told += self._take(key, obj)
            if n_told >= SLICE:
                n_told = 0
                yield
        for key in [key for key in self.objects if key not in listed]:
            old = self.objects[key]
            if unreadable.get(key) == old.metadata.uid:
                continue
            self.statistics.missed_deletes += 1
            self._drop(key, last=None)
            n_told += 1
            if n_told >= SLICE:
                n_told = 0
                yield
        self.version, self._number = version, number_of(version)

    def _is_known(self, version: str, number: int | None) -> bool:
        """Whether ``version`` is not after ours: versions of one kind are ordered numbers."""
        if number is None or self._number is None:
            return bool(version) and version == self.version
        return number <= self._number

    def _put(self, event: WatchEvent) -> None:
        old = self.objects.get(event.key)
        if event.obj is not None:
            self._take(event.key, event.obj)
            return
        self.statistics.malformed += 1
        if old is not None and event.uid and old.metadata.uid != event.uid:
            self.statistics.missed_deletes += 1
            self._drop(event.key, last=None)

    def _take(self, key: str, new: Any) -> bool:
        """Keeps the newest state of an object; whether that was any news."""
        old = self.objects.get(key)
        if old is not None and old.metadata.uid != new.metadata.uid:
            # Another object of this name: two changes, or its owner would be mistaken for it.
            self.statistics.missed_deletes += 1
            self._drop(key, last=None)
            old = None
        if old is not None and old.metadata.resource_version == new.metadata.resource_version:
            return False
        self.objects[key] = new
        self._on_change(Change(old, new))
        return True

    def _remove(self, event: WatchEvent) -> None:
        old = self.objects.get(event.key)
        if old is not None:
            is_same = event.obj is not None and old.metadata.uid == event.obj.metadata.uid
            self._drop(event.key, last=event.obj if is_same else None)

    def _drop(self, key: str, *, last: Any) -> None:
        self._on_change(Change(self.objects.pop(key), None, last))


def number_of(version: str) -> int | None:
    """Returns a resourceVersion as a number, if it is one, as those of Kubernetes' own kinds are.

    Source: KEP-5504, comparable resource versions: decimal, without leading zeros.
    """
    return int(version) if version.isascii() and version.isdigit() else None
