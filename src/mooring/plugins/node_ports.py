"""NodePorts: two pods cannot have the same host port on one node."""

from __future__ import annotations

from collections.abc import Hashable

from mooring.cluster_event import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    QueueingHint,
)
from mooring.framework import SKIP, Cycle, FilterStatuses, NodeView, Reject
from mooring.framework.status import Skip
from mooring.objects.pod import Pod
from mooring.state import Change, PodInfo
from mooring.state.columns.ports import conflicts

REASON = "node(s) didn't have free ports for the requested pod ports"


class NodePorts:
    """Refuses nodes where another pod holds a host port that the pod wants.

    Source: pkg/scheduler/framework/plugins/nodeports/node_ports.go.
    """

    name = "NodePorts"
    reads = Change.PORTS

    def sign(self, pod: PodInfo) -> Hashable:
        """Returns the host ports that the pod wants."""
        return pod.host_ports

    def pre_filter(self, cycle: Cycle) -> Skip | None:
        """Skips a pod that wants no host port."""
        return None if cycle.pod.host_ports else SKIP

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        """Refuses nodes where a wanted port is taken."""
        return FilterStatuses.refuse(nodes.has_port_conflict(cycle.pod.host_ports), Reject(REASON))

    def events(self) -> list[ClusterEventWithHint]:
        """Returns a pod that held such a port is gone, or there is another node.

        The ports of a pod never change, so updates of pods cannot help.
        """
        deleted = ClusterEvent(EventResource.POD, ActionType.DELETE)
        return [
            ClusterEventWithHint(deleted, _after_pod_deleted, pure=True),
            ClusterEventWithHint(ClusterEvent(EventResource.NODE, ActionType.ADD)),
        ]


def _after_pod_deleted(pod: PodInfo, old: Pod, _: Pod | None) -> QueueingHint:
    """The deleted pod held, or was to hold, a port that conflicts with one of the pod's."""
    if not old.spec.node_name and not old.status.nominated_node_name:
        return QueueingHint.SKIP
    freed = PodInfo(old).host_ports
    helps = any(conflicts(wanted, held) for wanted in pod.host_ports for held in freed)
    return QueueingHint.QUEUE if helps else QueueingHint.SKIP
