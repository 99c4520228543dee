"""NodeResourcesFit: filters nodes by free resources, and scores their utilization."""

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
from mooring.framework.interface import Handle, Scores
from mooring.objects.node import Node
from mooring.objects.pod import Pod
from mooring.objects.quantity import wrap_int64
from mooring.objects.requests import is_extended_resource_name
from mooring.objects.resource import DeviceClass
from mooring.plugins.node_resources import scoring
from mooring.plugins.node_resources import scoring_one_node as of_node
from mooring.plugins.node_resources.device_totals import DeviceTotals
from mooring.plugins.node_resources.scoring import ScoredRequests, Shares
from mooring.plugins.node_resources.scoring_one_node import NodeShare
from mooring.state import Change, PodInfo
from mooring.state.columns.distinct import number_distinct
from mooring.state.tables.nodes import node_allocatable
from mooring.state.types import Rows

#: Bit weights to pack eight bool lines into one number per node.
BITS = 1 << np.arange(8, dtype=np.uint8)

TOO_MANY_PODS = "Too many pods"

#: The prefix with which the name of any device class is an extended resource.
DEVICE_CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"


@dataclass(frozen=True, slots=True)
class FitState:
    """The pod's requests.

    ``requests`` are filtered: (resource, amount) with amounts over 0, in the order of ``reasons``,
    which begin with too many pods. ``names`` and ``amounts``, int64 shape (k, 1), are the same as
    columns. ``by_devices``, bool shape (k, 1), are those that stand for a device class: nodes
    without any of them provide them by devices. ``scored`` are the requests of the scored
    resources.
    """

    requests: tuple[tuple[str, int], ...]
    reasons: tuple[str, ...]
    names: tuple[str, ...]
    amounts: npt.NDArray[np.int64]
    by_devices: npt.NDArray[np.bool_]
    scored: ScoredRequests


class NodeResourcesFit:
    """Rejects nodes without enough free resources, and scores the rest.

    The strategy is LeastAllocated, MostAllocated or RequestedToCapacityRatio.

    The rejection is unresolvable if the node's allocatable is less than the request, but not if
    other pods use the resources, or if the node only has too many pods.

    Source: pkg/scheduler/framework/plugins/noderesources/fit.go.
    """

    name = "NodeResourcesFit"
    reads = Change.ALLOCATABLE | Change.USAGE
    amounts_only = True
    signs_claim_names = False

    def __init__(
        self, args: NodeResourcesFitArgs | None = None, handle: Handle | None = None
    ) -> None:
        """Creates the plugin; hints read the device classes through ``handle``.

        Raises:
            ConfigError: if the scoring strategy is unknown or its shape is missing.
        """
        args = args if args is not None else NodeResourcesFitArgs()
        self._handle = handle
        self._totals = DeviceTotals()
        self._ignored = frozenset(args.ignored_resources)
        self._ignored_groups = frozenset(args.ignored_resource_groups)
        self._resources = args.scoring_strategy.resources
        self._score, self._score_node = _scorers(args.scoring_strategy)

    def sign(self, pod: PodInfo) -> Hashable | None:
        """Returns the pod's requests, and those of the scored resources; None = by devices."""
        # Built for a cluster with device classes only: every new signature pays for it.
        if self._handle is not None and len(self._handle.snapshot.device_classes):
            names = self._scored(pod).names
            if self._totals.backed(self._handle.snapshot, names):
                return None
        return tuple(pod.requests.items()), self._amounts(pod)

    def pre_filter(self, cycle: Cycle) -> None:
        """Stores the pod's requests."""
        requests = self._filtered_requests(cycle.pod)
        names = tuple(name for name, _ in requests)
        class_of = cycle.snapshot.device_classes.class_of
        by_devices = [class_of(name) is not None for name in names]
        cycle[self] = FitState(
            requests,
            (TOO_MANY_PODS, *map(_insufficient, names)),
            names,
            scoring.as_column([amount for _, amount in requests]),
            np.array([[is_backed] for is_backed in by_devices], dtype=np.bool_),
            self._scored(cycle.pod),
        )

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        """Rejects nodes with too many pods or insufficient resources, with all reasons."""
        state: FitState = cycle[self]
        is_full = nodes.pod_count >= nodes.allowed_pods
        allocatable = nodes.allocatables(state.names)
        is_short = nodes.requesteds(state.names) > allocatable - state.amounts
        if np.count_nonzero(state.by_devices):
            is_short &= ~state.by_devices | (allocatable > 0)
        if not np.count_nonzero(is_short) and not np.count_nonzero(is_full):
            return FilterStatuses.feasible(len(nodes))
        is_unresolvable = np.logical_or.reduce(is_short & (allocatable < state.amounts))
        return _combine(state.reasons, np.array([is_unresolvable, is_full, *is_short]))

    def filter_node(self, cycle: Cycle, node: NodeInfo) -> Status | None:
        """Does the same as ``filter``, for one node."""
        state: FitState = cycle[self]
        reasons = [TOO_MANY_PODS] if node.pod_count >= node.allowed_pods else []
        is_unresolvable = False
        for number, (resource, amount) in enumerate(state.requests):
            allocatable, requested = node.amounts(resource)
            if allocatable <= 0 and state.by_devices.item(number, 0):
                continue
            if amount > wrap_int64(allocatable - requested):
                reasons.append(_insufficient(resource))
                is_unresolvable = is_unresolvable or amount > allocatable
        return Reject(*reasons, resolvable=not is_unresolvable) if reasons else None

    def score(self, cycle: Cycle, nodes: NodeView) -> Scores:
        """Returns the strategy's score for each node."""
        requests = self._scored_of_cycle(cycle)
        backed = self._totals.backed(cycle.snapshot, requests.names)
        if backed:
            shares = scoring.shares_with_devices(nodes, requests, self._totals, backed)
            return self._score(shares)
        return self._score(scoring.shares(nodes, requests))

    def score_node(self, cycle: Cycle, node: NodeInfo) -> int:
        """Does the same as ``score``, for one node."""
        requests = self._scored_of_cycle(cycle)
        amounts = self._totals.amounts(cycle.snapshot, node.node, requests.names)
        if amounts:
            return self._score_node(
                of_node.shares_with_devices(node, requests, amounts, exact=False)
            )
        return self._score_node(of_node.shares_of_node(node, requests, exact=False))

    def events(self) -> list[ClusterEventWithHint]:
        """Registers deleted and scaled-down pods, added and grown nodes, and device classes."""
        deleted = ClusterEvent(EventResource.POD, ActionType.DELETE)
        scaled_down = ClusterEvent(EventResource.POD, ActionType.UPDATE_POD_SCALE_DOWN)
        node = ClusterEvent(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_ALLOCATABLE)
        device_class = ClusterEvent(EventResource.DEVICE_CLASS, ActionType.ADD | ActionType.UPDATE)
        events = [
            ClusterEventWithHint(deleted, _after_pod_change, pure=True),
            ClusterEventWithHint(scaled_down, _after_pod_change),
            ClusterEventWithHint(node, self._after_node_change, pure=True),
        ]
        if self._handle is None or self._handle.snapshot.devices.features.maps_resources:
            by_class = ClusterEventWithHint(device_class, _after_device_class_change, pure=True)
            events.append(by_class)
        return events

    def _after_node_change(self, pod: PodInfo, old: Node | None, new: Node) -> QueueingHint:
        """Queues if the empty node would fit the pod, and has more of a requested resource now.

        *Differs:* upstream does not apply the ignored resources here, and so skips some nodes that
        would fit.
        """
        after = node_allocatable(new)
        by_devices = [
            name
            for name, _ in self._filtered_requests(pod)
            if after.get(name, 0) <= 0 and self._has_class(name)
        ]
        requests = [
            (name, amount)
            for name, amount in self._filtered_requests(pod)
            if name not in by_devices
        ]
        if after.get("pods", 0) < 1 or any(
            after.get(name, 0) < amount for name, amount in requests
        ):
            return QueueingHint.SKIP
        if old is None or by_devices:
            return QueueingHint.QUEUE
        before = node_allocatable(old)
        helps = any(
            after.get(name, 0) > before.get(name, 0)
            for name in ("pods", *(name for name, _ in requests))
        )
        return QueueingHint.queue_if(helps)

    def _has_class(self, resource: str) -> bool:
        """Returns whether a resource stands for a device class now."""
        if self._handle is None:
            return False
        return self._handle.snapshot.device_classes.class_of(resource) is not None

    def _filtered_requests(self, pod: PodInfo) -> tuple[tuple[str, int], ...]:
        """Returns the resources and amounts over 0 to filter by, in the order of the reasons."""
        requests = pod.requests
        first = [name for name in ("cpu", "memory", "ephemeral-storage") if name in requests]
        scalars = sorted(name for name in requests if name not in first)
        return tuple(
            (name, requests[name])
            for name in (*first, *scalars)
            if requests[name] > 0 and not self._is_ignored(name)
        )

    def _amounts(self, pod: PodInfo) -> tuple[int, ...]:
        return scoring.requested_amounts(pod, self._resources, exact=False)

    def _scored(self, pod: PodInfo) -> ScoredRequests:
        return scoring.scored_requests(self._resources, self._amounts(pod))

    def _scored_of_cycle(self, cycle: Cycle) -> ScoredRequests:
        """Returns the scored requests of ``pre_filter``, which a profile may disable."""
        state: FitState | None = cycle.state_of(self.name)
        return self._scored(cycle.pod) if state is None else state.scored

    def _is_ignored(self, resource: str) -> bool:
        if not is_extended_resource_name(resource):
            return False
        return resource in self._ignored or resource.split("/")[0] in self._ignored_groups


def _after_pod_change(pod: PodInfo, old: Pod, new: Pod | None) -> QueueingHint:
    """Queues if a placed or nominated pod is deleted, or the pod itself or a placed one shrank."""
    if new is None:
        used_resources = old.spec.node_name or old.status.nominated_node_name
        return QueueingHint.queue_if(bool(used_resources))
    if new.metadata.uid == pod.uid:
        return QueueingHint.QUEUE
    if not new.spec.node_name:
        return QueueingHint.SKIP
    before, after = PodInfo(old).usage, PodInfo(new).usage
    helps = any(
        amount > 0 and before.get(name, 0) > after.get(name, 0)
        for name, amount in pod.usage.items()
    )
    return QueueingHint.queue_if(helps)


def _after_device_class_change(
    pod: PodInfo, old: DeviceClass | None, new: DeviceClass
) -> QueueingHint:
    """Queues if the class has become the device class of a resource that the pod requests."""
    resource = new.spec.extended_resource_name
    if old is None:
        names = [f"{DEVICE_CLASS_PREFIX}{new.metadata.name}", resource]
    elif (old.spec.extended_resource_name or "") != (resource or ""):
        names = [resource]
    else:
        names = []
    helps = any(name in pod.requests for name in names)
    return QueueingHint.queue_if(helps)


def _combine(reasons: tuple[str, ...], lines: npt.NDArray[np.bool_]) -> FilterStatuses:
    """Returns one status per combination of reasons that occurs.

    ``lines`` bool of shape (1 + k, m): if the node is unresolvable, and if each reason applies.
    """
    numbers, first = _number_columns(lines)
    table: list[Status] = []
    code_of = np.zeros(len(first), dtype=np.uint16)
    for number, (is_unresolvable, *applies) in enumerate(lines.T[first].tolist()):
        if any(applies):
            table.append(Reject(*compress(reasons, applies), resolvable=not is_unresolvable))
            code_of[number] = len(table)
    return FilterStatuses(code_of[numbers], table)


def _number_columns(lines: npt.NDArray[np.bool_]) -> tuple[Rows, Rows]:
    """Returns a number for each column, equal ones for equal columns, and their first positions."""
    numbers: Rows | None = None
    for begin in range(0, len(lines), len(BITS)):
        chunk = lines[begin : begin + len(BITS)].view(np.uint8)
        packed = BITS[: len(chunk)] @ chunk
        if numbers is not None:
            packed = numbers << 8 | packed
        # Renumber the values that occur, or the next eight lines would give too large numbers.
        values, numbers = number_distinct(packed)
    assert numbers is not None, "there is at least one line"
    first = np.empty(len(values), dtype=np.intp)
    first[numbers[::-1]] = np.arange(len(numbers))[::-1]
    return numbers, first


def _insufficient(resource: str) -> str:
    return f"Insufficient {resource}"


#: Functions from the shares of m nodes to m scores, and from those of one node to one score.
Scorers = tuple[Callable[[Shares], Scores], Callable[[list[NodeShare]], int]]


def _scorers(strategy: ScoringStrategy) -> Scorers:
    """Returns the two score functions of the strategy."""
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
    one_node = of_node.capacity_ratio(ratio.shape)
    return (
        lambda shares: scoring.weighted_mean_of_positive(shares, columns),
        lambda shares: of_node.weighted_mean_of_positive(shares, one_node),
    )


def _mean_of(columns: Callable[[Shares], Scores], one_node: Callable[[NodeShare], int]) -> Scorers:
    return (
        lambda shares: scoring.weighted_mean(shares, columns),
        lambda shares: of_node.weighted_mean(shares, one_node),
    )
