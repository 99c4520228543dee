"""NodeName: a pod that names its node goes there or nowhere."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from mooring.cluster_event import ActionType, ClusterEvent, ClusterEventWithHint, EventResource
from mooring.framework import Cycle, FilterStatuses, NodeView, Reject
from mooring.state import Change, PodInfo

REASON = "node(s) didn't match the requested node name"


class NodeName:
    """Refuses every node but ``spec.nodeName``, if that is set.

    Source: pkg/scheduler/framework/plugins/nodename/node_name.go.
    """

    name = "NodeName"
    reads = Change.EXISTENCE

    def sign(self, pod: PodInfo) -> Hashable:
        """Returns the node that the pod names."""
        return pod.spec.node_name

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        """Refuses nodes with another name."""
        wanted = cycle.pod.spec.node_name
        if not wanted:
            return FilterStatuses.feasible(len(nodes))
        others = np.array([name != wanted for name in nodes.names], dtype=np.bool_)
        return FilterStatuses.refuse(others, Reject(REASON, resolvable=False))

    def events(self) -> list[ClusterEventWithHint]:
        """Another node; a node cannot change its name."""
        return [ClusterEventWithHint(ClusterEvent(EventResource.NODE, ActionType.ADD))]
