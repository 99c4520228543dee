"""The volumes of one class that nobody has: which is the smallest that will do, for every node.

They are in a fixed order, the smallest first and then by name, so "the smallest" is the first one
that is left::

    put, remove ──> Shelf: flags, and a few insertions ──> Choices: one lookup per row, in an
                    (many at once: built anew)             answer that follows the flags
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mooring.objects.storage import PersistentVolume
from mooring.state.tables.nodes import NodeTable
from mooring.state.volumes.free_index.first_match import NONE, FirstMatchIndex, Rows, VolumeRequest
from mooring.state.volumes.free_index.groups import Entry, Positions
from mooring.state.volumes.free_index.sorted_list import FreeVolumeList
from mooring.state.volumes.topology import TopologyMasks

#: Up to so many new volumes are put in one by one; more cost as much as building all anew.
INSERTIONS_MAX: Final = 32


class FreeVolumes:
    """The free volumes of a class. The one owner is Storage.

    Complexity: ``choose`` costs O(rows) in columns for wishes that another claim had lately, and
    O(volumes) more for new ones; O(rows) more for each different reach that is more than some
    values of one label.
    """

    def __init__(self, nodes: NodeTable, reaches: TopologyMasks) -> None:
        self._nodes = nodes
        self._reaches = reaches
        self._volumes: dict[str, Entry] = {}
        self._shelf = FreeVolumeList()
        self._choices = FirstMatchIndex(nodes, reaches, self._shelf)
        self._waiting: dict[str, None] = {}
        self._is_stale = False

    def __len__(self) -> int:
        """How many volumes are free."""
        return len(self._volumes)

    def volumes(self) -> list[PersistentVolume]:
        """Returns the free ones."""
        return [entry.volume for entry in self._volumes.values()]

    # -- volumes come and go ----------------------------------------------------------------------

    def put(self, volume: PersistentVolume) -> None:
        """A volume is free, in this version."""
        name = volume.metadata.name
        entry = self._volumes[name] = Entry.of(volume)
        placed = self._shelf.placed.get(name)
        if placed is None:
            self._waiting[name] = None
        elif placed.is_like(entry):
            self._shelf.set_free(placed, is_free=True)
        else:
            self._is_stale = True

    def remove(self, name: str) -> None:
        """A volume is not free any more. Unknown ones are fine."""
        if self._volumes.pop(name, None) is None:
            return
        self._waiting.pop(name, None)
        placed = self._shelf.placed.get(name)
        if placed is not None:
            self._shelf.set_free(placed, is_free=False)

    # -- choosing ---------------------------------------------------------------------------------

    def choose(
        self,
        wanted: VolumeRequest,
        rows: Rows,
        *,
        after: Positions | None = None,
        taken: Sequence[Positions] = (),
    ) -> Positions:
        """The smallest volume that will do for each of ``rows``, as places; NONE = there is none.

        Places are good until a volume comes or goes.

        Args:
            wanted: What the claim asks for.
            rows: Where.
            after: Only volumes at later places, on each of ``rows``; None = any.
            taken: Places that are given away already there, each as long as ``rows``.
        """
        self._settle()
        first, following = self._choices.first, self._choices.next
        best = first(wanted, rows) if after is None else following(wanted, rows, after)
        open_rows = np.arange(len(rows)) if taken else np.zeros(0, dtype=np.intp)
        while len(open_rows):
            here = best[open_rows]
            is_taken = np.zeros(len(open_rows), dtype=np.bool_)
            for places in taken:
                is_taken |= (places[open_rows] == here) & (here != NONE)
            open_rows, here = open_rows[is_taken], here[is_taken]
            best[open_rows] = following(wanted, rows[open_rows], here)
        return best

    def topology_groups(self, rows: Rows) -> list[npt.NDArray[np.integer[Any] | np.bool_]]:
        """By each way of reaching volumes what tells rows apart: rows that are alike get alike."""
        self._settle()
        label, mask = self._nodes.label, self._reaches.mask
        return [
            label(key).codes[rows] if isinstance(key, str) else mask(key)[rows]
            for key in self._shelf.groups
        ]

    def at(self, place: int) -> PersistentVolume:
        """Returns the volume at a place that ``choose`` gave."""
        return self._volumes[self._shelf.order[place][1]].volume

    # -- places -----------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Gives a place to every volume that waits for one."""
        dead = len(self._shelf.order) + len(self._waiting) - len(self._volumes)
        is_crowded = dead > max(2 * INSERTIONS_MAX, len(self._volumes))
        if self._is_stale or is_crowded or len(self._waiting) > INSERTIONS_MAX:
            self._shelf.build(self._volumes.values())
            self._is_stale = False
        else:
            for name in self._waiting:
                self._shelf.insert(self._volumes[name])
        self._waiting.clear()
