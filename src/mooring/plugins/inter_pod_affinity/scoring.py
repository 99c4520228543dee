"""The raw scores of InterPodAffinity.

Source: pkg/scheduler/framework/plugins/interpodaffinity/scoring.go.
"""

from __future__ import annotations

import numpy as np

from mooring.framework import NodeView
from mooring.framework.interface import Scores
from mooring.plugins.inter_pod_affinity.domains import (
    Domains,
    KeyColumn,
    KeyColumns,
    WeightedKey,
    shared_term_sums,
    sums_of,
)
from mooring.plugins.inter_pod_affinity.terms import counter_key, matching_terms
from mooring.state import PodInfo, Snapshot
from mooring.state.columns.grouped import Sums
from mooring.state.tables.affinity_terms import SharedTerm
from mooring.state.tables.pod_terms import PodTerms


def weighted_counts(
    snapshot: Snapshot, columns: KeyColumns, pod: PodInfo, terms: PodTerms, *, hard_weight: int
) -> tuple[Domains, ...] | None:
    """Returns the weighted counts by domain for each topology key; None if no term applies.

    The pod's preferred terms count for each existing pod that they match; preferred terms of
    existing pods count if they match the pod, and so does their required affinity, with
    ``hard_weight``. The result is not None if the weights of all matches cancel each other out.
    """
    namespaces = snapshot.namespaces
    own = [
        WeightedKey(term.topology_key, counter_key(term, namespaces), weight)
        for weight, term in (*terms.preferred, *terms.preferred_anti)
    ]
    existing = _matching_scored_terms(snapshot, pod, hard_weight)
    if not own and not existing:
        return None
    keys = [item.topology_key for item in own]
    keys += [shared.term.topology_key for shared, _ in existing]
    by_key = columns.of(snapshot, dict.fromkeys(keys))
    sums = _sums(snapshot, by_key, own, existing)
    if not any(counts.any() for counts in sums.values()):
        # The weights may cancel each other out: count again without weights.
        unweighted = [item._replace(weight=1) for item in own]
        plain_sums = _sums(snapshot, by_key, unweighted, [(shared, 1) for shared, _ in existing])
        if not any(counts.any() for counts in plain_sums.values()):
            return None
    return tuple(Domains(by_key[key], counts) for key, counts in sums.items())


def raw_scores(weighted: tuple[Domains, ...], nodes: NodeView) -> Scores:
    """Returns the sum of the weighted counts in each node's domains, int64 shape (m,)."""
    scores = np.zeros(len(nodes), dtype=np.int64)
    for domains in weighted:
        scores += domains.column.at(domains.counts, nodes)
    return scores


def _sums(
    snapshot: Snapshot,
    columns: dict[str, KeyColumn],
    own: list[WeightedKey],
    existing: list[tuple[SharedTerm, int]],
) -> dict[str, Sums]:
    """Returns the weighted sums of the pod's terms and of existing pods' terms, by value."""
    sums = shared_term_sums(columns, existing)
    for key, counts in sums_of(snapshot, columns, own).items():
        sums[key] = sums[key] + counts if key in sums else counts
    return sums


def _matching_scored_terms(
    snapshot: Snapshot, pod: PodInfo, hard_weight: int
) -> list[tuple[SharedTerm, int]]:
    """Returns the scored terms of existing pods that match the pod, with their weights."""
    terms = snapshot.terms
    preferred = matching_terms(terms.preferred, snapshot, pod)
    weighted = [(shared, shared.weight) for shared in preferred]
    if hard_weight > 0:
        required = matching_terms(terms.affinity, snapshot, pod)
        weighted += ((shared, hard_weight) for shared in required)
    return weighted
