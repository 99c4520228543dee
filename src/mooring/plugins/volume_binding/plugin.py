"""VolumeBinding: a pod goes where its volumes can be had, and they become its own on the way.

A claim that is bound already needs a node from which its volume can be reached. One that waits for
its pod gets a free volume, or a new one, on the node that is chosen: both are assumed at once, and
written before the pod is bound.

Which claims those are is in ``volume_binding_claims``, what there is for them on each node in
``volume_binding_nodes``, and how it is written and waited for in ``volume_binding_writes``.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

import numpy as np

from mooring.cluster_event import ClusterEventWithHint
from mooring.config.types import VolumeBindingArgs
from mooring.errors import PluginError
from mooring.framework import SKIP, Cycle, FilterStatuses, NodeView, Reject, Status
from mooring.framework.interface import Handle, Scores
from mooring.framework.status import NodeError, Skip
from mooring.objects.volume_claims import claim_uses
from mooring.plugins.volume_binding.bind_volumes import PodVolumes, VolumeBinder, assume
from mooring.plugins.volume_binding.claims import ModeError, PodClaims, claims_of, problem_with
from mooring.plugins.volume_binding.find_volumes import find
from mooring.plugins.volume_binding.hints import events, fragment
from mooring.plugins.volume_binding.matches import REASONS, VolumeMatches, plan_for
from mooring.plugins.volume_binding.provisioning import ProvisioningChecks
from mooring.state import PodInfo

REASON_IMMEDIATE = "pod has unbound immediate PersistentVolumeClaims"

#: How long volumes may take to be bound, where no arguments say so.
BIND_TIMEOUT_S: Final = 600.0

#: What is against a node, by the bits of ``volume_binding_found``; the first has none.
_REFUSALS: Final = [
    Reject(*(reason for bit, reason in REASONS.items() if bits & bit), resolvable=False)
    for bits in range(1, 16)
]


class BindingState:
    """The claims of the pod, and from Reserve on what was assumed for it.

    Attributes:
        claims: As PreFilter found them.
        found: What Filter found when it looked last; None = it did not, so nothing is bound.
        volumes: What Reserve assumed; None = nothing.
    """

    __slots__ = ("claims", "found", "volumes")

    def __init__(self, claims: PodClaims) -> None:
        self.claims = claims
        self.found: VolumeMatches | None = None
        self.volumes: PodVolumes | None = None


class VolumeBinding:
    """Refuses nodes where a volume of the pod cannot be reached, found or made.

    It does not score: that takes a feature gate which is off by default.

    Source: pkg/scheduler/framework/plugins/volumebinding/{volume_binding,binder}.go. *Differs:* of
    several volumes that suit a claim equally well the first by name is taken, upstream takes any;
    what Reserve assumed is given up only by the pod that assumed it.
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

    def __init__(self, args: VolumeBindingArgs | None = None, handle: Handle | None = None) -> None:
        """``handle`` is the way to the API server; without one nothing can be bound."""
        timeout_s = float(args.bind_timeout_seconds) if args is not None else BIND_TIMEOUT_S
        self._rooms = ProvisioningChecks()
        self._writes = VolumeBinder(self.name, handle, timeout_s)

    def sign(self, pod: PodInfo) -> Hashable:
        """What the hints read: the pod's namespace, its claims, and the drivers it names."""
        return fragment(pod)

    # -- deciding ---------------------------------------------------------------------------------

    def pre_filter(self, cycle: Cycle) -> Status | Skip | None:
        """Looks the claims up; skips a pod without any.

        Raises:
            PluginError: if a claim's class does not say when its volumes are bound.
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
        """Everything that is against a node is told at once."""
        state: BindingState = cycle[self]
        found = state.found
        # A preemption asks about the same nodes with other pods on them: that changes nothing.
        if found is None or not found.covers_rows(nodes.snapshot, nodes.rows):
            found = state.found = find(state.claims, nodes.snapshot, nodes.rows, self._rooms)
        bits = found.bits
        combined = int(np.bitwise_or.reduce(bits)) if len(bits) else 0
        if not found.errors and not combined:
            return FilterStatuses.feasible(len(nodes))
        if not found.errors and combined in REASONS:
            return FilterStatuses.refuse(bits != 0, _REFUSALS[combined - 1])
        present = np.flatnonzero(np.bincount(bits)[1:]) + 1
        number = np.zeros(16, dtype=np.uint16)
        number[present] = np.arange(1, len(present) + 1)
        codes = number[bits]
        table: list[Status] = [_REFUSALS[each - 1] for each in present.tolist()]
        is_error = found.error_at > 0
        codes[is_error] = found.error_at[is_error] + np.uint16(len(table))
        table += map(NodeError, found.errors)
        return FilterStatuses(codes, table)

    def pre_score(self, cycle: Cycle, nodes: NodeView) -> Skip | None:  # noqa: ARG002
        """Skip: scoring by capacity is behind a gate."""
        return SKIP

    def score(self, cycle: Cycle, nodes: NodeView) -> Scores:  # noqa: ARG002
        """All nodes are the same to it."""
        return np.zeros(len(nodes), dtype=np.int64)

    # -- holding ----------------------------------------------------------------------------------

    def reserve(self, cycle: Cycle, node_name: str) -> Status | None:
        """Assumes what the pod's claims get on this node."""
        state = self._state(cycle)
        if state is None or not state.claims.unbound or state.found is None:
            return None
        found, state.found = state.found, None
        snapshot = cycle.snapshot
        row = snapshot.nodes.live_row(node_name)
        if not found.covers_row(snapshot, row):
            found = find(state.claims, snapshot, np.array([row], dtype=np.intp), self._rooms)
        state.volumes = assume(plan_for(found, snapshot, row), snapshot.storage, node_name)
        return None

    def unreserve(self, cycle: Cycle, node_name: str) -> None:  # noqa: ARG002
        """Gives up what was assumed and not written; idempotent."""
        state = self._state(cycle)
        if state is not None and state.volumes is not None:
            state.volumes.revert(cycle.snapshot.storage)

    # -- binding ----------------------------------------------------------------------------------

    def pre_bind_pre_flight(self, cycle: Cycle, node_name: str) -> Skip | None:  # noqa: ARG002
        """Skips a pod all of whose claims were bound before."""
        state = self._state(cycle)
        return SKIP if state is None or state.volumes is None else None

    async def pre_bind(self, cycle: Cycle, node_name: str) -> Status | None:
        """Writes what was assumed, and waits until the claims have their volumes.

        Raises:
            PluginError: that did not happen in time, or came to nothing.
            ApiError: a write was refused.
        """
        state = self._state(cycle)
        if state is not None and state.volumes is not None:
            await self._writes.bind(cycle.pod, node_name, state.volumes)
        return None

    # -- events -----------------------------------------------------------------------------------

    def events(self) -> list[ClusterEventWithHint]:
        """Claims, volumes, classes, nodes and their labels, and what drivers say of their room."""
        return events()

    def _state(self, cycle: Cycle) -> BindingState | None:
        found: BindingState | None = cycle.state_of(self.name)
        return found
