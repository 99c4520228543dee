"""Incremental index: the smallest matching free volume per node.

The next claim of a template requests the same as the one before it, and one volume was taken in
between. So results are cached per request, and updated for the volumes that were added or taken.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np

from mooring.objects.selectors import Selector
from mooring.state.columns.labels import MISSING
from mooring.state.tables.nodes import NodeTable
from mooring.state.types import Bools, Rows
from mooring.state.volumes.free_index.groups import (
    CachedResult,
    Entry,
    Group,
    Positions,
    Remaining,
    VolumeTraits,
)
from mooring.state.volumes.free_index.sorted_list import FreeVolumeList
from mooring.state.volumes.topology import ALL_NODES, NodeTopology, TopologyMasks

#: No volume.
NONE: Final = -1

#: Maximum number of cached results, of two bytes per volume, eight per label value and row.
_CACHED_MAX: Final = 32

#: Up to this many rows, a list of positions per row is faster than columns.
_FEW_ROWS: Final = 16

#: After more changes than this, the first volume of every row is recomputed.
_ROW_CHANGES_MAX: Final = 4

#: Smaller than any volume.
_ANY_SIZE: Final = -(2**200)

#: Up to this many changes are applied one by one; more cost as much as a rebuild.
_CHANGES_MAX: Final = 64


class VolumeRequest(NamedTuple):
    """The requirements of a claim for a volume.

    Attributes:
        nanos: Requested size in billionths of a byte, as ``Quantity`` counts.
        volume_mode: "Filesystem" or "Block".
        attributes_class: Its VolumeAttributesClass; "" = none.
        access_modes: The volume must have all of them.
        selector: The volume's labels must match it; None = any.
    """

    nanos: int
    volume_mode: str
    attributes_class: str
    access_modes: tuple[str, ...]
    selector: Selector | None


class FirstMatchIndex:
    """The first volumes of a list that match a claim's request, as positions.

    Complexity: O(rows), vectorized, for a cached request; O(volumes) more for a new one.
    """

    def __init__(self, nodes: NodeTable, masks: TopologyMasks, volume_list: FreeVolumeList) -> None:
        self._nodes = nodes
        self._masks = masks
        self._list = volume_list
        self._version = volume_list.version
        self._cached: dict[VolumeRequest, CachedResult] = {}

    def first(self, request: VolumeRequest, rows: Rows) -> Positions:
        """Returns the first matching volume of each row; cached for all rows."""
        cached = self._cached_result(request)
        if cached.best is None:
            cached.best = self._first_on(cached, np.arange(self._nodes.capacity, dtype=np.intp))
        return cached.best.take(rows)

    def _first_on(self, cached: CachedResult, rows: Rows) -> Positions:
        none, best = len(self._list.order), None
        for key, group in self._list.groups.items():
            if isinstance(key, str):
                first = self._first_by_code(key, group, cached)[self._nodes.label(key).codes[rows]]
            else:
                positions = group.positions[cached.is_available[group.positions]]
                position = positions[0] if len(positions) else none
                first = self._where_reachable(
                    key, rows, np.full(len(rows), position, dtype=np.intp)
                )
            best = first if best is None else np.minimum(best, first)
        if best is None:
            return np.full(len(rows), NONE, dtype=np.intp)
        best[best == none] = NONE
        return best

    def _first_by_code(self, key: str, group: Group, cached: CachedResult) -> Positions:
        """Returns the first available volume, by the code of the label ``key``."""
        column, none = self._nodes.label(key), len(self._list.order)
        by_code = group.by_code(column)
        entry = cached.first_by_code.get(key)
        if entry is not None and entry[0] is by_code:
            return entry[1]
        first = np.full(len(column.values) + 1, none, dtype=np.intp)  # the last: no label
        if len(by_code.codes):
            remaining = np.where(cached.is_available[by_code.positions], by_code.positions, none)
            first[by_code.codes] = np.minimum.reduceat(remaining, by_code.starts)
        cached.first_by_code[key] = by_code, first
        return first

    def next(self, request: VolumeRequest, rows: Rows, after: Positions) -> Positions:
        """Returns the first matching volume after a position, which differs by row.

        Volumes are sorted by size. So "large enough" means "from this position on", and claims
        that differ only in size share one cached result.
        """
        cached, none = self._cached_result(request._replace(nanos=_ANY_SIZE)), len(self._list.order)
        after = np.maximum(after, self._list.first_position(request.nanos) - 1)
        if len(rows) <= _FEW_ROWS:
            pairs = zip(rows.tolist(), after.tolist(), strict=True)
            return np.array([self._next_on(cached, *pair) for pair in pairs], dtype=np.intp)
        best = np.full(len(rows), none, dtype=np.intp)
        for key, group in self._list.groups.items():
            remaining = self._remaining(key, group, cached)
            if isinstance(key, str):
                following = remaining.next_of(self._nodes.label(key).codes[rows], after)
            else:
                following = self._where_reachable(key, rows, remaining.next(after))
            np.minimum(best, following, out=best)
        best[best == none] = NONE
        return best

    def _next_on(self, cached: CachedResult, row: int, after: int) -> int:
        """Returns the same as ``next`` for one row, from a plain list of its volumes."""
        positions = cached.by_row.get(row)
        if positions is None:
            positions = cached.by_row[row] = []
            for key, group in self._list.groups.items():
                remaining = self._remaining(key, group, cached)
                if isinstance(key, str):
                    positions += remaining.with_code(int(self._nodes.label(key).codes[row]))
                elif key == ALL_NODES or self._masks.mask(key)[row]:
                    positions += remaining.positions[:-1].tolist()
            positions.sort()
        index = bisect_right(positions, after)
        return positions[index] if index < len(positions) else NONE

    def _remaining(self, key: str | NodeTopology, group: Group, cached: CachedResult) -> Remaining:
        """Returns the available volumes of a group."""
        by_code = group.by_code(self._nodes.label(key)) if isinstance(key, str) else None
        entry = cached.remaining_by_group.get(key)
        if entry is not None and entry[0] is by_code:
            return entry[1]
        none = len(self._list.order)
        if by_code is not None:
            remaining = by_code.remaining(cached.is_available, none)
        else:
            remaining = Remaining(
                np.append(group.positions[cached.is_available[group.positions]], none)
            )
        cached.remaining_by_group[key] = by_code, remaining
        return remaining

    def _where_reachable(
        self, topology: NodeTopology, rows: Rows, positions: Positions
    ) -> Positions:
        if topology == ALL_NODES:
            return positions
        return np.where(self._masks.mask(topology)[rows], positions, len(self._list.order))

    # -- matching of volumes ---------------------------------------------------------------------

    def _cached_result(self, request: VolumeRequest) -> CachedResult:
        """Returns the cached result of the request, updated to the current volumes."""
        if self._version != self._list.version:
            self._cached.clear()
            self._version = self._list.version
        cached, now = self._cached.get(request), len(self._list.changes)
        if cached is None:
            if len(self._cached) >= _CACHED_MAX:
                self._cached.clear()
            cached = self._cached[request] = CachedResult(
                self._matches(request), self._list.is_free, now
            )
        cached.invalidate_if_stale(self._masks.version)
        if now - cached.applied_changes > _CHANGES_MAX:
            cached.reset(self._list.is_free, now)
        elif cached.applied_changes < now:
            self._invalidate_if_stale(cached)
        return cached

    def _invalidate_if_stale(self, cached: CachedResult) -> None:
        cached.clear_remaining()
        if len(self._list.changes) - cached.applied_changes > _ROW_CHANGES_MAX:
            cached.best = None
        for key, (by_code, _) in list(cached.first_by_code.items()):
            if self._list.groups[key].by_code(self._nodes.label(key)) is not by_code:
                del cached.first_by_code[key]
        for position in self._list.changes[cached.applied_changes :]:
            cached.is_available[position] = (
                cached.is_match[position] and self._list.is_free[position]
            )
            self._update(cached, self._list.at(position))
        cached.applied_changes = len(self._list.changes)

    def _update(self, cached: CachedResult, changed: Entry) -> None:
        """Recomputes the first volumes for the nodes that can reach this one."""
        if not isinstance(changed.key, str) or changed.key not in cached.first_by_code:
            cached.best = None
            return
        by_code, first = cached.first_by_code[changed.key]
        column = self._nodes.label(changed.key)
        for code in map(column.values.find, changed.values):
            if code == MISSING:
                continue
            first[code] = position = by_code.first(code, cached.is_available, len(self._list.order))
            if cached.best is not None:
                rows = (column.codes == code).nonzero()[0]
                if len(self._list.groups) > 1:
                    cached.best[rows] = self._first_on(cached, rows)
                else:
                    cached.best[rows] = position if position < len(self._list.order) else NONE

    def _matches(self, request: VolumeRequest) -> Bools:
        """Returns a mask of the volumes that match the request, free or not, on any node."""
        is_match: Bools = _matches_traits(self._list.traits_ids, request)[self._list.traits_of]
        is_match[: self._list.first_position(request.nanos)] = False
        if request.selector is not None:
            matches = request.selector.matches
            labels = (
                self._list.placed[name].volume.metadata.labels for _, name in self._list.order
            )
            is_match &= np.array(
                [matches(volume_labels) for volume_labels in labels], dtype=np.bool_
            )
        return is_match


def _matches_traits(all_traits: Iterable[VolumeTraits], request: VolumeRequest) -> Bools:
    """Returns a mask of the traits that match a request; size and labels are not compared."""
    requested_modes = set(request.access_modes)
    results = [
        traits.volume_mode == request.volume_mode
        and traits.attributes_class == request.attributes_class
        and requested_modes <= set(traits.access_modes)
        for traits in all_traits
    ]
    return np.array(results, dtype=np.bool_)
