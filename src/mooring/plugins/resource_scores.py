"""How full a node is, as a score: what NodeResourcesFit and NodeResourcesBalancedAllocation share.

All arithmetic is upstream's int64 and float64, in upstream's order, on columns of shape (m,). A
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


class Share(NamedTuple):
    """One resource: what the node has, what its pods ask for, the same with the new pod."""

    weight: int
    allocatable: Scores
    allocated: Scores
    requested: Scores


def wanted(pod: PodInfo, resources: Sequence[ResourceSpec], *, exact: bool) -> tuple[int, ...]:
    """What the pod asks of each scored resource.

    ``exact`` leaves out the defaults for containers that ask for no cpu or memory.
    """
    return tuple([pod.score_request(resource.name, exact=exact) for resource in resources])


def shares(
    nodes: NodeView, resources: Sequence[ResourceSpec], amounts: Sequence[int], *, exact: bool
) -> list[Share]:
    """The columns of each resource that counts for this pod."""
    found = []
    for resource, amount in zip(resources, amounts, strict=True):
        if amount == 0 and is_scalar_resource_name(resource.name):
            continue
        use_defaults = not exact and resource.name in ("cpu", "memory")
        column = nodes.nonzero_requested if use_defaults else nodes.requested
        allocated = column(resource.name)
        found.append(
            Share(resource.weight, nodes.allocatable(resource.name), allocated, allocated + amount)
        )
    return found


def least_allocated(share: Share) -> Scores:
    """The free part of the node, in percent; 0 if it is overcommitted."""
    percent = _percent(share.allocatable - share.requested, share.allocatable)
    percent[share.requested > share.allocatable] = 0
    return percent


def most_allocated(share: Share) -> Scores:
    """The used part of the node, in percent; 100 if it is overcommitted."""
    return _percent(np.minimum(share.requested, share.allocatable), share.allocatable)


def capacity_ratio(shape: Sequence[UtilizationShapePoint]) -> Callable[[Share], Scores]:
    """The score that ``shape`` gives to each percentage of use, from a table of 0..100."""
    table = np.array(curve_table(shape), dtype=np.int64)

    def score(share: Share) -> Scores:
        used = np.where(
            share.requested > share.allocatable, 100, _percent(share.requested, share.allocatable)
        )
        scores: Scores = table[np.clip(used, 0, 100)]
        return scores

    return score


def curve_table(shape: Sequence[UtilizationShapePoint]) -> list[int]:
    """The score, 0..100, at each percentage of use from 0 to 100."""
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


def weighted_mean(length: int, found: Sequence[Share], score: Callable[[Share], Scores]) -> Scores:
    """The mean of the resources' scores by weight, int64 division; 0 where no resource counts."""
    total = np.zeros(length, dtype=np.int64)
    weights: Scores | int = 0
    for share in found:
        here = share.allocatable != 0
        if is_all(here):
            total += score(share) * share.weight
            weights = weights + share.weight
        else:
            total += np.where(here, score(share), 0) * share.weight
            weights = weights + here * np.int64(share.weight)
    if isinstance(weights, int):
        return _divide(total, weights) if weights else total
    return np.where(weights == 0, 0, _divide(total, np.maximum(weights, 1)))


def weighted_mean_of_positive(
    length: int, found: Sequence[Share], score: Callable[[Share], Scores]
) -> Scores:
    """As ``weighted_mean``, but scores of 0 do not count, and halves round away from zero."""
    total = np.zeros(length, dtype=np.int64)
    weights = np.zeros(length, dtype=np.int64)
    for share in found:
        scores = np.where(share.allocatable != 0, score(share), 0)
        counts = scores > 0
        total += np.where(counts, scores, 0) * share.weight
        weights += counts * np.int64(share.weight)
    mean = total / np.maximum(weights, 1)
    whole = np.trunc(mean)
    return (whole + (mean - whole >= 0.5)).astype(np.int64)


def balance(found: Sequence[Share]) -> Scores:
    """50 + half of how much the pod evens out the use of the node's resources: 50..100.

    75 = no difference. The spread of the used fractions (at most 1 each) is their standard
    deviation, or half their difference if there are two, and 0 if there is one.
    """
    with_pod = _evenness([(share.requested, share.allocatable) for share in found])
    without_pod = _evenness([(share.allocated, share.allocatable) for share in found])
    half = MAX_SCORE // 2
    return half + np.trunc((half + with_pod - without_pod) / 2).astype(np.int64)


def _evenness(pairs: Sequence[tuple[Scores, Scores]]) -> Scores:
    """100 x (1 - spread of the fractions), truncated, int64 shape (m,)."""
    fractions, present = [], []
    for requested, allocatable in pairs:
        here = allocatable != 0
        divisor = allocatable if is_all(here) else np.maximum(allocatable, 1)
        fraction = requested / divisor
        fractions.append(np.minimum(fraction, 1.0, out=fraction))
        present.append(here)
    if len(pairs) == 2 and is_all(present[0]) and is_all(present[1]):
        deviation = np.abs((fractions[0] - fractions[1]) / 2)
    else:
        deviation = _deviation(fractions, present)
    return ((1 - deviation) * MAX_SCORE).astype(np.int64)


def _deviation(fractions: list[Floats], present: list[npt.NDArray[np.bool_]]) -> Floats:
    """The spread where some nodes lack some resources.

    Sums run in the order of the resources: adding 0.0 for an absent one changes nothing.
    """
    count = np.sum(present, axis=0)
    total = np.zeros(len(count))
    first, second = np.zeros(len(count)), np.zeros(len(count))
    seen = np.zeros(len(count), dtype=np.int64)
    for fraction, here in zip(fractions, present, strict=True):
        total = total + np.where(here, fraction, 0.0)
        first = np.where(here & (seen == 0), fraction, first)
        second = np.where(here & (seen == 1), fraction, second)
        seen += here
    mean = total / np.maximum(count, 1)
    squares = np.zeros(len(count))
    for fraction, here in zip(fractions, present, strict=True):
        off = fraction - mean
        squares = squares + np.where(here, off * off, 0.0)
    standard = np.sqrt(squares / np.maximum(count, 1))
    of_two = np.abs((first - second) / 2)
    return np.where(count == 2, of_two, np.where(count > 2, standard, 0.0))


def is_all(mask: npt.NDArray[np.bool_]) -> bool:
    """As ``mask.all()``, three times as fast on the short columns that most calls are about."""
    return int(np.count_nonzero(mask)) == len(mask)


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
