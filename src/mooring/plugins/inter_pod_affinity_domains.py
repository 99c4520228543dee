"""Pods added up over the values of topology keys: from "on this node" to "near this node"."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from mooring.framework import NodeView
from mooring.state import Change, NodeTable, Snapshot
from mooring.state.counters import CounterKey, PodKind
from mooring.state.kind_columns import KindColumns
from mooring.state.labels import MISSING

Bools = npt.NDArray[np.bool_]
Ids = npt.NDArray[np.intp]
Sums = npt.NDArray[np.int64]
#: Counters count in int32, sums of several are int64.
Counts = npt.NDArray[np.integer[Any]]

#: Sums of floats are exact below this.
EXACT_MAX: Final = 2**53

#: Columns kept: 40 KB each at 5 000 nodes, and a cluster has a handful of topology keys.
COLUMNS_KEPT: Final = 64

#: With more keys than this, one walk over the nodes' labels is quicker than a column for each; and
#: the columns of other pods' keys are not thrown out for those of one odd pod.
KEYS_MAX: Final = 32

#: A pod with more terms than this gets no counters of its own: they would push out the others'.
COUNTERS_MAX: Final = 48

_READS: Final = int(Change.EXISTENCE | Change.LABELS)


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """The values of a topology key by row; nothing in it ever changes.

    Attributes:
        of_row: The number of each row's value, intp shape (rows,), rows in use or not.
        missing: The number that stands for "does not have the key"; the highest one.
        has_key: As a mask, shape (rows,); None = every node has it.
        is_alone: Whether no two nodes have the same value, as of kubernetes.io/hostname.
    """

    of_row: Ids
    missing: int
    has_key: Bools | None
    is_alone: bool

    def near(self, counts: Counts) -> Domains:
        """Pods per row, shape (capacity,), as pods near each row."""
        counts = self._with_key(counts)
        if self.is_alone:
            return Domains(self, counts.copy() if self.has_key is None else counts)
        if counts.dtype == np.int32 or _are_exact(counts):
            of_value = np.bincount(self.of_row, counts, self.missing + 1).astype(np.int64)
        else:
            of_value = np.zeros(self.missing + 1, dtype=np.int64)
            np.add.at(of_value, self.of_row, counts)  # wraps, as upstream's int64 does
        return Domains(self, of_value.take(self.of_row))

    def sum(self, counts: Counts) -> int:
        """How many of these pods, counted per row, are on nodes with the key."""
        return int(self._with_key(counts).sum())

    def _with_key(self, counts: Counts) -> Counts:
        counts = counts[: len(self.of_row)]
        return counts if self.has_key is None else counts * self.has_key

    def empty(self) -> Domains:
        """No pods anywhere."""
        return Domains(self, np.zeros(len(self.of_row), dtype=np.int64))

    def rows_have_it(self, nodes: NodeView) -> Bools:
        """Which nodes have the key, bool shape (m,)."""
        if self.has_key is None:
            return np.ones(len(nodes), dtype=np.bool_)
        return nodes.take(self.has_key)


@dataclass(frozen=True, slots=True)
class Domains:
    """Pods near each node by one topology key.

    Attributes:
        column: The values of the key.
        counts: Pods near each row, shape (rows,); 0 for nodes without the key.
        change: What is added in each of m worlds near the world's own node, int64 shape (m,).
    """

    column: KeyColumn
    counts: Counts
    change: Sums | None = None

    def are_near(self, nodes: NodeView) -> Bools:
        """Near which nodes there is a pod, bool shape (m,)."""
        near = nodes.take(self.counts)
        if self.change is not None:
            near = (near + self.change) * self.column.rows_have_it(nodes)
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
        """The columns of those keys that any node has, as the snapshot's nodes are."""
        nodes = snapshot.nodes
        wanted = [key for key in keys if nodes.has_label(key)]
        if not wanted:
            return {}
        if len(wanted) > KEYS_MAX:
            return _read_labels(nodes, wanted)
        self._catch_up(snapshot)
        found = {}
        for key in wanted:
            column = self._kept.get(key)
            if column is None:
                column = self._kept[key] = _column(nodes, nodes.label(key).codes)
                if len(self._kept) > COLUMNS_KEPT:
                    self._kept.popitem(last=False)
            else:
                self._kept.move_to_end(key)
            if column.missing:
                found[key] = column
        return found

    def _catch_up(self, snapshot: Snapshot) -> None:
        """Forget everything if nodes came, went, or changed their labels."""
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
    """The column of a key whose values have these numbers, shape (capacity,)."""
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
    """Whether any sum of these is exact in float64."""
    return max(int(counts.max()), -int(counts.min())) * len(counts) < EXACT_MAX


def _has_gaps(nodes: NodeTable) -> bool:
    """Whether there are rows without a node: pods may be on them, and are near nobody."""
    return len(nodes) != nodes.size


def _read_labels(nodes: NodeTable, keys: list[str]) -> dict[str, KeyColumn]:
    """The columns of many keys at once. Complexity: O(labels of all nodes)."""
    wanted = frozenset(keys)
    columns: dict[str, tuple[npt.NDArray[np.int32], dict[str, int]]] = {}
    for row, node in enumerate(nodes.objects):
        labels = node.metadata.labels if node is not None else {}
        for key in labels:
            if key not in wanted:
                continue
            if key not in columns:
                columns[key] = np.full(nodes.capacity, MISSING, dtype=np.int32), {}
            codes, values = columns[key]
            codes[row] = values.setdefault(labels[key], len(values))
    return {key: _column(nodes, columns[key][0]) for key in keys if key in columns}


# ---------------------------------------------------------------- pods per row


class Wanted(NamedTuple):
    """Pods that count for a topology key, and how much each of them does."""

    topology_key: str
    pods: CounterKey
    weight: int


def near_of(snapshot: Snapshot, columns: KeyColumns, wanted: list[Wanted]) -> dict[str, Domains]:
    """Per topology key the pods near each node; keys that no node has are left out.

    Complexity: O(nodes x terms), and for very many terms O(kinds of pods x terms that mean them +
    pods).
    """
    found = columns.of(snapshot, dict.fromkeys(each.topology_key for each in wanted))
    sums = sums_of(snapshot, [each for each in wanted if each.topology_key in found])
    return {key: found[key].near(counts) for key, counts in sums.items()}


def sums_of(snapshot: Snapshot, wanted: list[Wanted]) -> dict[str, Counts]:
    """Per topology key what the pods on each row come to, shape (capacity,); do not write."""
    if len(wanted) > COUNTERS_MAX:
        return _sums_over_kinds(snapshot, wanted)
    sums: dict[str, Counts] = {}
    for key, pods, weight in wanted:
        counts: Counts = snapshot.counters.counter(pods).counts
        if weight != 1:
            counts = counts * np.int64(weight)
        before = sums.get(key)
        sums[key] = counts if before is None else before.astype(np.int64) + counts
    return sums


def _sums_over_kinds(snapshot: Snapshot, wanted: list[Wanted]) -> dict[str, Counts]:
    """Judge every kind of pods by every term, in columns.

    So no counter is made for terms that nobody else has.
    """
    numbers, kinds = _concerned(snapshot, wanted)
    columns = KindColumns([kind.labels for kind in kinds], (pods.selector for _, pods, _ in wanted))
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
    sums: dict[str, Counts] = {}
    for key, of_kind in weights.items():
        same = of_kind.tobytes()
        if same not in known:
            known[same] = snapshot.counters.weighed(dict(zip(numbers, of_kind, strict=True)))
        sums[key] = known[same]
    return sums


def _concerned(snapshot: Snapshot, wanted: list[Wanted]) -> tuple[list[int], list[PodKind]]:
    """The kinds of pods of the namespaces that the terms name, with their ids."""
    names: set[str] = set()
    is_anywhere = False
    for _, pods, _ in wanted:
        is_anywhere |= pods.namespaces is None
        names |= pods.namespaces or frozenset()
    found = [
        (number, kind)
        for number, kind in snapshot.counters.kinds()
        if is_anywhere or kind.namespace in names
    ]
    return [number for number, _ in found], [kind for _, kind in found]
