"""The terms of the pods on nodes: who on which node wants, or does not want, which pods near.

A new pod must know which running pods mean *it*. Nobody walks the pods for that: equal terms are
kept once, with the number of pods that have them per row, in a table that finds the few terms
which can mean a pod from its namespace and its labels.

::

    pod on row 7 ── TermSet ──> held term: rows[7] += 1      a new pod ── namespace, labels ──┐
                    (per template)     ^                                                      |
                                       └──────────────── TermIndex ───────────────────────────┘
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mooring.objects.pod import Affinity
from mooring.objects.selectors import EXISTS, IN, Requirement
from mooring.state.columns.grouped import Counts, GroupedCounts, Sums
from mooring.state.tables.pod_terms import NO_TERMS, PodTerms, Term, compile_terms
from mooring.state.tables.pods import PlacedPod, PodInfo

#: A row in a dict takes about as much room as 32 cells of a column.
CELLS_PER_ENTRY: Final = 32

#: Below this, a dict is small whatever the cluster's size.
ENTRIES_MIN: Final = 16

#: A term with more namespaces, or a condition with more values, than this is kept in one place.
PLACES_MAX: Final = 8

#: Templates whose compiled terms are remembered, unless they have very many.
TEMPLATES_KEPT: Final = 4_096
TERMS_MAX: Final = 64


class RowCounts(GroupedCounts):
    """A count per row: a dict while few rows have one, a column when many do."""

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
        """How many rows have a count."""
        return len(self._few) if self._column is None else self._used

    @property
    def is_column(self) -> bool:
        """Whether it takes a cell for every row."""
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
        """Returns the counts by row, int32 shape (capacity,); read only."""
        return self._as_column() if self._column is None else self._column

    def add_to(self, sums: Sums, factor: int) -> None:
        """Adds every count, times ``factor``, to ``sums``, int64 shape (capacity,)."""
        if self._column is not None:
            sums += self._column if factor == 1 else self._column * np.int64(factor)
            return
        for row, count in self._few.items():
            sums[row] += factor * count

    def items(self) -> list[tuple[int, int]]:
        """Row and count, of the rows that have one."""
        if self._column is None:
            return list(self._few.items())
        rows = self._column.nonzero()[0]
        return list(zip(rows.tolist(), self._column[rows].tolist(), strict=True))

    def grow(self, capacity: int) -> None:
        """Makes room for ``capacity`` rows."""
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
    """A term that pods on nodes have, with the number of times they have it per row.

    ``weight`` is 0 for required ones, and negative for preferences against nearness.
    """

    __slots__ = ("places", "ref_count", "rows", "term", "weight")

    def __init__(self, term: Term, weight: int, capacity: int) -> None:
        self.term = term
        self.weight = weight
        self.rows = RowCounts(capacity)
        #: Sets of terms that have it.
        self.ref_count = 0
        self.places: tuple[_Place, ...] = ()


#: Where terms are looked up: a namespace (None = any), and a label that all pods meant by the term
#: have: (key, value), (key,) = with any value, () = no label that is known.
_Place = tuple[str | None, tuple[str, ...]]


class TermIndex:
    """Terms of one sort, found by the pods that they may mean.

    Complexity: ``matching`` costs O(labels + terms that may match), however many terms there are.
    """

    def __init__(self) -> None:
        self._held: dict[tuple[Term, int], SharedTerm] = {}
        self._places: dict[str | None, dict[tuple[str, ...], dict[SharedTerm, None]]] = {}

    def __len__(self) -> int:
        """How many different terms there are."""
        return len(self._held)

    def __iter__(self) -> Iterator[SharedTerm]:
        return iter(self._held.values())

    def hold(self, term: Term, weight: int, capacity: int) -> SharedTerm:
        """Returns the held term for this term and weight, with one holder more."""
        held = self._held.get((term, weight))
        if held is None:
            held = self._held[term, weight] = SharedTerm(term, weight, capacity)
            held.places = tuple(self._places_for(term))
            for namespace, label in held.places:
                self._places.setdefault(namespace, {}).setdefault(label, {})[held] = None
        held.ref_count += 1
        return held

    def release(self, held: SharedTerm) -> None:
        """One holder less; the last one takes the term along."""
        held.ref_count -= 1
        if held.ref_count:
            return
        del self._held[held.term, held.weight]
        for namespace, label in held.places:
            of_namespace = self._places[namespace]
            del of_namespace[label][held]
            if not of_namespace[label]:
                del of_namespace[label]
            if not of_namespace:
                del self._places[namespace]

    def matching(
        self, namespace: str, namespace_labels: Mapping[str, str], labels: Mapping[str, str]
    ) -> list[SharedTerm]:
        """Returns the terms that mean a pod of this namespace with these labels, each once."""
        return [
            held
            for held in self.candidates(namespace, labels)
            if held.term.matches(namespace, namespace_labels, labels)
        ]

    def candidates(self, namespace: str, labels: Mapping[str, str]) -> Iterator[SharedTerm]:
        """Returns the terms that may mean such a pod, each once; no other one can."""
        if not self._held:
            return
        for of_namespace in (self._places.get(namespace), self._places.get(None)):
            if not of_namespace:
                continue
            for label in _looked_up(labels):
                yield from of_namespace.get(label, ())

    def _places_for(self, term: Term) -> Iterator[_Place]:
        """Where to keep a term: in each of its namespaces, under the label that says the most."""
        if term.selector.selects_nothing:
            return
        is_listed = term.namespace_selector.selects_nothing and len(term.namespaces) <= PLACES_MAX
        namespaces: list[str | None] = [*sorted(term.namespaces)] if is_listed else [None]
        if not namespaces:
            return
        of_namespace = self._places.get(namespaces[0], {})

        def crowd(labels: list[tuple[str, ...]]) -> tuple[int, int]:
            return sum(len(of_namespace.get(label, ())) for label in labels), -len(labels[0])

        choices = [_labels_of(condition) for condition in term.selector.requirements]
        labels = min((choice for choice in choices if choice), key=crowd, default=[()])
        for namespace in namespaces:
            yield from ((namespace, label) for label in labels)


def _looked_up(labels: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    yield ()
    for key, value in labels.items():
        yield key, value
        yield (key,)


def _labels_of(condition: Requirement) -> list[tuple[str, ...]]:
    """The labels of which every pod that meets the condition has exactly one; [] = none known."""
    if condition.operator == IN:
        if len(condition.values) > PLACES_MAX:
            return [(condition.key,)]
        return [(condition.key, value) for value in condition.values]
    return [(condition.key,)] if condition.operator == EXISTS else []


class TermSet:
    """The terms of one template, each with the index it is in and how often the pod has it."""

    __slots__ = ("held", "pods", "terms")

    def __init__(self, terms: PodTerms, held: list[tuple[TermIndex, SharedTerm, int]]) -> None:
        self.terms = terms
        self.held = held
        #: Pods on nodes with these terms.
        self.pods = 0


class PodTermTable:
    """The terms of all pods on nodes. The one owner is the Cache, which tells of every change.

    Complexity: a pod that comes or goes costs O(its different terms); one without any O(1).
    """

    def __init__(self, capacity: int = 0) -> None:
        """``capacity`` is the length of columns: rows of the node table, used or not."""
        self.affinity = TermIndex()
        self.anti_affinity = TermIndex()
        #: Preferences for nearness and, with a negative weight, against it.
        self.preferred = TermIndex()
        self._capacity = capacity
        self._sets: dict[PodTerms, TermSet] = {}
        #: By slot of the pod table; None = the pod has no terms.
        self._set_of_slot: list[TermSet | None] = []
        #: (namespace, id) -> the affinity that has this id, so that it keeps it, and its terms.
        self._compiled: OrderedDict[tuple[str, int], tuple[Affinity, PodTerms]] = OrderedDict()

    def indexes(self) -> list[tuple[str, TermIndex]]:
        """Returns every sort of terms by name, for the audit."""
        return [
            ("affinity", self.affinity),
            ("anti-affinity", self.anti_affinity),
            ("preferred", self.preferred),
        ]

    def terms_of(self, placed: PlacedPod) -> PodTerms:
        """Returns the terms with which a pod counts."""
        of_set = self._set_of_slot[placed.slot]
        return NO_TERMS if of_set is None else of_set.terms

    def compiled(self, info: PodInfo) -> PodTerms:
        """The terms of any pod, on a node or not; compiled once for pods that share them."""
        affinity = info.spec.affinity
        if affinity is None:
            return NO_TERMS
        if affinity.pod_affinity is None and affinity.pod_anti_affinity is None:
            return NO_TERMS
        key = (info.metadata.namespace, id(affinity))
        known = self._compiled.get(key)
        if known is not None:
            self._compiled.move_to_end(key)
            return known[1]
        terms = compile_terms(info.metadata.namespace, affinity)
        if sum(map(len, terms)) <= TERMS_MAX:
            self._compiled[key] = affinity, terms
            if len(self._compiled) > TEMPLATES_KEPT:
                self._compiled.popitem(last=False)
        return terms

    @property
    def set_count(self) -> int:
        """How many different sets of terms pods have."""
        return len(self._sets)

    # -- pods come, change and go -----------------------------------------------------------------

    def add(self, placed: PlacedPod) -> None:
        """A pod was put into the pod table."""
        while len(self._set_of_slot) <= placed.slot:
            self._set_of_slot.append(None)
        terms = self.compiled(placed.info)
        if terms is NO_TERMS:
            return
        if terms.problems:  # the pod itself was refused for them, or never asked
            terms = terms._replace(problems=())
        if terms == NO_TERMS:
            return
        of_set = self._sets.get(terms)
        if of_set is None:
            of_set = self._sets[terms] = TermSet(terms, self._hold(terms))
        self._set_of_slot[placed.slot] = of_set
        of_set.pods += 1
        for _, held, times in of_set.held:
            held.rows.change(placed.row, times)

    def remove(self, placed: PlacedPod) -> None:
        """A pod is about to leave the pod table: it still has its slot."""
        of_set = self._set_of_slot[placed.slot]
        if of_set is None:
            return
        self._set_of_slot[placed.slot] = None
        of_set.pods -= 1
        for index, held, times in of_set.held:
            held.rows.change(placed.row, -times)
            if not of_set.pods:
                index.release(held)
        if not of_set.pods:
            del self._sets[of_set.terms]

    def update(self, placed: PlacedPod, info: PodInfo) -> None:
        """``info`` is about to become the version of the pod that counts."""
        before, after = placed.info.spec.affinity, info.spec.affinity
        if before is after or before == after:
            return
        self.remove(placed)
        old, placed.info = placed.info, info
        self.add(placed)
        placed.info = old

    def grow(self, capacity: int) -> None:
        """Makes room for ``capacity`` rows."""
        if capacity == self._capacity:
            return
        self._capacity = capacity
        for _, index in self.indexes():
            for held in index:
                held.rows.grow(capacity)

    # -- inside -----------------------------------------------------------------------------------

    def _hold(self, terms: PodTerms) -> list[tuple[TermIndex, SharedTerm, int]]:
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
            (index, index.hold(term, weight, self._capacity), times)
            for index, counted in sorts
            for (term, weight), times in counted.items()
        ]
