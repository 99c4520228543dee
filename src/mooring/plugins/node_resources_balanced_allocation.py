"""NodeResourcesBalancedAllocation: prefer nodes whose resources the pod evens out."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from mooring.config.types import NodeResourcesBalancedAllocationArgs
from mooring.framework import SKIP, Cycle, NodeInfo, NodeView
from mooring.framework.interface import Scores
from mooring.framework.verdict import Skip
from mooring.plugins import resource_scores
from mooring.plugins import resource_scores_of_node as of_node
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
        """Skip a pod that asks for none of the balanced resources: it balances nothing."""
        wanted = self._wanted(cycle.pod)
        if not any(wanted):
            return SKIP
        cycle[self] = wanted
        return None

    def score(self, cycle: Cycle, nodes: NodeView) -> Scores:
        """50 = the worst for the node's balance, 75 = no difference, 100 = the best."""
        wanted = self._wanted_of(cycle)
        shares = resource_scores.shares(nodes, self._resources, wanted, exact=True)
        if not shares:
            return np.full(len(nodes), 75, dtype=np.int64)
        return resource_scores.balance(shares)

    def score_node(self, cycle: Cycle, node: NodeInfo) -> int:
        """As ``score``, of one node."""
        wanted = self._wanted_of(cycle)
        return of_node.balance(of_node.shares_of_node(node, self._resources, wanted, exact=True))

    def _wanted(self, pod: PodInfo) -> tuple[int, ...]:
        return resource_scores.wanted(pod, self._resources, exact=True)

    def _wanted_of(self, cycle: Cycle) -> tuple[int, ...]:
        """As noted by ``pre_score``, which a profile may leave out."""
        if self not in cycle:
            return self._wanted(cycle.pod)
        noted: tuple[int, ...] = cycle[self]
        return noted
