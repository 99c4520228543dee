"""The free volumes of one class, and the smallest matching one for every node.

They are sorted by size, then by name, so "the smallest" is the first available one::

    put, remove ──> FreeVolumeList: flags and insertions ──> FirstMatchIndex: a lookup per row in
                    (many at once: rebuilt)                  results that follow the flags
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mooring.objects.storage import PersistentVolume
from mooring.state.tables.nodes import NodeTable
from mooring.state.types import Rows
from mooring.state.volumes.free_index.first_match import NONE, FirstMatchIndex, VolumeRequest
from mooring.state.volumes.free_index.groups import Entry, Positions
from mooring.state.volumes.free_index.sorted_list import FreeVolumeList
from mooring.state.volumes.topology import TopologyMasks

#: Up to this many new volumes are inserted one by one; more cost as much as a rebuild.
INSERTIONS_MAX: Final = 32


class FreeVolumes:
    """The free volumes of a class. Owned by Storage.

    Complexity: ``choose`` is O(rows), vectorized, for a cached request, and O(volumes) more for a
    new one; O(rows) more for each topology that is not given by one label.
    """

    def __init__(self, nodes: NodeTable, masks: TopologyMasks) -> None:
        self._nodes = nodes
        self._masks = masks
        self._volumes: dict[str, Entry] = {}
        self._list = FreeVolumeList()
        self._index = FirstMatchIndex(nodes, masks, self._list)
        self._pending: dict[str, None] = {}
        self._is_stale = False

    def __len__(self) -> int:
        """Returns the number of free volumes."""
        return len(self._volumes)

    def volumes(self) -> list[PersistentVolume]:
        """Returns the free volumes."""
        return [entry.volume for entry in self._volumes.values()]

    # -- changes of volumes -----------------------------------------------------------------------

    def put(self, volume: PersistentVolume) -> None:
        """Adds or updates a free volume."""
        name = volume.metadata.name
        entry = self._volumes[name] = Entry.of(volume)
        placed = self._list.placed.get(name)
        if placed is None:
            self._pending[name] = None
        elif placed.is_like(entry):
            self._list.set_free(placed, is_free=True)
        else:
            self._is_stale = True

    def remove(self, name: str) -> None:
        """Removes a volume that is no longer free. Unknown names are ignored."""
        if self._volumes.pop(name, None) is None:
            return
        self._pending.pop(name, None)
        placed = self._list.placed.get(name)
        if placed is not None:
            self._list.set_free(placed, is_free=False)

    # -- choosing ---------------------------------------------------------------------------------

    def choose(
        self,
        request: VolumeRequest,
        rows: Rows,
        *,
        after: Positions | None = None,
        taken: Sequence[Positions] = (),
    ) -> Positions:
        """Returns the position of the smallest matching volume for each row; NONE = none.

        Positions are valid until a volume is added or removed.

        Args:
            request: The requirements of the claim.
            rows: The rows of the nodes.
            after: Only volumes at later positions, per row; None = any.
            taken: Positions that are already assigned there, each as long as ``rows``.
        """
        self._insert_pending()
        first, following = self._index.first, self._index.next
        best = first(request, rows) if after is None else following(request, rows, after)
        open_rows = np.arange(len(rows)) if taken else np.zeros(0, dtype=np.intp)
        while len(open_rows):
            candidate = best[open_rows]
            is_taken = np.zeros(len(open_rows), dtype=np.bool_)
            for positions in taken:
                is_taken |= (positions[open_rows] == candidate) & (candidate != NONE)
            open_rows, candidate = open_rows[is_taken], candidate[is_taken]
            best[open_rows] = following(request, rows[open_rows], candidate)
        return best

    def topology_groups(self, rows: Rows) -> list[npt.NDArray[np.integer[Any] | np.bool_]]:
        """Returns columns by topology; rows with equal values get the same volumes."""
        self._insert_pending()
        label, mask = self._nodes.label, self._masks.mask
        return [
            label(key).codes[rows] if isinstance(key, str) else mask(key)[rows]
            for key in self._list.groups
        ]

    def at(self, position: int) -> PersistentVolume:
        """Returns the volume at a position returned by ``choose``."""
        return self._volumes[self._list.order[position][1]].volume

    # -- positions --------------------------------------------------------------------------------

    def _insert_pending(self) -> None:
        """Inserts the pending volumes into the list, or rebuilds it."""
        stale_count = len(self._list.order) + len(self._pending) - len(self._volumes)
        has_many_stale = stale_count > max(2 * INSERTIONS_MAX, len(self._volumes))
        if self._is_stale or has_many_stale or len(self._pending) > INSERTIONS_MAX:
            self._list.build(self._volumes.values())
            self._is_stale = False
        else:
            for name in self._pending:
                self._list.insert(self._volumes[name])
        self._pending.clear()
