"""TaintToleration: taints keep pods away, or make a node less wanted."""

from __future__ import annotations

from collections.abc import Callable, Hashable

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
    """Refuses nodes with a hard taint that the pod does not tolerate.

    Of the others it prefers those with the fewest soft taints that the pod does not tolerate.
    Nodes share few sets of taints, so each set is judged once and looked up by its id.

    Source: pkg/scheduler/framework/plugins/tainttoleration/taint_toleration.go.
    """

    name = "TaintToleration"
    reads = Change.TAINTS
    normalized_zero = MAX_SCORE

    def sign(self, pod: PodInfo) -> Hashable:
        """Returns the pod's tolerations."""
        return pod.spec.tolerations

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        """Refuses nodes with an untolerated NoSchedule or NoExecute taint."""
        tolerations = cycle.pod.spec.tolerations

        def refuses(taints: tuple[Taint, ...]) -> bool:
            return first_untolerated(taints, tolerations) is not None

        refused = _evaluate_per_taint_set(nodes, refuses) != 0
        return FilterStatuses.refuse(refused, Reject(REASON, resolvable=False))

    def score(self, cycle: Cycle, nodes: NodeView) -> Scores:
        """Returns the number of PreferNoSchedule taints that the pod does not tolerate."""
        soft = [
            toleration
            for toleration in cycle.pod.spec.tolerations
            if toleration.effect in ("", PREFER_NO_SCHEDULE)
        ]

        def intolerable(taints: tuple[Taint, ...]) -> int:
            return sum(
                taint.effect == PREFER_NO_SCHEDULE and not is_tolerated(taint, soft)
                for taint in taints
            )

        return _evaluate_per_taint_set(nodes, intolerable)

    def normalize(self, cycle: Cycle, scores: Scores, nodes: NodeView) -> Scores:  # noqa: ARG002
        """The fewest taints become 100; without any, every node has 100."""
        return default_normalize(scores, reverse=True)

    def events(self) -> list[ClusterEventWithHint]:
        """Returns a node with tolerable taints only, or a toleration more for the pod itself."""
        node = ClusterEvent(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_TAINT)
        toleration = ClusterEvent(EventResource.POD, ActionType.UPDATE_POD_TOLERATION)
        return [
            ClusterEventWithHint(node, _after_node_change, pure=True),
            ClusterEventWithHint(toleration, _after_toleration),
        ]


def _after_node_change(pod: PodInfo, old: Node | None, new: Node) -> QueueingHint:
    """Returns the pod tolerates the node's hard taints, and did not before."""

    def refuses(node: Node) -> bool:
        return first_untolerated(node.spec.taints, pod.spec.tolerations) is not None

    helps = (old is None or refuses(old)) and not refuses(new)
    return QueueingHint.QUEUE if helps else QueueingHint.SKIP


def _after_toleration(pod: PodInfo, _: Pod | None, new: Pod) -> QueueingHint:
    """Tolerations are only ever added, so any change of the pod's own may help."""
    return QueueingHint.QUEUE if new.metadata.uid == pod.uid else QueueingHint.SKIP


def _evaluate_per_taint_set(
    nodes: NodeView, judge: Callable[[tuple[Taint, ...]], int]
) -> npt.NDArray[np.int64]:
    """``judge`` of each node's taints, int64 shape (m,), called once per distinct set."""
    sets = nodes.taint_sets
    if len(nodes) < len(sets):  # a few changed nodes: not worth judging what only others have
        by_node = [sets[at] for at in nodes.taint_ids.tolist()]
        return np.array([judge(taints) if taints else 0 for taints in by_node], dtype=np.int64)
    judged = [judge(taints) if taints else 0 for taints in sets]
    if not any(judged):
        return np.zeros(len(nodes), dtype=np.int64)
    return np.array(judged, dtype=np.int64)[nodes.taint_ids]
