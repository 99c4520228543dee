"""NodeResourcesBalancedAllocation: prefers nodes whose resource usage the pod balances."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from mooring.config.types import NodeResourcesBalancedAllocationArgs
from mooring.framework import SKIP, Cycle, NodeInfo, NodeView
from mooring.framework.interface import Handle, Scores
from mooring.framework.status import Skip
from mooring.plugins.node_resources import scoring
from mooring.plugins.node_resources import scoring_one_node as of_node
from mooring.plugins.node_resources.device_totals import DeviceTotals
from mooring.plugins.node_resources.scoring import ScoredRequests
from mooring.state import Change, PodInfo


class NodeResourcesBalancedAllocation:
    """Scores the change that the pod makes to the balance between a node's resources.

    Source: pkg/scheduler/framework/plugins/noderesources/balanced_allocation.go.
    """

    name = "NodeResourcesBalancedAllocation"
    reads = Change.ALLOCATABLE | Change.USAGE
    amounts_only = True
    signs_claim_names = False

    def __init__(
        self,
        args: NodeResourcesBalancedAllocationArgs | None = None,
        handle: Handle | None = None,
    ) -> None:
        """Creates the plugin; ``sign`` reads the device classes through ``handle``."""
        args = args if args is not None else NodeResourcesBalancedAllocationArgs()
        self._resources = args.resources
        self._handle = handle
        self._totals = DeviceTotals()

    def sign(self, pod: PodInfo) -> Hashable | None:
        """Returns the pod's requests of the balanced resources; None = by devices."""
        amounts = self._amounts(pod)
        # Built for a cluster with device classes only: every new signature pays for it.
        if self._handle is not None and len(self._handle.snapshot.device_classes):
            names = scoring.scored_requests(self._resources, amounts).names
            if self._totals.backed(self._handle.snapshot, names):
                return None
        return amounts

    def pre_score(self, cycle: Cycle, nodes: NodeView) -> Skip | None:  # noqa: ARG002
        """Skips a pod that requests none of the balanced resources."""
        amounts = self._amounts(cycle.pod)
        if not any(amounts):
            return SKIP
        cycle[self] = scoring.scored_requests(self._resources, amounts)
        return None

    def score(self, cycle: Cycle, nodes: NodeView) -> Scores:
        """Returns 50 = worst for the node's balance, 75 = no difference, 100 = best."""
        requests = self._requests(cycle)
        if not requests.names:
            return np.full(len(nodes), 75, dtype=np.int64)
        allocated = nodes.requesteds(requests.names)
        allocatable = nodes.allocatables(requests.names)
        backed = self._totals.backed(cycle.snapshot, requests.names)
        if backed:
            allocatable, allocated = self._totals.fill(nodes, backed, allocatable, allocated)
        return scoring.balance(allocatable, allocated, allocated + requests.amounts)

    def score_node(self, cycle: Cycle, node: NodeInfo) -> int:
        """Does the same as ``score``, for one node."""
        requests = self._requests(cycle)
        amounts = self._totals.amounts(cycle.snapshot, node.node, requests.names)
        if amounts:
            return of_node.balance(of_node.shares_with_devices(node, requests, amounts, exact=True))
        return of_node.balance(of_node.shares_of_node(node, requests, exact=True))

    def _amounts(self, pod: PodInfo) -> tuple[int, ...]:
        return scoring.requested_amounts(pod, self._resources, exact=True)

    def _requests(self, cycle: Cycle) -> ScoredRequests:
        """Returns the state of ``pre_score``, which a profile may disable."""
        state: ScoredRequests | None = cycle.state_of(self.name)
        if state is None:
            return scoring.scored_requests(self._resources, self._amounts(cycle.pod))
        return state
