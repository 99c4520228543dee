"""NodePorts: two pods cannot use the same host port of one node."""

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
    """Rejects nodes where another pod uses a host port that conflicts with one of the pod's.

    Source: pkg/scheduler/framework/plugins/nodeports/node_ports.go.
    """

    name = "NodePorts"
    reads = Change.PORTS
    signs_claim_names = False

    def sign(self, pod: PodInfo) -> Hashable:
        """Returns the pod's host ports."""
        return pod.host_ports

    def batch_signature(self, pod: PodInfo) -> Hashable:
        """Returns the numbers of the pod's host ports."""
        containers = (*pod.spec.containers, *pod.spec.init_containers)
        ports = (port.host_port for container in containers for port in container.ports)
        return frozenset(port for port in ports if port)

    def pre_filter(self, cycle: Cycle) -> Skip | None:
        """Skips a pod without host ports."""
        return None if cycle.pod.host_ports else SKIP

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        """Rejects nodes with a port conflict."""
        return FilterStatuses.reject(nodes.has_port_conflict(cycle.pod.host_ports), Reject(REASON))

    def events(self) -> list[ClusterEventWithHint]:
        """Registers deleted pods and added nodes; a pod's ports never change."""
        deleted = ClusterEvent(EventResource.POD, ActionType.DELETE)
        return [
            ClusterEventWithHint(deleted, _after_pod_deleted, pure=True),
            ClusterEventWithHint(ClusterEvent(EventResource.NODE, ActionType.ADD)),
        ]


def _after_pod_deleted(pod: PodInfo, old: Pod, _: Pod | None) -> QueueingHint:
    """Queues if the deleted pod was placed or nominated and had a conflicting port."""
    if not old.spec.node_name and not old.status.nominated_node_name:
        return QueueingHint.SKIP
    freed = PodInfo(old).host_ports
    helps = any(conflicts(port, freed_port) for port in pod.host_ports for freed_port in freed)
    return QueueingHint.queue_if(helps)
