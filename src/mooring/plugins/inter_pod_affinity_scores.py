"""The raw scores of InterPodAffinity: what is near each node, for and against it.

Source: pkg/scheduler/framework/plugins/interpodaffinity/scoring.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

from mooring.plugins.inter_pod_affinity_domains import Counts, KeyColumns, Wanted, sums_of
from mooring.plugins.inter_pod_affinity_terms import meant_by
from mooring.state import PodInfo, Snapshot
from mooring.state.pod_terms import PodTerms
from mooring.state.terms import HeldTerm

Sums = npt.NDArray[np.int64]


def raw_scores(
    snapshot: Snapshot, columns: KeyColumns, pod: PodInfo, terms: PodTerms, *, hard_weight: int
) -> Sums | None:
    """The score of each row, int64 shape (rows,); None if no term says anything of any node.

    Preferences of the pod count for each pod that they mean, those of pods on nodes if they mean
    the pod, and so does their required affinity, with ``hard_weight``. Sums that cancel out are
    something all the same.
    """
    namespaces = snapshot.namespaces
    wanted = [
        Wanted(term.topology_key, meant_by(term, namespaces), weight)
        for weight, term in (*terms.preferred, *terms.preferred_anti)
    ]
    held = list(_meaning(snapshot, pod, hard_weight))
    if not wanted and not held:
        return None
    raw = np.zeros(snapshot.nodes.size, dtype=np.int64)
    for near in _near(snapshot, columns, wanted, held):
        raw += near
    if not raw.any():
        # Perhaps they cancel out: the same without weights, which cannot.
        plain = [each._replace(weight=1) for each in wanted]
        counts = _near(snapshot, columns, plain, [(each, 1) for each, _ in held])
        if not any(near.any() for near in counts):
            return None
    return raw


def held_sums(snapshot: Snapshot, held: Iterable[tuple[HeldTerm, int]]) -> dict[str, Sums]:
    """Per topology key, the pods on each row that have these terms, times the weights."""
    sums: dict[str, Sums] = {}
    for each, weight in held:
        key = each.term.topology_key
        if key not in sums:
            sums[key] = np.zeros(snapshot.nodes.capacity, dtype=np.int64)
        each.rows.add_to(sums[key], weight)
    return sums


def _near(
    snapshot: Snapshot,
    columns: KeyColumns,
    wanted: list[Wanted],
    held: list[tuple[HeldTerm, int]],
) -> Iterator[Counts]:
    """What is near each row, a column per topology key."""
    keys = [each.topology_key for each in wanted]
    keys += [each.term.topology_key for each, _ in held]
    found = columns.of(snapshot, dict.fromkeys(keys))
    sums: dict[str, Counts] = dict(
        held_sums(snapshot, (pair for pair in held if pair[0].term.topology_key in found))
    )
    of_own = sums_of(snapshot, [each for each in wanted if each.topology_key in found])
    for key, counts in of_own.items():
        sums[key] = sums[key] + counts if key in sums else counts
    for key, counts in sums.items():
        yield found[key].near(counts).counts


def _meaning(snapshot: Snapshot, pod: PodInfo, hard_weight: int) -> Iterator[tuple[HeldTerm, int]]:
    """The terms of pods on nodes that mean the pod and score, with their weights."""
    metadata, terms = pod.metadata, snapshot.terms
    about = (
        metadata.namespace,
        snapshot.namespaces.labels(metadata.namespace),
        metadata.labels,
    )
    if hard_weight > 0:
        yield from ((held, hard_weight) for held in terms.affinity.matching(*about))
    yield from ((held, held.weight) for held in terms.preferred.matching(*about))
