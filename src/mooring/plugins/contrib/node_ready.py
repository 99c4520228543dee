"""NodeReady: rejects nodes whose Ready condition is not True.

kube-scheduler relies on taints, which the node lifecycle controller adds after a delay. Where there
is no such controller, or the delay is too long, this filter reads the condition itself.
"""

from __future__ import annotations

from mooring.cluster_event import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    QueueingHint,
)
from mooring.framework import NodeInfo, Reject, Status, per_node
from mooring.objects.node import Node
from mooring.state import Change, PodInfo

REASON = "node(s) were not ready"


class NodeReady:
    """Accepts only nodes whose condition Ready is True.

    It is called per node, but its results are cached, so only for nodes that changed.
    """

    name = "NodeReady"
    reads = Change.OTHER

    def sign(self, pod: PodInfo) -> str:
        """Returns the same for every pod."""
        del pod
        return ""

    @per_node
    def filter(self, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Rejects a node that is not ready."""
        del pod
        return None if _is_ready(node.node) else Reject(REASON, resolvable=False)

    def events(self) -> list[ClusterEventWithHint]:
        """Registers added nodes and changes of node conditions."""
        action = ActionType.ADD | ActionType.UPDATE_NODE_CONDITION
        event = ClusterEvent(EventResource.NODE, action)
        return [ClusterEventWithHint(event, _after_node_change, pure=True)]


def _after_node_change(pod: PodInfo, old: Node | None, new: Node | None) -> QueueingHint:
    del pod
    became_ready = new is not None and _is_ready(new) and not (old is not None and _is_ready(old))
    return QueueingHint.queue_if(became_ready)


def _is_ready(node: Node) -> bool:
    return any(
        condition.type == "Ready" and condition.status == "True"
        for condition in node.status.conditions
    )
