"""Finds the volumes of a pod's claims: checks bound ones, matches free ones, provisions the rest.

All nodes at once, in columns; the result for one row is the plan for that node.

::

    bound claims ──> does the volume's node affinity match the node?
    unbound      ──> has a selected node already: only that node
                 ──> the smallest free volume that matches the claim
                 ──> none: can one be provisioned?  provisioner, topology, capacity

Source: pkg/scheduler/framework/plugins/volumebinding/binder.go (FindPodVolumes);
component-helpers v0.36.3, storage/volume/pv_helpers.go (FindMatchingVolume).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from mooring.objects.csi_migration import TranslationError, in_tree, translated_affinity
from mooring.objects.selectors import SelectorError, compile_label_selector
from mooring.objects.storage import PersistentVolume, PersistentVolumeClaim
from mooring.objects.volume_claims import (
    SELECTED_NODE,
    amount,
    claim_class,
    is_bound_to,
)
from mooring.plugins.volume_binding.claims import PodClaims
from mooring.plugins.volume_binding.matches import (
    AFFINITY_CONFLICT,
    NO_VOLUME_TO_BIND,
    VOLUME_NOT_FOUND,
    Match,
    Provision,
    VolumeMatches,
)
from mooring.plugins.volume_binding.provisioning import ProvisioningChecks
from mooring.state import Snapshot
from mooring.state.types import Bools, Rows
from mooring.state.volumes.free_index.first_match import NONE, VolumeRequest
from mooring.state.volumes.free_index.groups import Positions
from mooring.state.volumes.topology import NodeTopology, topology_of_affinity

#: A position after all others.
_BEYOND: Final = 2**31


def find_pod_volumes(
    claims: PodClaims, snapshot: Snapshot, rows: Rows, checks: ProvisioningChecks
) -> VolumeMatches:
    """Returns the volumes for the claims on these rows; ``checks`` is a cache for all pods."""
    search = _Search(snapshot, rows, checks)
    if claims.bound:
        search.check_bound(claims.bound)
    if claims.unbound:
        search.match_unbound(claims.unbound)
    return search.result


@dataclass(slots=True)
class _Assigned:
    """The positions assigned to claims with equal requests except the size, in claim order."""

    positions: list[Positions]
    has_named: bool


#: From so many claims on, rows are grouped before volumes are matched.
_GROUPING_CLAIMS_MIN: Final = 8

#: With more topology groups than this, grouping costs more than it saves.
_TOPOLOGY_GROUPS_MAX: Final = 16


class _Search:
    """One search over m rows."""

    def __init__(self, snapshot: Snapshot, rows: Rows, checks: ProvisioningChecks) -> None:
        m = len(rows)
        self._snapshot = snapshot
        self._nodes = snapshot.nodes
        self._storage = snapshot.storage
        self._rows = rows
        self._checks = checks
        self.result = VolumeMatches(
            rows,
            self._storage.version,
            np.zeros(m, dtype=np.uint8),
            np.zeros(m, dtype=np.uint16),
        )
        #: One row of each group, for which free volumes are matched.
        self._group_rows = rows
        #: Class -> request without the size -> positions assigned to those claims.
        self._assigned: dict[str, dict[tuple[Any, ...], _Assigned]] = {}
        #: The rows whose status is final; None = there is none.
        self._is_final: Bools | None = None

    # -- bound claims -----------------------------------------------------------------------------

    def check_bound(self, claims: tuple[PersistentVolumeClaim, ...]) -> None:
        """Adds the reason of the first volume that is missing or whose affinity does not match."""
        is_pending = np.ones(len(self._rows), dtype=np.bool_)
        #: Volumes with the same topology are checked once.
        checked: set[NodeTopology] = set()
        for claim in claims:
            volume = self._storage.current_volume(claim.spec.volume_name)
            if volume is None:
                self._add_reason(is_pending, VOLUME_NOT_FOUND)
                return
            topology, is_migrated = _topology_of(volume), _is_migrated(volume)
            if topology in checked and not is_migrated:
                continue
            checked.add(topology)
            is_reachable = self._storage.reaches.reachable_rows(topology, self._rows)
            if is_migrated:
                is_reachable = self._reachable_by_driver(volume, is_reachable, is_pending)
            is_pending = self._without_final(is_pending)
            self._add_reason(is_pending & ~is_reachable, AFFINITY_CONFLICT)
            is_pending &= is_reachable

    def _reachable_by_driver(
        self, volume: PersistentVolume, is_reachable: Bools, is_pending: Bools
    ) -> Bools:
        """Returns the rows from which a volume of a migrated in-tree plugin is reachable.

        The translated affinity applies on nodes with the migration, ``is_reachable`` elsewhere.
        """
        kind = in_tree(volume.spec)
        assert kind is not None
        is_migrated = self._storage.csi_nodes.have_migrated(kind.plugin)[self._rows] > 0
        if not is_migrated.any():
            return is_reachable
        try:
            translated = topology_of_affinity(translated_affinity(volume, kind))
        except TranslationError as error:
            self._fail(is_pending & is_migrated, f"could not translate pv: {error}")
            return is_reachable
        by_driver = self._storage.reaches.reachable_rows(translated, self._rows)
        return np.where(is_migrated, by_driver, is_reachable)

    def _fail(self, mask: Bools, text: str) -> None:
        self.result.errors.append(text)
        self.result.error_at[mask] = len(self.result.errors)
        self._set_final(mask)

    # -- unbound claims ---------------------------------------------------------------------------

    def match_unbound(self, claims: tuple[PersistentVolumeClaim, ...]) -> None:
        """Matches volumes with the claims, smallest claim first; missing ones are provisioned."""
        placed = [claim for claim in claims if SELECTED_NODE in claim.metadata.annotations]
        others = [claim for claim in claims if SELECTED_NODE not in claim.metadata.annotations]
        for claim in placed:
            self._require_node(claim.metadata.annotations[SELECTED_NODE])
        others.sort(key=lambda claim: amount(claim.spec.resources.requests).nanos)
        self._compute_groups(others)
        for claim in others:
            try:
                match = self._match(claim)
            except SelectorError as error:
                problem = f"{_SELECTOR_PROBLEM}: {_claim_key(claim)}: {error}"
                self._fail(self._without_final(), problem)
                return
            if len(others) > 1:
                self._record_assigned(claim_class(claim), match)
            self.result.matches.append(match)
        for claim in placed:
            self._provision(claim, None)
        for match in self.result.matches:
            self._provision_where_missing(match)

    def _provision_where_missing(self, match: Match) -> None:
        """Provisions a volume where none was matched."""
        masks = [
            positions == NONE
            for positions in (match.named_at, match.free_at)
            if positions is not None
        ]
        if not masks:
            self._provision(match.claim, None)
            return
        is_missing = np.logical_and.reduce(masks) if len(masks) > 1 else masks[0]
        if is_missing.any():
            group_of = self.result.group_of
            self._provision(match.claim, is_missing if group_of is None else is_missing[group_of])

    def _compute_groups(self, claims: list[PersistentVolumeClaim]) -> None:
        """Groups rows with the same reachable free volumes, if there are many claims."""
        if len(claims) < _GROUPING_CLAIMS_MIN:
            return
        group = np.zeros(len(self._rows), dtype=np.intp)
        for class_name in dict.fromkeys(map(claim_class, claims)):
            free = self._storage.free_volumes(class_name)
            topology_groups = [] if free is None else free.topology_groups(self._rows)
            if len(topology_groups) > _TOPOLOGY_GROUPS_MAX:
                return
            for topology_group in topology_groups:
                distinct, part = np.unique(topology_group, return_inverse=True)
                group = np.unique(group * len(distinct) + part, return_inverse=True)[1]
        naming = self._storage.volumes_naming
        if any(naming(_claim_key(claim), claim_class(claim)) for claim in claims):
            return
        _, first, self.result.group_of = np.unique(group, return_index=True, return_inverse=True)
        self._group_rows = self._rows[first]

    def _require_node(self, node_name: str) -> None:
        """Rejects all other rows: a volume is being provisioned for this node."""
        is_other = self._rows != self._nodes.live_row(node_name)
        self._add_reason(self._without_final(is_other), NO_VOLUME_TO_BIND)
        self._set_final(is_other)

    def _match(self, claim: PersistentVolumeClaim) -> Match:
        """Returns the smallest matching volume; one that names the claim takes precedence."""
        class_name = claim_class(claim)
        request = _volume_request(claim)
        named = [
            volume
            for volume in self._storage.volumes_naming(_claim_key(claim), class_name)
            if is_bound_to(volume.spec.claim_ref, claim) and _satisfies(volume, request)
        ]
        free = self._storage.free_volumes(class_name)
        free_at = None
        if free is not None:
            after, taken = self._assigned_before(class_name, request)
            free_at = free.choose(request, self._group_rows, after=after, taken=taken)
        if not named:
            return Match(claim, request, named, None, free_at)
        named_at, is_open = self._match_named(claim, named)
        if free_at is not None:
            free_at[~is_open] = NONE
        return Match(claim, request, named, named_at, free_at)

    def _assigned_before(
        self, class_name: str, request: VolumeRequest
    ) -> tuple[Positions | None, list[Positions]]:
        """Returns the volumes of earlier claims: all up to a position, and a list of others.

        Of claims with equal requests except the size, each takes a volume after the previous one's,
        since they are sorted by size. So of those only the last one matters.
        """
        of_class = self._assigned.get(class_name, {})
        similar = of_class.get(request[1:])
        if similar is None or similar.has_named:
            return None, [
                positions for assigned in of_class.values() for positions in assigned.positions
            ]
        last = similar.positions[-1]
        after = np.where(last == NONE, _BEYOND, last)  # NONE: there is no volume for this one, too
        others = (assigned for assigned in of_class.values() if assigned is not similar)
        return after, [positions for assigned in others for positions in assigned.positions]

    def _record_assigned(self, class_name: str, match: Match) -> None:
        """Records the free volumes that a claim got."""
        if match.free_at is None:
            return
        of_class = self._assigned.setdefault(class_name, {})
        similar = of_class.setdefault(match.request[1:], _Assigned([], has_named=False))
        similar.positions.append(match.free_at)
        similar.has_named |= bool(match.named)

    def _match_named(
        self, claim: PersistentVolumeClaim, named: list[PersistentVolume]
    ) -> tuple[Positions, Bools]:
        """Returns the index of the volume in ``named`` per row, and the rows to search further.

        Only the first volume that no earlier claim took counts, reachable or not.
        """
        named_at = np.full(len(self._rows), NONE, dtype=np.intp)
        is_open = np.ones(len(self._rows), dtype=np.bool_)
        claim_key = _claim_key(claim)
        taken_before = [
            match.named_at
            for match in self.result.matches
            if match.named_at is not None and _claim_key(match.claim) == claim_key
        ]
        for index, volume in enumerate(named):
            is_available = is_open.copy()
            for taken in taken_before:
                is_available &= taken != index
            is_reachable = self._storage.reaches.reachable_rows(_topology_of(volume), self._rows)
            named_at[is_available & is_reachable] = index
            is_open &= ~is_available
        return named_at, is_open

    def _provision(self, claim: PersistentVolumeClaim, mask: Bools | None) -> None:
        """Adds a provision on these rows (None = all), and the reasons against it."""
        self.result.provisions.append(Provision(claim, mask))
        is_needed = self._without_final(mask)
        if not is_needed.any():
            return
        reasons = self._checks.blocking_reasons(self._snapshot, claim)
        if reasons is None:
            name = claim_class(claim)
            self._fail(is_needed, f'failed to find storage class "{name}"')
            return
        bits = reasons.take(self._rows)
        bits *= is_needed
        self.result.bits |= bits
        self._set_final(bits != 0)

    def _without_final(self, mask: Bools | None = None) -> Bools:
        """Returns the rows of ``mask`` (None = all) whose status is not final."""
        if self._is_final is None:
            return mask if mask is not None else np.ones(len(self._rows), dtype=np.bool_)
        return ~self._is_final if mask is None else mask & ~self._is_final

    def _set_final(self, mask: Bools) -> None:
        """Makes the status of these rows final."""
        self._is_final = mask if self._is_final is None else self._is_final | mask

    def _add_reason(self, mask: Bools, reason: int) -> None:
        self.result.bits |= mask.view(np.uint8) * np.uint8(reason)


_SELECTOR_PROBLEM: Final = "error creating internal label selector for claim"


def _topology_of(volume: PersistentVolume) -> NodeTopology:
    affinity = volume.spec.node_affinity
    return topology_of_affinity(affinity.required if affinity is not None else None)


def _is_migrated(volume: PersistentVolume) -> bool:
    """Returns True if the volume is of an in-tree plugin that is migrated to CSI."""
    kind = in_tree(volume.spec)
    return kind is not None and kind.is_migrated


def _claim_key(claim: PersistentVolumeClaim) -> str:
    return f"{claim.metadata.namespace}/{claim.metadata.name}"


def _volume_request(claim: PersistentVolumeClaim) -> VolumeRequest:
    """Returns the claim's requirements of a volume.

    Raises:
        SelectorError: if its selector cannot be compiled.
    """
    spec = claim.spec
    selector = compile_label_selector(spec.selector) if spec.selector is not None else None
    return VolumeRequest(
        amount(spec.resources.requests).nanos,
        spec.volume_mode if spec.volume_mode is not None else "Filesystem",
        spec.volume_attributes_class_name or "",
        spec.access_modes,
        selector,
    )


def _satisfies(volume: PersistentVolume, request: VolumeRequest) -> bool:
    """Returns True if a volume that names the claim satisfies the request, on any node."""
    spec = volume.spec
    mode = spec.volume_mode if spec.volume_mode is not None else "Filesystem"
    return (
        amount(spec.capacity).nanos >= request.nanos
        and mode == request.volume_mode
        and (spec.volume_attributes_class_name or "") == request.attributes_class
        and volume.metadata.deletion_timestamp is None
    )
