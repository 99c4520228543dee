"""NodeUnschedulable: cordoned nodes take no pods, but for those that tolerate it."""

from __future__ import annotations

from collections.abc import Hashable

from mooring.cluster_event import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    QueueingHint,
)
from mooring.framework import Cycle, FilterStatuses, NodeView, Reject
from mooring.objects.node import Node, Taint
from mooring.objects.pod import Pod
from mooring.objects.tolerations import is_tolerated
from mooring.state import Change, PodInfo

#: The taint that stands for a cordoned node.
CORDONED = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")

REASON = "node(s) were unschedulable"


class NodeUnschedulable:
    """Refuses nodes with ``spec.unschedulable``.

    Source: pkg/scheduler/framework/plugins/nodeunschedulable/node_unschedulable.go.
    """

    name = "NodeUnschedulable"
    reads = Change.TAINTS

    def sign(self, pod: PodInfo) -> Hashable:
        """Returns whether the pod may go to cordoned nodes."""
        return is_tolerated(CORDONED, pod.spec.tolerations)

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        """Refuses cordoned nodes unless the pod tolerates their taint."""
        if is_tolerated(CORDONED, cycle.pod.spec.tolerations):
            return FilterStatuses.feasible(len(nodes))
        return FilterStatuses.refuse(nodes.unschedulable, Reject(REASON, resolvable=False))

    def events(self) -> list[ClusterEventWithHint]:
        """A node that takes pods, or takes them again; the pod itself learns to tolerate."""
        node = ClusterEvent(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_TAINT)
        toleration = ClusterEvent(EventResource.POD, ActionType.UPDATE_POD_TOLERATION)
        return [
            ClusterEventWithHint(node, _after_node_change, pure=True),
            ClusterEventWithHint(toleration, _after_toleration),
        ]


def _after_node_change(_: PodInfo, old: Node | None, new: Node) -> QueueingHint:
    """The node takes pods, and did not before."""
    was_closed = old is None or old.spec.unschedulable
    opened = was_closed and not new.spec.unschedulable
    return QueueingHint.QUEUE if opened else QueueingHint.SKIP


def _after_toleration(pod: PodInfo, _: Pod | None, new: Pod) -> QueueingHint:
    """Returns the pod itself now tolerates cordoned nodes; it did not when it was refused."""
    helps = new.metadata.uid == pod.uid and is_tolerated(CORDONED, new.spec.tolerations)
    return QueueingHint.QUEUE if helps else QueueingHint.SKIP
