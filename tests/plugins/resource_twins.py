"""NodeResourcesFit and NodeResourcesBalancedAllocation once more, one node at a time.

Plain Python ints and floats with Go's int64 arithmetic, written from the upstream source; nothing
here uses the scoring code of ``mooring.plugins``. What nodes hold is summed pod by pod.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from mooring.config.types import (
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    ResourceSpec,
    ScoringStrategy,
    UtilizationShapePoint,
)
from mooring.framework import SKIP, Cycle, NodeInfo, NodeView, Reject, per_node
from mooring.framework.status import Skip, Status
from mooring.state import PodInfo

# ---------------------------------------------------------------- Go's arithmetic


def int64(number: int) -> int:
    """Returns ``number`` wrapped around to int64."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def quotient(number: int, divisor: int) -> int:
    """Returns the quotient of int64 division: toward zero."""
    found = abs(number) // abs(divisor)
    return found if (number < 0) == (divisor < 0) else -found


def rounded(number: float) -> int:
    """Does the same as ``math.Round``: halves away from zero."""
    return math.floor(number + 0.5) if number >= 0 else math.ceil(number - 0.5)


# ---------------------------------------------------------------- resources


class NodeResourcesFitTwin:
    name = "NodeResourcesFit"

    def __init__(self, args: NodeResourcesFitArgs | None = None) -> None:
        self.args = args if args is not None else NodeResourcesFitArgs()

    @per_node
    def filter(self, pod: PodInfo, node: NodeInfo) -> Status | None:
        reasons: list[str] = []
        is_hopeless = False
        if len(node.pods) + 1 > node.allowed_pods:
            reasons.append("Too many pods")
        basic = ["cpu", "memory", "ephemeral-storage"]
        for name in [*basic, *sorted(set(pod.requests) - set(basic))]:
            amount = pod.requests.get(name, 0)
            if amount == 0 or self._is_ignored(name):
                continue
            allocatable = node.allocatable(name)
            if amount > allocatable - used(node, name):
                reasons.append(f"Insufficient {name}")
                is_hopeless = is_hopeless or amount > allocatable
        return Reject(*reasons, resolvable=not is_hopeless) if reasons else None

    @per_node
    def score(self, pod: PodInfo, node: NodeInfo) -> int:
        strategy = self.args.scoring_strategy
        counted = scored(pod, node, strategy.resources, exact=False)
        if strategy.type == "RequestedToCapacityRatio":
            return _capacity_ratio_score(strategy, counted)
        score = {"LeastAllocated": _least, "MostAllocated": _most}[strategy.type]
        total = weights = 0
        for weight, allocatable, _, requested in counted:
            total += score(requested, allocatable) * weight
            weights += weight
        return quotient(total, weights) if weights else 0

    def _is_ignored(self, name: str) -> bool:
        if "/" not in name or "kubernetes.io/" in name:
            return False
        group = name[: name.index("/")]
        return name in self.args.ignored_resources or group in self.args.ignored_resource_groups


def used(node: NodeInfo, resource: str) -> int:
    """Returns what the pods on the node ask of a resource."""
    return sum(placed.usage.get(resource, 0) for placed in node.pods)


def scored(
    pod: PodInfo, node: NodeInfo, resources: Iterable[ResourceSpec], *, exact: bool
) -> list[tuple[int, int, int, int]]:
    """Yields (weight, allocatable, allocated, requested) of the scored resources."""
    found = []
    for resource in resources:
        name, weight = resource.name, resource.weight
        amount = pod.score_request(name, exact=exact)
        is_basic = name in ("cpu", "memory", "ephemeral-storage")
        if (amount == 0 and not is_basic) or node.allocatable(name) == 0:
            continue
        if exact or name not in ("cpu", "memory"):
            allocated = used(node, name)
        else:
            index = 0 if name == "cpu" else 1
            allocated = sum(placed.nonzero_usage[index] for placed in node.pods)
        requested = int64(allocated + amount)
        found.append((weight, node.allocatable(name), allocated, requested))
    return found


def _least(requested: int, capacity: int) -> int:
    if requested > capacity:
        return 0
    return quotient(int64((capacity - requested) * 100), capacity)


def _most(requested: int, capacity: int) -> int:
    return quotient(int64(min(requested, capacity) * 100), capacity)


def _capacity_ratio_score(
    strategy: ScoringStrategy, counted: Iterable[tuple[int, int, int, int]]
) -> int:
    assert strategy.requested_to_capacity_ratio is not None
    curve = broken_line(strategy.requested_to_capacity_ratio.shape)
    total = weights = 0
    for weight, allocatable, _, requested in counted:
        if requested > allocatable:
            score = curve(100)
        else:
            score = curve(quotient(int64(requested * 100), allocatable))
        if score > 0:
            total += score * weight
            weights += weight
    return rounded(float(total) / float(weights)) if weights else 0


def broken_line(shape: Sequence[UtilizationShapePoint]) -> Callable[[int], int]:
    """Does the same as ``helper.BuildBrokenLinearFunction`` for a shape with scores 0..10."""

    def at(percent: int) -> int:
        for left, right in zip((None, *shape), shape, strict=False):
            if percent > right.utilization:
                continue
            if left is None:
                return right.score * 10
            rise = (right.score - left.score) * 10 * (percent - left.utilization)
            return left.score * 10 + quotient(rise, right.utilization - left.utilization)
        return shape[-1].score * 10

    return at


class NodeResourcesBalancedAllocationTwin:
    name = "NodeResourcesBalancedAllocation"

    def __init__(self, args: NodeResourcesBalancedAllocationArgs | None = None) -> None:
        self.resources = (args or NodeResourcesBalancedAllocationArgs()).resources

    def pre_score(self, cycle: Cycle, nodes: NodeView) -> Skip | None:
        asked = [cycle.pod.usage.get(resource.name, 0) for resource in self.resources]
        return SKIP if sum(asked) == 0 else None

    @per_node
    def score(self, pod: PodInfo, node: NodeInfo) -> int:
        counted = scored(pod, node, self.resources, exact=True)
        with_pod = _evenness([(requested, has) for _, has, _, requested in counted])
        without_pod = _evenness([(allocated, has) for _, has, allocated, _ in counted])
        return 50 + quotient(50 + with_pod - without_pod, 2)


def _evenness(pairs: Iterable[tuple[int, int]]) -> int:
    fractions: list[float] = []
    total = 0.0
    for amount, allocatable in pairs:
        fraction = float(amount) / float(allocatable)
        fraction = min(fraction, 1.0)
        total += fraction
        fractions.append(fraction)
    deviation = 0.0
    if len(fractions) == 2:
        deviation = abs((fractions[0] - fractions[1]) / 2)
    elif len(fractions) > 2:
        mean = total / float(len(fractions))
        squares = 0.0
        for fraction in fractions:
            squares = squares + (fraction - mean) * (fraction - mean)
        deviation = math.sqrt(squares / float(len(fractions)))
    return int((1 - deviation) * 100.0)
