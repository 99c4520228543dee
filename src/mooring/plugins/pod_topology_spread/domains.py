"""The domains of constraints: the nodes that count, and their values of the topology keys.

Domains depend only on nodes and the pod's spec. Pods of one template have the same domains, and
nodes seldom change, so layouts are cached; an attempt only sums the pods of each domain.
"""

from __future__ import annotations

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
from mooring.state.columns.caches import NodeCache
from mooring.state.columns.labels import MISSING
from mooring.state.tables.counters import PodCounter
from mooring.state.types import Bools

Ids = npt.NDArray[np.intp]
Counts = npt.NDArray[np.int64]

#: Cached per plugin: 64 templates with three constraints each take 25 MB at 5 000 nodes.
LAYOUTS_MAX: Final = 64

#: The smallest count if there is no domain: upstream's initial value of the minimum.
NO_DOMAIN: Final = 2**31 - 1


@dataclass(frozen=True, slots=True, eq=False)
class Domains:
    """The domains of one constraint, as groups of rows; immutable.

    Attributes:
        of_row: The number of the row's domain, shape (capacity,).
        missing: The number for nodes without the key; the highest one.
        empty: The number of the value "", which includes nodes without the key if they count.
        eligible: The rows whose pods count.
        eligible_of_row: The same as a mask, shape (capacity,).
        eligible_domains: The numbers of the domains with an eligible row, ascending.
        is_complete: True if every node has the key, and every domain is eligible.
        node_count: The number of nodes.
        node_domains: The number of domains of all nodes.
    """

    of_row: Ids
    missing: int
    empty: int
    eligible: Ids
    eligible_of_row: Bools
    eligible_domains: Ids
    is_complete: bool
    node_count: int
    node_domains: int

    def add_up(self, counts: npt.NDArray[np.integer[Any]]) -> Counts:
        """Returns the number of pods on the eligible rows of each domain, shape (missing + 1,).

        ``counts`` are pods per row, shape (capacity,).
        """
        sums = np.bincount(
            self.of_row[self.eligible], weights=counts[self.eligible], minlength=self.missing + 1
        )
        if self.empty != self.missing:
            sums[self.empty] += sums[self.missing]
        return sums.astype(np.int64)  # sums of ints below 2**53: exact

    def add(self, sums: Counts, row: int, by: int) -> None:
        """Adds ``by`` pods on ``row`` to the sums by domain; see ``Groups``."""
        if row >= len(self.of_row) or not self.eligible_of_row[row]:
            return
        domain = int(self.of_row[row])
        sums[domain] += by
        if domain == self.missing != self.empty:
            sums[self.empty] += by

    def smallest(self, counts: Counts) -> int:
        """Returns the smallest count of an eligible domain; ``NO_DOMAIN`` if there is none."""
        of_eligible = counts[: self.missing] if self.is_complete else counts[self.eligible_domains]
        return int(of_eligible.min()) if len(of_eligible) else NO_DOMAIN

    def count_distinct(self, rows: Ids) -> int:
        """Returns the number of domains of ``rows``; no key and the value "" are the same one."""
        return _distinct(self.of_row[rows], self.missing, self.empty)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class DomainLayout:
    """The domains of all constraints of a pod.

    Attributes:
        domains: The domains of each constraint.
        has_all_keys: The rows whose node has every topology key, bool shape (capacity,).
        is_everywhere: True if all nodes have all keys.
    """

    domains: tuple[Domains, ...]
    has_all_keys: Bools
    is_everywhere: bool

    def counts(self, number: int, counter: PodCounter) -> Counts:
        """Returns the matching pods of each domain of constraint ``number``, as a new array."""
        return counter.sums_over(self.domains[number]).copy()


class LayoutKey(NamedTuple):
    """The part of the pod that a layout depends on; equal keys have equal layouts."""

    #: Topology key, honors affinity, honors taints.
    constraints: tuple[tuple[str, bool, bool], ...]
    requires_all_keys: bool
    affinity: RequiredNodeAffinity
    tolerations: tuple[Toleration, ...]
    #: Whether the operators Lt and Gt of tolerations compare numbers.
    compares_taints: bool = False


class DomainLayouts:
    """A cache of layouts, invalidated when nodes, labels or taints change."""

    def __init__(self) -> None:
        self._cache: NodeCache[LayoutKey, DomainLayout] = NodeCache(
            LAYOUTS_MAX, Change.EXISTENCE | Change.LABELS | Change.TAINTS
        )

    def of(self, snapshot: Snapshot, key: LayoutKey) -> DomainLayout:
        """Returns the layout for the snapshot's nodes."""
        self._cache.invalidate_if_stale(snapshot.nodes.log, snapshot.nodes.size)
        layout = self._cache.recent(key)
        return self._cache.put(key, build_layout(snapshot, key)) if layout is None else layout


def layout_key(
    constraints: tuple[Constraint, ...],
    *,
    requires_all_keys: bool,
    affinity: RequiredNodeAffinity,
    tolerations: tuple[Toleration, ...],
    compares_taints: bool = False,
) -> LayoutKey:
    """Returns the key of the layout of these constraints, without parts that do not matter."""
    return LayoutKey(
        tuple(
            (item.topology_key, item.honors_affinity, item.honors_taints) for item in constraints
        ),
        requires_all_keys,
        affinity if any(item.honors_affinity for item in constraints) else RequiredNodeAffinity(),
        tolerations if any(item.honors_taints for item in constraints) else (),
        compares_taints,
    )


def build_layout(snapshot: Snapshot, key: LayoutKey) -> DomainLayout:
    """Builds a layout from the node columns. Complexity: O(nodes x constraints)."""
    nodes = snapshot.nodes
    alive = nodes.alive.copy()
    has_all_keys = alive.copy()
    for topology_key in dict.fromkeys(name for name, _, _ in key.constraints):
        has_all_keys &= nodes.label(topology_key).codes != MISSING
        if not nodes.has_label(topology_key):
            break  # no node has them all, whatever the others are
    is_counted = has_all_keys if key.requires_all_keys else alive
    all_nodes = NodeView.all_nodes(snapshot)
    matches_affinity, is_tolerated = alive, alive
    if not key.affinity.selects_everything:
        matches_affinity = _mask(all_nodes, matches_required(key.affinity, all_nodes))
    if any(honors_taints for _, _, honors_taints in key.constraints):
        is_tolerated = _mask(all_nodes, _tolerated(all_nodes, key))
    #: Keys that no node has share one entry without domains: a pod may name a thousand of them.
    cache: dict[tuple[str | None, bool, bool], Domains] = {}
    domains = []
    for topology_key, honors_affinity, honors_taints in key.constraints:
        cache_key = (
            topology_key if nodes.has_label(topology_key) else None,
            honors_affinity,
            honors_taints,
        )
        if cache_key not in cache:
            eligible = is_counted.copy()
            if honors_affinity:
                eligible &= matches_affinity
            if honors_taints:
                eligible &= is_tolerated
            cache[cache_key] = _domains(nodes, topology_key, all_nodes.rows, eligible)
        domains.append(cache[cache_key])
    is_everywhere = np.count_nonzero(has_all_keys) == len(all_nodes)
    return DomainLayout(
        domains=tuple(domains), has_all_keys=has_all_keys, is_everywhere=is_everywhere
    )


def _domains(nodes: NodeTable, key: str, live: Ids, eligible: Bools) -> Domains:
    column = nodes.label(key)
    missing = len(column.values)
    of_row = column.codes.astype(np.intp)
    of_row[of_row == MISSING] = missing
    rows = np.flatnonzero(eligible)
    eligible_domains = np.flatnonzero(np.bincount(of_row[rows], minlength=missing + 1))
    empty = column.values.find("")
    empty = empty if empty >= 0 else missing
    return Domains(
        of_row=of_row,
        missing=missing,
        empty=empty,
        eligible=rows,
        eligible_of_row=eligible,
        eligible_domains=eligible_domains,
        is_complete=len(eligible_domains) == missing and not (of_row[live] == missing).any(),
        node_count=len(live),
        node_domains=_distinct(of_row[live], missing, empty),
    )


def _distinct(numbers: Ids, missing: int, empty: int) -> int:
    occurs = np.bincount(numbers, minlength=missing + 1) > 0
    is_twice = empty != missing and bool(occurs[empty] and occurs[missing])
    return int(np.count_nonzero(occurs)) - is_twice


def _mask(view: NodeView, mask_of_view: Bools) -> Bools:
    """Converts a mask over the nodes of a view to one over all rows."""
    mask = np.zeros(view.snapshot.nodes.capacity, dtype=np.bool_)
    mask[view.rows] = mask_of_view
    return mask


def _tolerated(nodes: NodeView, key: LayoutKey) -> Bools:
    """Returns the nodes without untolerated hard taints; evaluates each set of taints once."""
    by_set = [
        not taints
        or first_untolerated(taints, key.tolerations, compares=key.compares_taints) is None
        for taints in nodes.taint_sets
    ]
    return np.array(by_set, dtype=np.bool_)[nodes.taint_ids]
