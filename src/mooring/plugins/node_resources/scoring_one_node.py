"""The scores of ``scoring`` for one node, in plain ints and floats.

After a pod is placed one node has changed, and a column of length 1 costs ten times as much as two
ints. Same formulas, same order, same results: tests compare the two files.

Source: as ``scoring``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from mooring.config.types import UtilizationShapePoint
from mooring.framework import NodeInfo
from mooring.framework.interface import MAX_SCORE
from mooring.framework.node_view import NONZERO
from mooring.objects.quantity import MAX_INT64, wrap_int64
from mooring.plugins.node_resources.scoring import ScoredRequests, curve_table

#: One resource of one node: weight, allocatable, allocated, and requested with the new pod. Plain
#: tuples: four of them are made for each attempt.
NodeShare = tuple[int, int, int, int]


def shares_of_node(node: NodeInfo, requests: ScoredRequests, *, exact: bool) -> list[NodeShare]:
    """Returns the resources that count for this pod on this node."""
    nonzero = None if exact else node.nonzero_requested()
    shares = []
    amounts = node.amounts
    for name, weight, amount in requests.items:
        allocatable, allocated = amounts(name)
        if allocatable == 0:
            continue
        if nonzero is not None and name in NONZERO:
            allocated = nonzero[NONZERO.index(name)]
        requested = allocated + amount
        if not 0 <= requested <= MAX_INT64:  # a call costs more than all else here
            requested = wrap_int64(requested)
        shares.append((weight, allocatable, allocated, requested))
    return shares


def shares_with_devices(
    node: NodeInfo,
    requests: ScoredRequests,
    device_amounts: Mapping[str, tuple[int, int]],
    *,
    exact: bool,
) -> list[NodeShare]:
    """Returns the resources that count, with devices for those that the node lacks.

    ``device_amounts`` are, by resource, the devices on this node and those in use.
    """
    shares: list[NodeShare] = []
    for item in requests.items:
        name, weight, amount = item
        only = requests._replace(items=(item,))
        of_resource = shares_of_node(node, only, exact=exact)
        total, used = device_amounts.get(name, (0, 0))
        if not of_resource and total:
            of_resource = [(weight, total, used, wrap_int64(used + amount))]
        shares += of_resource
    return shares


def least_allocated(share: NodeShare) -> int:
    """Returns the free part of the node, in percent; 0 if it is overcommitted."""
    _, allocatable, _, requested = share
    return 0 if requested > allocatable else _percent(allocatable - requested, allocatable)


def most_allocated(share: NodeShare) -> int:
    """Returns the used part of the node, in percent; 100 if it is overcommitted."""
    _, allocatable, _, requested = share
    return _percent(min(requested, allocatable), allocatable)


def capacity_ratio(shape: Sequence[UtilizationShapePoint]) -> Callable[[NodeShare], int]:
    """Returns the score function of ``shape``, by utilization in percent."""
    table = curve_table(shape)

    def score(share: NodeShare) -> int:
        _, allocatable, _, requested = share
        if requested > allocatable:
            return table[100]
        return table[min(max(_percent(requested, allocatable), 0), 100)]

    return score


def weighted_mean(shares: Sequence[NodeShare], score: Callable[[NodeShare], int]) -> int:
    """Returns the weighted mean of the resources' scores; 0 if no resource counts."""
    total = weights = 0
    for share in shares:
        weight = share[0]
        total += score(share) * weight
        weights += weight
    mean = abs(total) // weights if weights else 0
    return mean if total >= 0 else -mean


def weighted_mean_of_positive(
    shares: Sequence[NodeShare], score: Callable[[NodeShare], int]
) -> int:
    """Returns the weighted mean of the scores over 0, rounded half away from zero."""
    scores = [(score(share), share[0]) for share in shares]
    total = sum(value * weight for value, weight in scores if value > 0)
    weights = sum(weight for value, weight in scores if value > 0)
    mean = total / weights if weights else 0.0
    whole = math.trunc(mean)
    return whole + (mean - whole >= 0.5)


def balance(shares: Sequence[NodeShare]) -> int:
    """Returns 50 + half of the improvement of the node's balance by the pod: 50..100."""
    without_pod, with_pod = [], []
    for _, allocatable, allocated, requested in shares:
        # Convert to float first, as upstream does: dividing ints would round only once.
        whole = float(allocatable)
        without_pod.append(min(float(allocated) / whole, 1.0))
        with_pod.append(min(float(requested) / whole, 1.0))
    half = MAX_SCORE // 2
    return half + math.trunc((half + _balance_score(with_pod) - _balance_score(without_pod)) / 2)


def _balance_score(fractions: list[float]) -> int:
    """Returns 100 x (1 - deviation of the fractions), truncated."""
    count = len(fractions)
    deviation = 0.0
    if count == 2:
        deviation = abs((fractions[0] - fractions[1]) / 2)
    elif count > 2:
        total = squares = 0.0
        for fraction in fractions:  # not sum(): since Python 3.12 that rounds otherwise than Go
            total += fraction
        mean = total / count
        for fraction in fractions:
            squares += (fraction - mean) * (fraction - mean)
        deviation = math.sqrt(squares / count)
    return math.trunc((1 - deviation) * MAX_SCORE)


def _percent(part: int, whole: int) -> int:
    """Returns 100 x ``part`` / ``whole`` as Go's int64: wraps around, divides toward zero."""
    product = part * MAX_SCORE
    if 0 <= product <= MAX_INT64:
        return product // whole
    product = wrap_int64(product)
    quotient = abs(product) // whole
    return quotient if product >= 0 else -quotient
