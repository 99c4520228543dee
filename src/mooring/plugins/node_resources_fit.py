"""NodeResourcesFit: is there room for the pod, and how much would be left."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass

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
from mooring.framework import Cycle, NodeInfo, NodeView, Reject, Status, Verdicts
from mooring.framework.interface import Scores
from mooring.objects.node import Node
from mooring.objects.pod import Pod
from mooring.objects.quantity import wrap_int64
from mooring.objects.requests import is_extended_resource_name
from mooring.objects.resource import DeviceClass
from mooring.plugins import resource_scores
from mooring.plugins import resource_scores_of_node as of_node
from mooring.plugins.resource_scores import Share
from mooring.plugins.resource_scores_of_node import NodeShare
from mooring.state import Change, PodInfo
from mooring.state.nodes import node_allocatable

TOO_MANY_PODS = "Too many pods"

#: Reasons that fit into an int64 beside a bit for "hopeless" and the sign. A pod may ask for more
#: kinds of resources than that.
MAX_BITS = 62

#: With this before its name, every device class is an extended resource too.
DEVICE_CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"


@dataclass(frozen=True, slots=True)
class FitState:
    """What the plugin reads of the pod.

    ``requests`` has to fit: (resource, amount) with amounts over 0, in the order of the reasons.
    ``scored`` is what the pod asks of each scored resource.
    """

    requests: tuple[tuple[str, int], ...]
    scored: tuple[int, ...]


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
        return tuple(pod.requests.items()), self._scored(pod)

    def pre_filter(self, cycle: Cycle) -> None:
        """Note what has to fit."""
        cycle[self] = FitState(self._to_fit(cycle.pod), self._scored(cycle.pod))

    def filter(self, cycle: Cycle, nodes: NodeView) -> Verdicts:
        """Refuse nodes with too many pods or too little of something, with every such reason."""
        state: FitState = cycle[self]
        reasons = [TOO_MANY_PODS]
        lacking = [nodes.pod_count >= nodes.allowed_pods]
        hopeless = np.zeros(len(nodes), dtype=np.bool_)
        for resource, amount in state.requests:
            allocatable = nodes.allocatable(resource)
            short = nodes.requested(resource) > allocatable - amount
            if np.count_nonzero(short):  # any() takes three times as long
                reasons.append(f"Insufficient {resource}")
                lacking.append(short)
                hopeless |= allocatable < amount
        if len(lacking) == 1 and not np.count_nonzero(lacking[0]):
            return Verdicts.feasible(len(nodes))
        return _combine(reasons, lacking, hopeless)

    def filter_node(self, cycle: Cycle, node: NodeInfo) -> Status | None:
        """As ``filter``, of one node."""
        state: FitState = cycle[self]
        reasons = [TOO_MANY_PODS] if node.pod_count >= node.allowed_pods else []
        is_hopeless = False
        for resource, amount in state.requests:
            allocatable = node.allocatable(resource)
            if amount > wrap_int64(allocatable - node.requested(resource)):
                reasons.append(f"Insufficient {resource}")
                is_hopeless = is_hopeless or amount > allocatable
        return Reject(*reasons, resolvable=not is_hopeless) if reasons else None

    def score(self, cycle: Cycle, nodes: NodeView) -> Scores:
        """The strategy's score for each node."""
        wanted = self._scored_of(cycle)
        shares = resource_scores.shares(nodes, self._resources, wanted, exact=False)
        return self._score(len(nodes), shares)

    def score_node(self, cycle: Cycle, node: NodeInfo) -> int:
        """As ``score``, of one node."""
        wanted = self._scored_of(cycle)
        shares = of_node.shares_of_node(node, self._resources, wanted, exact=False)
        return self._score_node(shares)

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

    def _scored(self, pod: PodInfo) -> tuple[int, ...]:
        return resource_scores.wanted(pod, self._resources, exact=False)

    def _scored_of(self, cycle: Cycle) -> tuple[int, ...]:
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
    """The class now stands for a resource that the pod asks for."""
    resource = new.spec.extended_resource_name
    if old is None:
        names = [f"{DEVICE_CLASS_PREFIX}{new.metadata.name}", resource]
    elif (old.spec.extended_resource_name or "") != (resource or ""):
        names = [resource]
    else:
        names = []
    helps = any(name in pod.requests for name in names)
    return QueueingHint.QUEUE if helps else QueueingHint.SKIP


def _combine(
    reasons: list[str], lacking: list[npt.NDArray[np.bool_]], hopeless: npt.NDArray[np.bool_]
) -> Verdicts:
    """One status per combination of reasons that occurs."""
    if len(reasons) > MAX_BITS:
        return _combine_many(reasons, lacking, hopeless)
    combination = hopeless.astype(np.int64)
    for bit, short in enumerate(lacking, start=1):
        combination |= short.astype(np.int64) << bit
    combination[combination == 1] = 0  # hopeless for a reason that does not apply
    codes = np.zeros(len(combination), dtype=np.uint16)
    table: list[Status] = []
    left = combination
    while bits := int(left.max(initial=0)):  # combinations are few: peel them off one by one
        found = [reason for bit, reason in enumerate(reasons, start=1) if bits >> bit & 1]
        table.append(Reject(*found, resolvable=not bits & 1))
        here = left == bits
        codes[here] = len(table)
        left[here] = 0
    return Verdicts(codes, table)


def _combine_many(
    reasons: list[str], lacking: list[npt.NDArray[np.bool_]], hopeless: npt.NDArray[np.bool_]
) -> Verdicts:
    """As ``_combine``, for more reasons than an int64 has bits."""
    packed = np.packbits(np.array([hopeless, *lacking]), axis=0)
    keys = np.ascontiguousarray(packed.T).view(np.dtype((np.void, len(packed)))).ravel()
    _, first, number = np.unique(keys, return_index=True, return_inverse=True)
    table: list[Status] = []
    code_of = np.zeros(len(first), dtype=np.uint16)
    for combination, at in enumerate(first.tolist()):
        found = [reason for reason, short in zip(reasons, lacking, strict=True) if short[at]]
        if found:
            table.append(Reject(*found, resolvable=not hopeless[at]))
            code_of[combination] = len(table)
    return Verdicts(code_of[number], table)


#: Turns the shares of m nodes into m scores, and those of one node into one.
Scorers = tuple[Callable[[int, list[Share]], Scores], Callable[[list[NodeShare]], int]]


def _scorers(strategy: ScoringStrategy) -> Scorers:
    """The two forms of the strategy's score."""
    if strategy.type == "LeastAllocated":
        return _mean_of(resource_scores.least_allocated, of_node.least_allocated)
    if strategy.type == "MostAllocated":
        return _mean_of(resource_scores.most_allocated, of_node.most_allocated)
    if strategy.type != "RequestedToCapacityRatio":
        raise ConfigError("unknown strategy", path="scoringStrategy.type", value=strategy.type)
    ratio = strategy.requested_to_capacity_ratio
    if ratio is None or not ratio.shape:
        raise ConfigError(
            "must have at least one point", path="scoringStrategy.requestedToCapacityRatio.shape"
        )
    columns = resource_scores.capacity_ratio(ratio.shape)
    one = of_node.capacity_ratio(ratio.shape)
    return (
        lambda length, found: resource_scores.weighted_mean_of_positive(length, found, columns),
        lambda found: of_node.weighted_mean_of_positive(found, one),
    )


def _mean_of(columns: Callable[[Share], Scores], one: Callable[[NodeShare], int]) -> Scorers:
    return (
        lambda length, found: resource_scores.weighted_mean(length, found, columns),
        lambda found: of_node.weighted_mean(found, one),
    )
