"""Pods added up over the values of topology keys: from "on this node" to "near this node"."""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from mooring.framework import NodeView
from mooring.state import Change, NodeTable, Snapshot
from mooring.state.columns.grouped import Counts, GroupedCounts, Sums
from mooring.state.columns.kind_columns import LabelClassColumns
from mooring.state.columns.labels import MISSING
from mooring.state.tables.affinity_terms import SharedTerm
from mooring.state.tables.counters import CounterKey, PodLabelClass
from mooring.state.tables.nodes import Scalar

Bools = npt.NDArray[np.bool_]
Ids = npt.NDArray[np.intp]

#: Sums of floats are exact below this.
EXACT_MAX: Final = 2**53

#: Columns kept: 40 KB each at 5 000 nodes, and a cluster has a handful of topology keys.
COLUMNS_KEPT: Final = 64

#: With more keys than this, one walk over the nodes' labels is quicker than a column for each; and
#: the columns of other pods' keys are not thrown out for those of one odd pod.
KEYS_MAX: Final = 32

#: A pod with more terms than this gets no counters of its own: they would push out the others'.
COUNTERS_MAX: Final = 48

#: Likewise with more new keys than this at once; their columns are kept as those of others.
NEW_KEYS_MAX: Final = 8

_READS: Final = int(Change.EXISTENCE | Change.LABELS)


@dataclass(frozen=True, slots=True, eq=False)
class KeyColumn:
    """The values of a topology key by row, as groups of rows; nothing in it ever changes.

    Attributes:
        of_row: The number of each row's value, intp shape (rows,), rows in use or not.
        missing: The number that stands for "does not have the key"; the highest one.
        has_key: As a mask, shape (rows,); None = every node has it.
        is_alone: Whether no two nodes have the same value, as of kubernetes.io/hostname. Then rows
            stand for their values: what is said of values has shape (rows,).
    """

    of_row: Ids
    missing: int
    has_key: Bools | None
    is_alone: bool

    def add_up(self, counts: Counts) -> Sums:
        """Pods per row as pods per value, the caller's own; nobody is where the key is missing."""
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
        """Changes pods per value as ``by`` more on ``row`` change them; see ``Groups``."""
        if row >= len(self.of_row):
            return  # a row that came later: whoever asks for it asks another column
        value = row if self.is_alone else int(self.of_row[row])
        if self.has_key is None or self.has_key[row]:
            sums[value] += by

    def sums(self, counted: GroupedCounts) -> Sums:
        """Pods per value, the caller's own."""
        if self.is_alone:  # nothing to add up, so nothing to keep
            return self.add_up(counted.column())
        return counted.sums_over(self).copy()

    def nobody(self) -> Domains:
        """No pods anywhere."""
        length = len(self.of_row) if self.is_alone else self.missing + 1
        return Domains(self, np.zeros(length, dtype=np.int64))

    def at(self, by_value: npt.NDArray[Scalar], nodes: NodeView) -> npt.NDArray[Scalar]:
        """What is said of the values, of the value that each node has; shape (m,)."""
        if self.is_alone:
            return nodes.take(by_value)
        return by_value.take(nodes.take(self.of_row))

    def has_csi_node_by_row(self, nodes: NodeView) -> Bools:
        """Which nodes have the key, bool shape (m,)."""
        if self.has_key is None:
            return np.ones(len(nodes), dtype=np.bool_)
        return nodes.take(self.has_key)


@dataclass(frozen=True, slots=True)
class Domains:
    """Pods near each node by one topology key.

    Attributes:
        column: The values of the key.
        counts: Pods with each value, int64 by value; 0 for nodes without the key.
        change: What is added in each of m worlds near the world's own node, int64 shape (m,).
    """

    column: KeyColumn
    counts: Sums
    change: Sums | None = None

    def are_near(self, nodes: NodeView) -> Bools:
        """Near which nodes there is a pod, bool shape (m,)."""
        if self.change is None:
            return self.column.at(self.counts > 0, nodes)
        near = (self.column.at(self.counts, nodes) + self.change) * self.column.has_csi_node_by_row(
            nodes
        )
        found: Bools = near > 0
        return found


class KeyColumns:
    """The columns of topology keys that were asked for lately, as long as labels stay as they are.

    One per plugin. Complexity: O(1) for a known key, O(nodes) for a new one.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[str, KeyColumn] = OrderedDict()
        self._nodes: NodeTable | None = None
        self._size = 0
        self._generation = 0

    def of(self, snapshot: Snapshot, keys: Iterable[str]) -> dict[str, KeyColumn]:
        """Returns the columns of those keys that any node has, as the snapshot's nodes are."""
        nodes = snapshot.nodes
        wanted = [key for key in keys if nodes.has_label(key)]
        if not wanted:
            return {}
        if len(wanted) > KEYS_MAX:
            return _read_labels(nodes, wanted)
        self._invalidate_if_stale(snapshot)
        new = [key for key in wanted if key not in self._kept]
        if len(new) > NEW_KEYS_MAX:
            self._kept.update(_read_labels(nodes, new))
        found = {}
        for key in wanted:
            column = self._kept.get(key)
            if column is None:
                column = self._kept[key] = _column(nodes, nodes.label(key).codes)
            else:
                self._kept.move_to_end(key)
            if column.missing:
                found[key] = column
        while len(self._kept) > COLUMNS_KEPT:
            self._kept.popitem(last=False)
        return found

    def _invalidate_if_stale(self, snapshot: Snapshot) -> None:
        """Forgets everything if nodes came, went, or changed their labels."""
        nodes = snapshot.nodes
        # Rows for pods on unknown nodes are not in the log.
        is_known = nodes is self._nodes and nodes.size == self._size
        if is_known and snapshot.generation == self._generation:
            return
        changes = nodes.log.since(self._generation) if is_known else None
        if changes is None or int(np.bitwise_or.reduce(changes[1])) & _READS:
            self._kept.clear()
        self._nodes, self._size = nodes, nodes.size
        self._generation = snapshot.generation


def _column(nodes: NodeTable, codes: npt.NDArray[np.int32]) -> KeyColumn:
    """Returns the column of a key whose values have these numbers, shape (capacity,)."""
    codes = codes[: nodes.size]
    is_there = codes != MISSING
    missing = int(codes.max()) + 1 if is_there.any() else 0
    of_row = np.where(is_there, codes, missing).astype(np.intp)
    sizes = np.bincount(of_row, minlength=missing + 1)
    has_all = bool(is_there[nodes.alive[: nodes.size]].all())
    is_alone = missing > 0 and int(sizes[:missing].max()) <= 1
    has_key = None if has_all and not _has_gaps(nodes) else is_there
    return KeyColumn(of_row, missing, has_key, is_alone)


def _are_exact(counts: Counts) -> bool:
    """Returns whether any sum of these is exact in float64."""
    return max(int(counts.max()), -int(counts.min())) * len(counts) < EXACT_MAX


def _has_gaps(nodes: NodeTable) -> bool:
    """Returns whether there are rows without a node: pods may be on them, and are near nobody."""
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


# ---------------------------------------------------------------- pods per row


class Wanted(NamedTuple):
    """Pods that count for a topology key, and how much each of them does."""

    topology_key: str
    pods: CounterKey
    weight: int


def counts_by_domain(
    snapshot: Snapshot, columns: KeyColumns, wanted: list[Wanted]
) -> dict[str, Domains]:
    """Per topology key the pods near each node; keys that no node has are left out.

    Complexity: O(values x terms), and for very many terms O(kinds of pods x terms that mean them +
    pods).
    """
    found = columns.of(snapshot, dict.fromkeys(each.topology_key for each in wanted))
    sums = sums_of(snapshot, found, wanted)
    return {key: Domains(found[key], counts) for key, counts in sums.items()}


def sums_of(
    snapshot: Snapshot, columns: dict[str, KeyColumn], wanted: list[Wanted]
) -> dict[str, Sums]:
    """Per topology key with a column what the pods with each of its values come to."""
    wanted = [each for each in wanted if each.topology_key in columns]
    if len(wanted) > COUNTERS_MAX:
        return _sums_over_kinds(snapshot, columns, wanted)
    sums: dict[str, Sums] = {}
    for key, pods, weight in wanted:
        counts = columns[key].sums(snapshot.counters.counter(pods))
        if weight != 1:
            counts *= np.int64(weight)
        sums[key] = sums[key] + counts if key in sums else counts
    return sums


def held_sums(
    columns: dict[str, KeyColumn], held: Iterable[tuple[SharedTerm, int]]
) -> dict[str, Sums]:
    """Per topology key with a column, the pods with these terms, times the weights, by value."""
    sums: dict[str, Sums] = {}
    of_rows: dict[str, Sums] = {}
    for each, weight in held:
        key = each.term.topology_key
        column = columns.get(key)
        if column is None:
            continue
        if column.is_alone:
            if key not in of_rows:
                of_rows[key] = np.zeros(each.rows.capacity, dtype=np.int64)
            each.rows.add_to(of_rows[key], weight)
        else:
            counts = column.sums(each.rows) * np.int64(weight)
            sums[key] = sums[key] + counts if key in sums else counts
    return sums | {key: columns[key].add_up(counts) for key, counts in of_rows.items()}


def _sums_over_kinds(
    snapshot: Snapshot, found: dict[str, KeyColumn], wanted: list[Wanted]
) -> dict[str, Sums]:
    """Judges every kind of pods by every term, in columns.

    So no counter is made for terms that nobody else has.
    """
    numbers, kinds = _concerned(snapshot, wanted)
    columns = LabelClassColumns(
        [kind.labels for kind in kinds], (pods.selector for _, pods, _ in wanted)
    )
    is_in: dict[frozenset[str] | None, Bools] = {None: np.ones(len(kinds), dtype=np.bool_)}
    matching: dict[CounterKey, Bools] = {}
    weights: dict[str, Sums] = {}
    for key, pods, weight in wanted:
        if pods not in matching:
            names = pods.namespaces
            if names is not None and names not in is_in:
                of_names = [kind.namespace in names for kind in kinds]
                is_in[names] = np.array(of_names, dtype=np.bool_)
            matching[pods] = columns.matching(pods.selector) & is_in[names]
        of_key = weights.setdefault(key, np.zeros(len(kinds), dtype=np.int64))
        of_key += matching[pods] * np.int64(weight)
    known: dict[bytes, Counts] = {}
    sums: dict[str, Sums] = {}
    for key, of_kind in weights.items():
        same = of_kind.tobytes()
        if same not in known:
            known[same] = snapshot.counters.weighted_sums(dict(zip(numbers, of_kind, strict=True)))
        sums[key] = found[key].add_up(known[same])
    return sums


def _concerned(snapshot: Snapshot, wanted: list[Wanted]) -> tuple[list[int], list[PodLabelClass]]:
    """Returns the kinds of pods of the namespaces that the terms name, with their ids."""
    names: set[str] = set()
    is_anywhere = False
    for _, pods, _ in wanted:
        is_anywhere |= pods.namespaces is None
        names |= pods.namespaces or frozenset()
    found = [
        (number, kind)
        for number, kind in snapshot.counters.label_classes()
        if is_anywhere or kind.namespace in names
    ]
    return [number for number, _ in found], [kind for _, kind in found]
