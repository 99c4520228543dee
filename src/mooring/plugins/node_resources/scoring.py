"""Resource scores on columns, used by NodeResourcesFit and NodeResourcesBalancedAllocation.

All arithmetic is upstream's int64 and float64, in upstream's order, on columns of shape (k, m). A
resource counts for a node only if the node has some of it, and a scalar resource (anything except
cpu, memory and ephemeral-storage) only if the pod requests it.

Source: pkg/scheduler/framework/plugins/noderesources/resource_allocation.go and the scorers beside
it; plugins/helper/shape_score.go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mooring.config.types import ResourceSpec, UtilizationShapePoint
from mooring.framework import NodeView
from mooring.framework.interface import MAX_SCORE, Scores
from mooring.objects.requests import is_scalar_resource_name
from mooring.plugins.node_resources.device_totals import Backed, DeviceTotals
from mooring.state import PodInfo

Floats = npt.NDArray[np.float64]

#: Scores in a configured shape are 0..10.
MAX_SHAPE_SCORE = 10


class ScoredRequests(NamedTuple):
    """A pod's requests of the k scored resources that count for it.

    ``weights`` int64 shape (k,), ``amounts`` int64 shape (k, 1); ``items`` are the same as tuples
    (name, weight, amount), for one node at a time.
    """

    names: tuple[str, ...]
    weights: Scores
    amounts: Scores
    items: tuple[tuple[str, int, int], ...]


class Shares(NamedTuple):
    """The allocatable amounts of k resources of m nodes, and the requested ones with the pod.

    ``weights`` int64 shape (k,), the others int64 shape (k, m).
    """

    weights: Scores
    allocatable: Scores
    requested: Scores


def requested_amounts(
    pod: PodInfo, resources: Sequence[ResourceSpec], *, exact: bool
) -> tuple[int, ...]:
    """Returns the pod's request of each scored resource.

    ``exact`` = without defaults for missing requests of cpu or memory.
    """
    return tuple([pod.score_request(resource.name, exact=exact) for resource in resources])


def scored_requests(resources: Sequence[ResourceSpec], amounts: Sequence[int]) -> ScoredRequests:
    """Returns the requests with ``amounts``, without scalar resources that are not requested."""
    items = tuple(
        (resource.name, resource.weight, amount)
        for resource, amount in zip(resources, amounts, strict=True)
        if amount or not is_scalar_resource_name(resource.name)
    )
    return ScoredRequests(
        tuple(name for name, _, _ in items),
        np.array([weight for _, weight, _ in items], dtype=np.int64),
        as_column([amount for _, _, amount in items]),
        items,
    )


def as_column(amounts: Sequence[int]) -> Scores:
    """Returns the amounts as int64 shape (k, 1), to be broadcast over arrays of shape (k, m)."""
    lines = np.empty((len(amounts), 1), dtype=np.int64)
    lines[:, 0] = amounts
    return lines


def shares(nodes: NodeView, requests: ScoredRequests) -> Shares:
    """Returns the columns of each resource, with defaults for missing requests."""
    requested = nodes.nonzero_requesteds(requests.names) + requests.amounts
    return Shares(requests.weights, nodes.allocatables(requests.names), requested)


def shares_with_devices(
    nodes: NodeView, requests: ScoredRequests, totals: DeviceTotals, backed: Sequence[Backed]
) -> Shares:
    """Returns the columns as ``shares`` does, with devices for resources that stand for classes."""
    allocatable, allocated = totals.fill(
        nodes,
        backed,
        nodes.allocatables(requests.names),
        nodes.nonzero_requesteds(requests.names),
    )
    return Shares(requests.weights, allocatable, allocated + requests.amounts)


def least_allocated(shares: Shares) -> Scores:
    """Returns the free part of the node, in percent; 0 if it is overcommitted."""
    free = shares.allocatable - shares.requested
    free[shares.requested > shares.allocatable] = 0
    return _percent(free, shares.allocatable)


def most_allocated(shares: Shares) -> Scores:
    """Returns the used part of the node, in percent; 100 if it is overcommitted."""
    return _percent(np.minimum(shares.requested, shares.allocatable), shares.allocatable)


def capacity_ratio(shape: Sequence[UtilizationShapePoint]) -> Callable[[Shares], Scores]:
    """Returns the score function of ``shape``, by utilization in percent."""
    table = np.array(curve_table(shape), dtype=np.int64)

    def score(shares: Shares) -> Scores:
        percent = _percent(shares.requested, shares.allocatable)
        utilization = np.where(shares.requested > shares.allocatable, 100, percent)
        scores: Scores = table[np.clip(utilization, 0, 100)]
        return scores

    return score


def curve_table(shape: Sequence[UtilizationShapePoint]) -> list[int]:
    """Returns the score, 0..100, at each utilization from 0 to 100 percent."""
    points = [(p.utilization, p.score * (MAX_SCORE // MAX_SHAPE_SCORE)) for p in shape]
    return [_interpolate(points, percent) for percent in range(101)]


def _interpolate(points: Sequence[tuple[int, int]], percent: int) -> int:
    """Interpolates ``points`` linearly at ``percent``; divides toward zero, as Go does."""
    for number, (utilization, score) in enumerate(points):
        if percent > utilization:
            continue
        if number == 0:
            return score
        last_utilization, last = points[number - 1]
        rise, run = (score - last) * (percent - last_utilization), utilization - last_utilization
        return last + (abs(rise) // run) * (1 if rise >= 0 else -1)
    return points[-1][1]


def weighted_mean(shares: Shares, score: Callable[[Shares], Scores]) -> Scores:
    """Returns the weighted mean of the resources' scores, int64; 0 where no resource counts."""
    counts, scores = shares.allocatable != 0, score(shares)
    if is_all(counts):
        weights = int(shares.weights.sum())
        total = shares.weights @ scores
        return _divide(total, weights) if weights else total
    total = shares.weights @ np.where(counts, scores, 0)
    weight = shares.weights @ counts
    return np.where(weight == 0, 0, _divide(total, np.maximum(weight, 1)))


def weighted_mean_of_positive(shares: Shares, score: Callable[[Shares], Scores]) -> Scores:
    """Returns the weighted mean of the scores over 0, rounded half away from zero."""
    scores = np.where(shares.allocatable != 0, score(shares), 0)
    counts = scores > 0
    total = shares.weights @ np.where(counts, scores, 0)
    mean = total / np.maximum(shares.weights @ counts, 1)
    whole = np.trunc(mean)
    return (whole + (mean - whole >= 0.5)).astype(np.int64)


def balance(allocatable: Scores, allocated: Scores, requested: Scores) -> Scores:
    """Returns 50 + half of the improvement of the node's balance by the pod: 50..100.

    75 = no difference. The imbalance is the standard deviation of the used fractions (at most 1
    each), or half their difference if there are two, and 0 if there is one.

    All arguments are int64 of shape (k, m): the allocatable amount of each resource, and the
    requested amount without the pod and with it.
    """
    counts = allocatable != 0
    is_plain = len(counts) == 2 and is_all(counts)
    divisor = allocatable if is_plain else np.maximum(allocatable, 1)
    without_pod, with_pod = [
        _balance_score(used / divisor, None if is_plain else counts)
        for used in (allocated, requested)
    ]
    half = MAX_SCORE // 2
    gain = half + with_pod - without_pod
    gain += gain < 0
    balanced: Scores = half + (gain >> 1)  # toward zero
    return balanced


def _balance_score(fractions: Floats, counts: npt.NDArray[np.bool_] | None) -> Scores:
    """Returns 100 x (1 - deviation of the fractions), truncated, int64 shape (m,).

    ``counts`` bool shape (k, m), the resources that each node has; None = all have both of two.
    """
    np.minimum(fractions, 1.0, out=fractions)
    if counts is None:
        deviation = np.abs((fractions[0] - fractions[1]) / 2)
    else:
        deviation = _deviation(fractions, counts)
    scores: Scores = ((1 - deviation) * MAX_SCORE).astype(np.int64)
    return scores


def _deviation(fractions: Floats, counts: npt.NDArray[np.bool_]) -> Floats:
    """Returns the deviation where some nodes lack some resources; both of shape (k, m).

    Sums run in the order of the resources: adding 0.0 for an absent one changes nothing.
    """
    count = counts.sum(axis=0)
    total = np.zeros(len(count))
    first, second = np.zeros(len(count)), np.zeros(len(count))
    number = np.zeros(len(count), dtype=np.int64)
    for fraction, is_present in zip(fractions, counts, strict=True):
        total = total + np.where(is_present, fraction, 0.0)
        first = np.where(is_present & (number == 0), fraction, first)
        second = np.where(is_present & (number == 1), fraction, second)
        number += is_present
    mean = total / np.maximum(count, 1)
    squares = np.zeros(len(count))
    for fraction, is_present in zip(fractions, counts, strict=True):
        difference = fraction - mean
        squares = squares + np.where(is_present, difference * difference, 0.0)
    standard = np.sqrt(squares / np.maximum(count, 1))
    of_two = np.abs((first - second) / 2)
    return np.where(count == 2, of_two, np.where(count > 2, standard, 0.0))


def is_all(mask: npt.NDArray[np.bool_]) -> bool:
    """Returns ``mask.all()``, three times as fast on the short columns of most calls."""
    return int(np.count_nonzero(mask)) == mask.size


def _divide(total: Scores, weights: Scores | int) -> Scores:
    """Divides toward zero by weights over 0. Totals are negative only after an overflow."""
    mean: Scores = total // weights
    if np.count_nonzero(total < 0):
        mean += (total < 0) & (mean * weights != total)
    return mean


def _percent(part: Scores, whole: Scores) -> Scores:
    """Returns 100 x ``part`` / ``whole`` as Go's int64: wraps around, divides toward zero.

    The result is undefined where ``whole`` is 0.
    """
    divisor = np.maximum(whole, 1)
    product = part * MAX_SCORE
    quotient = product // divisor
    if np.count_nonzero(product < 0):
        quotient += (product < 0) & (quotient * divisor != product)
    return quotient
