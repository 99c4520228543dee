"""The sorted list of a class's free volumes: by size, then by name.

A taken volume keeps its position and is only marked, since it becomes free again when a binding
fails; the list is rebuilt when half of its positions are stale.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import Final

import numpy as np
import numpy.typing as npt

from mooring.state.types import Bools
from mooring.state.volumes.free_index.groups import Entry, Group, VolumeTraits
from mooring.state.volumes.topology import NodeTopology

#: Maximum number of recorded changes, from which cached results are updated.
CHANGES_MAX: Final = 1_024


class FreeVolumeList:
    """Volumes by position, free or taken. Only FreeVolumes writes.

    Attributes:
        order: (Size in billionths of a byte, name) by position.
        is_free: By position, bool.
        traits_ids: VolumeTraits -> their id.
        traits_of: By position, the id of the traits, int32.
        groups: The positions by label, or by ``NodeTopology`` without a single label.
        placed: Name -> the volume as it was when it was inserted.
        changes: Positions that became free or were taken, in order.
        version: Rises when positions change their volume, or changes are dropped.
    """

    def __init__(self) -> None:
        self.version = 0
        self.build(())

    def build(self, entries: Iterable[Entry]) -> None:
        """Rebuilds the list with these volumes, all free. Complexity: O(volumes)."""
        entries = sorted(entries, key=lambda entry: entry.rank)
        self.version += 1
        self.changes: list[int] = []
        self.traits_ids: dict[VolumeTraits, int] = {}
        self.groups: dict[str | NodeTopology, Group] = {}
        self.placed = {entry.rank[1]: entry for entry in entries}
        self.order = [entry.rank for entry in entries]
        self.is_free: Bools = np.ones(len(entries), dtype=np.bool_)
        traits_of = [self._traits_id(entry) for entry in entries]
        self.traits_of: npt.NDArray[np.int32] = np.array(traits_of, dtype=np.int32)
        positions: dict[str | NodeTopology, list[int]] = {}
        for position, entry in enumerate(entries):
            group = self.groups.get(entry.key)
            if group is None:
                group, positions[entry.key] = self.groups.setdefault(entry.key, Group()), []
            group.values += entry.values
            positions[entry.key] += [position] * max(1, len(entry.values))
        for key, group in self.groups.items():
            group.positions = np.array(positions[key], dtype=np.intp)

    def insert(self, entry: Entry) -> None:
        """Inserts a free volume."""
        position = bisect_left(self.order, entry.rank)
        self.order.insert(position, entry.rank)
        self.placed[entry.rank[1]] = entry
        self.is_free = np.insert(self.is_free, position, True)
        self.traits_of = np.insert(self.traits_of, position, self._traits_id(entry))
        self._drop_changes()
        for group in self.groups.values():
            group.insert_gap(position)
        self.groups.setdefault(entry.key, Group()).insert(position, entry.values)

    def set_free(self, placed: Entry, *, is_free: bool) -> None:
        """Marks a volume of the list as free or taken."""
        position = bisect_left(self.order, placed.rank)
        self.is_free[position] = is_free
        self.changes.append(position)
        if len(self.changes) > CHANGES_MAX:
            self._drop_changes()

    def first_position(self, nanos: int) -> int:
        """Returns the position from which on volumes are at least this large."""
        return bisect_left(self.order, (nanos, ""))

    def at(self, position: int) -> Entry:
        """Returns the volume at a position."""
        return self.placed[self.order[position][1]]

    def _drop_changes(self) -> None:
        self.changes.clear()
        self.version += 1

    def _traits_id(self, entry: Entry) -> int:
        return self.traits_ids.setdefault(entry.traits, len(self.traits_ids))
