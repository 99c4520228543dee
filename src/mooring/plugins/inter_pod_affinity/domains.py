"""Counts of pods by topology domain: sums of counts per row over the values of a topology key."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from mooring.framework import NodeView
from mooring.state import Change, NodeTable, Snapshot
from mooring.state.columns.caches import NodeCache
from mooring.state.columns.grouped import Counts, GroupedCounts, Sums
from mooring.state.columns.kind_columns import LabelClassColumns
from mooring.state.columns.labels import MISSING
from mooring.state.tables.affinity_terms import SharedTerm
from mooring.state.tables.counters import CounterKey, PodLabelClass
from mooring.state.tables.nodes import Scalar
from mooring.state.types import Bools

Ids = npt.NDArray[np.intp]

#: Sums of floats are exact below this.
EXACT_MAX: Final = 2**53

#: Maximum number of cached columns: 40 KB each at 5 000 nodes; clusters have few topology keys.
CACHED_COLUMNS_MAX: Final = 64

#: With more keys than this, one pass over the nodes' labels is faster than a column for each, and
#: a pod with many keys does not evict the cached columns of other pods.
KEYS_MAX: Final = 32

#: A pod with more terms than this gets no counters of its own: they would evict those of others.
COUNTERS_MAX: Final = 48

#: With more new keys than this at once, their columns are read in one pass too, but cached.
NEW_KEYS_MAX: Final = 8


@dataclass(frozen=True, slots=True, eq=False)
class KeyColumn:
    """The values of a topology key by row, as groups of rows; immutable.

    Attributes:
        of_row: The number of each row's value, intp shape (rows,), rows in use or not.
        missing: The number for nodes without the key; the highest one.
        has_key: The nodes with the key, bool shape (rows,); None = every node has it.
        is_alone: True if no two nodes have the same value, as of kubernetes.io/hostname. Then
            arrays by value are indexed by row and have shape (rows,).
    """

    of_row: Ids
    missing: int
    has_key: Bools | None
    is_alone: bool

    def add_up(self, counts: Counts) -> Sums:
        """Returns counts per row summed by value, as a new array; 0 for nodes without the key."""
        counts = counts[: len(self.of_row)]
        if self.is_alone:
            has_key = True if self.has_key is None else self.has_key
            return np.multiply(counts, has_key, dtype=np.int64)
        if counts.dtype == np.int32 or _are_exact(counts):
            sums = np.bincount(self.of_row, counts, self.missing + 1).astype(np.int64)
        else:
            sums = np.zeros(self.missing + 1, dtype=np.int64)
            np.add.at(sums, self.of_row, counts)  # wraps, as upstream's int64 does
        sums[self.missing] = 0
        return sums

    def add(self, sums: Sums, row: int, by: int) -> None:
        """Adds ``by`` pods on ``row`` to the sums by value; see ``Groups``."""
        if row >= len(self.of_row):
            return  # a row added after this column: it is in a newer column
        value = row if self.is_alone else int(self.of_row[row])
        if self.has_key is None or self.has_key[row]:
            sums[value] += by

    def sums(self, counts: GroupedCounts) -> Sums:
        """Returns the counts summed by value, as a new array."""
        if self.is_alone:  # one node per value: no sums to cache
            return self.add_up(counts.column())
        return counts.sums_over(self).copy()

    def no_pods(self) -> Domains:
        """Returns domains with all counts 0."""
        length = len(self.of_row) if self.is_alone else self.missing + 1
        return Domains(self, np.zeros(length, dtype=np.int64))

    def at(self, by_value: npt.NDArray[Scalar], nodes: NodeView) -> npt.NDArray[Scalar]:
        """Returns the entry of an array by value for each node's value; shape (m,)."""
        if self.is_alone:
            return nodes.take(by_value)
        return by_value.take(nodes.take(self.of_row))

    def nodes_with_key(self, nodes: NodeView) -> Bools:
        """Returns the nodes that have the key, bool shape (m,)."""
        if self.has_key is None:
            return np.ones(len(nodes), dtype=np.bool_)
        return nodes.take(self.has_key)


@dataclass(frozen=True, slots=True)
class Domains:
    """Counts of pods by the domains of one topology key.

    Attributes:
        column: The values of the key.
        counts: The number of pods by value, int64; 0 for nodes without the key.
        change: The change on each of m hypothetical nodes, in its own domain, int64 shape (m,).
    """

    column: KeyColumn
    counts: Sums
    change: Sums | None = None

    def has_matching_pods(self, nodes: NodeView) -> Bools:
        """Returns the nodes with a counted pod in their domain, bool shape (m,)."""
        if self.change is None:
            return self.column.at(self.counts > 0, nodes)
        has_key = self.column.nodes_with_key(nodes)
        counts = (self.column.at(self.counts, nodes) + self.change) * has_key
        has_pods: Bools = counts > 0
        return has_pods


class KeyColumns:
    """A cache of the columns of topology keys, invalidated when nodes or labels change.

    One per plugin. Complexity: O(1) for a cached key, O(nodes) for a new one.
    """

    def __init__(self) -> None:
        self._cache: NodeCache[str, KeyColumn] = NodeCache(
            CACHED_COLUMNS_MAX, Change.EXISTENCE | Change.LABELS
        )

    def of(self, snapshot: Snapshot, keys: Iterable[str]) -> dict[str, KeyColumn]:
        """Returns the columns of those keys that any node has, at the snapshot's state."""
        nodes = snapshot.nodes
        present = [key for key in keys if nodes.has_label(key)]
        if not present:
            return {}
        if len(present) > KEYS_MAX:
            return _read_labels(nodes, present)
        self._cache.invalidate_if_stale(nodes.log, nodes.size)
        new = [key for key in present if key not in self._cache]
        read = _read_labels(nodes, new) if len(new) > NEW_KEYS_MAX else {}
        columns = {}
        for key in present:
            column = self._cache.recent(key)
            if column is None:
                column = read.get(key) or _column(nodes, nodes.label(key).codes)
                self._cache.put(key, column)
            if column.missing:
                columns[key] = column
        return columns


def _column(nodes: NodeTable, codes: npt.NDArray[np.int32]) -> KeyColumn:
    """Returns the column of a key whose values have these numbers, shape (capacity,)."""
    codes = codes[: nodes.size]
    has_key = codes != MISSING
    missing = int(codes.max()) + 1 if has_key.any() else 0
    of_row = np.where(has_key, codes, missing).astype(np.intp)
    sizes = np.bincount(of_row, minlength=missing + 1)
    is_everywhere = bool(has_key[nodes.alive[: nodes.size]].all()) and not _has_gaps(nodes)
    is_alone = missing > 0 and int(sizes[:missing].max()) <= 1
    return KeyColumn(of_row, missing, None if is_everywhere else has_key, is_alone)


def _are_exact(counts: Counts) -> bool:
    """Returns True if any sum of these is exact in float64."""
    return max(int(counts.max()), -int(counts.min())) * len(counts) < EXACT_MAX


def _has_gaps(nodes: NodeTable) -> bool:
    """Returns True if there are rows without a node; pods on them are in no domain."""
    return len(nodes) != nodes.size


def _read_labels(nodes: NodeTable, keys: list[str]) -> dict[str, KeyColumn]:
    """Returns the columns of many keys at once. Complexity: O(labels of all nodes)."""
    columns: dict[str, tuple[array[int], dict[str, int]]] = {
        key: (array("i", [MISSING]) * nodes.capacity, {}) for key in keys
    }
    for row, node in enumerate(nodes.objects):
        labels = node.metadata.labels if node is not None else {}
        for key, value in labels.items():
            column = columns.get(key)
            if column is not None:
                codes, values = column
                codes[row] = values.setdefault(value, len(values))
    return {
        key: _column(nodes, np.frombuffer(codes, dtype=np.int32))
        for key, (codes, _) in columns.items()
    }


# ---------------------------------------------------------------- sums of counters and terms


class WeightedKey(NamedTuple):
    """Pods that count for a topology key, and the weight of each of them."""

    topology_key: str
    pods: CounterKey
    weight: int


def counts_by_domain(
    snapshot: Snapshot, columns: KeyColumns, weighted_keys: list[WeightedKey]
) -> dict[str, Domains]:
    """Returns the counts by domain for each topology key, without keys that no node has.

    Complexity: O(values x terms), and for very many terms O(label classes x terms that match them
    + pods).
    """
    by_key = columns.of(snapshot, dict.fromkeys(item.topology_key for item in weighted_keys))
    sums = sums_of(snapshot, by_key, weighted_keys)
    return {key: Domains(by_key[key], counts) for key, counts in sums.items()}


def sums_of(
    snapshot: Snapshot, columns: dict[str, KeyColumn], weighted_keys: list[WeightedKey]
) -> dict[str, Sums]:
    """Returns the weighted sums by value, for each topology key with a column."""
    weighted_keys = [item for item in weighted_keys if item.topology_key in columns]
    if len(weighted_keys) > COUNTERS_MAX:
        return _sums_by_label_class(snapshot, columns, weighted_keys)
    sums: dict[str, Sums] = {}
    for key, pods, weight in weighted_keys:
        counts = columns[key].sums(snapshot.counters.counter(pods))
        if weight != 1:
            counts *= np.int64(weight)
        sums[key] = sums[key] + counts if key in sums else counts
    return sums


def shared_term_sums(
    columns: dict[str, KeyColumn], shared_terms: Iterable[tuple[SharedTerm, int]]
) -> dict[str, Sums]:
    """Returns the weighted sums of pods with these terms by value, for each key with a column."""
    sums: dict[str, Sums] = {}
    of_rows: dict[str, Sums] = {}
    for shared, weight in shared_terms:
        key = shared.term.topology_key
        column = columns.get(key)
        if column is None:
            continue
        if column.is_alone:
            if key not in of_rows:
                of_rows[key] = np.zeros(shared.rows.capacity, dtype=np.int64)
            shared.rows.add_to(of_rows[key], weight)
        else:
            counts = column.sums(shared.rows) * np.int64(weight)
            sums[key] = sums[key] + counts if key in sums else counts
    return sums | {key: columns[key].add_up(counts) for key, counts in of_rows.items()}


def _sums_by_label_class(
    snapshot: Snapshot, key_columns: dict[str, KeyColumn], weighted_keys: list[WeightedKey]
) -> dict[str, Sums]:
    """Evaluates every term for every label class of pods, in columns, without counters."""
    numbers, classes = _label_classes(snapshot, weighted_keys)
    columns = LabelClassColumns(
        [item.labels for item in classes], (pods.selector for _, pods, _ in weighted_keys)
    )
    is_in: dict[frozenset[str] | None, Bools] = {None: np.ones(len(classes), dtype=np.bool_)}
    matching: dict[CounterKey, Bools] = {}
    weights: dict[str, Sums] = {}
    for key, pods, weight in weighted_keys:
        if pods not in matching:
            names = pods.namespaces
            if names is not None and names not in is_in:
                is_in[names] = np.array([item.namespace in names for item in classes], np.bool_)
            matching[pods] = columns.matching(pods.selector) & is_in[names]
        of_key = weights.setdefault(key, np.zeros(len(classes), dtype=np.int64))
        of_key += matching[pods] * np.int64(weight)
    counts_of: dict[bytes, Counts] = {}
    sums: dict[str, Sums] = {}
    for key, of_class in weights.items():
        cache_key = of_class.tobytes()
        if cache_key not in counts_of:
            counts_of[cache_key] = snapshot.counters.weighted_sums(
                dict(zip(numbers, of_class, strict=True))
            )
        sums[key] = key_columns[key].add_up(counts_of[cache_key])
    return sums


def _label_classes(
    snapshot: Snapshot, weighted_keys: list[WeightedKey]
) -> tuple[list[int], list[PodLabelClass]]:
    """Returns the ids and label classes of pods in the namespaces of the terms."""
    names: set[str] = set()
    is_anywhere = False
    for _, pods, _ in weighted_keys:
        is_anywhere |= pods.namespaces is None
        names |= pods.namespaces or frozenset()
    selected = [
        (number, item)
        for number, item in snapshot.counters.label_classes()
        if is_anywhere or item.namespace in names
    ]
    return [number for number, _ in selected], [item for _, item in selected]
