"""The raw scores of InterPodAffinity: what is near each node, for and against it.

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
    Wanted,
    held_sums,
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
    """What is near each node, weighed, per topology key; None if no term says anything of any.

    Preferences of the pod count for each pod that they mean, those of pods on nodes if they mean
    the pod, and so does their required affinity, with ``hard_weight``. Sums that cancel out are
    something all the same.
    """
    namespaces = snapshot.namespaces
    wanted = [
        Wanted(term.topology_key, matching_terms(term, namespaces), weight)
        for weight, term in (*terms.preferred, *terms.preferred_anti)
    ]
    held = _meaning(snapshot, pod, hard_weight)
    if not wanted and not held:
        return None
    keys = [each.topology_key for each in wanted]
    keys += [each.term.topology_key for each, _ in held]
    found = columns.of(snapshot, dict.fromkeys(keys))
    sums = _sums(snapshot, found, wanted, held)
    if not any(counts.any() for counts in sums.values()):
        # Perhaps they cancel out: the same without weights, which cannot.
        plain = [each._replace(weight=1) for each in wanted]
        counted = _sums(snapshot, found, plain, [(each, 1) for each, _ in held])
        if not any(counts.any() for counts in counted.values()):
            return None
    return tuple(Domains(found[key], counts) for key, counts in sums.items())


def raw_scores(near: tuple[Domains, ...], nodes: NodeView) -> Scores:
    """Returns the sum of the weights of what is near each node, int64 shape (m,)."""
    scores = np.zeros(len(nodes), dtype=np.int64)
    for domains in near:
        scores += domains.column.at(domains.counts, nodes)
    return scores


def _sums(
    snapshot: Snapshot,
    columns: dict[str, KeyColumn],
    wanted: list[Wanted],
    held: list[tuple[SharedTerm, int]],
) -> dict[str, Sums]:
    """What own preferences and terms of others come to, per topology key and by its values."""
    sums = held_sums(columns, held)
    for key, counts in sums_of(snapshot, columns, wanted).items():
        sums[key] = sums[key] + counts if key in sums else counts
    return sums


def _meaning(snapshot: Snapshot, pod: PodInfo, hard_weight: int) -> list[tuple[SharedTerm, int]]:
    """Returns the terms of pods on nodes that mean the pod and score, with their weights."""
    terms = snapshot.terms
    preferred = counter_key(terms.preferred, snapshot, pod)
    found = [(held, held.weight) for held in preferred]
    if hard_weight > 0:
        found += ((held, hard_weight) for held in counter_key(terms.affinity, snapshot, pod))
    return found
