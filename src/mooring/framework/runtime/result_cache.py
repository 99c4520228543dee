"""Cached results of plugins by pod signature, refreshed for the nodes in the change log.

When a thousand replicas are scheduled, usually one node has changed between two attempts. So the
statuses and raw scores of all nodes are cached as columns, and for the next pod with the same
signature the plugins are called only for the rows in the change log. A full refresh is the same
code with all rows; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from mooring.framework.cycle_state import Cycle
from mooring.framework.equal_nodes import ChangedNodes, EqualNodes
from mooring.framework.interface import MAX_SCORE, MIN_SCORE
from mooring.framework.node_info import NodeInfo
from mooring.framework.node_view import NodeView
from mooring.framework.runtime.combined_results import CombinedCache
from mooring.framework.runtime.filter_results import FEW_ROWS, NOT_VISITED, FilterResults
from mooring.framework.status import FilterStatuses, Skip, Status
from mooring.state.columns.caches import LRUCache
from mooring.state.columns.change_log import Change
from mooring.state.snapshot import Snapshot
from mooring.state.types import Rows

#: Memory limit of the cache; the least recently used entries are evicted.
MEMORY_LIMIT_BYTES = 64 << 20


class CacheablePlugin(NamedTuple):
    """A cacheable plugin, and the columns that its result for a node depends on.

    ``reads`` are columns of that node, ``reads_other_nodes`` of others; both are ``Change`` ints.
    """

    number: int
    reads: int
    reads_other_nodes: int
    has_one_node_form: bool
    #: True if its result for a node depends on the amounts of the node alone.
    amounts_only: bool = False
    #: True for a score plugin without ``normalize``: its raw scores are final.
    is_final: bool = False
    #: The result of ``normalize`` if all raw scores are zero; None = it has to be called.
    normalized_zero: int | None = None
    #: The weight of its scores in the total.
    weight: int = 1


#: The live rows that have changed (None = all), which columns, and the nodes if they are few.
_Changes = tuple[Rows | None, int, ChangedNodes | None]


class FilterCaller(Protocol):
    """Calls filter plugin ``number`` for a view, or for some nodes one by one."""

    def call_view(self, number: int, view: NodeView) -> FilterStatuses:
        """Returns the statuses of the nodes of a view."""
        ...

    def call_nodes(self, number: int, nodes: list[NodeInfo]) -> list[Status | None]:
        """Returns the status of each node."""
        ...


class ScoreCaller(Protocol):
    """Calls score plugin ``number`` for a view, or for some nodes one by one."""

    def call_view(self, number: int, view: NodeView) -> npt.NDArray[np.int64]:
        """Returns the raw scores of the nodes of a view."""
        ...

    def call_nodes(self, number: int, nodes: list[NodeInfo]) -> list[int]:
        """Returns the raw score of each node."""
        ...


_EXISTENCE = int(Change.EXISTENCE)
_ALL = int(Change.ALL)


class Restored(NamedTuple):
    """The states and skips that the cached plugins of PreFilter or PreScore leave in a cycle."""

    states: dict[str, Any]
    #: With the plugins that do not apply to the pod.
    skipped: frozenset[str]
    #: The other plugins that apply to the pod, in order.
    uncached: tuple[Any, ...]

    def to_call(self, plugins: Sequence[Any], cycle: Cycle) -> Sequence[Any]:
        """Returns those of ``plugins`` whose result is not restored."""
        if not cycle.is_timed:
            return self.uncached
        names = {plugin.name for plugin in self.uncached} | cycle.idle_plugins
        return [plugin for plugin in plugins if plugin.name in names]


def restored_results(
    plugins: Sequence[Any], cache: Mapping[str, tuple[Any, Any]], idle: frozenset[str]
) -> Restored | None:
    """Returns the cached results in one piece; None if one rejects the pod or narrows the nodes.

    ``idle`` are the names of the plugins that do not apply to the pod.
    """
    states: dict[str, Any] = {}
    skipped = [*idle]
    for name, (result, state) in cache.items():
        if result is Skip.SKIP:
            skipped.append(name)
        elif result is not None:
            return None
        if state is not None:
            states[name] = state
    uncached = tuple([plugin for plugin in plugins if plugin.name not in cache])
    return Restored(states, frozenset(skipped), uncached)


class CachedResults:
    """The cached results of one signature.

    ``raw[s]`` int64 shape (capacity,): the raw scores of score plugin s.

    Args:
        filters: The names of the filters.
        n_scores: The number of score plugins.
        capacity: The length of the columns.
        evicted: An entry whose columns are reused, and nothing else; it is not used any more.
    """

    __slots__ = (
        "_constant",
        "_filter_generation",
        "_last_changes",
        "_score_generation",
        "_summed",
        "_weighted",
        "capacity",
        "combined",
        "constants",
        "equal_filtered",
        "equal_scored",
        "final_total",
        "finals",
        "in_range",
        "is_zero",
        "pre_filtered",
        "pre_scored",
        "raw",
        "restored_pre_filter",
        "restored_pre_score",
        "results",
    )

    def __init__(
        self,
        filters: tuple[str, ...],
        n_scores: int,
        capacity: int,
        evicted: CachedResults | None = None,
    ) -> None:
        self.capacity = capacity
        if evicted is None:
            self.results = FilterResults(filters, capacity)
            self.raw = [np.zeros(capacity, dtype=np.int64) for _ in range(n_scores)]
            #: The weighted sum of the scores of ``finals`` by row.
            self.final_total = np.zeros(capacity, dtype=np.int64)
        else:
            # Scores are not cleared: they are overwritten where there is a node, and not used
            # elsewhere.
            evicted.results.clear()
            self.results, self.raw = evicted.results, evicted.raw
            self.final_total = evicted.final_total
        #: Plugin name -> (result of pre_filter or pre_score, the state it stored).
        self.pre_filtered: dict[str, tuple[Any, Any]] = {}
        self.pre_scored: dict[str, tuple[Any, Any]] = {}
        #: The former in one piece, once all plugins have run without a rejection.
        self.restored_pre_filter: Restored | None = None
        self.restored_pre_score: Restored | None = None
        #: By score plugin: True if its scores are final and 0..100 on every row.
        self.in_range = [False] * n_scores
        #: By score plugin: True if its raw scores are 0 on every row.
        self.is_zero = [False] * n_scores
        #: The score plugins in ``final_total``: scores are final, or the same for all nodes.
        self.finals: tuple[int, ...] = ()
        #: The scores of the latter.
        self.constants: dict[int, int] = {}
        #: The combinations with columns of other filters; they follow the filter results.
        self.combined = CombinedCache()
        #: The results of the filters, and raw scores, by the amounts of a node.
        self.equal_filtered, self.equal_scored = EqualNodes(), EqualNodes()
        #: What ``_set_finals`` was called for, and what it has set: columns with their weights.
        self._summed: tuple[Any, ...] = ()
        self._weighted: list[tuple[npt.NDArray[np.int64], int]] = []
        self._constant = 0
        self._filter_generation = -1
        self._score_generation = -1
        #: The last result of ``_changed``, and its two generations.
        self._last_changes: tuple[tuple[int, int], _Changes] | None = None

    def refresh_filters(
        self,
        snapshot: Snapshot,
        plugins: list[CacheablePlugin],
        caller: FilterCaller,
        *,
        is_timed: bool = False,
    ) -> None:
        """Updates the filter results to the snapshot; calls all plugins if they are timed."""
        if self._filter_generation == snapshot.generation:
            return
        rows, columns, nodes = self._changed(snapshot, self._filter_generation)
        is_full, is_other = rows is None, False
        for plugin in plugins:
            number = plugin.number
            if rows is None or columns & plugin.reads_other_nodes:
                view = NodeView.all_nodes(snapshot)
                self.results.set_codes(
                    number, _rows_index(view, snapshot), caller.call_view(number, view)
                )
                is_full = True
            elif not len(rows) or not columns & (plugin.reads | _EXISTENCE):
                continue
            elif plugin.has_one_node_form and nodes is not None:
                if plugin.amounts_only and not is_timed:
                    statuses = self.equal_filtered.results(number, nodes, caller.call_nodes)
                else:
                    statuses = caller.call_nodes(number, nodes.infos())
                for row, status in zip(nodes.rows, statuses, strict=True):
                    is_other |= self.results.set_code(number, row, status)
            else:
                self.results.set_codes(
                    number, rows, caller.call_view(number, NodeView(snapshot, rows))
                )
                is_other = True
        changed = None if is_full else rows
        if is_full or is_other or columns & _EXISTENCE:
            self._update_first_rejections(snapshot, changed, columns)
        self.combined.note(changed)
        self._filter_generation = snapshot.generation

    def refresh_scores(
        self,
        snapshot: Snapshot,
        plugins: list[CacheablePlugin],
        caller: ScoreCaller,
        *,
        is_timed: bool = False,
    ) -> None:
        """Updates the raw scores to the snapshot; calls all plugins if they are timed."""
        if self._score_generation == snapshot.generation:
            return
        rows, columns, nodes = self._changed(snapshot, self._score_generation)
        is_full = rows is None
        for plugin in plugins:
            number, raw = plugin.number, self.raw[plugin.number]
            if rows is None or columns & plugin.reads_other_nodes:
                view = NodeView.all_nodes(snapshot)
                scores = caller.call_view(number, view)
                raw[_rows_index(view, snapshot)] = scores
                is_full = True
                self.in_range[number] = plugin.is_final and are_scores(scores)
            elif not len(rows) or not columns & (plugin.reads | _EXISTENCE):
                continue
            elif plugin.has_one_node_form and nodes is not None:
                if plugin.amounts_only and not is_timed:
                    of_nodes = self.equal_scored.results(number, nodes, caller.call_nodes)
                else:
                    of_nodes = caller.call_nodes(number, nodes.infos())
                for row, score in zip(nodes.rows, of_nodes, strict=True):
                    raw[row] = score
                    self.in_range[number] &= MIN_SCORE <= score <= MAX_SCORE
            else:
                raw[rows] = scores = caller.call_view(number, NodeView(snapshot, rows))
                self.in_range[number] &= are_scores(scores)
            if plugin.normalized_zero is not None:
                self.is_zero[number] = not np.count_nonzero(raw[: snapshot.nodes.size])
        self._add_up(None if is_full else rows, plugins)
        self._score_generation = snapshot.generation

    def _add_up(self, rows: Rows | None, plugins: list[CacheablePlugin]) -> None:
        """Recomputes the sum of the final scores on ``rows``; None = on all of them."""
        summed = (plugins, *self.in_range, *self.is_zero)
        if summed != self._summed:
            self._summed = summed
            if self._set_finals(plugins):
                rows = None
        if rows is not None and len(rows) <= FEW_ROWS:
            for row in rows.tolist():
                total = self._constant
                for raw, weight in self._weighted:
                    total += raw.item(row) * weight
                self.final_total[row] = total
            return
        at = slice(None) if rows is None else rows
        length = self.capacity if rows is None else len(rows)
        totals = np.full(length, self._constant, dtype=np.int64)
        for raw, weight in self._weighted:
            totals += raw[at] * weight
        self.final_total[at] = totals

    def _set_finals(self, plugins: list[CacheablePlugin]) -> bool:
        """Sets what is part of the sum; returns whether other plugins are than before."""
        finals = [plugin for plugin in plugins if self.in_range[plugin.number]]
        constants = {
            plugin.number: plugin.normalized_zero
            for plugin in plugins
            if plugin.normalized_zero is not None and self.is_zero[plugin.number]
        }
        self._weighted = [(self.raw[plugin.number], plugin.weight) for plugin in finals]
        self._constant = sum(plugin.weight * constants.get(plugin.number, 0) for plugin in plugins)
        numbers = (*[plugin.number for plugin in finals], *constants)
        if numbers == self.finals:
            return False
        self.finals, self.constants = numbers, constants
        return True

    def _update_first_rejections(self, snapshot: Snapshot, rows: Rows | None, columns: int) -> None:
        nodes = snapshot.nodes
        self.results.recompute_first(rows, nodes.size)
        if rows is None or columns & _EXISTENCE:
            dead = np.flatnonzero(~nodes.alive[: nodes.size])
            if len(dead):
                self.results.set_many(dead, NOT_VISITED)

    def _changed(self, snapshot: Snapshot, generation: int) -> _Changes:
        """Returns what has changed since ``generation``."""
        generations = generation, snapshot.generation
        if self._last_changes is None or self._last_changes[0] != generations:
            rows, columns = self._changed_rows(snapshot, generation)
            nodes = None
            if rows is not None and len(rows) <= FEW_ROWS:
                nodes = ChangedNodes(snapshot, rows.tolist())
            self._last_changes = generations, (rows, columns, nodes)
        return self._last_changes[1]

    @staticmethod
    def _changed_rows(snapshot: Snapshot, generation: int) -> tuple[Rows | None, int]:
        nodes = snapshot.nodes
        changes = nodes.log.since(generation) if generation >= 0 else None
        if changes is None:
            return None, _ALL
        rows, columns = changes
        if len(rows) == 1:
            row = int(rows[0])
            live = rows.astype(np.intp) if nodes.alive[row] else np.zeros(0, dtype=np.intp)
            return live, int(columns[0])
        if len(rows) > nodes.size // 2:
            return None, _ALL
        if len(rows) <= FEW_ROWS:
            kinds = reduce(or_, columns.tolist())
        else:
            kinds = int(np.bitwise_or.reduce(columns))
        return _distinct(rows, nodes.alive), kinds


def _rows_index(view: NodeView, snapshot: Snapshot) -> slice | Rows:
    """Returns the index of the rows of ``view``, a view of every node."""
    size = snapshot.nodes.size
    return slice(size) if len(view) == size else view.rows


def are_scores(scores: npt.NDArray[np.int64]) -> bool:
    """Returns whether all of ``scores`` are 0..100."""
    # As uint64, negative scores are far above 100: one comparison checks both ends.
    return not len(scores) or int(np.maximum.reduce(scores.view(np.uint64))) <= MAX_SCORE


def _distinct(rows: npt.NDArray[np.int32], alive: npt.NDArray[np.bool_]) -> Rows:
    """Returns the distinct live rows of ``rows``, in order."""
    if len(rows) > FEW_ROWS:
        is_changed = np.zeros(len(alive), dtype=np.bool_)
        is_changed[rows] = True
        return (is_changed & alive).nonzero()[0]
    live = [row for row in sorted(set(rows.tolist())) if alive.item(row)]
    return np.array(live, dtype=np.intp)


class ResultCache:
    """Signature -> CachedResults: an LRU cache with a memory limit."""

    __slots__ = ("_entries", "_filters", "_n_scores", "hits", "misses", "reuses_buffers")

    def __init__(self, filters: tuple[str, ...], n_scores: int) -> None:
        self._filters = filters
        self._n_scores = n_scores
        self._entries: LRUCache[Hashable, CachedResults] = LRUCache(self._limit(0))
        #: True if evicted entries' buffers are reused: unsafe while an attempt is suspended on an
        #: extender.
        self.reuses_buffers = True
        self.hits = 0
        self.misses = 0

    def __len__(self) -> int:
        return len(self._entries)

    def of(self, signature: Hashable, capacity: int) -> CachedResults:
        """Returns the cached results for ``signature``; a new entry if there is none."""
        entry = self._entries.recent(signature)
        if entry is not None and entry.capacity == capacity:
            self.hits += 1
            return entry
        self.misses += 1
        self._entries.pop(signature, None)
        self._entries.limit = self._limit(capacity)
        evicted = self._entries.evict(space=1)
        entry = evicted[-1][1] if evicted else None
        if not self.reuses_buffers or (entry is not None and entry.capacity != capacity):
            entry = None  # else its memory is reused, which is much cheaper than to allocate it
        entry = CachedResults(self._filters, self._n_scores, capacity, entry)
        return self._entries.put(signature, entry)

    def clear(self) -> None:
        """Invalidates all entries."""
        self._entries.clear()

    def _limit(self, capacity: int) -> int:
        n_int64 = self._n_scores + 1  # with their sum
        entry_bytes = capacity * (2 + 2 * len(self._filters) + 8 * n_int64) + 4096
        return max(8, MEMORY_LIMIT_BYTES // entry_bytes)
