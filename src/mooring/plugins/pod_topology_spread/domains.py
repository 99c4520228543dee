"""Which nodes make up the domains of a constraint: what follows from nodes and pod spec alone.

A domain is a value of a topology key. Pods of one template are spread over the same domains, and
nodes seldom change, so this is worked out once and kept; what is left for an attempt is to add up
how many pods are in each.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from mooring.framework import NodeView
from mooring.framework.selector_matching import matches_required
from mooring.objects.pod import Toleration
from mooring.objects.selectors import RequiredNodeAffinity
from mooring.objects.tolerations import first_untolerated
from mooring.plugins.pod_topology_spread.constraints import Constraint
from mooring.state import Change, NodeTable, Snapshot
from mooring.state.columns.labels import MISSING
from mooring.state.tables.counters import PodCounter

Bools = npt.NDArray[np.bool_]
Ids = npt.NDArray[np.intp]
Counts = npt.NDArray[np.int64]

#: Kept per plugin: 64 templates with three constraints each take 25 MB at 5 000 nodes.
LAYOUTS_MAX: Final = 64

#: The smallest count of no domains at all, as upstream starts its search for it.
NO_DOMAIN: Final = 2**31 - 1

#: What a layout follows from.
_READS: Final = int(Change.EXISTENCE | Change.LABELS | Change.TAINTS)


@dataclass(frozen=True, slots=True, eq=False)
class Domains:
    """The domains of one constraint, as groups of rows; nothing in it ever changes.

    Attributes:
        of_row: Shape (capacity,): the number of the row's domain.
        missing: The number that stands for "does not have the key"; the highest one.
        empty: The number of the value "": where such a node counts if it need not have the key.
        eligible: The rows whose pods count.
        eligible_of_row: As a mask, shape (capacity,).
        known: The numbers of the domains with an eligible row, ascending.
        is_complete: Whether every node has the key, and every number but ``missing`` is known.
        node_count: How many nodes there are.
        node_domains: How many domains all of them are in.
    """

    of_row: Ids
    missing: int
    empty: int
    eligible: Ids
    eligible_of_row: Bools
    known: Ids
    is_complete: bool
    node_count: int
    node_domains: int

    def add_up(self, counts: npt.NDArray[np.integer[Any]]) -> Counts:
        """How many pods the eligible rows of each domain have, shape (missing + 1,).

        ``counts`` are pods per row, shape (capacity,).
        """
        found = np.bincount(
            self.of_row[self.eligible], weights=counts[self.eligible], minlength=self.missing + 1
        )
        if self.empty != self.missing:
            found[self.empty] += found[self.missing]
        return found.astype(np.int64)  # sums of ints below 2**53: exact

    def add(self, sums: Counts, row: int, by: int) -> None:
        """Changes the counts of domains as ``by`` more on ``row`` change them; see ``Groups``."""
        if row >= len(self.of_row) or not self.eligible_of_row[row]:
            return
        domain = int(self.of_row[row])
        sums[domain] += by
        if domain == self.missing != self.empty:
            sums[self.empty] += by

    def smallest(self, counts: Counts) -> int:
        """Returns the count of the emptiest known domain; ``NO_DOMAIN`` if there is none."""
        of_known = counts[: self.missing] if self.is_complete else counts[self.known]
        return int(of_known.min()) if len(of_known) else NO_DOMAIN

    def count_distinct(self, rows: Ids) -> int:
        """How many domains ``rows`` are in; no key and the value "" are one and the same."""
        return _distinct(self.of_row[rows], self.missing, self.empty)


class DomainLayout:
    """The domains of all constraints of a pod.

    Attributes:
        domains: Of each constraint.
        has_all_keys: The rows whose node has every topology key, bool shape (capacity,).
        is_everywhere: Whether all nodes have all of them.
    """

    __slots__ = ("domains", "has_all_keys", "is_everywhere")

    def __init__(
        self, domains: tuple[Domains, ...], has_all_keys: Bools, *, is_everywhere: bool
    ) -> None:
        self.domains = domains
        self.has_all_keys = has_all_keys
        self.is_everywhere = is_everywhere

    def counts(self, number: int, counter: PodCounter) -> Counts:
        """Matching pods in each domain of constraint ``number``, the caller's own array."""
        return counter.sums_over(self.domains[number]).copy()


class LayoutKey(NamedTuple):
    """What a layout follows from on the pod's side; equal questions have equal layouts."""

    #: Topology key, honors affinity, honors taints.
    constraints: tuple[tuple[str, bool, bool], ...]
    requires_all_keys: bool
    affinity: RequiredNodeAffinity
    tolerations: tuple[Toleration, ...]


class DomainLayouts:
    """The layouts that were asked for lately, as long as labels and taints stay as they are."""

    def __init__(self) -> None:
        self._kept: OrderedDict[LayoutKey, DomainLayout] = OrderedDict()
        self._nodes: NodeTable | None = None
        self._capacity = 0
        self._generation = 0

    def of(self, snapshot: Snapshot, question: LayoutKey) -> DomainLayout:
        """Returns the answer, as the snapshot's nodes are."""
        self._invalidate_if_stale(snapshot)
        layout = self._kept.get(question)
        if layout is None:
            layout = build_layout(snapshot, question)
            self._kept[question] = layout
            if len(self._kept) > LAYOUTS_MAX:
                self._kept.popitem(last=False)
        else:
            self._kept.move_to_end(question)
        return layout

    def _invalidate_if_stale(self, snapshot: Snapshot) -> None:
        """Forgets everything if nodes came, went, or changed their labels or taints."""
        nodes = snapshot.nodes
        is_known = nodes is self._nodes and nodes.capacity == self._capacity
        if is_known and snapshot.generation == self._generation:
            return
        changes = nodes.log.since(self._generation) if is_known else None
        if changes is None or int(np.bitwise_or.reduce(changes[1])) & _READS:
            self._kept.clear()
        self._nodes, self._capacity = nodes, nodes.capacity
        self._generation = snapshot.generation


def layout_key(
    constraints: tuple[Constraint, ...],
    *,
    requires_all_keys: bool,
    affinity: RequiredNodeAffinity,
    tolerations: tuple[Toleration, ...],
) -> LayoutKey:
    """What the layout of these constraints follows from; the rest is left out."""
    return LayoutKey(
        tuple(
            (each.topology_key, each.honors_affinity, each.honors_taints) for each in constraints
        ),
        requires_all_keys,
        affinity if any(each.honors_affinity for each in constraints) else RequiredNodeAffinity(),
        tolerations if any(each.honors_taints for each in constraints) else (),
    )


def build_layout(snapshot: Snapshot, question: LayoutKey) -> DomainLayout:
    """Work a layout out from the node columns. Complexity: O(nodes x constraints)."""
    nodes = snapshot.nodes
    here = nodes.alive.copy()
    has_all_keys = here.copy()
    for key in dict.fromkeys(key for key, _, _ in question.constraints):
        has_all_keys &= nodes.label(key).codes != MISSING
        if not nodes.has_label(key):
            break  # no node has them all, whatever the others are
    counted = has_all_keys if question.requires_all_keys else here
    everything = NodeView.everything(snapshot)
    fits, clean = here, here
    if not question.affinity.selects_everything:
        fits = _mask(everything, matches_required(question.affinity, everything))
    if any(honors_taints for _, _, honors_taints in question.constraints):
        clean = _mask(everything, _tolerated(everything, question.tolerations))
    #: Keys that no node has make up the same domains: none. A pod may name a thousand of them.
    known: dict[tuple[str | None, bool, bool], Domains] = {}
    domains = []
    for key, honors_affinity, honors_taints in question.constraints:
        same = key if nodes.has_label(key) else None, honors_affinity, honors_taints
        if same not in known:
            eligible = counted.copy()
            if honors_affinity:
                eligible &= fits
            if honors_taints:
                eligible &= clean
            known[same] = _domains(nodes, key, everything.rows, eligible)
        domains.append(known[same])
    is_everywhere = np.count_nonzero(has_all_keys) == len(everything)
    return DomainLayout(tuple(domains), has_all_keys, is_everywhere=is_everywhere)


def _domains(nodes: NodeTable, key: str, live: Ids, eligible: Bools) -> Domains:
    column = nodes.label(key)
    missing = len(column.values)
    of_row = column.codes.astype(np.intp)
    of_row[of_row == MISSING] = missing
    rows = np.flatnonzero(eligible)
    known = np.flatnonzero(np.bincount(of_row[rows], minlength=missing + 1))
    empty = column.values.find("")
    empty = empty if empty >= 0 else missing
    return Domains(
        of_row=of_row,
        missing=missing,
        empty=empty,
        eligible=rows,
        eligible_of_row=eligible,
        known=known,
        is_complete=len(known) == missing and not (of_row[live] == missing).any(),
        node_count=len(live),
        node_domains=_distinct(of_row[live], missing, empty),
    )


def _distinct(numbers: Ids, missing: int, empty: int) -> int:
    is_there = np.bincount(numbers, minlength=missing + 1) > 0
    is_twice = empty != missing and bool(is_there[empty] and is_there[missing])
    return int(np.count_nonzero(is_there)) - is_twice


def _mask(view: NodeView, chosen: Bools) -> Bools:
    """``chosen`` of the view's rows as a mask over all rows."""
    mask = np.zeros(view.snapshot.nodes.capacity, dtype=np.bool_)
    mask[view.rows] = chosen
    return mask


def _tolerated(nodes: NodeView, tolerations: tuple[Toleration, ...]) -> Bools:
    """Which nodes have no hard taint that is not tolerated; each set of taints is judged once."""
    judged = [
        not taints or first_untolerated(taints, tolerations) is None for taints in nodes.taint_sets
    ]
    return np.array(judged, dtype=np.bool_)[nodes.taint_ids]
