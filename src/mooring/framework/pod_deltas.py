"""Pods added to or removed from m hypothetical nodes, and sums over them.

The dry run of preemption evaluates the same nodes again and again, each time with one more pod
reprieved. So the possible victims are a matrix with a line per node, and the amounts that filters
sum over the removed pods (a resource, a number of pods, how many match a selector) are computed
once per pod.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, Final, overload

import numpy as np
import numpy.typing as npt

from mooring.objects.quantity import wrap_int64
from mooring.state.columns.kind_columns import LabelClassColumns
from mooring.state.columns.ports import HostPort
from mooring.state.snapshot import Snapshot
from mooring.state.tables.counters import CounterKey, CounterKeys, PodLabelClass
from mooring.state.tables.pods import FIXED_RESOURCES, PodInfo
from mooring.state.types import Bools, Ints, Rows

#: The pods that are added to or removed from each of m nodes.
PodsPerNode = Sequence[tuple[PodInfo, ...]]

#: The amount of a pod in a sum.
Amount = Callable[[PodInfo], int]

#: Keys of sums that the pod table has as columns: a resource, and the number of pods.
USAGE, COUNT = "usage", "count"


class VictimMatrix:
    """The possible victims of each of m nodes, in the caller's order; at first all are removed.

    ``slots``, intp shape (m, k), are slots of the pod table, -1 where a node has fewer pods;
    ``removed``, bool of the same shape, is True for pods that are removed.
    """

    def __init__(
        self, snapshot: Snapshot, slots: Rows, class_counts: LabelClassCounts | None = None
    ) -> None:
        """Shares ``class_counts`` with the other matrices of an attempt."""
        self.slots = slots
        self.is_pod: Bools = slots >= 0
        self.removed = self.is_pod.copy()
        self.snapshot = snapshot
        self._pods = snapshot.pods
        self._sums: dict[Hashable, tuple[Ints, Ints]] = {}
        self._port_conflicts: dict[tuple[HostPort, ...], _PortConflicts] = {}
        self._class_counts = (
            class_counts if class_counts is not None else LabelClassCounts(snapshot)
        )

    def reprieve(self, lines: Rows, rank: int) -> None:
        """Adds back the pods in column ``rank`` of these lines."""
        self._move(lines, rank, removed=False)

    def remove_victim(self, lines: Rows, rank: int) -> None:
        """Removes the pods in column ``rank`` of these lines again."""
        self._move(lines, rank, removed=True)

    def removed_pods(self, line: int) -> tuple[PodInfo, ...]:
        """Returns the pods removed from a node, in order."""
        return tuple(self._pods.at(slot) for slot in self.slots[line, self.removed[line]].tolist())

    def sums(self, amount: Amount, key: Hashable) -> Ints:
        """Returns the sum of ``amount`` over the removed pods, shape (m,).

        ``key`` identifies ``amount``: under one key a pod has one amount. Complexity: a call per
        pod the first time (per label class for a CounterKey), then none.
        """
        entry = self._sums.get(key)
        if entry is None:
            entry = self._sums[key] = self._with_totals(self._amounts(amount, key))
        return entry[1]

    def sums_of_column(self, column: npt.NDArray[Any], key: Hashable) -> Ints:
        """Returns ``sums`` of amounts that are in a column by slot; 0 beyond its end."""
        entry = self._sums.get(key)
        if entry is None:
            amounts = np.zeros(self.slots.shape, dtype=np.int64)
            has_amount = self.is_pod & (self.slots < len(column))
            amounts[has_amount] = column[self.slots[has_amount]]
            entry = self._sums[key] = self._with_totals(amounts)
        return entry[1]

    def has_port_conflict(self, ports: tuple[HostPort, ...], lines: Rows, rows: Rows) -> Bools:
        """Returns the lines, on these rows, where a port conflicts with one of ``ports``.

        As upstream, a removed pod frees its ports, even if another pod of the node uses the same.
        """
        conflicts = self._port_conflicts.get(ports)
        if conflicts is None:
            conflicts = self._port_conflicts[ports] = _PortConflicts(self, ports)
        conflicts.add_lines(lines, rows)
        return conflicts.has_conflict[lines]

    def _amounts(self, amount: Amount, key: Hashable) -> Ints:
        if key == COUNT:
            return self.is_pod.astype(np.int64)
        if isinstance(key, tuple) and key[0] == USAGE and key[1] in FIXED_RESOURCES:
            column = self._pods.usage[FIXED_RESOURCES.index(key[1])]
            return np.where(self.is_pod, column[self.slots], 0)
        amounts = np.zeros(self.slots.shape, dtype=np.int64)
        slots = self.slots[self.is_pod]
        if isinstance(key, CounterKey | CounterKeys):
            amounts[self.is_pod] = self._class_counts.of(slots, key)
        else:
            at = self._pods.at
            amounts[self.is_pod] = [wrap_int64(amount(at(slot))) for slot in slots.tolist()]
        return amounts

    def _with_totals(self, amounts: Ints) -> tuple[Ints, Ints]:
        """Returns the amounts, and their sums over the removed pods."""
        totals: Ints = (amounts * self.removed).sum(axis=1)
        return amounts, totals

    def _move(self, lines: Rows, rank: int, *, removed: bool) -> None:
        self.removed[lines, rank] = removed
        for amounts, totals in self._sums.values():
            if removed:
                totals[lines] += amounts[lines, rank]
            else:
                totals[lines] -= amounts[lines, rank]
        for conflicts in self._port_conflicts.values():
            conflicts.move(lines, rank, removed=removed)


class LabelClassCounts:
    """Counts of pods by counter keys, cached by the pod's label class.

    Valid for one attempt, as long as no pod is added or deleted.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._counters = snapshot.counters
        #: By key: the count by id of the label class, or _UNKNOWN.
        self._by_class: dict[CounterKey | CounterKeys, Ints] = {}

    def of(self, slots: Rows, key: CounterKey | CounterKeys) -> Ints:
        """Returns the count of the pods in these slots of the pod table, int64 shape (n,)."""
        classes = self._counters.label_class_ids(slots)
        length = int(classes.max(initial=-1)) + 1
        counts = self._by_class.get(key)
        if counts is None or len(counts) < length:
            longer = np.full(length, _UNKNOWN, dtype=np.int64)
            longer[: 0 if counts is None else len(counts)] = () if counts is None else counts
            counts = self._by_class[key] = longer
        is_new = np.zeros(len(counts), dtype=np.bool_)
        is_new[classes] = counts[classes] == _UNKNOWN
        new = np.flatnonzero(is_new)
        if len(new):
            keys = key.keys if isinstance(key, CounterKeys) else (key,)
            counts[new] = _counts(
                [self._counters.label_class(index) for index in new.tolist()], keys
            )
        return counts[classes]


#: Not computed yet.
_UNKNOWN: Final = -1


def _counts(classes: Sequence[PodLabelClass], keys: Iterable[CounterKey]) -> Ints:
    """Returns the count for each label class, int64; in columns, for there may be many keys."""
    times = Counter(keys)
    columns = LabelClassColumns([cls.labels for cls in classes], (key.selector for key in times))
    is_terminating = np.array([cls.is_terminating for cls in classes])
    is_in: dict[frozenset[str] | None, Bools] = {None: np.ones(len(classes), dtype=np.bool_)}
    counts = np.zeros(len(classes), dtype=np.int64)
    for key, count in times.items():
        names = key.namespaces
        if names is not None and names not in is_in:
            is_in[names] = np.array([cls.namespace in names for cls in classes])
        matching = columns.matching(key.selector) & is_in[names]
        counts += count * (matching if key.with_terminating else matching & ~is_terminating)
    return counts


class _PortConflicts:
    """The used host ports that conflict with requested ones, per line of a VictimMatrix.

    A set per line, as upstream's: the last pod removed or added decides whether a port is used.
    """

    def __init__(self, matrix: VictimMatrix, requested: tuple[HostPort, ...]) -> None:
        snapshot = matrix.snapshot
        self.has_conflict: Bools = np.zeros(len(matrix.slots), dtype=np.bool_)
        self._matrix = matrix
        self._on_row = snapshot.nodes.ports.ports_in_conflict(requested)
        self._is_computed = np.zeros(len(matrix.slots), dtype=np.bool_)
        #: Line -> its conflicting ports in use; without lines that have no conflict at all.
        self._used: dict[int, set[HostPort]] = {}
        #: (line, rank) -> the conflicting ports of that pod.
        self._of_pod: dict[tuple[int, int], frozenset[HostPort]] = {}

    def add_lines(self, lines: Rows, rows: Rows) -> None:
        """Computes the conflicts of lines that are evaluated for the first time."""
        new = ~self._is_computed[lines]
        if not new.any():
            return
        self._is_computed[lines[new]] = True
        for line, row in zip(lines[new].tolist(), rows[new].tolist(), strict=True):
            on_row = self._on_row.get(row)
            if on_row:
                self._used[line] = self._used_in(line, set(on_row))
                self.has_conflict[line] = bool(self._used[line])

    def move(self, lines: Rows, rank: int, *, removed: bool) -> None:
        """Updates the conflicts after pods were removed or reprieved."""
        if not self._of_pod:
            return
        for line in lines.tolist():
            ports = self._of_pod.get((line, rank))
            if ports is not None:
                used = self._used[line]
                self._used[line] = used - ports if removed else used | ports
                self.has_conflict[line] = bool(self._used[line])

    def _used_in(self, line: int, used: set[HostPort]) -> set[HostPort]:
        """Returns the ports in use after all pods were removed and some reprieved."""
        matrix, freed, reprieved = self._matrix, set[HostPort](), set[HostPort]()
        for rank in np.flatnonzero(matrix.is_pod[line]).tolist():
            pod = matrix.snapshot.pods.at(int(matrix.slots[line, rank]))
            ports = used.intersection(pod.host_ports)
            if ports:
                self._of_pod[line, rank] = frozenset(ports)
                freed |= ports
                reprieved |= set() if matrix.removed[line, rank] else ports
        return used - freed | reprieved


class RemovedPods(Sequence[tuple[PodInfo, ...]]):
    """The removed pods of some lines of a VictimMatrix, as a view's ``removed``."""

    __slots__ = ("_lines", "_matrix")

    def __init__(self, matrix: VictimMatrix, lines: Rows) -> None:
        self._matrix = matrix
        self._lines = lines

    def __len__(self) -> int:
        return len(self._lines)

    @overload
    def __getitem__(self, index: int) -> tuple[PodInfo, ...]: ...
    @overload
    def __getitem__(self, index: slice) -> list[tuple[PodInfo, ...]]: ...
    def __getitem__(self, index: int | slice) -> tuple[PodInfo, ...] | list[tuple[PodInfo, ...]]:
        """Returns the pods removed from one node."""
        if isinstance(index, slice):
            return [self._matrix.removed_pods(line) for line in self._lines[index].tolist()]
        return self._matrix.removed_pods(int(self._lines[index]))

    def __iter__(self) -> Iterator[tuple[PodInfo, ...]]:
        return (self._matrix.removed_pods(line) for line in self._lines.tolist())

    def pick(self, positions: Rows) -> RemovedPods:
        """Returns the removed pods of only some of the nodes."""
        return RemovedPods(self._matrix, self._lines[positions])

    def has_port_conflict(self, ports: tuple[HostPort, ...], rows: Rows) -> Bools:
        """See ``VictimMatrix.has_port_conflict``; shape (m,)."""
        return self._matrix.has_port_conflict(ports, self._lines, rows)

    def sums(self, amount: Amount, key: Hashable) -> Ints:
        """See ``VictimMatrix.sums``; shape (m,)."""
        return self._matrix.sums(amount, key)[self._lines]

    def sums_of_column(self, column: npt.NDArray[Any], key: Hashable) -> Ints:
        """See ``VictimMatrix.sums_of_column``; shape (m,)."""
        return self._matrix.sums_of_column(column, key)[self._lines]


def pick(pods: PodsPerNode | None, positions: Rows) -> PodsPerNode | None:
    """Returns the pods of the nodes at these positions; None stays None."""
    if pods is None:
        return None
    if isinstance(pods, RemovedPods):
        return pods.pick(positions)
    return [pods[position] for position in positions.tolist()]


def sums(pods: PodsPerNode | None, amount: Amount, key: Hashable, length: int) -> Ints:
    """Returns the sum of ``amount`` over the pods of each of ``length`` nodes; wraps like int64."""
    if pods is None:
        return np.zeros(length, dtype=np.int64)
    if isinstance(pods, RemovedPods):
        return pods.sums(amount, key)
    totals = [wrap_int64(sum(map(amount, of_node))) for of_node in pods]
    return np.array(totals, dtype=np.int64)
