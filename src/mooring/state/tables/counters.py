"""How many pods match a selector, per node: kept up to date as pods come and go.

Spreading and affinity ask again and again where the pods are that match some selector. Nobody walks
the pods for that. Pods that read alike (namespace, labels, being deleted or not) are of one *kind*;
each kind knows the counters that count it, so a pod that comes or goes changes those few numbers.
A counter that is asked for the first time judges each kind once and sums up over the pod table.

::

    pod ── kind ──> the counters that match it ──> counts[row] += 1

Kinds live as long as a pod has them. Counters are made when asked for, and dropped when unused for
longest, so that nothing grows for ever.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from mooring.objects.selectors import IN, Selector
from mooring.state.columns.grouped import GroupedCounts
from mooring.state.columns.interner import Interner
from mooring.state.columns.kind_columns import LabelClassColumns
from mooring.state.tables.nodes import read_only
from mooring.state.tables.pods import PlacedPod, PodInfo, PodTable

Counts = npt.NDArray[np.int32]

#: Memory for the columns of all counters together: 2 000 of them at 5 000 nodes.
MEMORY_LIMIT_BYTES: Final = 64 << 20

#: However large the cluster is, so many counters are kept: several pods' worth of terms.
COUNTERS_MIN: Final = 64

#: With more conditions than this, all kinds are judged at once.
FEW_CONDITIONS: Final = 16


class CounterKey(NamedTuple):
    """Which pods are counted.

    Attributes:
        namespaces: The pods of these; None = of every namespace.
        selector: What their labels must match.
        with_terminating: Whether pods that are being deleted count as well.
    """

    namespaces: frozenset[str] | None
    selector: Selector
    with_terminating: bool

    def counts(self, pod: PodInfo) -> bool:
        """Returns whether a pod is counted."""
        metadata = pod.metadata
        if metadata.deletion_timestamp is not None and not self.with_terminating:
            return False
        if self.namespaces is not None and metadata.namespace not in self.namespaces:
            return False
        return self.selector.matches(metadata.labels)


class CounterKeys(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """Pods are counted once for each of these keys that counts them; there may be thousands."""

    keys: tuple[CounterKey, ...]

    def counts(self, pod: PodInfo) -> int:
        """How often a pod is counted."""
        return sum(key.counts(pod) for key in self.keys)


class PodLabelClass(NamedTuple):
    """What a counter reads of a pod."""

    namespace: str
    labels: frozenset[tuple[str, str]]
    is_terminating: bool


class PodCounter(GroupedCounts):
    """One key's counts, and sums of them over groups of rows.

    ``counts``, int32 shape (capacity,), are by row, and change in place.
    """

    __slots__ = ("_counts", "counts", "key", "kinds")

    def __init__(self, key: CounterKey, capacity: int) -> None:
        super().__init__()
        self.key = key
        #: The ids of the kinds of pods that it counts.
        self.kinds: dict[int, None] = {}
        self.set_all(np.zeros(capacity, dtype=np.int32))

    def column(self) -> Counts:
        """Returns the same as ``counts``."""
        return self.counts

    def set_all(self, counts: Counts) -> None:
        """Takes these counts for the same ones in a longer column, or as the first ones."""
        self._counts = counts
        self.counts = read_only(counts)

    def change(self, row: int, sign: int) -> None:
        """A pod more (+1) or less (-1) on ``row``."""
        self._counts[row] += sign
        self._changed(row, sign)

    def matches(self, kind: PodLabelClass, labels: Mapping[str, str]) -> bool:
        """Returns whether pods of the kind, which have these labels, are counted."""
        key = self.key
        if kind.is_terminating and not key.with_terminating:
            return False
        if key.namespaces is not None and kind.namespace not in key.namespaces:
            return False
        return key.selector.matches(labels)


#: Where counters are looked up for a new kind: a namespace (None = all) and, if the selector asks
#: for one value of a label, that label.
_Place = tuple[str | None, tuple[str, str] | None]


class PodCounters:
    """The counters over a pod table. The one owner is the Cache, which tells of every change.

    Complexity: a pod that comes or goes costs O(counters that match it), if there are pods like it,
    else O(counters of its namespace with one of its labels); ``counter`` costs O(1), and the
    first time O(kinds of pods + pods).
    """

    def __init__(self, pods: PodTable, capacity: int = 0) -> None:
        """``capacity`` is the length of the columns: rows of the node table, used or not."""
        self._pods = pods
        self._capacity = capacity
        self._kinds: Interner[PodLabelClass] = Interner()
        self._kind_of_slot: npt.NDArray[np.int32] = np.full(64, -1, dtype=np.int32)
        #: By kind id: the counters that count it.
        self._counted_by: list[dict[CounterKey, PodCounter]] = []
        #: Namespace -> the ids of the kinds there.
        self._kinds_in: dict[str, dict[int, None]] = {}
        self._counters: OrderedDict[CounterKey, PodCounter] = OrderedDict()
        self._places: dict[_Place, dict[CounterKey, PodCounter]] = {}

    def __len__(self) -> int:
        """How many counters there are."""
        return len(self._counters)

    @property
    def kind_count(self) -> int:
        """How many kinds of pods there are."""
        return sum(map(len, self._kinds_in.values()))

    @property
    def limit(self) -> int:
        """How many counters are kept."""
        return max(COUNTERS_MIN, MEMORY_LIMIT_BYTES // max(1, 4 * self._capacity))

    # -- questions --------------------------------------------------------------------------------

    def counter(self, key: CounterKey) -> PodCounter:
        """The counter of ``key``; made if there is none. Read only: it follows the pods itself."""
        counter = self._counters.get(key)
        if counter is None:
            counter = self._new(key)
        else:
            self._counters.move_to_end(key)
        return counter

    def items(self) -> list[tuple[CounterKey, Counts]]:
        """Returns the counters that exist, for the audit."""
        return [(key, counter.counts) for key, counter in self._counters.items()]

    def all(self) -> list[PodCounter]:
        """Returns the counters themselves, for the audit."""
        return list(self._counters.values())

    def kinds_at(self, slots: npt.NDArray[np.intp]) -> npt.NDArray[np.int32]:
        """The ids of the kinds of the pods in these slots of the pod table, int32 of their shape.

        Pods of one kind are in one namespace and have the same labels.
        """
        return self._kind_of_slot[slots]

    def kind(self, index: int) -> PodLabelClass:
        """Returns the kind that has this id."""
        return self._kinds.value(index)

    def kinds(self) -> Iterator[tuple[int, PodLabelClass]]:
        """Returns every kind of pods with its id."""
        for of_namespace in self._kinds_in.values():
            yield from ((index, self._kinds.value(index)) for index in of_namespace)

    def weighed(self, weights: Mapping[int, int]) -> npt.NDArray[np.int64]:
        """Returns the sum of what the pods on each row weigh, int64 shape (capacity,).

        ``weights`` are by id of a kind, others weigh nothing. Complexity: O(pods).
        """
        of_kind = np.zeros(len(self._kinds) + 1, dtype=np.int64)  # the last: slots without a pod
        of_kind[list(weights)] = list(weights.values())
        slots = np.flatnonzero(of_kind[self._kind_of_slot])
        sums = np.zeros(self._capacity, dtype=np.int64)
        np.add.at(sums, self._pods.node_row[slots], of_kind[self._kind_of_slot[slots]])
        return sums

    def kind_of(self, placed: PlacedPod) -> PodLabelClass:
        """What a pod counts as, for the audit."""
        return self._kinds.value(int(self._kind_of_slot[placed.slot]))

    # -- pods come, change and go -----------------------------------------------------------------

    def add(self, placed: PlacedPod) -> None:
        """A pod was put into the pod table."""
        slot, kind = placed.slot, kind_of_pod(placed.info)
        index = self._kinds.find(kind)
        if index < 0:
            index = self._new_kind(kind, placed.info.metadata.labels)
        else:
            self._kinds.acquire(kind)
        if slot >= len(self._kind_of_slot):
            self._grow_slots(slot + 1)
        self._kind_of_slot[slot] = index
        for counter in self._counted_by[index].values():
            counter.change(placed.row, 1)

    def remove(self, placed: PlacedPod) -> None:
        """A pod is about to leave the pod table: it still has its slot."""
        index = int(self._kind_of_slot[placed.slot])
        for counter in self._counted_by[index].values():
            counter.change(placed.row, -1)
        self._kind_of_slot[placed.slot] = -1
        kind = self._kinds.value(index)
        self._kinds.release(index)
        if self._kinds.find(kind) < 0:
            self._forget_kind(index, kind)

    def update(self, placed: PlacedPod, info: PodInfo) -> None:
        """``info`` is about to become the version of the pod that counts."""
        before, after = placed.info.metadata, info.metadata
        is_same = before.labels == after.labels and (
            (before.deletion_timestamp is None) == (after.deletion_timestamp is None)
        )
        if is_same:
            return
        self.remove(placed)
        old, placed.info = placed.info, info
        self.add(placed)
        placed.info = old

    def grow(self, capacity: int) -> None:
        """Makes room for ``capacity`` rows."""
        if capacity == self._capacity:
            return
        for counter in self._counters.values():
            counts = np.zeros(capacity, dtype=np.int32)
            counts[: self._capacity] = counter.counts
            counter.set_all(counts)
        self._capacity = capacity
        self._drop_unused()

    # -- inside -----------------------------------------------------------------------------------

    def _new_kind(self, kind: PodLabelClass, labels: Mapping[str, str]) -> int:
        index = self._kinds.acquire(kind)
        found = {
            counter.key: counter
            for counter in self._candidates(kind, labels)
            if counter.matches(kind, labels)
        }
        if index == len(self._counted_by):
            self._counted_by.append(found)
        else:
            self._counted_by[index] = found
        for counter in found.values():
            counter.kinds[index] = None
        self._kinds_in.setdefault(kind.namespace, {})[index] = None
        return index

    def _candidates(self, kind: PodLabelClass, labels: Mapping[str, str]) -> Iterator[PodCounter]:
        """Returns the counters that may count pods of the kind."""
        for namespace in (kind.namespace, None):
            for pair in (None, *labels.items()):
                yield from self._places.get((namespace, pair), {}).values()

    def _forget_kind(self, index: int, kind: PodLabelClass) -> None:
        for counter in self._counted_by[index].values():
            del counter.kinds[index]
        self._counted_by[index] = {}
        of_namespace = self._kinds_in[kind.namespace]
        del of_namespace[index]
        if not of_namespace:
            del self._kinds_in[kind.namespace]

    def _new(self, key: CounterKey) -> PodCounter:
        counter = PodCounter(key, self._capacity)
        is_counted = np.zeros(len(self._kinds) + 1, dtype=np.bool_)  # the last: slots without a pod
        for index in self._matching(counter):
            counter.kinds[index] = None
            self._counted_by[index][key] = counter
            is_counted[index] = True
        if counter.kinds:
            slots = np.flatnonzero(is_counted[self._kind_of_slot])
            rows = self._pods.node_row[slots]
            counter.set_all(np.bincount(rows, minlength=self._capacity).astype(np.int32))
        self._counters[key] = counter
        for place in _places(key):
            self._places.setdefault(place, {})[key] = counter
        self._drop_unused()
        return counter

    def _matching(self, counter: PodCounter) -> list[int]:
        """Returns the kinds of pods that a new counter counts."""
        selector = counter.key.selector
        found = self._kinds_of(counter.key.namespaces)
        kinds = [self._kinds.value(index) for index in found]
        if len(selector.requirements) <= FEW_CONDITIONS:
            judged = [counter.matches(kind, dict(kind.labels)) for kind in kinds]
        else:
            columns = LabelClassColumns([kind.labels for kind in kinds], [selector])
            counts = counter.key.with_terminating
            judged = [
                matches and (counts or not kind.is_terminating)
                for kind, matches in zip(kinds, columns.matching(selector).tolist(), strict=True)
            ]
        return [index for index, is_counted in zip(found, judged, strict=True) if is_counted]

    def _kinds_of(self, namespaces: frozenset[str] | None) -> list[int]:
        names = self._kinds_in if namespaces is None else sorted(namespaces)
        return [index for name in names for index in self._kinds_in.get(name, ())]

    def _drop_unused(self) -> None:
        while len(self._counters) > self.limit:
            key, counter = self._counters.popitem(last=False)
            for index in counter.kinds:
                del self._counted_by[index][key]
            for place in _places(key):
                del self._places[place][key]
                if not self._places[place]:
                    del self._places[place]

    def _grow_slots(self, length: int) -> None:
        grown = np.full(max(length, 2 * len(self._kind_of_slot)), -1, dtype=np.int32)
        grown[: len(self._kind_of_slot)] = self._kind_of_slot
        self._kind_of_slot = grown


def kind_of_pod(info: PodInfo) -> PodLabelClass:
    """What counters read of the pod."""
    metadata = info.metadata
    labels = frozenset(metadata.labels.items())
    return PodLabelClass(metadata.namespace, labels, metadata.deletion_timestamp is not None)


def _places(key: CounterKey) -> list[_Place]:
    """Where a counter is kept: under one label that every pod it counts has, if there is one."""
    pair = next(
        (
            (condition.key, condition.values[0])
            for condition in key.selector.requirements
            if condition.operator == IN and len(condition.values) == 1
        ),
        None,
    )
    namespaces = [None] if key.namespaces is None else sorted(key.namespaces)
    return [(namespace, pair) for namespace in namespaces]
