"""The places of a class's free volumes: the smallest first, then by name.

A volume that is taken keeps its place and is only marked, since it may come back when a binding
fails; places are cleared up once half of them are dead.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import Final

import numpy as np
import numpy.typing as npt

from mooring.state.volumes.free_index.groups import Bools, Entry, Group, Kind
from mooring.state.volumes.topology import NodeTopology

#: Changes that are remembered, for answers to follow.
CHANGES_KEPT: Final = 1_024


class FreeVolumeList:
    """Volumes in their places, free or taken. The one owner is FreeVolumes; others read.

    Attributes:
        order: (Size in billionths of a byte, name) by place.
        is_free: By place, bool.
        kinds: Kind -> its number.
        kind_of: By place the number of the kind, int32.
        groups: The places by the label, or by the reach, with which volumes are reached.
        placed: Name -> the volume as it was when it got its place.
        changes: Places that became free or were taken, in order.
        version: Rises when places mean something else, or changes are forgotten.
    """

    def __init__(self) -> None:
        self.version = 0
        self.build(())

    def build(self, entries: Iterable[Entry]) -> None:
        """These are there, all free, and no others. Complexity: O(volumes), in plain Python."""
        entries = sorted(entries, key=lambda entry: entry.rank)
        self.version += 1
        self.changes: list[int] = []
        self.kinds: dict[Kind, int] = {}
        self.groups: dict[str | NodeTopology, Group] = {}
        self.placed = {entry.rank[1]: entry for entry in entries}
        self.order = [entry.rank for entry in entries]
        self.is_free: Bools = np.ones(len(entries), dtype=np.bool_)
        kind_of = [self._kind(entry) for entry in entries]
        self.kind_of: npt.NDArray[np.int32] = np.array(kind_of, dtype=np.int32)
        places: dict[str | NodeTopology, list[int]] = {}
        for place, entry in enumerate(entries):
            group = self.groups.get(entry.key)
            if group is None:
                group, places[entry.key] = self.groups.setdefault(entry.key, Group()), []
            group.values += entry.values
            places[entry.key] += [place] * max(1, len(entry.values))
        for key, group in self.groups.items():
            group.places = np.array(places[key], dtype=np.intp)

    def insert(self, entry: Entry) -> None:
        """One more is there, and free."""
        place = bisect_left(self.order, entry.rank)
        self.order.insert(place, entry.rank)
        self.placed[entry.rank[1]] = entry
        self.is_free = np.insert(self.is_free, place, True)
        self.kind_of = np.insert(self.kind_of, place, self._kind(entry))
        self._forget_changes()
        for group in self.groups.values():
            group.shift(place)
        self.groups.setdefault(entry.key, Group()).insert(place, entry.values)

    def set_free(self, placed: Entry, *, is_free: bool) -> None:
        """A volume that has a place was taken, or is free again."""
        place = bisect_left(self.order, placed.rank)
        self.is_free[place] = is_free
        self.changes.append(place)
        if len(self.changes) > CHANGES_KEPT:
            self._forget_changes()

    def first_place(self, nanos: int) -> int:
        """Returns the place from which on volumes are at least this large."""
        return bisect_left(self.order, (nanos, ""))

    def at(self, place: int) -> Entry:
        """Who has a place."""
        return self.placed[self.order[place][1]]

    def _forget_changes(self) -> None:
        self.changes.clear()
        self.version += 1

    def _kind(self, entry: Entry) -> int:
        return self.kinds.setdefault(entry.kind, len(self.kinds))
