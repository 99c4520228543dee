"""Which pods are more or fewer in each of m worlds, and sums over them.

A preemption asks about the same worlds again and again, each time with one pod more put back. So
the pods that may leave are kept as a matrix, a line per world, and what filters sum up over those
that have left (a resource, a number of pods, how many match a selector) is read off each pod once.
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

Ints = npt.NDArray[np.int64]
Rows = npt.NDArray[np.intp]
Bools = npt.NDArray[np.bool_]

#: The pods that are added to or removed from each of m worlds.
PodsPerWorld = Sequence[tuple[PodInfo, ...]]

#: How much a pod counts for in a sum.
Amount = Callable[[PodInfo], int]

#: Keys of sums that the pod table has as columns: a resource, and the number of pods.
USAGE, COUNT = "usage", "count"


class VictimMatrix:
    """The pods that may leave each of m worlds, in an order of the caller's; at first all have.

    ``slots``, intp shape (m, k), are places in the pod table, -1 where a world has fewer pods;
    ``gone``, bool of the same shape, says who has left.
    """

    def __init__(
        self, snapshot: Snapshot, slots: Rows, kind_counts: KindCounts | None = None
    ) -> None:
        """``kind_counts`` may be shared by all line-ups of a search."""
        self.slots = slots
        self.is_pod: Bools = slots >= 0
        self.gone = self.is_pod.copy()
        self.snapshot = snapshot
        self._pods = snapshot.pods
        self._sums: dict[Hashable, tuple[Ints, Ints]] = {}
        self._ports: dict[tuple[HostPort, ...], _PortsHeld] = {}
        self._kind_counts = kind_counts if kind_counts is not None else KindCounts(snapshot)

    def reprieve(self, worlds: Rows, rank: int) -> None:
        """The pods at place ``rank`` of these worlds have come back."""
        self._move(worlds, rank, gone=False)

    def remove_victim(self, worlds: Rows, rank: int) -> None:
        """The pods at place ``rank`` of these worlds have left again."""
        self._move(worlds, rank, gone=True)

    def removed_pods(self, world: int) -> tuple[PodInfo, ...]:
        """Who has left a world, in order."""
        return tuple(self._pods.at(slot) for slot in self.slots[world, self.gone[world]].tolist())

    def sums(self, amount: Amount, key: Hashable) -> Ints:
        """Returns the sum of ``amount`` over the pods that have left, shape (m,).

        ``key`` stands for ``amount``: under one key a pod has one amount. Complexity: a call per
        pod the first time (of a kind of pods for a CounterKey), then none.
        """
        known = self._sums.get(key)
        if known is None:
            known = self._sums[key] = self._with_totals(self._amounts(amount, key))
        return known[1]

    def sums_of_column(self, column: npt.NDArray[Any], key: Hashable) -> Ints:
        """As ``sums``, of amounts that are in a column by slot; 0 beyond its end."""
        known = self._sums.get(key)
        if known is None:
            amounts = np.zeros(self.slots.shape, dtype=np.int64)
            is_there = self.is_pod & (self.slots < len(column))
            amounts[is_there] = column[self.slots[is_there]]
            known = self._sums[key] = self._with_totals(amounts)
        return known[1]

    def has_port_conflict(self, wanted: tuple[HostPort, ...], worlds: Rows, rows: Rows) -> Bools:
        """In which of these worlds, on these rows, a port that conflicts with a wanted one is held.

        As upstream, whoever leaves frees its ports, also one that another pod of the node holds.
        """
        known = self._ports.get(wanted)
        if known is None:
            known = self._ports[wanted] = _PortsHeld(self, wanted)
        known.learn(worlds, rows)
        return known.is_held[worlds]

    def _amounts(self, amount: Amount, key: Hashable) -> Ints:
        if key == COUNT:
            return self.is_pod.astype(np.int64)
        if isinstance(key, tuple) and key[0] == USAGE and key[1] in FIXED_RESOURCES:
            column = self._pods.usage[FIXED_RESOURCES.index(key[1])]
            return np.where(self.is_pod, column[self.slots], 0)
        found = np.zeros(self.slots.shape, dtype=np.int64)
        slots = self.slots[self.is_pod]
        if isinstance(key, CounterKey | CounterKeys):
            found[self.is_pod] = self._kind_counts.of(slots, key)
        else:
            at = self._pods.at
            found[self.is_pod] = [wrap_int64(amount(at(slot))) for slot in slots.tolist()]
        return found

    def _with_totals(self, amounts: Ints) -> tuple[Ints, Ints]:
        """Amounts, and their sums over those that have left."""
        totals: Ints = (amounts * self.gone).sum(axis=1)
        return amounts, totals

    def _move(self, worlds: Rows, rank: int, *, gone: bool) -> None:
        self.gone[worlds, rank] = gone
        for amounts, totals in self._sums.values():
            if gone:
                totals[worlds] += amounts[worlds, rank]
            else:
                totals[worlds] -= amounts[worlds, rank]
        for ports in self._ports.values():
            ports.move(worlds, rank, gone=gone)


class KindCounts:
    """How often pods are counted by keys of counters: each kind of pods is judged once.

    Good for one attempt, as long as no pod comes or goes.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._counters = snapshot.counters
        #: By key: the count by id of the kind, or _UNKNOWN.
        self._known: dict[CounterKey | CounterKeys, Ints] = {}

    def of(self, slots: Rows, key: CounterKey | CounterKeys) -> Ints:
        """How often the pods in these slots of the pod table are counted, int64 shape (n,)."""
        kinds = self._counters.label_class_ids(slots)
        length = int(kinds.max(initial=-1)) + 1
        known = self._known.get(key)
        if known is None or len(known) < length:
            longer = np.full(length, _UNKNOWN, dtype=np.int64)
            longer[: 0 if known is None else len(known)] = () if known is None else known
            known = self._known[key] = longer
        is_new = np.zeros(len(known), dtype=np.bool_)
        is_new[kinds] = known[kinds] == _UNKNOWN
        new = np.flatnonzero(is_new)
        if len(new):
            keys = key.keys if isinstance(key, CounterKeys) else (key,)
            known[new] = _counts(
                [self._counters.label_class(index) for index in new.tolist()], keys
            )
        return known[kinds]


#: No count at all.
_UNKNOWN: Final = -1


def _counts(kinds: Sequence[PodLabelClass], keys: Iterable[CounterKey]) -> Ints:
    """How often pods of these kinds are counted, in columns: keys may be very many."""
    times = Counter(keys)
    columns = LabelClassColumns([kind.labels for kind in kinds], (key.selector for key in times))
    is_leaving = np.array([kind.is_terminating for kind in kinds])
    is_in: dict[frozenset[str] | None, Bools] = {None: np.ones(len(kinds), dtype=np.bool_)}
    found = np.zeros(len(kinds), dtype=np.int64)
    for key, count in times.items():
        names = key.namespaces
        if names is not None and names not in is_in:
            is_in[names] = np.array([kind.namespace in names for kind in kinds])
        matching = columns.matching(key.selector) & is_in[names]
        found += count * (matching if key.with_terminating else matching & ~is_leaving)
    return found


class _PortsHeld:
    """The host ports in conflict with wanted ones that are held in each world of a line-up.

    A set per world, as upstream's: the last one to come or go decides whether a port is held.
    """

    def __init__(self, lineup: VictimMatrix, wanted: tuple[HostPort, ...]) -> None:
        snapshot = lineup.snapshot
        self.is_held: Bools = np.zeros(len(lineup.slots), dtype=np.bool_)
        self._lineup = lineup
        self._wanted = wanted
        self._on_row = snapshot.nodes.ports.ports_in_conflict(wanted)
        self._is_known = np.zeros(len(lineup.slots), dtype=np.bool_)
        #: World -> the ports held there; those without any conflict at all are left out.
        self._held: dict[int, set[HostPort]] = {}
        #: Those who hold such a port: which ones.
        self._of_pod: dict[tuple[int, int], frozenset[HostPort]] = {}

    def learn(self, worlds: Rows, rows: Rows) -> None:
        """Looks at worlds that are asked about for the first time."""
        new = ~self._is_known[worlds]
        if not new.any():
            return
        self._is_known[worlds[new]] = True
        for world, row in zip(worlds[new].tolist(), rows[new].tolist(), strict=True):
            on_row = self._on_row.get(row)
            if on_row:
                self._held[world] = self._held_in(world, set(on_row))
                self.is_held[world] = bool(self._held[world])

    def move(self, worlds: Rows, rank: int, *, gone: bool) -> None:
        """Pods have left, or come back."""
        if not self._of_pod:
            return
        for world in worlds.tolist():
            ports = self._of_pod.get((world, rank))
            if ports is not None:
                held = self._held[world]
                self._held[world] = held - ports if gone else held | ports
                self.is_held[world] = bool(self._held[world])

    def _held_in(self, world: int, held: set[HostPort]) -> set[HostPort]:
        """What is held in a world if all had left it and some came back."""
        lineup, freed, back = self._lineup, set[HostPort](), set[HostPort]()
        for rank in np.flatnonzero(lineup.is_pod[world]).tolist():
            pod = lineup.snapshot.pods.at(int(lineup.slots[world, rank]))
            ports = held.intersection(pod.host_ports)
            if ports:
                self._of_pod[world, rank] = frozenset(ports)
                freed |= ports
                back |= set() if lineup.gone[world, rank] else ports
        return held - freed | back


class RemovedPods(Sequence[tuple[PodInfo, ...]]):
    """Those of a line-up that have left some of its worlds, as a view's ``removed``."""

    __slots__ = ("_lineup", "_worlds")

    def __init__(self, lineup: VictimMatrix, worlds: Rows) -> None:
        self._lineup = lineup
        self._worlds = worlds

    def __len__(self) -> int:
        return len(self._worlds)

    @overload
    def __getitem__(self, index: int) -> tuple[PodInfo, ...]: ...
    @overload
    def __getitem__(self, index: slice) -> list[tuple[PodInfo, ...]]: ...
    def __getitem__(self, index: int | slice) -> tuple[PodInfo, ...] | list[tuple[PodInfo, ...]]:
        """Returns the pods that have left one world."""
        if isinstance(index, slice):
            return [self._lineup.removed_pods(world) for world in self._worlds[index].tolist()]
        return self._lineup.removed_pods(int(self._worlds[index]))

    def __iter__(self) -> Iterator[tuple[PodInfo, ...]]:
        return (self._lineup.removed_pods(world) for world in self._worlds.tolist())

    def pick(self, positions: Rows) -> RemovedPods:
        """Only some of the worlds."""
        return RemovedPods(self._lineup, self._worlds[positions])

    def has_port_conflict(self, wanted: tuple[HostPort, ...], rows: Rows) -> Bools:
        """See ``VictimMatrix.has_port_conflict``; shape (m,)."""
        return self._lineup.has_port_conflict(wanted, self._worlds, rows)

    def sums(self, amount: Amount, key: Hashable) -> Ints:
        """See ``VictimMatrix.sums``; shape (m,)."""
        return self._lineup.sums(amount, key)[self._worlds]

    def sums_of_column(self, column: npt.NDArray[Any], key: Hashable) -> Ints:
        """See ``VictimMatrix.sums_of_column``; shape (m,)."""
        return self._lineup.sums_of_column(column, key)[self._worlds]


def pick(pods: PodsPerWorld | None, positions: Rows) -> PodsPerWorld | None:
    """Returns those of the chosen worlds; None stays None."""
    if pods is None:
        return None
    if isinstance(pods, RemovedPods):
        return pods.pick(positions)
    return [pods[at] for at in positions.tolist()]


def sums(pods: PodsPerWorld | None, amount: Amount, key: Hashable, length: int) -> Ints:
    """The sum of ``amount`` over the pods of each of ``length`` worlds; it wraps as Go's int64."""
    if pods is None:
        return np.zeros(length, dtype=np.int64)
    if isinstance(pods, RemovedPods):
        return pods.sums(amount, key)
    totals = [wrap_int64(sum(map(amount, of_world))) for of_world in pods]
    return np.array(totals, dtype=np.int64)
