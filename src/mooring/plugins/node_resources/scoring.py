"""How full a node is, as a score: what NodeResourcesFit and NodeResourcesBalancedAllocation share.

All arithmetic is upstream's int64 and float64, in upstream's order, on columns of shape (k, m). A
resource counts for a node only if the node has some of it, and a scalar resource (anything beside
cpu, memory and ephemeral-storage) only if the pod asks for it.

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
from mooring.state import PodInfo

Floats = npt.NDArray[np.float64]

#: Scores in a configured shape are 0..10.
MAX_SHAPE_SCORE = 10


class Asked(NamedTuple):
    """What a pod asks of the k scored resources that count for it.

    ``weights`` int64 shape (k,), ``amounts`` int64 shape (k, 1); ``each`` the same for one node at
    a time: name, weight and amount.
    """

    names: tuple[str, ...]
    weights: Scores
    amounts: Scores
    each: tuple[tuple[str, int, int], ...]


class Shares(NamedTuple):
    """Of m nodes, what each has of k resources and what its pods ask for with the new one.

    ``weights`` int64 shape (k,), the others int64 shape (k, m).
    """

    weights: Scores
    allocatable: Scores
    requested: Scores


def wanted(pod: PodInfo, resources: Sequence[ResourceSpec], *, exact: bool) -> tuple[int, ...]:
    """What the pod asks of each scored resource.

    ``exact`` leaves out the defaults for containers that ask for no cpu or memory.
    """
    return tuple([pod.score_request(resource.name, exact=exact) for resource in resources])


def asked(resources: Sequence[ResourceSpec], amounts: Sequence[int]) -> Asked:
    """What ``wanted`` found, without the scalar resources that the pod does not ask for."""
    each = tuple(
        (resource.name, resource.weight, amount)
        for resource, amount in zip(resources, amounts, strict=True)
        if amount or not is_scalar_resource_name(resource.name)
    )
    return Asked(
        tuple(name for name, _, _ in each),
        np.array([weight for _, weight, _ in each], dtype=np.int64),
        upright([amount for _, _, amount in each]),
        each,
    )


def upright(amounts: Sequence[int]) -> Scores:
    """One line per amount, int64 shape (k, 1), to be set against columns of shape (k, m)."""
    lines = np.empty((len(amounts), 1), dtype=np.int64)
    lines[:, 0] = amounts
    return lines


def shares(nodes: NodeView, asked: Asked) -> Shares:
    """Returns the columns of each resource, with defaults for containers that ask for none."""
    requested = nodes.nonzero_requesteds(asked.names) + asked.amounts
    return Shares(asked.weights, nodes.allocatables(asked.names), requested)


def least_allocated(shares: Shares) -> Scores:
    """Returns the free part of the node, in percent; 0 if it is overcommitted."""
    free = shares.allocatable - shares.requested
    free[shares.requested > shares.allocatable] = 0
    return _percent(free, shares.allocatable)


def most_allocated(shares: Shares) -> Scores:
    """Returns the used part of the node, in percent; 100 if it is overcommitted."""
    return _percent(np.minimum(shares.requested, shares.allocatable), shares.allocatable)


def capacity_ratio(shape: Sequence[UtilizationShapePoint]) -> Callable[[Shares], Scores]:
    """Returns the score that ``shape`` gives to each percentage of use, from a table of 0..100."""
    table = np.array(curve_table(shape), dtype=np.int64)

    def score(shares: Shares) -> Scores:
        percent = _percent(shares.requested, shares.allocatable)
        used = np.where(shares.requested > shares.allocatable, 100, percent)
        scores: Scores = table[np.clip(used, 0, 100)]
        return scores

    return score


def curve_table(shape: Sequence[UtilizationShapePoint]) -> list[int]:
    """Returns the score, 0..100, at each percentage of use from 0 to 100."""
    points = [(p.utilization, p.score * (MAX_SCORE // MAX_SHAPE_SCORE)) for p in shape]
    return [_interpolate(points, percent) for percent in range(101)]


def _interpolate(points: Sequence[tuple[int, int]], percent: int) -> int:
    """The broken line through ``points`` at ``percent``, dividing as Go does: toward zero."""
    for number, (at, score) in enumerate(points):
        if percent > at:
            continue
        if number == 0:
            return score
        before_at, before = points[number - 1]
        rise, run = (score - before) * (percent - before_at), at - before_at
        return before + (abs(rise) // run) * (1 if rise >= 0 else -1)
    return points[-1][1]


def weighted_mean(shares: Shares, score: Callable[[Shares], Scores]) -> Scores:
    """The mean of the resources' scores by weight, int64 division; 0 where no resource counts."""
    here, scores = shares.allocatable != 0, score(shares)
    if is_all(here):
        weights = int(shares.weights.sum())
        total = shares.weights @ scores
        return _divide(total, weights) if weights else total
    total = shares.weights @ np.where(here, scores, 0)
    counted = shares.weights @ here
    return np.where(counted == 0, 0, _divide(total, np.maximum(counted, 1)))


def weighted_mean_of_positive(shares: Shares, score: Callable[[Shares], Scores]) -> Scores:
    """As ``weighted_mean``, but scores of 0 do not count, and halves round away from zero."""
    scores = np.where(shares.allocatable != 0, score(shares), 0)
    counts = scores > 0
    total = shares.weights @ np.where(counts, scores, 0)
    mean = total / np.maximum(shares.weights @ counts, 1)
    whole = np.trunc(mean)
    return (whole + (mean - whole >= 0.5)).astype(np.int64)


def balance(allocatable: Scores, allocated: Scores, requested: Scores) -> Scores:
    """50 + half of how much the pod evens out the use of the node's resources: 50..100.

    75 = no difference. The spread of the used fractions (at most 1 each) is their standard
    deviation, or half their difference if there are two, and 0 if there is one.

    All three are int64 of shape (k, m): what the nodes have of each resource, and what is asked for
    without the pod and with it.
    """
    here = allocatable != 0
    is_plain = len(here) == 2 and is_all(here)
    divisor = allocatable if is_plain else np.maximum(allocatable, 1)
    evenness = [
        _evenness(used / divisor, None if is_plain else here) for used in (allocated, requested)
    ]
    half = MAX_SCORE // 2
    gain = half + evenness[1] - evenness[0]
    gain += gain < 0
    balanced: Scores = half + (gain >> 1)  # toward zero
    return balanced


def _evenness(fractions: Floats, here: npt.NDArray[np.bool_] | None) -> Scores:
    """100 x (1 - spread of the fractions), truncated, int64 shape (m,).

    ``here`` bool shape (k, m), which nodes have which resource; None = all have both of two.
    """
    np.minimum(fractions, 1.0, out=fractions)
    if here is None:
        deviation = np.abs((fractions[0] - fractions[1]) / 2)
    else:
        deviation = _deviation(fractions, here)
    evenness: Scores = ((1 - deviation) * MAX_SCORE).astype(np.int64)
    return evenness


def _deviation(fractions: Floats, here: npt.NDArray[np.bool_]) -> Floats:
    """Returns the spread where some nodes lack some resources; both of shape (k, m).

    Sums run in the order of the resources: adding 0.0 for an absent one changes nothing.
    """
    count = here.sum(axis=0)
    total = np.zeros(len(count))
    first, second = np.zeros(len(count)), np.zeros(len(count))
    seen = np.zeros(len(count), dtype=np.int64)
    for fraction, present in zip(fractions, here, strict=True):
        total = total + np.where(present, fraction, 0.0)
        first = np.where(present & (seen == 0), fraction, first)
        second = np.where(present & (seen == 1), fraction, second)
        seen += present
    mean = total / np.maximum(count, 1)
    squares = np.zeros(len(count))
    for fraction, present in zip(fractions, here, strict=True):
        off = fraction - mean
        squares = squares + np.where(present, off * off, 0.0)
    standard = np.sqrt(squares / np.maximum(count, 1))
    of_two = np.abs((first - second) / 2)
    return np.where(count == 2, of_two, np.where(count > 2, standard, 0.0))


def is_all(mask: npt.NDArray[np.bool_]) -> bool:
    """As ``mask.all()``, three times as fast on the short columns that most calls are about."""
    return int(np.count_nonzero(mask)) == mask.size


def _divide(total: Scores, weights: Scores | int) -> Scores:
    """Division toward zero by weights over 0. Totals are below zero only after a wrap-around."""
    mean: Scores = total // weights
    if np.count_nonzero(total < 0):
        mean += (total < 0) & (mean * weights != total)
    return mean


def _percent(part: Scores, whole: Scores) -> Scores:
    """100 x ``part`` / ``whole`` in Go's int64 arithmetic: wraps around, divides toward zero.

    The result where ``whole`` is 0 means nothing.
    """
    divisor = np.maximum(whole, 1)
    product = part * MAX_SCORE
    quotient = product // divisor
    if np.count_nonzero(product < 0):
        quotient += (product < 0) & (quotient * divisor != product)
    return quotient
