"""DynamicResources: finds and reserves devices for the resource claims of a pod.

::

    PreEnqueue, PreFilter   claims.py: the pod's claims exist and belong to it
                            extended_resources.py: one more claim for extended resources by devices
    Filter, Score           attempt.py: devices for all claims on each node (mooring.dra searches)
    PostFilter              frees a claim that no node can use
    Reserve                 the claims are *in flight*: their devices count as in use
    PreBind                 bind_claims.py: writes the allocations, and waits for the devices

Source: pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go. *Differs:* of several
claims that PostFilter may free, the first is freed; upstream takes any.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final

import numpy as np
from msgspec.structs import replace

from mooring.cluster_event import ClusterEventWithHint
from mooring.config.types import DynamicResourcesArgs
from mooring.dra import AllocationError, CELCompiler, Selectors
from mooring.errors import PluginError
from mooring.framework import (
    SKIP,
    Cycle,
    Diagnosis,
    FilterStatuses,
    NodeError,
    NodeView,
    Reject,
    Status,
    default_normalize,
    zero_scores,
)
from mooring.framework.interface import Handle, Scores
from mooring.framework.status import ClaimChange, PostFilterResult, Skip
from mooring.objects.meta import key
from mooring.objects.resource import ResourceClaim
from mooring.plugins.dynamic_resources.attempt import NOT_AVAILABLE, DeviceAttempt
from mooring.plugins.dynamic_resources.bind_claims import (
    end_flight,
    wait_for_devices,
    write_claims,
)
from mooring.plugins.dynamic_resources.binding_conditions import (
    Readiness,
    has_timed_out,
    readiness_of,
)
from mooring.plugins.dynamic_resources.claims import (
    ClaimProblem,
    PodClaims,
    check_unallocated,
    is_reserved_for,
    user_claims,
)
from mooring.plugins.dynamic_resources.extended_resources import (
    NAME_IN_MEMORY,
    claim_in_memory,
    has_class,
)
from mooring.plugins.dynamic_resources.hints import events
from mooring.plugins.dynamic_resources.shared_results import ResultsByTemplate, SharedResults
from mooring.plugins.dynamic_resources.writes import require_writer, writer_of
from mooring.state import Change, PodInfo, empty_snapshot
from mooring.state.devices.devices import Devices

#: What PostFilter adds to the message of a pod without claims.
NOTHING_TO_DEALLOCATE: Final = "no new claims to deallocate"
#: The error if this plugin's pre_filter did not run, because an earlier plugin rejected the pod.
NO_STATE: Final = "not found"


DEFAULT_ARGS: Final = DynamicResourcesArgs(filter_timeout_s=10.0, binding_timeout_s=600.0)


class NoClaims:
    """The state of an attempt for a pod without claims, or rejected by PreFilter."""


NO_CLAIMS: Final = NoClaims()


class DynamicResources:
    """Rejects nodes without the devices that a pod claims, and reserves them on the selected node.

    A claim is allocated with the first devices in the order of drivers, pools, slices and devices
    that satisfy it. Preemption does not help: every rejection is unresolvable.
    """

    name = "DynamicResources"
    reads = Change(0)
    signs_claim_names = False
    #: Scores of pods without claims are all 0, and stay so.
    normalized_zero = 0
    #: PostFilter tells a pod without claims from one that PreFilter did not reach.
    idle_state = NO_CLAIMS
    needs = ("DeviceClass", "ResourceClaim", "ResourceSlice")

    def __init__(
        self,
        args: DynamicResourcesArgs | None = None,
        handle: Handle | None = None,
        selectors: Selectors | None = None,
    ) -> None:
        """Creates the plugin.

        Args:
            args: The time limits.
            handle: Gives the devices to PreEnqueue and hints, time, and random UUIDs; its
                ``claim_writer`` writes allocations.
            selectors: Evaluates selectors; None = with ``mooring.cel``.
        """
        args = args if args is not None else DEFAULT_ARGS
        self._filter_timeout_s = args.filter_timeout_s
        self._binding_timeout_s = args.binding_timeout_s
        self._handle = handle
        self._selectors = selectors if selectors is not None else Selectors(CELCompiler())
        self._shared = ResultsByTemplate(self._selectors)

    def sign(self, pod: PodInfo) -> Hashable | None:
        """Returns (); None for pods that need devices, as their results depend on other pods."""
        return None if self.applies_to(pod) else ()

    def applies_to(self, pod: PodInfo) -> bool:
        """Returns whether the pod needs devices."""
        return bool(pod.spec.resource_claims) or has_class(pod, self._devices().classes)

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """Gates a pod until all of its claims exist."""
        if not pod.spec.resource_claims:
            return None
        try:
            user_claims(pod.pod, self._devices().claims)
        except ClaimProblem as problem:
            return Reject(str(problem), resolvable=False)
        return None

    # -- filter -----------------------------------------------------------------------------------

    def pre_filter(self, cycle: Cycle) -> Status | Skip | None:
        """Looks up the claims of the pod; skips a pod without any.

        Raises:
            PluginError: the allocation of a claim has an invalid node selector, or a request has
                no device class.
        """
        cycle[self] = NO_CLAIMS
        devices = cycle.snapshot.devices
        try:
            claims = self._claims_of(cycle.pod, devices)
            if not claims.all:
                return SKIP
            template = self._shared.template(claims.user_to_allocate, devices)
            check_unallocated(claims, devices, is_known=self._shared.is_known(template))
            attempt = DeviceAttempt(
                cycle.pod,
                claims,
                devices,
                self._selectors,
                self._shared,
                template,
                is_usable=self._is_usable,
                deadline=self._start_deadline,
            )
        except ClaimProblem as problem:
            return Reject(str(problem), resolvable=False)
        except AllocationError as error:
            raise PluginError(self.name, "PreFilter", str(error)) from error
        cycle[self] = attempt
        return None

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        """Rejects nodes where the claims cannot be allocated, or are not available."""
        attempt = self._attempt(cycle)
        if attempt is None:
            return FilterStatuses.feasible(len(nodes))
        return attempt.filter_nodes(nodes)

    def filter_column(self, cycle: Cycle) -> SharedResults | None:
        """Returns the results for pods with equal claims; None if there are none yet."""
        attempt = self._attempt(cycle)
        return attempt.column(cycle.snapshot.nodes) if attempt and not attempt.is_first else None

    def post_filter(self, cycle: Cycle, diagnosis: Diagnosis) -> PostFilterResult:
        """Frees an allocated claim that no node could use, so that it can be allocated elsewhere.

        Always rejects the pod: the change of the claim requeues it.
        """
        if self not in cycle:
            return PostFilterResult(NodeError(NO_STATE))
        attempt = self._attempt(cycle)
        if attempt is None:
            return PostFilterResult(Reject(NOTHING_TO_DEALLOCATE))
        claims = attempt.claims
        for index in _unavailable(attempt, diagnosis):
            claim = claims.all[index]
            users = claim.status.reserved_for
            is_only_user = len(users) == 1 and users[0].uid == cycle.pod.uid
            if claim is not claims.special and (not users or is_only_user):
                status = Reject("deallocation of ResourceClaim completed")
                return PostFilterResult(status, claim_change=ClaimChange(claim))
        if claims.special is not None and claims.special.metadata.name != NAME_IN_MEMORY:
            status = Reject("deletion of ResourceClaim completed")
            change = ClaimChange(claims.special, is_deletion=True)
            return PostFilterResult(status, claim_change=change)
        return PostFilterResult(Reject("still not schedulable"))

    # -- score ------------------------------------------------------------------------------------

    def score(self, cycle: Cycle, nodes: NodeView) -> Scores:
        """Returns higher scores for nodes where earlier alternatives of requests are available."""
        attempt = self._attempt(cycle)
        if attempt is None or not attempt.has_alternatives:
            return zero_scores(len(nodes))
        return np.array([attempt.score(name) for name in nodes.names], dtype=np.int64)

    def normalize(self, cycle: Cycle, scores: Scores, nodes: NodeView) -> Scores:  # noqa: ARG002
        """Scales the scores so that the highest becomes 100; all 0 stay 0."""
        return default_normalize(scores)

    # -- reserve ----------------------------------------------------------------------------------

    def reserve(self, cycle: Cycle, node_name: str) -> Status | None:
        """Marks the claims as in flight, with the devices of the selected node."""
        attempt = self._attempt(cycle)
        if attempt is None or not attempt.claims.to_allocate:
            return None
        claims = attempt.claims.to_allocate
        allocation = attempt.allocation_on(node_name)
        if allocation is None:
            if all(claim is attempt.claims.special for claim in claims):
                return None
            return NodeError("claim allocation not found for node")
        results = allocation.solution.results(self._uuid)
        if len(results) != len(claims):
            return NodeError(
                f"internal error, have {len(results)} allocations, {len(claims)} claims to "
                f"allocate, want {len(claims)} claims"
            )
        for claim, result in zip(claims, results, strict=True):
            of_node = claim
            if claim is attempt.claims.special and allocation.special is not None:
                of_node = allocation.special
            reserved = replace(of_node, status=replace(of_node.status, allocation=result))
            attempt.reserved.append(reserved)
            cycle.snapshot.devices.in_use.begin(reserved)
        return None

    def unreserve(self, cycle: Cycle, node_name: str) -> None:  # noqa: ARG002
        """Takes back the claims in flight and the reservations for the pod; idempotent."""
        attempt = self._attempt(cycle)
        if attempt is None:
            return
        devices, writer = cycle.snapshot.devices, writer_of(self._handle)
        for claim in attempt.reserved:
            if end_flight(devices, claim):
                devices.claims.restore(key(claim))
        for claim in attempt.claims.user:
            latest = devices.claims.get(key(claim))
            is_reserved = latest is not None and is_reserved_for(cycle.pod.uid, latest)
            if writer is not None and latest is not None and is_reserved:
                writer.unreserve(latest, cycle.pod)
        if writer is not None and attempt.created is not None:
            writer.delete(attempt.created)
        attempt.reserved.clear()
        attempt.created = None

    # -- binding ----------------------------------------------------------------------------------

    def pre_bind_pre_flight(self, cycle: Cycle, node_name: str) -> Skip | None:  # noqa: ARG002
        """Skips a pod without claims."""
        return SKIP if self._attempt(cycle) is None else None

    async def pre_bind(self, cycle: Cycle, node_name: str) -> Status | None:
        """Writes the allocations of Reserve, reserves the claims, and waits for the devices.

        Raises:
            SchedulerError: a claim cannot be written, or a device cannot be used.
        """
        attempt = self._attempt(cycle)
        if attempt is None:
            return None
        await write_claims(cycle, attempt, require_writer(self._handle), node_name)
        devices: Devices = cycle.snapshot.devices
        if self._handle is not None and devices.features.has_binding_conditions:
            timeout_s = self._binding_timeout_s or 0.0
            await wait_for_devices(cycle, attempt, self._handle, node_name, timeout_s)
        return None

    # -- events -----------------------------------------------------------------------------------

    def events(self) -> list[ClusterEventWithHint]:
        """Registers nodes, claims, generated claims of pods, device classes and slices."""
        return events(lambda: self._devices().claims)

    # -- inside -----------------------------------------------------------------------------------

    def _claims_of(self, pod: PodInfo, devices: Devices) -> PodClaims:
        user = user_claims(pod.pod, devices.claims) if pod.spec.resource_claims else ()
        if not has_class(pod, devices.classes):
            return PodClaims(user)
        metadata = pod.metadata
        special = devices.claims.for_extended_resources(metadata.name, metadata.uid)
        if special is None:
            special = claim_in_memory(pod.pod, self._uuid())
        return PodClaims(user, special)

    def _is_usable(self, claim: ResourceClaim) -> bool:
        """Returns whether the devices of an allocated claim are ready, or can become ready."""
        if not self._devices().features.has_binding_conditions:
            return True
        readiness = readiness_of(claim)
        if readiness is Readiness.WAITING and self._handle is not None:
            now_s, timeout_s = self._handle.wall_s(), self._binding_timeout_s or 0.0
            return not has_timed_out(claim, now_s, timeout_s)
        return readiness is not Readiness.FAILED

    def _start_deadline(self) -> Callable[[], bool]:
        """Starts the time limit of a search."""
        handle, timeout_s = self._handle, self._filter_timeout_s
        if handle is None or not timeout_s:
            return lambda: False
        end_s = handle.monotonic_s() + timeout_s
        return lambda: handle.monotonic_s() >= end_s

    def _uuid(self) -> str:
        return self._handle.uuid() if self._handle is not None else "in-memory"

    def _devices(self) -> Devices:
        snapshot = self._handle.snapshot if self._handle is not None else empty_snapshot()
        devices: Devices = snapshot.devices
        return devices

    def _attempt(self, cycle: Cycle) -> DeviceAttempt | None:
        """Returns the state of the attempt; None if the pod has no claims."""
        state = cycle.state_of(self.name)
        return state if isinstance(state, DeviceAttempt) else None


def _unavailable(attempt: DeviceAttempt, diagnosis: Diagnosis) -> list[int]:
    """Returns the positions of the claims for which a node was rejected, in order."""
    positions: set[int] = set()
    for name, unavailable in attempt.unavailable.items():
        status = diagnosis.status_of(name)
        if status is not None and status.reasons == NOT_AVAILABLE.reasons:
            positions.update(unavailable)
    return sorted(positions)
