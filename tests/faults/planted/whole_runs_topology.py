"""Bugs about several nodes: affinity, spreading, labels, and rows that are used again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mooring.cluster_event import QueueingHint
from mooring.plugins.inter_pod_affinity import hints as affinity_hints
from mooring.plugins.inter_pod_affinity import plugin as affinity
from mooring.plugins.inter_pod_affinity.domains import counts_by_domain
from mooring.plugins.pod_topology_spread import hints as spread_hints
from mooring.plugins.pod_topology_spread import plugin as spread
from mooring.plugins.pod_topology_spread.domains import Domains
from mooring.state.columns.change_log import Change
from mooring.state.tables import nodes as node_table
from mooring.state.tables.counters import CounterKey
from mooring.state.tables.nodes import NodeTable

Patch = pytest.MonkeyPatch


def ignore_terms_of_others(patch: Patch) -> None:
    """Does not apply the anti-affinity of pods that are on nodes already."""
    patch.setattr(affinity.InterPodAffinity, "_existing", lambda *_: {})


def forbid_the_first(patch: Patch) -> None:
    """Lets a pod with affinity to its own group wait for another one, even if it is the first."""
    patch.setattr(affinity, "matches", lambda *_: False)


def count_terminating(patch: Patch) -> None:
    """Counts pods that are being deleted when it spreads."""
    counter_key = CounterKey

    def with_terminating(*args: Any, **keywords: Any) -> Any:
        return counter_key(*args, **{**keywords, "with_terminating": True})

    patch.setattr(spread, "CounterKey", with_terminating)


def allow_one_more(patch: Patch) -> None:
    """Does not count the pod itself when it spreads."""
    smallest = Domains.smallest
    patch.setattr(Domains, "smallest", lambda self, counts: smallest(self, counts) + 1)


def overlook_empty_domains(patch: Patch) -> None:
    """Looks for the emptiest domain among those that have a pod."""
    smallest = Domains.smallest

    def of_used(self: Domains, counts: Any) -> int:
        used = counts[: self.missing]
        used = used[used > 0]
        return int(used.min()) if len(used) else smallest(self, counts)

    patch.setattr(Domains, "smallest", of_used)


def miss_relabeled_nodes(patch: Patch) -> None:
    """Leaves changed labels of a node out of the change log."""
    differences = node_table._differences

    def without_labels(before: Any, after: Any) -> int:
        kinds = differences(before, after)
        return kinds if before is None else kinds & ~int(Change.LABELS)

    patch.setattr(node_table, "_differences", without_labels)


def visit_in_the_wrong_zone(patch: Patch) -> None:
    """Visits a new node as if it were in zone a."""
    put = NodeTable.put

    def in_zone_a(self: NodeTable, node: Any) -> int:
        row = self._row_of.get(node.metadata.name, -1)
        is_new = row < 0 or self.objects[row] is None
        row = put(self, node)
        if is_new:
            self._alive[row] = True
            self.order.put(row, "a")
        return row

    patch.setattr(NodeTable, "put", in_zone_a)


def lose_columns_that_grow(patch: Patch) -> None:
    """Loses the number of pods of the old rows when the tables grow."""
    grow = NodeTable._grow_rows

    def without_counts(self: NodeTable) -> None:
        grow(self)
        self._pod_count[:] = 0

    patch.setattr(NodeTable, "_grow_rows", without_counts)


def keep_spread_pods_parked(patch: Patch) -> None:
    """Wakes no pod that waits to be spread when a pod leaves a domain."""
    helps = spread_hints._pod_helps

    def only_additions(pod: Any, old: Any, new: Any, hard: Any) -> bool:
        return new is not None and bool(helps(pod, old, new, hard))

    patch.setattr(spread_hints, "_pod_helps", only_additions)


def keep_parked_after_relabeling(patch: Patch) -> None:
    """Wakes no pod that waits to be spread when a node moves to another zone."""
    helps = spread_hints._node_helps

    def only_new_nodes(old: Any, new: Any, constraints: Any) -> bool:
        return (old is None or new is None) and bool(helps(old, new, constraints))

    patch.setattr(spread_hints, "_node_helps", only_new_nodes)


def keep_affine_pods_parked(patch: Patch) -> None:
    """Wakes no pod that waits for company when a pod appears."""
    patch.setattr(affinity_hints, "_now_satisfies_affinity", lambda *_: False)


def keep_repelled_pods_parked(patch: Patch) -> None:
    """Wakes no pod that a pod kept away when that one leaves."""
    patch.setattr(affinity_hints, "_no_longer_blocks", lambda *_: False)


def keep_parked_after_moves(patch: Patch) -> None:
    """Wakes no pod with affinity when a node appears or changes its zone."""
    patch.setattr(
        affinity_hints.Hints, "after_node_change", lambda *_: QueueingHint.SKIP, raising=True
    )


def forget_second_term(patch: Patch) -> None:
    """Forgets the second one of the domains with pods that a term repels."""

    def without_second(*args: Any) -> Any:
        by_key = counts_by_domain(*args)
        for domains in by_key.values():
            used = np.flatnonzero(domains.counts)
            if len(used) > 1:
                domains.counts[used[1]] = 0
        return by_key

    patch.setattr(affinity, "counts_by_domain", without_second)


TOPOLOGY_MUTATIONS = [
    ignore_terms_of_others,
    forbid_the_first,
    allow_one_more,
    overlook_empty_domains,
    miss_relabeled_nodes,
    visit_in_the_wrong_zone,
    lose_columns_that_grow,
    forget_second_term,
]
#: The seeds do not show these: another event wakes the pod first, or no pod is left to be woken.
UNSEEN_MUTATIONS = [
    keep_affine_pods_parked,
    count_terminating,
    keep_spread_pods_parked,
    keep_parked_after_relabeling,
    keep_repelled_pods_parked,
    keep_parked_after_moves,
]
