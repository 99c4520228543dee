"""NodeReady: refuses nodes that do not say that they are ready.

kube-scheduler leaves that to taints, which a controller puts on such nodes a moment later. Where no
controller does, or a moment is too long, this filter looks at the condition itself.
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
    """Only nodes whose condition Ready is True.

    Price: asked about one node at a time, but only when a node has changed.
    """

    name = "NodeReady"
    reads = Change.OTHER

    def sign(self, pod: PodInfo) -> str:
        """Returns the same for every pod."""
        del pod
        return ""

    @per_node
    def filter(self, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Refuses a node that is not ready; its being ready again wakes the pod."""
        del pod
        return None if _is_ready(node.node) else Reject(REASON, resolvable=False)

    def events(self) -> list[ClusterEventWithHint]:
        """A node is new, or its conditions changed."""
        action = ActionType.ADD | ActionType.UPDATE_NODE_CONDITION
        event = ClusterEvent(EventResource.NODE, action)
        return [ClusterEventWithHint(event, _after_node_change, pure=True)]


def _after_node_change(pod: PodInfo, old: Node | None, new: Node | None) -> QueueingHint:
    del pod
    became_ready = new is not None and _is_ready(new) and not (old is not None and _is_ready(old))
    return QueueingHint.QUEUE if became_ready else QueueingHint.SKIP


def _is_ready(node: Node) -> bool:
    return any(each.type == "Ready" and each.status == "True" for each in node.status.conditions)
