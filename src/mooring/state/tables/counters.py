"""Counts of the pods that match a selector, per node, updated with every pod change.

Topology spread and inter-pod affinity often need the number of matching pods per node, without a
loop over all pods. Pods with the same namespace, labels and termination state form one *label
class*. Each label class has the list of counters that count it, so an added or removed pod changes
only those. A new counter evaluates its selector once per label class and sums over the pod table.

::

    pod ── label class ──> the counters that match it ──> counts[row] += 1

A label class exists as long as it has pods. Counters are created on demand, and the least recently
used are dropped, so that memory is bounded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from mooring.objects.selectors import IN, Selector
from mooring.state.columns.caches import LRUCache
from mooring.state.columns.grouped import GroupedCounts
from mooring.state.columns.interner import Interner
from mooring.state.columns.kind_columns import LabelClassColumns
from mooring.state.tables.nodes import read_only
from mooring.state.tables.pods import PlacedPod, PodInfo, PodTable

Counts = npt.NDArray[np.int32]

#: Memory for all counters together: 2 900 of them at 5 000 nodes, 20 000 at up to 64.
MEMORY_LIMIT_BYTES: Final = 64 << 20

#: Memory for the objects of a counter without its column: key, selector, entries of mappings.
OBJECT_BYTES: Final = 3072

#: Counters cached at least, in a cluster of any size: enough for the terms of several pods.
COUNTERS_MIN: Final = 64

#: Length of the column by slot at first; it grows with the table of pods.
FIRST_SLOTS: Final = 64

#: With more conditions than this, the selector is evaluated for all label classes at once.
FEW_CONDITIONS: Final = 16


class CounterKey(NamedTuple):
    """Identifies a counter by the pods that it counts.

    Attributes:
        namespaces: The namespaces of the pods; None = all namespaces.
        selector: The selector that their labels must match.
        with_terminating: True if terminating pods count as well.
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
    """Counts a pod once for each of its keys that counts the pod; there may be thousands."""

    keys: tuple[CounterKey, ...]

    def counts(self, pod: PodInfo) -> int:
        """Returns the number of keys that count the pod."""
        return sum(key.counts(pod) for key in self.keys)


class PodLabelClass(NamedTuple):
    """The fields of a pod that counters read."""

    namespace: str
    labels: frozenset[tuple[str, str]]
    is_terminating: bool


class PodCounter(GroupedCounts):
    """The counts of one key, with sums over groups of rows.

    ``counts``, int32 shape (capacity,), are by row, and change in place.
    """

    __slots__ = ("_counts", "counts", "key", "label_classes")

    def __init__(self, key: CounterKey, capacity: int) -> None:
        super().__init__()
        self.key = key
        #: The ids of the label classes that it counts.
        self.label_classes: dict[int, None] = {}
        self.set_all(np.zeros(capacity, dtype=np.int32))

    def column(self) -> Counts:
        """Returns the same as ``counts``."""
        return self.counts

    def set_all(self, counts: Counts) -> None:
        """Sets the column: the first counts, or the same counts in a longer column."""
        self._counts = counts
        self.counts = read_only(counts)

    def change(self, row: int, sign: int) -> None:
        """Counts a pod more (+1) or less (-1) on ``row``."""
        self._counts[row] += sign
        self._changed(row, sign)

    def matches(self, label_class: PodLabelClass, labels: Mapping[str, str]) -> bool:
        """Returns whether pods of the label class, which have these labels, are counted."""
        key = self.key
        if label_class.is_terminating and not key.with_terminating:
            return False
        if key.namespaces is not None and label_class.namespace not in key.namespaces:
            return False
        return key.selector.matches(labels)


#: Key under which counters are looked up for a new label class: a namespace (None = all) and, if
#: the selector requires one value of a label, that label.
_LookupKey = tuple[str | None, tuple[str, str] | None]


class PodCounters:
    """The counters over a pod table. Its owner is the Cache, which reports every change.

    Complexity: adding or removing a pod is O(counters that match it) if its label class exists,
    else O(counters of its namespace with one of its labels); ``counter`` is O(1), and the first
    time O(label classes + pods).
    """

    def __init__(self, pods: PodTable, capacity: int = 0) -> None:
        """Takes ``capacity``, the length of the columns: rows of the node table, used or not."""
        self._pods = pods
        self._capacity = capacity
        self._classes: Interner[PodLabelClass] = Interner()
        self._class_of_slot: npt.NDArray[np.int32] = np.full(FIRST_SLOTS, -1, dtype=np.int32)
        #: By label class id: the counters that count it.
        self._counted_by: list[dict[CounterKey, PodCounter]] = []
        #: Namespace -> the ids of its label classes.
        self._ids_by_namespace: dict[str, dict[int, None]] = {}
        self._counters: LRUCache[CounterKey, PodCounter] = LRUCache(self.limit)
        self._lookup: dict[_LookupKey, dict[CounterKey, PodCounter]] = {}

    def __len__(self) -> int:
        """Returns the number of counters."""
        return len(self._counters)

    @property
    def label_class_count(self) -> int:
        """The number of label classes."""
        return sum(map(len, self._ids_by_namespace.values()))

    @property
    def limit(self) -> int:
        """The maximum number of cached counters."""
        return max(COUNTERS_MIN, MEMORY_LIMIT_BYTES // (OBJECT_BYTES + 4 * self._capacity))

    # -- queries ----------------------------------------------------------------------------------

    def counter(self, key: CounterKey) -> PodCounter:
        """Returns the counter of ``key``, created on demand. Read-only; it follows pod changes."""
        counter = self._counters.recent(key)
        return self._new(key) if counter is None else counter

    def items(self) -> list[tuple[CounterKey, Counts]]:
        """Returns the keys and counts of all counters, for the audit."""
        return [(key, counter.counts) for key, counter in self._counters.items()]

    def all(self) -> list[PodCounter]:
        """Returns all counters, for the audit."""
        return list(self._counters.values())

    def label_class_ids(self, slots: npt.NDArray[np.intp]) -> npt.NDArray[np.int32]:
        """Returns the label class ids of the pods in these slots of the pod table, int32.

        Pods of one label class have the same namespace and labels.
        """
        return self._class_of_slot[slots]

    def label_class(self, index: int) -> PodLabelClass:
        """Returns the label class with this id."""
        return self._classes.value(index)

    def label_classes(self) -> Iterator[tuple[int, PodLabelClass]]:
        """Returns every label class with its id."""
        for of_namespace in self._ids_by_namespace.values():
            yield from ((index, self._classes.value(index)) for index in of_namespace)

    def weighted_sums(self, weights: Mapping[int, int]) -> npt.NDArray[np.int64]:
        """Returns the sum of the weights of the pods on each row, int64 shape (capacity,).

        ``weights`` are by label class id; other classes weigh 0. Complexity: O(pods).
        """
        of_class = np.zeros(len(self._classes) + 1, dtype=np.int64)  # the last: slots without a pod
        of_class[list(weights)] = list(weights.values())
        slots = np.flatnonzero(of_class[self._class_of_slot])
        sums = np.zeros(self._capacity, dtype=np.int64)
        np.add.at(sums, self._pods.node_row[slots], of_class[self._class_of_slot[slots]])
        return sums

    def kind_of(self, placed: PlacedPod) -> PodLabelClass:
        """Returns the label class of a pod, for the audit."""
        return self._classes.value(int(self._class_of_slot[placed.slot]))

    # -- changes of pods --------------------------------------------------------------------------

    def add(self, placed: PlacedPod) -> None:
        """Counts a pod; call after adding it to the pod table."""
        slot, label_class = placed.slot, label_class_of(placed.info)
        index = self._classes.find(label_class)
        if index < 0:
            index = self._new_label_class(label_class, placed.info.metadata.labels)
        else:
            self._classes.acquire(label_class)
        if slot >= len(self._class_of_slot):
            self._grow_slots(slot + 1)
        self._class_of_slot[slot] = index
        for counter in self._counted_by[index].values():
            counter.change(placed.row, 1)

    def remove(self, placed: PlacedPod) -> None:
        """Stops counting a pod; call before removing it from the pod table."""
        index = int(self._class_of_slot[placed.slot])
        for counter in self._counted_by[index].values():
            counter.change(placed.row, -1)
        self._class_of_slot[placed.slot] = -1
        label_class = self._classes.value(index)
        self._classes.release(index)
        if self._classes.find(label_class) < 0:
            self._remove_label_class(index, label_class)

    def update(self, placed: PlacedPod, info: PodInfo) -> None:
        """Updates the counts for a new version of a placed pod; call before storing it."""
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
        """Grows the columns to ``capacity`` rows."""
        if capacity == self._capacity:
            return
        for counter in self._counters.values():
            counts = np.zeros(capacity, dtype=np.int32)
            counts[: self._capacity] = counter.counts
            counter.set_all(counts)
        self._capacity = capacity
        self._drop_unused()

    # -- internal ---------------------------------------------------------------------------------

    def _new_label_class(self, label_class: PodLabelClass, labels: Mapping[str, str]) -> int:
        index = self._classes.acquire(label_class)
        counters = {
            counter.key: counter
            for counter in self._candidates(label_class, labels)
            if counter.matches(label_class, labels)
        }
        if index == len(self._counted_by):
            self._counted_by.append(counters)
        else:
            self._counted_by[index] = counters
        for counter in counters.values():
            counter.label_classes[index] = None
        self._ids_by_namespace.setdefault(label_class.namespace, {})[index] = None
        return index

    def _candidates(
        self, label_class: PodLabelClass, labels: Mapping[str, str]
    ) -> Iterator[PodCounter]:
        """Returns the counters that may count pods of the label class."""
        for namespace in (label_class.namespace, None):
            for pair in (None, *labels.items()):
                yield from self._lookup.get((namespace, pair), {}).values()

    def _remove_label_class(self, index: int, label_class: PodLabelClass) -> None:
        for counter in self._counted_by[index].values():
            del counter.label_classes[index]
        self._counted_by[index] = {}
        of_namespace = self._ids_by_namespace[label_class.namespace]
        del of_namespace[index]
        if not of_namespace:
            del self._ids_by_namespace[label_class.namespace]

    def _new(self, key: CounterKey) -> PodCounter:
        counter = PodCounter(key, self._capacity)
        is_counted = np.zeros(len(self._classes) + 1, dtype=np.bool_)  # last: no pod
        for index in self._matching(counter):
            counter.label_classes[index] = None
            self._counted_by[index][key] = counter
            is_counted[index] = True
        if counter.label_classes:
            slots = np.flatnonzero(is_counted[self._class_of_slot])
            rows = self._pods.node_row[slots]
            counter.set_all(np.bincount(rows, minlength=self._capacity).astype(np.int32))
        self._counters[key] = counter
        for lookup_key in _lookup_keys(key):
            self._lookup.setdefault(lookup_key, {})[key] = counter
        self._drop_unused()
        return counter

    def _matching(self, counter: PodCounter) -> list[int]:
        """Returns the ids of the label classes that a new counter counts."""
        selector = counter.key.selector
        ids = self._ids_in(counter.key.namespaces)
        label_classes = [self._classes.value(index) for index in ids]
        if len(selector.requirements) <= FEW_CONDITIONS:
            results = [
                counter.matches(label_class, dict(label_class.labels))
                for label_class in label_classes
            ]
        else:
            columns = LabelClassColumns(
                [label_class.labels for label_class in label_classes], [selector]
            )
            with_terminating = counter.key.with_terminating
            results = [
                matches and (with_terminating or not label_class.is_terminating)
                for label_class, matches in zip(
                    label_classes, columns.matching(selector).tolist(), strict=True
                )
            ]
        return [index for index, is_counted in zip(ids, results, strict=True) if is_counted]

    def _ids_in(self, namespaces: frozenset[str] | None) -> list[int]:
        names = self._ids_by_namespace if namespaces is None else sorted(namespaces)
        return [index for name in names for index in self._ids_by_namespace.get(name, ())]

    def _drop_unused(self) -> None:
        self._counters.limit = self.limit
        for key, counter in self._counters.evict():
            for index in counter.label_classes:
                del self._counted_by[index][key]
            for lookup_key in _lookup_keys(key):
                del self._lookup[lookup_key][key]
                if not self._lookup[lookup_key]:
                    del self._lookup[lookup_key]

    def _grow_slots(self, length: int) -> None:
        grown = np.full(max(length, 2 * len(self._class_of_slot)), -1, dtype=np.int32)
        grown[: len(self._class_of_slot)] = self._class_of_slot
        self._class_of_slot = grown


def label_class_of(info: PodInfo) -> PodLabelClass:
    """Returns the label class of the pod."""
    metadata = info.metadata
    labels = frozenset(metadata.labels.items())
    return PodLabelClass(metadata.namespace, labels, metadata.deletion_timestamp is not None)


def _lookup_keys(key: CounterKey) -> list[_LookupKey]:
    """Returns the lookup keys of a counter, with a label that all its pods have, if any."""
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
