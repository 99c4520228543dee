"""The scores of PodTopologySpread: float64 arithmetic, operation by operation as upstream does it.

Source: pkg/scheduler/framework/plugins/podtopologyspread/scoring.go.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mooring.framework.interface import MAX_SCORE, Scores
from mooring.plugins.pod_topology_spread.constraints import HOSTNAME, Constraint
from mooring.plugins.pod_topology_spread.domains import DomainLayout
from mooring.state.tables.counters import PodCounter
from mooring.state.types import Rows

#: A raw score that means "not scored" when scores are normalized.
INVALID_SCORE: Final = -1


def points(
    constraint: Constraint, layout: DomainLayout, number: int, counter: PodCounter, rows: Rows
) -> npt.NDArray[np.float64]:
    """Returns the score of one constraint for each row, float64 shape (capacity,).

    ``rows`` are the feasible ones with the keys; the more domains they have, the higher the weight
    of a pod. Hosts are counted one by one, whether eligible or not.
    """
    domains = layout.domains[number]
    if constraint.topology_key == HOSTNAME:
        per_row = _weighted(counter.counts, len(rows), constraint.max_skew)
        if not domains.is_complete:
            per_row[domains.of_row == domains.missing] = 0.0
        return per_row
    is_all = len(rows) == domains.node_count
    size = domains.node_domains if is_all else domains.count_distinct(rows)
    per_domain = _weighted(layout.counts(number, counter), size, constraint.max_skew)
    per_domain[domains.missing] = 0.0
    return per_domain[domains.of_row]


def _weighted(
    counts: npt.NDArray[np.integer[Any]], size: int, max_skew: int
) -> npt.NDArray[np.float64]:
    """Returns count x weight + skew. Source: scoreForCount, topologyNormalizingWeight."""
    return counts.astype(np.float64) * math.log(size + 2) + float(max_skew - 1)


def rounded(values: npt.NDArray[np.float64]) -> Scores:
    """Rounds to the nearest int, halves away from zero, as Go's math.Round."""
    whole = np.rint(values)  # rounds halves to even, which is corrected below
    rest = values - whole
    if (np.abs(rest) == 0.5).any():
        whole += (rest == 0.5) & (values > 0)
        whole -= (rest == -0.5) & (values < 0)
    return whole.astype(np.int64)


def normalized(scores: Scores, scored: Scores) -> Scores:
    """Scales ``scores`` by the lowest and the highest of ``scored``, reversed."""
    highest = max(int(scored.max()), 0) if len(scored) else 0
    if highest == 0:
        result = np.full(len(scores), MAX_SCORE, dtype=np.int64)
    else:
        lowest = int(scored.min())
        share = MAX_SCORE * (highest + lowest - scores)
        result = share // highest
        if lowest < 0:  # Go divides toward zero
            result = np.where(share < 0, -(-share // highest), result)
    if len(scores) and scores.min() < 0:
        result[scores == INVALID_SCORE] = 0
    return result
