"""The (anti-)affinity terms of the pods on nodes, indexed by the pods that they may select.

Scheduling a pod needs the terms of running pods that select *it*, without a loop over all pods.
Equal terms are stored once, with the number of pods that have them per row, in an index that finds
the few terms which may select a pod by its namespace and labels.

::

    pod on row 7 ── TermSet ──> SharedTerm: rows[7] += 1     a new pod ── namespace, labels ──┐
                    (per template)     ^                                                      |
                                       └──────────────── TermIndex ───────────────────────────┘
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mooring.objects.pod import Affinity
from mooring.objects.selectors import EXISTS, IN, Requirement
from mooring.state.columns.caches import LRUCache
from mooring.state.columns.grouped import Counts, GroupedCounts, Sums
from mooring.state.tables.pod_terms import NO_TERMS, PodTerms, Term, compile_terms
from mooring.state.tables.pods import PlacedPod, PodInfo

#: An entry of a dict takes about as much memory as 32 cells of a column.
CELLS_PER_ENTRY: Final = 32

#: Below this, a dict is small for a cluster of any size.
ENTRIES_MIN: Final = 16

#: A term with more namespaces, or a condition with more values, is indexed under one key.
KEYS_MAX: Final = 8

#: Templates whose compiled terms are cached, unless they have more than TERMS_MAX.
TEMPLATES_CACHED: Final = 4_096
TERMS_MAX: Final = 64


class RowCounts(GroupedCounts):
    """A count per row: a dict for few rows, a column for many."""

    __slots__ = ("_column", "_few", "_used", "capacity")

    def __init__(self, capacity: int) -> None:
        super().__init__()
        #: The length of a column: rows of the node table, used or not.
        self.capacity = capacity
        self._few: dict[int, int] = {}
        self._column: npt.NDArray[np.int32] | None = None
        #: Rows of the column with a count.
        self._used = 0

    def __len__(self) -> int:
        """Returns the number of rows with a count."""
        return len(self._few) if self._column is None else self._used

    @property
    def is_column(self) -> bool:
        """True if the counts are stored as a column."""
        return self._column is not None

    def change(self, row: int, by: int) -> None:
        """Adds ``by`` to the count of ``row``."""
        self._changed(row, by)
        if self._column is None:
            count = self._few.get(row, 0) + by
            if count:
                self._few[row] = count
                if len(self._few) > self._limit:
                    self._to_column()
            else:
                self._few.pop(row, None)
            return
        before = int(self._column[row])
        self._column[row] = before + by
        self._used += (before + by != 0) - (before != 0)
        if self._used < self._limit // 4:
            self._few, self._column = dict(self.items()), None

    def column(self) -> Counts:
        """Returns the counts by row, int32 shape (capacity,); read-only."""
        return self._as_column() if self._column is None else self._column

    def add_to(self, sums: Sums, factor: int) -> None:
        """Adds every count, times ``factor``, to ``sums``, int64 shape (capacity,)."""
        if self._column is not None:
            sums += self._column if factor == 1 else self._column * np.int64(factor)
            return
        for row, count in self._few.items():
            sums[row] += factor * count

    def items(self) -> list[tuple[int, int]]:
        """Returns (row, count) of the rows with a count."""
        if self._column is None:
            return list(self._few.items())
        rows = self._column.nonzero()[0]
        return list(zip(rows.tolist(), self._column[rows].tolist(), strict=True))

    def grow(self, capacity: int) -> None:
        """Grows to ``capacity`` rows."""
        self.capacity = capacity
        if self._column is not None:
            column = np.zeros(capacity, dtype=np.int32)
            column[: len(self._column)] = self._column
            self._column = column

    @property
    def _limit(self) -> int:
        return max(ENTRIES_MIN, self.capacity // CELLS_PER_ENTRY)

    def _as_column(self) -> npt.NDArray[np.int32]:
        column = np.zeros(self.capacity, dtype=np.int32)
        column[list(self._few)] = list(self._few.values())
        return column

    def _to_column(self) -> None:
        self._column = self._as_column()
        self._used = len(self._few)
        self._few = {}


class SharedTerm:
    """A term of pods on nodes, with the number of its occurrences per row.

    ``weight`` is 0 for required terms, and negative for preferred anti-affinity.
    """

    __slots__ = ("lookup_keys", "ref_count", "rows", "term", "weight")

    def __init__(self, term: Term, weight: int, capacity: int) -> None:
        self.term = term
        self.weight = weight
        self.rows = RowCounts(capacity)
        #: The number of TermSets that have it.
        self.ref_count = 0
        self.lookup_keys: tuple[_LookupKey, ...] = ()


#: Key under which terms are looked up: a namespace (None = any), and a label that all selected pods
#: have: (key, value), (key,) = with any value, () = no such label.
_LookupKey = tuple[str | None, tuple[str, ...]]


class TermIndex:
    """Index of the terms of one sort by the pods that they may select.

    Complexity: ``matching`` is O(labels + terms that may match), not O(all terms).
    """

    def __init__(self) -> None:
        self._shared: dict[tuple[Term, int], SharedTerm] = {}
        self._lookup: dict[str | None, dict[tuple[str, ...], dict[SharedTerm, None]]] = {}

    def __len__(self) -> int:
        """Returns the number of different terms."""
        return len(self._shared)

    def __iter__(self) -> Iterator[SharedTerm]:
        return iter(self._shared.values())

    def acquire(self, term: Term, weight: int, capacity: int) -> SharedTerm:
        """Returns the shared term of this term and weight, with its reference count raised."""
        shared = self._shared.get((term, weight))
        if shared is None:
            shared = self._shared[term, weight] = SharedTerm(term, weight, capacity)
            shared.lookup_keys = tuple(self._lookup_keys(term))
            for namespace, label in shared.lookup_keys:
                self._lookup.setdefault(namespace, {}).setdefault(label, {})[shared] = None
        shared.ref_count += 1
        return shared

    def release(self, shared: SharedTerm) -> None:
        """Lowers the reference count; a term without references is removed."""
        shared.ref_count -= 1
        if shared.ref_count:
            return
        del self._shared[shared.term, shared.weight]
        for namespace, label in shared.lookup_keys:
            of_namespace = self._lookup[namespace]
            del of_namespace[label][shared]
            if not of_namespace[label]:
                del of_namespace[label]
            if not of_namespace:
                del self._lookup[namespace]

    def matching(
        self, namespace: str, namespace_labels: Mapping[str, str], labels: Mapping[str, str]
    ) -> list[SharedTerm]:
        """Returns the terms that select a pod of this namespace with these labels."""
        return [
            shared
            for shared in self.candidates(namespace, labels)
            if shared.term.matches(namespace, namespace_labels, labels)
        ]

    def candidates(self, namespace: str, labels: Mapping[str, str]) -> Iterator[SharedTerm]:
        """Returns all terms that may select such a pod, without duplicates."""
        if not self._shared:
            return
        for of_namespace in (self._lookup.get(namespace), self._lookup.get(None)):
            if not of_namespace:
                continue
            for label in _looked_up(labels):
                yield from of_namespace.get(label, ())

    def _lookup_keys(self, term: Term) -> Iterator[_LookupKey]:
        """Returns the lookup keys of a term: per namespace, with its most selective label."""
        if term.selector.selects_nothing:
            return
        is_listed = term.namespace_selector.selects_nothing and len(term.namespaces) <= KEYS_MAX
        namespaces: list[str | None] = [*sorted(term.namespaces)] if is_listed else [None]
        if not namespaces:
            return
        of_namespace = self._lookup.get(namespaces[0], {})

        def crowding(labels: list[tuple[str, ...]]) -> tuple[int, int]:
            return sum(len(of_namespace.get(label, ())) for label in labels), -len(labels[0])

        choices = [_labels_of(condition) for condition in term.selector.requirements]
        labels = min((choice for choice in choices if choice), key=crowding, default=[()])
        for namespace in namespaces:
            yield from ((namespace, label) for label in labels)


def _looked_up(labels: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    yield ()
    for key, value in labels.items():
        yield key, value
        yield (key,)


def _labels_of(condition: Requirement) -> list[tuple[str, ...]]:
    """Returns labels of which every pod that meets the condition has exactly one; [] = none."""
    if condition.operator == IN:
        if len(condition.values) > KEYS_MAX:
            return [(condition.key,)]
        return [(condition.key, value) for value in condition.values]
    return [(condition.key,)] if condition.operator == EXISTS else []


class TermSet:
    """The terms of one template, each with its index and its number of occurrences."""

    __slots__ = ("pods", "shared", "terms")

    def __init__(self, terms: PodTerms, shared: list[tuple[TermIndex, SharedTerm, int]]) -> None:
        self.terms = terms
        self.shared = shared
        #: Pods on nodes with these terms.
        self.pods = 0


class PodTermTable:
    """The terms of all pods on nodes. Its owner is the Cache, which reports every change.

    Complexity: adding or removing a pod is O(its different terms), O(1) without terms.
    """

    def __init__(self, capacity: int = 0) -> None:
        """Takes ``capacity``, the length of the columns: rows of the node table, used or not."""
        self.affinity = TermIndex()
        self.anti_affinity = TermIndex()
        #: Preferred affinity and, with negative weights, preferred anti-affinity.
        self.preferred = TermIndex()
        self._capacity = capacity
        self._sets: dict[PodTerms, TermSet] = {}
        #: By slot of the pod table; None = the pod has no terms.
        self._set_of_slot: list[TermSet | None] = []
        #: (namespace, id of the affinity) -> the affinity, referenced so that its id stays valid,
        #: and its terms.
        self._compiled: LRUCache[tuple[str, int], tuple[Affinity, PodTerms]] = LRUCache(
            TEMPLATES_CACHED
        )

    def indexes(self) -> list[tuple[str, TermIndex]]:
        """Returns the indexes with their names, for the audit."""
        return [
            ("affinity", self.affinity),
            ("anti-affinity", self.anti_affinity),
            ("preferred", self.preferred),
        ]

    def terms_of(self, placed: PlacedPod) -> PodTerms:
        """Returns the terms with which a placed pod is counted."""
        term_set = self._set_of_slot[placed.slot]
        return NO_TERMS if term_set is None else term_set.terms

    def compiled(self, info: PodInfo) -> PodTerms:
        """Returns the terms of any pod, cached for pods that share the affinity."""
        affinity = info.spec.affinity
        if affinity is None:
            return NO_TERMS
        if affinity.pod_affinity is None and affinity.pod_anti_affinity is None:
            return NO_TERMS
        key = (info.metadata.namespace, id(affinity))
        entry = self._compiled.recent(key)
        if entry is not None:
            return entry[1]
        terms = compile_terms(info.metadata.namespace, affinity)
        if sum(map(len, terms)) <= TERMS_MAX:
            self._compiled.put(key, (affinity, terms))
        return terms

    @property
    def set_count(self) -> int:
        """The number of different sets of terms."""
        return len(self._sets)

    # -- changes of pods --------------------------------------------------------------------------

    def add(self, placed: PlacedPod) -> None:
        """Counts the terms of a pod; call after adding it to the pod table."""
        while len(self._set_of_slot) <= placed.slot:
            self._set_of_slot.append(None)
        terms = self.compiled(placed.info)
        if terms is NO_TERMS:
            return
        if terms.problems:  # another scheduler may have placed the pod
            terms = terms._replace(problems=())
        if terms == NO_TERMS:
            return
        term_set = self._sets.get(terms)
        if term_set is None:
            term_set = self._sets[terms] = TermSet(terms, self._acquire(terms))
        self._set_of_slot[placed.slot] = term_set
        term_set.pods += 1
        for _, shared, times in term_set.shared:
            shared.rows.change(placed.row, times)

    def remove(self, placed: PlacedPod) -> None:
        """Stops counting the terms of a pod; call before removing it from the pod table."""
        term_set = self._set_of_slot[placed.slot]
        if term_set is None:
            return
        self._set_of_slot[placed.slot] = None
        term_set.pods -= 1
        for index, shared, times in term_set.shared:
            shared.rows.change(placed.row, -times)
            if not term_set.pods:
                index.release(shared)
        if not term_set.pods:
            del self._sets[term_set.terms]

    def update(self, placed: PlacedPod, info: PodInfo) -> None:
        """Updates the counts for a new version of a placed pod; call before storing it."""
        before, after = placed.info.spec.affinity, info.spec.affinity
        if before is after or before == after:
            return
        self.remove(placed)
        old, placed.info = placed.info, info
        self.add(placed)
        placed.info = old

    def grow(self, capacity: int) -> None:
        """Grows to ``capacity`` rows."""
        if capacity == self._capacity:
            return
        self._capacity = capacity
        for _, index in self.indexes():
            for shared in index:
                shared.rows.grow(capacity)

    # -- internal ---------------------------------------------------------------------------------

    def _acquire(self, terms: PodTerms) -> list[tuple[TermIndex, SharedTerm, int]]:
        sorts: list[tuple[TermIndex, Counter[Any]]] = [
            (self.affinity, Counter((term, 0) for term in terms.affinity)),
            (self.anti_affinity, Counter((term, 0) for term in terms.anti_affinity)),
            (
                self.preferred,
                Counter(
                    (term, weight) for weight, term in (*terms.preferred, *terms.preferred_anti)
                ),
            ),
        ]
        return [
            (index, index.acquire(term, weight, self._capacity), times)
            for index, counted in sorts
            for (term, weight), times in counted.items()
        ]
