"""The state of one attempt: the claims of the pod, and the devices for them on each node."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from mooring.dra import (
    AllocationError,
    AllocationTimeout,
    Allocator,
    InvalidPools,
    PreparedClaim,
    Selectors,
    Solution,
    TargetNode,
    plan_of,
    prepare_claim,
    solution_of,
)
from mooring.errors import InvariantViolation
from mooring.framework import FilterStatuses, NodeError, NodeView, Reject, Status
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
from mooring.plugins.dynamic_resources.shared_results import (
    BY_INVALID_POOLS,
    FEASIBLE,
    INVALID_POOLS,
    NO_DEVICES,
    NOT_ALLOCATABLE,
    UNKNOWN,
    Chosen,
    ResultsByTemplate,
    SharedResults,
    Template,
    chosen_in,
    have_alternatives,
    prepare_claims,
)
from mooring.state import NodeTable, PodInfo
from mooring.state.devices.devices import Devices

STALE_CLAIM: Final = Reject("cannot schedule extended resource claim", resolvable=False)
LACKS_RESOURCE: Final = Reject("cannot fit resource", resolvable=False)
NOT_AVAILABLE: Final = Reject("resourceclaim not available on the node", resolvable=False)

#: Verdict -> status; the verdict's number is that of the status, after UNKNOWN.
STATUSES: Final[dict[int, Status | None]] = {
    FEASIBLE: None,
    NO_DEVICES: NOT_ALLOCATABLE,
    BY_INVALID_POOLS: INVALID_POOLS,
}


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
    results: SharedResults
    mappings: tuple[ContainerExtendedResourceRequest, ...]


class DeviceAttempt:
    """One attempt to schedule a pod with claims.

    Attributes:
        claims: The claims.
        allocations: Node name -> the devices there, of nodes that were searched in this attempt.
        has_alternatives: Whether a request has alternatives; otherwise all nodes score 0.
        unavailable: Node name -> positions of the claims that are not available there. Filter
            judges nodes that other plugins reject, too: PostFilter asks the diagnosis.
        reserved: The claims with the allocations that Reserve made, in the order of the claims.
        created: The claim for extended resources that PreBind created.
        is_first: Whether no pod with equal claims was filtered before.
    """

    def __init__(
        self,
        pod: PodInfo,
        claims: PodClaims,
        devices: Devices,
        selectors: Selectors,
        shared: ResultsByTemplate,
        template: Template,
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
            shared: The results for pods with equal claims.
            template: The claims of ``claims.user`` that have no allocation, with their specs.
            is_usable: Returns whether the devices of an allocated claim are or can become ready.
            deadline: Starts the time limit for one node; returns whether the time is up.
        """
        self.claims = claims
        self.allocations: dict[str, NodeAllocation] = {}
        self.unavailable: dict[str, list[int]] = {}
        self.reserved: list[ResourceClaim] = []
        self.created: ResourceClaim | None = None
        self._pod = pod
        self._devices = devices
        self._deadline = deadline
        self._resources = requested_resources(pod) if claims.special is not None else []
        #: Position -> the nodes that can use an allocated claim, and whether none can.
        self._allocated = {
            index: (_nodes_of(claim), not is_usable(claim))
            for index, claim in enumerate(claims.all)
            if claim.status.allocation is not None
        }
        self._shared = shared
        self._prepared, self._results = shared.prepared(
            template, devices, is_own=claims.special is not None
        )
        self.is_first = self._results.is_new
        self._nodes: NodeTable | None = None
        #: Node name -> the special claim there, of nodes that are feasible by a shared result.
        self._not_searched: dict[str, _Special | None] = {}
        #: Whether the result on a node depends on nothing but its devices.
        self._has_verdicts = len(self._prepared) == len(claims.all)
        self.has_alternatives = self._results.has_alternatives
        if not self._has_verdicts:
            self.has_alternatives = have_alternatives(claims.all, devices)
        #: The version of the devices when the signatures were read.
        self._version = -1
        #: Resources by devices -> the special claim for them.
        self._specials: dict[tuple[str, ...], _Special] = {}
        self._selectors = selectors
        #: Made for the first search: mostly the results of other pods decide.
        self._allocator: Allocator | None = None

    # -- all nodes --------------------------------------------------------------------------------

    def filter_nodes(self, view: NodeView) -> FilterStatuses:
        """Allocates the claims on some nodes, with one search for nodes of equal signature."""
        nodes, signatures, results = view.snapshot.nodes, self._devices.signatures, self._results
        self._nodes = nodes

        def search(row: int) -> Status | None:
            return self.filter(nodes.node(row), row)

        self._refresh()
        if not self._has_verdicts:
            return FilterStatuses.of(map(search, view.rows.tolist()))
        if self.is_first:
            results.search_first(view, signatures, search)
            statuses = results.first_statuses(view, signatures)
            if statuses is not None:
                return statuses
        results.refresh_rows(signatures)
        return results.statuses(view, results.search_unknown(view, signatures, search))

    def column(self, nodes: NodeTable) -> SharedResults | None:
        """Returns the results of all rows; None if they depend on more than devices."""
        self._nodes = nodes
        self._refresh()
        if not self._has_verdicts:
            return None
        self._results.refresh_rows(self._devices.signatures)
        return self._results

    def _refresh(self, *more: SharedResults) -> None:
        """Updates the signatures and all results: a new template may read more attributes."""
        signatures = self._devices.signatures
        self._version = self._devices.version
        if self._nodes is not None:
            signatures.refresh(self._nodes)
        self._results.refresh(signatures)
        for special in self._specials.values():
            special.results.refresh(signatures)
        for results in more:
            results.refresh(signatures)

    def allocation_on(self, node_name: str) -> NodeAllocation | None:
        """Returns the devices on a node that Filter accepted; None = nothing to be allocated."""
        allocation = self.allocations.get(node_name)
        if allocation is None and self._is_shared(node_name) and self._nodes is not None:
            row = self._nodes.live_row(node_name)
            node, special = self._nodes.node(row), self._not_searched.get(node_name)
            outcome = self._planned(node, row, special)
            if not isinstance(outcome, Status):
                allocation = self._keep(node_name, outcome, special)
        return allocation

    def _planned(self, node: Node, row: int, special: _Special | None) -> Solution | Status:
        """Returns the devices on a node by the plan for its signature, or by a search.

        The signatures are those of Filter: after any change of devices they say nothing.
        """
        if self._version != self._devices.version:
            return self._search(node, special)
        results = special.results if special is not None else self._results
        signature = self._devices.signatures.column.item(row)
        plan = results.plans.get(signature)
        if plan is None:
            return self._search(node, special)
        claims = special.claims if special is not None else self._prepared
        return solution_of(plan, claims, self._devices.pools(node), node.metadata.name)

    def _is_shared(self, node_name: str) -> bool:
        return self._has_verdicts or node_name in self._not_searched

    # -- one node ---------------------------------------------------------------------------------

    def filter(self, node: Node, row: int) -> Status | None:
        """Allocates the claims on a node; None = it is feasible."""
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
        unavailable = _unavailable_on(node, self._allocated) if self._allocated else []
        status = self._allocate(node, special, row) if self.claims.to_allocate else None
        if status is None and unavailable:
            self.unavailable[node.metadata.name] = unavailable
            status = NOT_AVAILABLE
        return status

    def _allocate(self, node: Node, special: _Special | None, row: int) -> Status | None:
        """Returns the shared result for the node's signature, or that of a search."""
        results = special.results if special is not None else self._results
        signature = int(self._devices.signatures.column[row])
        verdict = int(results.verdicts[signature])
        if verdict != UNKNOWN:
            if verdict == FEASIBLE:
                self._not_searched[node.metadata.name] = special
            return STATUSES[verdict]
        outcome = self._search(node, special)
        if isinstance(outcome, Solution):
            self._keep(node.metadata.name, outcome, special)
            results.put(signature, FEASIBLE, outcome)
            results.put_plan(signature, plan_of(outcome, self._devices.pools(node)))
            return None
        for shared, status in STATUSES.items():
            if outcome is status:
                results.put(signature, shared)
        return outcome

    def _keep(self, node_name: str, solution: Solution, special: _Special | None) -> NodeAllocation:
        """Keeps the devices on a node, for Reserve."""
        claim, mappings = (None, ()) if special is None else (special.claim, special.mappings)
        allocation = self.allocations[node_name] = NodeAllocation(solution, claim, mappings)
        return allocation

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
            prepared = prepare_claim(of_node, self._devices.classes.get, self._devices.features)
            claims = [*self._prepared, prepared]
            results = self._shared.of(claims, self._devices)
            self._refresh(results)
            special = _Special(of_node, claims, results, extended.mappings)
            self._specials[resources] = special
        return special

    def _search(self, node: Node, special: _Special | None) -> Solution | Status:
        """Searches devices for the claims on a node."""
        name = node.metadata.name
        target = TargetNode(name, node.metadata.labels)
        claims = special.claims if special is not None else self._prepared
        allocator = self._allocator
        if allocator is None:
            allocator = self._allocator = Allocator(self._devices.allocated, self._selectors)
        try:
            pools = self._devices.slices.pools(target)
            solution = allocator.allocate(target, pools, claims, deadline=self._deadline())
        except InvalidPools:
            return INVALID_POOLS
        except AllocationTimeout as error:
            return NodeError(str(error))
        except AllocationError as error:
            if special is not None:
                return NodeError(str(error))
            return NodeError(_text_for(claims, allocator, target, self._devices))
        return NOT_ALLOCATABLE if solution is None else solution

    # -- later ------------------------------------------------------------------------------------

    def score(self, node_name: str) -> int:
        """Returns the raw score of a node: 0 if nothing had to be allocated there."""
        if not self.has_alternatives:
            return 0
        chosen = self._chosen_on(node_name)
        if chosen is None:
            return 0
        names = iter(chosen)
        total = 0
        for claim in self.claims.all:
            if claim.status.allocation is not None:
                results = claim.status.allocation.devices.results
                total += score_of(claim, {result.request for result in results})
            else:
                total += score_of(claim, next(names))
        return total

    def _chosen_on(self, node_name: str) -> Chosen | None:
        """Returns the requests and alternatives that have devices on a node, by claim."""
        allocation = self.allocations.get(node_name)
        if allocation is None and self._is_shared(node_name) and self._nodes is not None:
            special = self._not_searched.get(node_name)
            results = special.results if special is not None else self._results
            signature = int(self._devices.signatures.column[self._nodes.live_row(node_name)])
            if signature in results.chosen:
                return results.chosen[signature]
            allocation = self.allocation_on(node_name)
        return chosen_in(allocation.solution) if allocation is not None else None


def _text_for(
    claims: Sequence[PreparedClaim], allocator: Allocator, node: TargetNode, devices: Devices
) -> str:
    """Repeats a search that failed, with own texts: those of prepared claims may name others."""
    own = prepare_claims([claim.claim for claim in claims], devices)
    try:
        allocator.allocate(node, devices.slices.pools(node), own)
    except AllocationError as error:
        return str(error)
    raise InvariantViolation("of two searches for equal claims only one failed")


def reserved_claim(attempt: DeviceAttempt, uid: str) -> ResourceClaim | None:
    """Returns the claim with the allocation that Reserve made; None = it made none."""
    return next((claim for claim in attempt.reserved if claim.metadata.uid == uid), None)


def _unavailable_on(
    node: Node, allocated: Mapping[int, tuple[CompiledNodeSelector | None, bool]]
) -> list[int]:
    """Returns the positions of the allocated claims that the node cannot use."""
    metadata = node.metadata
    return [
        index
        for index, (selector, is_unusable) in allocated.items()
        if is_unusable
        or (selector is not None and not selector.matches(metadata.labels, metadata.name))
    ]


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
