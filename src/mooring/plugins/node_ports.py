"""NodePorts: two pods cannot have the same host port on one node."""

from __future__ import annotations

from collections.abc import Hashable

from mooring.framework import SKIP, Cycle, NodeView, Reject, Verdicts
from mooring.framework.verdict import Skip
from mooring.state import Change, PodInfo

REASON = "node(s) didn't have free ports for the requested pod ports"


class NodePorts:
    """Refuses nodes where another pod holds a host port that the pod wants.

    Source: pkg/scheduler/framework/plugins/nodeports/node_ports.go.
    """

    name = "NodePorts"
    reads = Change.PORTS

    def sign(self, pod: PodInfo) -> Hashable:
        """The host ports that the pod wants."""
        return pod.host_ports

    def pre_filter(self, cycle: Cycle) -> Skip | None:
        """Skip a pod that wants no host port."""
        return None if cycle.pod.host_ports else SKIP

    def filter(self, cycle: Cycle, nodes: NodeView) -> Verdicts:
        """Refuse nodes where a wanted port is taken."""
        return Verdicts.refuse(nodes.has_port_conflict(cycle.pod.host_ports), Reject(REASON))
