"""VolumeBinding: filters nodes by PV affinity, matching and provisioning; binds claims in PreBind.

A bound claim needs a node that matches its volume's node affinity. An unbound claim that waits for
the pod gets a free volume, or a new one, on the selected node: Reserve assumes it, and PreBind
writes it before the pod is bound.

``claims`` classifies the pod's claims, ``find_volumes`` finds volumes for them on each node, and
``bind_volumes`` writes the bindings and waits for them.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from types import MappingProxyType
from typing import Final

import numpy as np

from mooring.cluster_event import ClusterEventWithHint
from mooring.config.types import VolumeBindingArgs
from mooring.errors import PluginError
from mooring.framework import SKIP, Cycle, FilterStatuses, NodeView, Reject, Status
from mooring.framework.interface import Handle, Scores
from mooring.framework.status import NodeError, Skip
from mooring.objects.volume_claims import claim_uses, volume_sources
from mooring.plugins.volume_binding.bind_volumes import PodVolumes, VolumeBinder, assume
from mooring.plugins.volume_binding.capacity_score import CapacityScore
from mooring.plugins.volume_binding.claims import ModeError, PodClaims, claims_of, problem_with
from mooring.plugins.volume_binding.find_volumes import find_pod_volumes
from mooring.plugins.volume_binding.hints import events, fragment
from mooring.plugins.volume_binding.matches import REASONS, VolumeMatches, plan_for
from mooring.plugins.volume_binding.provisioning import ProvisioningChecks
from mooring.state import PodInfo

REASON_IMMEDIATE = "pod has unbound immediate PersistentVolumeClaims"

#: The default of bindTimeoutSeconds.
BIND_TIMEOUT_S: Final = 600.0

#: The rejection for each combination of bits of ``matches.REASONS``, from 1 on.
_REJECTIONS: Final = [
    Reject(*(reason for bit, reason in REASONS.items() if bits & bit), resolvable=False)
    for bits in range(1, 16)
]


class BindingState:
    """The state of an attempt.

    Attributes:
        claims: The pod's claims; set by PreFilter.
        matches: The result of the last Filter; None = Filter did not run, so nothing is bound.
        volumes: The volumes that Reserve assumed; None = none.
    """

    __slots__ = ("claims", "matches", "volumes")

    def __init__(self, claims: PodClaims) -> None:
        self.claims = claims
        self.matches: VolumeMatches | None = None
        self.volumes: PodVolumes | None = None


class VolumeBinding:
    """Rejects nodes where a volume of the pod is not accessible, available or provisionable.

    It scores only with the feature gate StorageCapacityScoring, which is off by default.

    Source: pkg/scheduler/framework/plugins/volumebinding/{volume_binding,binder}.go. *Differs:* of
    several equally suitable volumes the first by name is taken, upstream takes any; an assumption
    is reverted only by the pod that made it.
    """

    name = "VolumeBinding"
    needs = (
        "PersistentVolume",
        "PersistentVolumeClaim",
        "StorageClass",
        "CSINode",
        "CSIDriver",
        "CSIStorageCapacity",
    )

    def __init__(
        self,
        args: VolumeBindingArgs | None = None,
        handle: Handle | None = None,
        gates: Mapping[str, bool] = MappingProxyType({}),
    ) -> None:
        """Creates the plugin; it writes through ``handle``, without which nothing can be bound."""
        shape = args.shape if args is not None and gates.get("StorageCapacityScoring") else None
        self._capacity_score = CapacityScore(shape) if shape else None
        timeout_s = float(args.bind_timeout_seconds) if args is not None else BIND_TIMEOUT_S
        self._checks = ProvisioningChecks()
        self._binder = VolumeBinder(self.name, handle, timeout_s)

    def sign(self, pod: PodInfo) -> Hashable:
        """Returns what the hints read: the pod's namespace, its claims, and its CSI drivers."""
        return fragment(pod)

    def batch_signature(self, pod: PodInfo) -> Hashable:
        """Returns the sources of the pod's volumes."""
        return volume_sources(pod.pod)

    def applies_to(self, pod: PodInfo) -> bool:
        """Returns whether the pod has claims."""
        return bool(pod.spec.volumes and claim_uses(pod.pod))

    # -- filter -----------------------------------------------------------------------------------

    def pre_filter(self, cycle: Cycle) -> Status | Skip | None:
        """Looks up the claims; skips a pod without any.

        Raises:
            PluginError: if a claim's class has no volumeBindingMode.
        """
        pod, storage = cycle.pod.pod, cycle.snapshot.storage
        uses = claim_uses(pod) if pod.spec.volumes else []
        if not uses:
            return SKIP
        problem = problem_with(pod, uses, storage)
        if problem:
            return Reject(problem, resolvable=False)
        try:
            claims = claims_of(pod, uses, storage)
        except ModeError as error:
            raise PluginError(self.name, "PreFilter", str(error)) from error
        if claims.immediate:
            return Reject(REASON_IMMEDIATE, resolvable=False)
        cycle[self] = BindingState(claims)
        return None

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        """Rejects nodes, with all reasons of each."""
        state: BindingState = cycle[self]
        matches = state.matches
        # Preemption filters the same nodes with other pods on them: the result is the same.
        if matches is None or not matches.covers_rows(nodes.snapshot, nodes.rows):
            matches = find_pod_volumes(state.claims, nodes.snapshot, nodes.rows, self._checks)
            state.matches = matches
        bits = matches.bits
        combined = int(np.bitwise_or.reduce(bits)) if len(bits) else 0
        if not matches.errors and not combined:
            return FilterStatuses.feasible(len(nodes))
        if not matches.errors and combined in REASONS:
            return FilterStatuses.reject(bits != 0, _REJECTIONS[combined - 1])
        present = np.flatnonzero(np.bincount(bits)[1:]) + 1
        number = np.zeros(16, dtype=np.uint16)
        number[present] = np.arange(1, len(present) + 1)
        codes = number[bits]
        table: list[Status] = [_REJECTIONS[combination - 1] for combination in present.tolist()]
        is_error = matches.error_at > 0
        codes[is_error] = matches.error_at[is_error] + np.uint16(len(table))
        table += map(NodeError, matches.errors)
        return FilterStatuses(codes, table)

    def pre_score(self, cycle: Cycle, nodes: NodeView) -> Skip | None:  # noqa: ARG002
        """Skips pods without claims to bind, and all pods without the feature gate."""
        if self._capacity_score is None:
            return SKIP
        state = self._state(cycle)
        return SKIP if state is None or not state.claims.unbound else None

    def score(self, cycle: Cycle, nodes: NodeView) -> Scores:
        """Returns the utilization of storage, as the shape scores it."""
        state, snapshot, rows = self._state(cycle), nodes.snapshot, nodes.rows
        if self._capacity_score is None or state is None:
            return np.zeros(len(nodes), dtype=np.int64)
        matches = state.matches
        if matches is None or not all(matches.covers_row(snapshot, row) for row in rows.tolist()):
            # Plans are looked up by bisection, and views may have their nodes in any order.
            matches = find_pod_volumes(state.claims, snapshot, np.unique(rows), self._checks)
        return self._capacity_score.scores(matches, snapshot, rows)

    # -- reserve ----------------------------------------------------------------------------------

    def reserve(self, cycle: Cycle, node_name: str) -> Status | None:
        """Assumes the volumes of the pod's unbound claims on this node."""
        state = self._state(cycle)
        if state is None or not state.claims.unbound or state.matches is None:
            return None
        matches, state.matches = state.matches, None
        snapshot = cycle.snapshot
        row = snapshot.nodes.live_row(node_name)
        if not matches.covers_row(snapshot, row):
            rows = np.array([row], dtype=np.intp)
            matches = find_pod_volumes(state.claims, snapshot, rows, self._checks)
        state.volumes = assume(plan_for(matches, snapshot, row), snapshot.storage, node_name)
        return None

    def unreserve(self, cycle: Cycle, node_name: str) -> None:  # noqa: ARG002
        """Reverts assumptions that were not written; idempotent."""
        state = self._state(cycle)
        if state is not None and state.volumes is not None:
            state.volumes.revert(cycle.snapshot.storage)

    # -- binding ----------------------------------------------------------------------------------

    def pre_bind_pre_flight(self, cycle: Cycle, node_name: str) -> Skip | None:  # noqa: ARG002
        """Skips a pod if Reserve assumed nothing for it."""
        state = self._state(cycle)
        return SKIP if state is None or state.volumes is None else None

    async def pre_bind(self, cycle: Cycle, node_name: str) -> Status | None:
        """Writes the assumed bindings, and waits until the claims are bound.

        Raises:
            PluginError: if binding failed or timed out.
            ApiError: if a write failed.
        """
        state = self._state(cycle)
        if state is not None and state.volumes is not None:
            await self._binder.bind(cycle.pod, node_name, state.volumes)
        return None

    # -- events -----------------------------------------------------------------------------------

    def events(self) -> list[ClusterEventWithHint]:
        """Registers claims, volumes, classes, nodes, CSI nodes, drivers and capacities."""
        return events()

    def _state(self, cycle: Cycle) -> BindingState | None:
        state: BindingState | None = cycle.state_of(self.name)
        return state
