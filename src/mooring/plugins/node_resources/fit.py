"""NodeResourcesFit: is there room for the pod, and how much would be left."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from itertools import compress

import numpy as np
import numpy.typing as npt

from mooring.cluster_event import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    QueueingHint,
)
from mooring.config.types import NodeResourcesFitArgs, ScoringStrategy
from mooring.errors import ConfigError
from mooring.framework import Cycle, FilterStatuses, NodeInfo, NodeView, Reject, Status
from mooring.framework.interface import Scores
from mooring.objects.node import Node
from mooring.objects.pod import Pod
from mooring.objects.quantity import wrap_int64
from mooring.objects.requests import is_extended_resource_name
from mooring.objects.resource import DeviceClass
from mooring.plugins.node_resources import scoring
from mooring.plugins.node_resources import scoring_one_node as of_node
from mooring.plugins.node_resources.scoring import Asked, Shares
from mooring.plugins.node_resources.scoring_one_node import NodeShare
from mooring.state import Change, PodInfo
from mooring.state.tables.nodes import node_allocatable

Rows = npt.NDArray[np.intp]

#: What a line of verdicts counts in a number of eight lines.
BITS = 1 << np.arange(8, dtype=np.uint8)

TOO_MANY_PODS = "Too many pods"

#: With this before its name, every device class is an extended resource too.
DEVICE_CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"


@dataclass(frozen=True, slots=True)
class FitState:
    """What the plugin reads of the pod.

    ``requests`` has to fit: (resource, amount) with amounts over 0, in the order of ``reasons``,
    which begin with too many pods. ``names`` and ``amounts``, int64 shape (k, 1), are its two
    halves. ``scored`` is what the pod asks of the scored resources.
    """

    requests: tuple[tuple[str, int], ...]
    reasons: tuple[str, ...]
    names: tuple[str, ...]
    amounts: npt.NDArray[np.int64]
    scored: Asked


class NodeResourcesFit:
    """Refuses nodes without room for the pod, and scores the rest.

    The strategy is LeastAllocated, MostAllocated or RequestedToCapacityRatio.

    A node that could not take the pod even if it were empty is unresolvable; a full node is not,
    and neither is one that only has too many pods.

    Source: pkg/scheduler/framework/plugins/noderesources/fit.go.
    """

    name = "NodeResourcesFit"
    reads = Change.ALLOCATABLE | Change.USAGE

    def __init__(self, args: NodeResourcesFitArgs | None = None) -> None:
        """Raises ConfigError if the scoring strategy is unknown or lacks its shape."""
        args = args if args is not None else NodeResourcesFitArgs()
        self._ignored = frozenset(args.ignored_resources)
        self._ignored_groups = frozenset(args.ignored_resource_groups)
        self._resources = args.scoring_strategy.resources
        self._score, self._score_node = _scorers(args.scoring_strategy)

    def sign(self, pod: PodInfo) -> Hashable:
        """What the pod asks for, to fit and to score."""
        return tuple(pod.requests.items()), self._wanted(pod)

    def pre_filter(self, cycle: Cycle) -> None:
        """Notes what has to fit."""
        requests = self._to_fit(cycle.pod)
        names = tuple(name for name, _ in requests)
        cycle[self] = FitState(
            requests,
            (TOO_MANY_PODS, *map(_insufficient, names)),
            names,
            scoring.upright([amount for _, amount in requests]),
            self._scored(cycle.pod),
        )

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        """Refuses nodes with too many pods or too little of something, with every such reason."""
        state: FitState = cycle[self]
        is_full = nodes.pod_count >= nodes.allowed_pods
        allocatable = nodes.allocatables(state.names)
        short = nodes.requesteds(state.names) > allocatable - state.amounts
        if not np.count_nonzero(short) and not np.count_nonzero(is_full):
            return FilterStatuses.feasible(len(nodes))
        is_hopeless = np.logical_or.reduce(short & (allocatable < state.amounts))
        return _combine(state.reasons, np.array([is_hopeless, is_full, *short]))

    def filter_node(self, cycle: Cycle, node: NodeInfo) -> Status | None:
        """As ``filter``, of one node."""
        state: FitState = cycle[self]
        reasons = [TOO_MANY_PODS] if node.pod_count >= node.allowed_pods else []
        is_hopeless = False
        for resource, amount in state.requests:
            allocatable, requested = node.amounts(resource)
            if amount > wrap_int64(allocatable - requested):
                reasons.append(_insufficient(resource))
                is_hopeless = is_hopeless or amount > allocatable
        return Reject(*reasons, resolvable=not is_hopeless) if reasons else None

    def score(self, cycle: Cycle, nodes: NodeView) -> Scores:
        """Returns the strategy's score for each node."""
        return self._score(scoring.shares(nodes, self._asked(cycle)))

    def score_node(self, cycle: Cycle, node: NodeInfo) -> int:
        """As ``score``, of one node."""
        return self._score_node(of_node.shares_of_node(node, self._asked(cycle), exact=False))

    def events(self) -> list[ClusterEventWithHint]:
        """A pod leaves or shrinks, a node comes or grows, a device class stands for a resource."""
        gone = ClusterEvent(EventResource.POD, ActionType.DELETE)
        shrunk = ClusterEvent(EventResource.POD, ActionType.UPDATE_POD_SCALE_DOWN)
        node = ClusterEvent(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_ALLOCATABLE)
        device_class = ClusterEvent(EventResource.DEVICE_CLASS, ActionType.ADD | ActionType.UPDATE)
        return [
            ClusterEventWithHint(gone, _after_pod_change, pure=True),
            ClusterEventWithHint(shrunk, _after_pod_change),
            ClusterEventWithHint(node, self._after_node_change, pure=True),
            ClusterEventWithHint(device_class, _after_device_class_change, pure=True),
        ]

    def _after_node_change(self, pod: PodInfo, old: Node | None, new: Node) -> QueueingHint:
        """The node could take the pod if it were empty, and has more now of what the pod asks for.

        *Differs:* upstream forgets here which resources it was told to ignore, and so sleeps
        through nodes that would do.
        """
        requests = self._to_fit(pod)
        has = node_allocatable(new)
        if has.get("pods", 0) < 1 or any(has.get(name, 0) < amount for name, amount in requests):
            return QueueingHint.SKIP
        if old is None:
            return QueueingHint.QUEUE
        had = node_allocatable(old)
        helps = any(
            has.get(name, 0) > had.get(name, 0)
            for name in ("pods", *(name for name, _ in requests))
        )
        return QueueingHint.QUEUE if helps else QueueingHint.SKIP

    def _to_fit(self, pod: PodInfo) -> tuple[tuple[str, int], ...]:
        """Resources and amounts over 0 that have to fit, in the order of the reasons."""
        requests = pod.requests
        first = [name for name in ("cpu", "memory", "ephemeral-storage") if name in requests]
        scalars = sorted(name for name in requests if name not in first)
        return tuple(
            (name, requests[name])
            for name in (*first, *scalars)
            if requests[name] > 0 and not self._is_ignored(name)
        )

    def _wanted(self, pod: PodInfo) -> tuple[int, ...]:
        return scoring.wanted(pod, self._resources, exact=False)

    def _scored(self, pod: PodInfo) -> Asked:
        return scoring.asked(self._resources, self._wanted(pod))

    def _asked(self, cycle: Cycle) -> Asked:
        """As noted by ``pre_filter``, which a profile may leave out."""
        if self not in cycle:
            return self._scored(cycle.pod)
        state: FitState = cycle[self]
        return state.scored

    def _is_ignored(self, resource: str) -> bool:
        if not is_extended_resource_name(resource):
            return False
        return resource in self._ignored or resource.split("/")[0] in self._ignored_groups


def _after_pod_change(pod: PodInfo, old: Pod, new: Pod | None) -> QueueingHint:
    """A pod that held room is gone, or holds less of what the pod asks for; or it is the pod."""
    if new is None:
        held_room = old.spec.node_name or old.status.nominated_node_name
        return QueueingHint.QUEUE if held_room else QueueingHint.SKIP
    if new.metadata.uid == pod.uid:
        return QueueingHint.QUEUE
    if not new.spec.node_name:
        return QueueingHint.SKIP
    before, after = PodInfo(old).usage, PodInfo(new).usage
    helps = any(
        amount > 0 and before.get(name, 0) > after.get(name, 0)
        for name, amount in pod.usage.items()
    )
    return QueueingHint.QUEUE if helps else QueueingHint.SKIP


def _after_device_class_change(
    pod: PodInfo, old: DeviceClass | None, new: DeviceClass
) -> QueueingHint:
    """Returns the class now stands for a resource that the pod asks for."""
    resource = new.spec.extended_resource_name
    if old is None:
        names = [f"{DEVICE_CLASS_PREFIX}{new.metadata.name}", resource]
    elif (old.spec.extended_resource_name or "") != (resource or ""):
        names = [resource]
    else:
        names = []
    helps = any(name in pod.requests for name in names)
    return QueueingHint.QUEUE if helps else QueueingHint.SKIP


def _combine(reasons: tuple[str, ...], said: npt.NDArray[np.bool_]) -> FilterStatuses:
    """Returns one status per combination of reasons that occurs.

    ``said`` bool of shape (1 + k, m): is the node hopeless, and does each of ``reasons`` apply.
    """
    numbers, first = _numbered(said)
    table: list[Status] = []
    code_of = np.zeros(len(first), dtype=np.uint16)
    for number, (is_hopeless, *applies) in enumerate(said.T[first].tolist()):
        if any(applies):
            table.append(Reject(*compress(reasons, applies), resolvable=not is_hopeless))
            code_of[number] = len(table)
    return FilterStatuses(code_of[numbers], table)


def _numbered(said: npt.NDArray[np.bool_]) -> tuple[Rows, Rows]:
    """Equal columns have equal numbers, from 0 on; and where each number is met first."""
    numbers: Rows | None = None
    for begin in range(0, len(said), len(BITS)):
        lines = said[begin : begin + len(BITS)].view(np.uint8)
        packed = BITS[: len(lines)] @ lines
        if numbers is not None:
            packed = numbers << 8 | packed
        # Eight lines more would be too many numbers: only those that occur go on.
        found = np.bincount(packed).nonzero()[0]
        number_of = np.empty(int(found[-1]) + 1, dtype=np.intp)
        number_of[found] = np.arange(len(found))
        numbers = number_of[packed]
    assert numbers is not None, "there is at least one line"
    first = np.empty(len(found), dtype=np.intp)
    first[numbers[::-1]] = np.arange(len(numbers))[::-1]
    return numbers, first


def _insufficient(resource: str) -> str:
    return f"Insufficient {resource}"


#: Turns the shares of m nodes into m scores, and those of one node into one.
Scorers = tuple[Callable[[Shares], Scores], Callable[[list[NodeShare]], int]]


def _scorers(strategy: ScoringStrategy) -> Scorers:
    """Returns the two forms of the strategy's score."""
    if strategy.type == "LeastAllocated":
        return _mean_of(scoring.least_allocated, of_node.least_allocated)
    if strategy.type == "MostAllocated":
        return _mean_of(scoring.most_allocated, of_node.most_allocated)
    if strategy.type != "RequestedToCapacityRatio":
        raise ConfigError("unknown strategy", path="scoringStrategy.type", value=strategy.type)
    ratio = strategy.requested_to_capacity_ratio
    if ratio is None or not ratio.shape:
        raise ConfigError(
            "must have at least one point", path="scoringStrategy.requestedToCapacityRatio.shape"
        )
    columns = scoring.capacity_ratio(ratio.shape)
    one = of_node.capacity_ratio(ratio.shape)
    return (
        lambda shares: scoring.weighted_mean_of_positive(shares, columns),
        lambda found: of_node.weighted_mean_of_positive(found, one),
    )


def _mean_of(columns: Callable[[Shares], Scores], one: Callable[[NodeShare], int]) -> Scorers:
    return (
        lambda shares: scoring.weighted_mean(shares, columns),
        lambda found: of_node.weighted_mean(found, one),
    )
