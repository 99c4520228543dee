"""TaintToleration: hard taints reject pods, soft taints lower a node's score."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from functools import partial
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from mooring.cluster_event import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    QueueingHint,
)
from mooring.framework import Cycle, FilterStatuses, NodeView, Reject, default_normalize
from mooring.framework.interface import MAX_SCORE, Scores
from mooring.objects.node import Node, Taint
from mooring.objects.pod import Pod
from mooring.objects.tolerations import PREFER_NO_SCHEDULE, first_untolerated, is_tolerated
from mooring.state import Change, PodInfo

REASON = "node(s) had untolerated taint(s)"


class TaintToleration:
    """Rejects nodes with a hard taint that the pod does not tolerate.

    It prefers the nodes with the fewest soft taints that the pod does not tolerate. Nodes have few
    distinct sets of taints, so each set is evaluated once and looked up by its id.

    Source: pkg/scheduler/framework/plugins/tainttoleration/taint_toleration.go.
    """

    name = "TaintToleration"
    reads = Change.TAINTS
    signs_claim_names = False
    normalized_zero = MAX_SCORE

    def __init__(self, gates: Mapping[str, bool] = MappingProxyType({})) -> None:
        """Reads from ``gates`` whether the operators Lt and Gt of tolerations compare numbers."""
        self.compares = gates.get("TaintTolerationComparisonOperators", False)

    def sign(self, pod: PodInfo) -> Hashable:
        """Returns the pod's tolerations."""
        return pod.spec.tolerations

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        """Rejects nodes with an untolerated NoSchedule or NoExecute taint."""
        tolerations, compares = cycle.pod.spec.tolerations, self.compares

        def is_untolerated(taints: tuple[Taint, ...]) -> bool:
            return first_untolerated(taints, tolerations, compares=compares) is not None

        refused = _evaluate_per_taint_set(nodes, is_untolerated) != 0
        return FilterStatuses.reject(refused, Reject(REASON, resolvable=False))

    def score(self, cycle: Cycle, nodes: NodeView) -> Scores:
        """Returns the number of PreferNoSchedule taints that the pod does not tolerate."""
        soft = [
            toleration
            for toleration in cycle.pod.spec.tolerations
            if toleration.effect in ("", PREFER_NO_SCHEDULE)
        ]

        def count_untolerated(taints: tuple[Taint, ...]) -> int:
            return sum(
                taint.effect == PREFER_NO_SCHEDULE
                and not is_tolerated(taint, soft, compares=self.compares)
                for taint in taints
            )

        return _evaluate_per_taint_set(nodes, count_untolerated)

    def normalize(self, cycle: Cycle, scores: Scores, nodes: NodeView) -> Scores:  # noqa: ARG002
        """Scales the counts so that 0 taints become 100 and the highest count becomes 0."""
        return default_normalize(scores, reverse=True)

    def events(self) -> list[ClusterEventWithHint]:
        """Registers added nodes, changes of taints, and new tolerations of the pod."""
        node = ClusterEvent(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_TAINT)
        toleration = ClusterEvent(EventResource.POD, ActionType.UPDATE_POD_TOLERATION)
        return [
            ClusterEventWithHint(
                node, partial(_after_node_change, compares=self.compares), pure=True
            ),
            ClusterEventWithHint(toleration, _after_toleration),
        ]


def _after_node_change(
    pod: PodInfo, old: Node | None, new: Node, *, compares: bool
) -> QueueingHint:
    """Queues if the pod tolerates the node's hard taints now and did not before."""

    def is_untolerated(node: Node) -> bool:
        tolerations = pod.spec.tolerations
        return first_untolerated(node.spec.taints, tolerations, compares=compares) is not None

    helps = (old is None or is_untolerated(old)) and not is_untolerated(new)
    return QueueingHint.queue_if(helps)


def _after_toleration(pod: PodInfo, _: Pod | None, new: Pod) -> QueueingHint:
    """Queues if the pod itself changed: tolerations can only be added."""
    return QueueingHint.queue_if(new.metadata.uid == pod.uid)


def _evaluate_per_taint_set(
    nodes: NodeView, evaluate: Callable[[tuple[Taint, ...]], int]
) -> npt.NDArray[np.int64]:
    """Returns ``evaluate`` of each node's taints, int64 shape (m,); calls it once per set."""
    sets = nodes.taint_sets
    if len(nodes) < len(sets):  # few nodes: cheaper by node than by distinct set
        by_node = [sets[taint_id] for taint_id in nodes.taint_ids.tolist()]
        return np.array([evaluate(taints) if taints else 0 for taints in by_node], dtype=np.int64)
    values = [evaluate(taints) if taints else 0 for taints in sets]
    if not any(values):
        return np.zeros(len(nodes), dtype=np.int64)
    return np.array(values, dtype=np.int64)[nodes.taint_ids]
