"""NodeName: accepts only the node in ``spec.nodeName``."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from mooring.cluster_event import ActionType, ClusterEvent, ClusterEventWithHint, EventResource
from mooring.framework import Cycle, FilterStatuses, NodeView, Reject
from mooring.state import Change, PodInfo

REASON = "node(s) didn't match the requested node name"


class NodeName:
    """Rejects every node but ``spec.nodeName``, if that is set.

    Source: pkg/scheduler/framework/plugins/nodename/node_name.go.
    """

    name = "NodeName"
    reads = Change.EXISTENCE
    signs_claim_names = False

    def sign(self, pod: PodInfo) -> Hashable:
        """Returns ``spec.nodeName``."""
        return pod.spec.node_name

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        """Rejects nodes with another name."""
        node_name = cycle.pod.spec.node_name
        if not node_name:
            return FilterStatuses.feasible(len(nodes))
        others = np.array([name != node_name for name in nodes.names], dtype=np.bool_)
        return FilterStatuses.reject(others, Reject(REASON, resolvable=False))

    def events(self) -> list[ClusterEventWithHint]:
        """Registers added nodes; a node's name never changes."""
        return [ClusterEventWithHint(ClusterEvent(EventResource.NODE, ActionType.ADD))]
