"""NodeUnschedulable: cordoned nodes accept only pods that tolerate it."""

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

#: The taint of a cordoned node.
CORDONED = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")

REASON = "node(s) were unschedulable"


class NodeUnschedulable:
    """Rejects nodes with ``spec.unschedulable``.

    Source: pkg/scheduler/framework/plugins/nodeunschedulable/node_unschedulable.go.
    """

    name = "NodeUnschedulable"
    reads = Change.TAINTS
    signs_claim_names = False

    def sign(self, pod: PodInfo) -> Hashable:
        """Returns True if the pod tolerates cordoned nodes."""
        return is_tolerated(CORDONED, pod.spec.tolerations)

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        """Rejects cordoned nodes unless the pod tolerates their taint."""
        if is_tolerated(CORDONED, cycle.pod.spec.tolerations):
            return FilterStatuses.feasible(len(nodes))
        return FilterStatuses.reject(nodes.unschedulable, Reject(REASON, resolvable=False))

    def events(self) -> list[ClusterEventWithHint]:
        """Registers added and uncordoned nodes, and new tolerations of the pod."""
        node = ClusterEvent(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_TAINT)
        toleration = ClusterEvent(EventResource.POD, ActionType.UPDATE_POD_TOLERATION)
        return [
            ClusterEventWithHint(node, _after_node_change, pure=True),
            ClusterEventWithHint(toleration, _after_toleration),
        ]


def _after_node_change(_: PodInfo, old: Node | None, new: Node) -> QueueingHint:
    """Queues if the node is schedulable now and was not before."""
    was_schedulable = old is not None and not old.spec.unschedulable
    helps = not was_schedulable and not new.spec.unschedulable
    return QueueingHint.queue_if(helps)


def _after_toleration(pod: PodInfo, _: Pod | None, new: Pod) -> QueueingHint:
    """Queues if the pod itself tolerates cordoned nodes now."""
    helps = new.metadata.uid == pod.uid and is_tolerated(CORDONED, new.spec.tolerations)
    return QueueingHint.queue_if(helps)
