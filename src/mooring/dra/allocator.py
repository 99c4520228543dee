"""The device allocator of one scheduling attempt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from mooring.dra.allocated import AllocatedState
from mooring.dra.candidates import Candidates
from mooring.dra.counters import AvailableCounters
from mooring.dra.errors import AllocationTimeout, InvalidPools
from mooring.dra.ledger import Ledger, Taken
from mooring.dra.nodes import TargetNode
from mooring.dra.pools import NodePools
from mooring.dra.requests import Choice, PreparedClaim
from mooring.dra.results import allocation_result
from mooring.dra.search import Search
from mooring.dra.selectors import Selectors
from mooring.objects.resource import AllocationResult


class Solution(NamedTuple):
    """The devices of all claims on one node.

    Attributes:
        node_name: The node.
        claims: The claims, with their choices and devices.
        steps: The number of steps of the search.
    """

    node_name: str
    claims: tuple[tuple[PreparedClaim, tuple[Choice, ...], tuple[Taken, ...]], ...]
    steps: int

    def results(self, share_id: Callable[[], str]) -> list[AllocationResult]:
        """Returns the allocation of each claim, in the order of the claims.

        Args:
            share_id: Returns a new ID for each share of a device, a lower-case UUID.

        Raises:
            AllocationError: a node selector of a slice has several terms.
        """
        return [
            allocation_result(claim, choices, taken, self.node_name, share_id)
            for claim, choices, taken in self.claims
        ]


class Allocator:
    """Allocates devices for claims, on any number of nodes of one attempt.

    What the counters of a pool have left is computed once per attempt, for the first node that
    needs it; as in upstream, the counters of a pool are found by its name alone.

    Source: k8s.io/dynamic-resource-allocation structured/internal/incubating/
    allocator_incubating.go. *Differs:* the time limit is the caller's.
    """

    def __init__(self, allocated: AllocatedState, selectors: Selectors) -> None:
        """Creates the allocator; ``allocated`` must not change while it is used."""
        self._allocated = allocated
        self._selectors = selectors
        self._available = AvailableCounters(allocated)

    def allocate(
        self,
        node: TargetNode,
        pools: NodePools,
        claims: Sequence[PreparedClaim],
        *,
        deadline: Callable[[], bool] = lambda: False,
    ) -> Solution | None:
        """Returns the first solution in the order of pools, slices and devices; None = none.

        Args:
            node: The node.
            pools: Its pools.
            claims: The claims, none of which is allocated.
            deadline: Returns whether the time for this node is up.

        Raises:
            AllocationError: the claims cannot be allocated on any node.
            AllocationTimeout: the deadline has passed.
            InvalidPools: there is no solution, and a pool is invalid.
        """
        candidates = Candidates(node, pools, self._selectors)
        ledger = Ledger(pools, claims, self._allocated, self._available)
        for claim in claims:
            candidates.check(claim, ledger.has_capacity)
        search = Search(claims, pools, candidates, ledger, deadline)
        try:
            is_complete = search.run()
        except AllocationTimeout as error:
            raise AllocationTimeout(f"node {node.name}: {error}") from error
        if not is_complete:
            if pools.has_invalid:
                raise InvalidPools
            return None
        chosen = search.chosen.get
        parts = [
            (
                claim,
                tuple(
                    [
                        request.choices[chosen((number, index), 0)]
                        for index, request in enumerate(claim.requests)
                    ]
                ),
                tuple(ledger.taken[number]),
            )
            for number, claim in enumerate(claims)
        ]
        return Solution(node.name, tuple(parts), search.steps)
