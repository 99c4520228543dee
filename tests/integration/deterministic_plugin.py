"""A plugin that leaves nothing to chance: each pod may go to ten of twenty nodes, in an order."""

from __future__ import annotations

from mooring.framework import NodeInfo, Reject, Status, per_node
from mooring.state import PodInfo


def distance(pod_name: str, node_name: str) -> int:
    """Returns 0 to 19, a different number for each of twenty nodes."""
    node, pod = int(node_name.rpartition("-")[2]), int(pod_name.rpartition("-")[2])
    return (7 * node + 3 * pod) % 20


class Serial:
    """Refuses nodes that are far, and prefers near ones."""

    name = "Serial"

    @per_node
    def filter(self, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Rejects ten nodes, five of them as unresolvable."""
        far = distance(pod.metadata.name, node.name)
        if far >= 15:
            return Reject("is out of reach", resolvable=False)
        return Reject("is too far") if far >= 10 else None

    @per_node
    def score(self, pod: PodInfo, node: NodeInfo) -> int:
        """Returns 100 for the nearest node, 10 less for each next one."""
        return 100 - 10 * distance(pod.metadata.name, node.name)
