"""NodeUnschedulable: cordoned nodes take no pods, but for those that tolerate it."""

from __future__ import annotations

from collections.abc import Hashable

from mooring.framework import Cycle, NodeView, Reject, Verdicts
from mooring.objects.node import Taint
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
        """Whether the pod may go to cordoned nodes."""
        return is_tolerated(CORDONED, pod.spec.tolerations)

    def filter(self, cycle: Cycle, nodes: NodeView) -> Verdicts:
        """Refuse cordoned nodes unless the pod tolerates their taint."""
        if is_tolerated(CORDONED, cycle.pod.spec.tolerations):
            return Verdicts.feasible(len(nodes))
        return Verdicts.refuse(nodes.unschedulable, Reject(REASON, resolvable=False))
