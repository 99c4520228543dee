"""NodeResourcesBalancedAllocation: prefer nodes whose resources the pod evens out."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from mooring.config.types import NodeResourcesBalancedAllocationArgs
from mooring.framework import SKIP, Cycle, NodeInfo, NodeView
from mooring.framework.interface import Scores
from mooring.framework.status import Skip
from mooring.plugins.node_resources import scoring
from mooring.plugins.node_resources import scoring_one_node as of_node
from mooring.plugins.node_resources.scoring import Asked
from mooring.state import Change, PodInfo


class NodeResourcesBalancedAllocation:
    """Scores the change that the pod makes to the balance between a node's resources.

    Source: pkg/scheduler/framework/plugins/noderesources/balanced_allocation.go.
    """

    name = "NodeResourcesBalancedAllocation"
    reads = Change.ALLOCATABLE | Change.USAGE

    def __init__(self, args: NodeResourcesBalancedAllocationArgs | None = None) -> None:
        args = args if args is not None else NodeResourcesBalancedAllocationArgs()
        self._resources = args.resources

    def sign(self, pod: PodInfo) -> Hashable:
        """What the pod asks of the balanced resources."""
        return self._wanted(pod)

    def pre_score(self, cycle: Cycle, nodes: NodeView) -> Skip | None:  # noqa: ARG002
        """Skips a pod that asks for none of the balanced resources: it balances nothing."""
        wanted = self._wanted(cycle.pod)
        if not any(wanted):
            return SKIP
        cycle[self] = scoring.asked(self._resources, wanted)
        return None

    def score(self, cycle: Cycle, nodes: NodeView) -> Scores:
        """50 = the worst for the node's balance, 75 = no difference, 100 = the best."""
        asked = self._asked(cycle)
        if not asked.names:
            return np.full(len(nodes), 75, dtype=np.int64)
        allocated = nodes.requesteds(asked.names)
        return scoring.balance(
            nodes.allocatables(asked.names), allocated, allocated + asked.amounts
        )

    def score_node(self, cycle: Cycle, node: NodeInfo) -> int:
        """As ``score``, of one node."""
        return of_node.balance(of_node.shares_of_node(node, self._asked(cycle), exact=True))

    def _wanted(self, pod: PodInfo) -> tuple[int, ...]:
        return scoring.wanted(pod, self._resources, exact=True)

    def _asked(self, cycle: Cycle) -> Asked:
        """As noted by ``pre_score``, which a profile may leave out."""
        if self not in cycle:
            return scoring.asked(self._resources, self._wanted(cycle.pod))
        noted: Asked = cycle[self]
        return noted
