"""The state of one attempt: the claims of the pod, and the devices for them on each node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from mooring.dra import (
    AllocationError,
    Allocator,
    InvalidPools,
    PreparedClaim,
    Selectors,
    Solution,
    TargetNode,
    prepare_claim,
)
from mooring.framework import FilterStatuses, NodeError, Reject, Status
from mooring.objects.node import Node
from mooring.objects.pod import ContainerExtendedResourceRequest
from mooring.objects.resource import ResourceClaim
from mooring.objects.selectors import CompiledNodeSelector, compile_node_selector
from mooring.plugins.dynamic_resources.claims import PodClaims
from mooring.plugins.dynamic_resources.extended_resources import (
    ExtendedRequests,
    requested_resources,
    requests_and_mappings,
    resources_by_devices,
    with_requests,
)
from mooring.plugins.dynamic_resources.scoring import score_of
from mooring.plugins.dynamic_resources.shared_solutions import (
    FEASIBLE,
    UNKNOWN,
    NodeSolutions,
    SharedSolutions,
)
from mooring.plugins.dynamic_resources.shared_solutions import NOT_ALLOCATABLE as NO_DEVICES
from mooring.state import NodeTable, PodInfo
from mooring.state.devices.devices import Devices
from mooring.state.types import Rows

STALE_CLAIM: Final = Reject("cannot schedule extended resource claim", resolvable=False)
LACKS_RESOURCE: Final = Reject("cannot fit resource", resolvable=False)
NOT_ALLOCATABLE: Final = Reject("cannot allocate all claims", resolvable=False)
NOT_AVAILABLE: Final = Reject("resourceclaim not available on the node", resolvable=False)


class NodeAllocation(NamedTuple):
    """The devices for the claims on one node.

    Attributes:
        solution: The devices.
        special: The special claim with the requests of this node; None = it is not allocated here.
        mappings: Which containers use which of its requests.
    """

    solution: Solution
    special: ResourceClaim | None
    mappings: tuple[ContainerExtendedResourceRequest, ...]


class _Special(NamedTuple):
    """The special claim on nodes that have the same resources by devices."""

    claim: ResourceClaim
    claims: list[PreparedClaim]
    solutions: NodeSolutions
    mappings: tuple[ContainerExtendedResourceRequest, ...]


class DeviceAttempt:
    """One attempt to schedule a pod with claims.

    Attributes:
        claims: The claims.
        allocations: Node name -> the devices there, of nodes that were searched in this attempt.
        has_alternatives: Whether a request has alternatives; otherwise all nodes score 0.
        unavailable: Positions of the claims that were not available on some node.
        reserved: The claims with the allocations that Reserve made, in the order of the claims.
        created: The claim for extended resources that PreBind created.
    """

    def __init__(
        self,
        pod: PodInfo,
        claims: PodClaims,
        devices: Devices,
        selectors: Selectors,
        shared: SharedSolutions,
        *,
        is_usable: Callable[[ResourceClaim], bool],
        deadline: Callable[[], Callable[[], bool]],
    ) -> None:
        """Prepares the claims.

        Args:
            pod: The pod.
            claims: Its claims.
            devices: The devices of the cluster.
            selectors: The answers of selectors for devices.
            shared: The solutions for pods with equal claims.
            is_usable: Returns whether the devices of an allocated claim are or can become ready.
            deadline: Starts the time limit for one node; returns whether the time is up.
        """
        self.claims = claims
        self.allocations: dict[str, NodeAllocation] = {}
        self.has_alternatives = any(
            request.first_available
            for claim in claims.all
            for request in claim.spec.devices.requests
        )
        self.unavailable: set[int] = set()
        self.reserved: list[ResourceClaim] = []
        self.created: ResourceClaim | None = None
        self._pod = pod
        self._devices = devices
        self._deadline = deadline
        self._resources = requested_resources(pod) if claims.special is not None else []
        self._nodes_of = [_nodes_of(claim) for claim in claims.all]
        self._is_unusable = [
            claim.status.allocation is not None and not is_usable(claim) for claim in claims.all
        ]
        self._prepared = [
            prepare_claim(claim, devices.classes.get)
            for claim in claims.user
            if claim.status.allocation is None
        ]
        self._shared = shared
        self._solutions = shared.of(self._prepared, devices)
        #: Whether the result on a node depends on nothing but its devices.
        self._has_verdicts = len(self._prepared) == len(claims.all)
        #: Resources by devices -> the special claim for them.
        self._specials: dict[tuple[str, ...], _Special] = {}
        self.allocator: Allocator | None = None
        if claims.to_allocate:
            self.allocator = Allocator(devices.allocated, selectors)

    # -- all nodes --------------------------------------------------------------------------------

    def filter_rows(self, nodes: NodeTable, rows: Rows) -> FilterStatuses:
        """Allocates the claims on some nodes; results that other pods share are not repeated."""
        if not self._has_verdicts:
            return FilterStatuses.of(self.filter(nodes.node(row)) for row in rows.tolist())
        solutions = self._solutions
        solutions.refresh(nodes, self._devices)
        verdicts = solutions.verdicts[rows]
        codes = (verdicts == NO_DEVICES).astype(np.uint16)
        table: list[Status] = [NOT_ALLOCATABLE]
        for position in np.flatnonzero(verdicts == UNKNOWN).tolist():
            row = int(rows[position])
            status = self.filter(nodes.node(row))
            if status is not None and status not in table:
                table.append(status)
            codes[position] = 0 if status is None else table.index(status) + 1
            if not solutions.has(nodes.names[row]):
                continue
            if status is None or status is NOT_ALLOCATABLE:
                solutions.verdicts[row] = FEASIBLE if status is None else NO_DEVICES
        return FilterStatuses(codes, table)

    def reserved_claim(self, uid: str) -> ResourceClaim | None:
        """Returns the claim with the allocation that Reserve made; None = it made none."""
        return next((claim for claim in self.reserved if claim.metadata.uid == uid), None)

    def allocation_on(self, node_name: str) -> NodeAllocation | None:
        """Returns the devices on a node that Filter accepted; None = nothing to be allocated."""
        allocation = self.allocations.get(node_name)
        if allocation is None and self._has_verdicts:
            solution = self._solutions.latest(node_name)
            allocation = NodeAllocation(solution, None, ()) if solution is not None else None
        return allocation

    # -- one node ---------------------------------------------------------------------------------

    def filter(self, node: Node) -> Status | None:
        """Allocates the claims on a node, and keeps the result; None = it is feasible."""
        special: _Special | None = None
        if self.claims.special is not None:
            if self.claims.special.spec.devices.requests:
                return STALE_CLAIM
            resources = resources_by_devices(node, self._resources, self._devices.classes)
            if resources is None:
                return LACKS_RESOURCE
            if not resources and not self.claims.user:
                return None
            special = self._special_for(resources)
        unavailable = self._unavailable_on(node)
        solution: Solution | None = None
        if self.allocator is not None:
            outcome = self._allocate(self.allocator, node, special)
            if isinstance(outcome, Status):
                return outcome
            solution = outcome
        if unavailable:
            self.unavailable.update(unavailable)
            return NOT_AVAILABLE
        if solution is not None:
            self.allocations[node.metadata.name] = NodeAllocation(
                solution,
                special.claim if special is not None else None,
                special.mappings if special is not None else (),
            )
        return None

    def _special_for(self, resources: tuple[str, ...]) -> _Special | None:
        """Returns the special claim for a node with these resources by devices."""
        claim = self.claims.special
        if claim is None or claim.status.allocation is not None:
            return None
        special = self._specials.get(resources)
        if special is None:
            extended: ExtendedRequests = requests_and_mappings(
                self._pod.pod, resources, self._devices.classes
            )
            of_node = with_requests(claim, extended.requests)
            prepared = prepare_claim(of_node, self._devices.classes.get)
            claims = [*self._prepared, prepared]
            solutions = self._shared.of(claims, self._devices)
            special = _Special(of_node, claims, solutions, extended.mappings)
            self._specials[resources] = special
        return special

    def _unavailable_on(self, node: Node) -> list[int]:
        """Returns the positions of the allocated claims that the node cannot use."""
        metadata = node.metadata
        return [
            index
            for index, selector in enumerate(self._nodes_of)
            if (selector is not None and not selector.matches(metadata.labels, metadata.name))
            or self._is_unusable[index]
        ]

    def _allocate(
        self, allocator: Allocator, node: Node, special: _Special | None
    ) -> Solution | Status:
        name = node.metadata.name
        target = TargetNode(name, node.metadata.labels)
        claims, solutions = self._prepared, self._solutions
        if special is not None:
            claims, solutions = special.claims, special.solutions
        try:
            pools = self._devices.slices.pools(target)
            version = self._devices.in_use.version_of(pools)
            shared = solutions.get(name, pools, version)
            if shared is not None:
                (solution,) = shared
            else:
                solutions.forget(name)
                solution = allocator.allocate(target, pools, claims, deadline=self._deadline())
                if not pools.has_counters:
                    solutions.put(name, pools, version, solution)
        except InvalidPools as error:
            return Reject(str(error), resolvable=False)
        except AllocationError as error:
            return NodeError(str(error))
        return NOT_ALLOCATABLE if solution is None else solution

    # -- later ------------------------------------------------------------------------------------

    def score(self, node_name: str) -> int:
        """Returns the raw score of a node: 0 if nothing had to be allocated there."""
        if not self.has_alternatives:
            return 0
        allocation = self.allocation_on(node_name)
        if allocation is None:
            return 0
        names = iter(
            [{taken.choice.full_name for taken in claim[2]} for claim in allocation.solution.claims]
        )
        total = 0
        for claim in self.claims.all:
            if claim.status.allocation is not None:
                results = claim.status.allocation.devices.results
                total += score_of(claim, {result.request for result in results})
            else:
                total += score_of(claim, next(names))
        return total


def _nodes_of(claim: ResourceClaim) -> CompiledNodeSelector | None:
    """Returns the nodes that can use an allocated claim; None = all nodes.

    Raises:
        AllocationError: the node selector is invalid.
    """
    allocation = claim.status.allocation
    if allocation is None or allocation.node_selector is None:
        return None
    selector = compile_node_selector(allocation.node_selector)
    if selector.problems:
        raise AllocationError(selector.problems[0])
    return selector
