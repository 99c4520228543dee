"""Where a pod's volumes can be had: bound ones reached, free ones found, missing ones made.

All nodes at once, in columns; the same on one row tells what is to be done there.

::

    bound claims ──> can the volume be reached from here?
    unbound      ──> chosen for a node already?  only there
                 ──> the smallest free volume that will do
                 ──> none: can one be made here?  provisioner, topology, room

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
    NOTHING_TO_BIND,
    OUT_OF_REACH,
    VOLUME_GONE,
    Bools,
    Match,
    Provision,
    Rows,
    VolumeMatches,
)
from mooring.plugins.volume_binding.provisioning import ProvisioningChecks
from mooring.state import Snapshot
from mooring.state.volumes.free_index.first_match import NONE, VolumeRequest
from mooring.state.volumes.free_index.groups import Positions
from mooring.state.volumes.topology import NodeTopology, topology_of_affinity

#: Later than any place.
_BEYOND: Final = 2**31


def find(
    claims: PodClaims, snapshot: Snapshot, rows: Rows, candidates: ProvisioningChecks
) -> VolumeMatches:
    """What there is for the claims on these rows; ``candidates`` may be kept for the next pod."""
    search = _Search(snapshot, rows, candidates)
    if claims.bound:
        search.look_at_bound(claims.bound)
    if claims.unbound:
        search.look_for_unbound(claims.unbound)
    return search.found


@dataclass(slots=True)
class _Given:
    """The places that claims with the same wishes have got, in the order of the claims."""

    places: list[Positions]
    has_named: bool


#: With so many claims, rows are grouped before volumes are looked for.
_MANY_CLAIMS: Final = 8

#: If volumes are reached in more ways than this, grouping is not worth its work.
_WAYS_MAX: Final = 16


class _Search:
    """One search over m rows."""

    def __init__(self, snapshot: Snapshot, rows: Rows, candidates: ProvisioningChecks) -> None:
        m = len(rows)
        self._snapshot = snapshot
        self._nodes = snapshot.nodes
        self._storage = snapshot.storage
        self._rows = rows
        self._rooms = candidates
        self.found = VolumeMatches(
            rows,
            self._storage.version,
            np.zeros(m, dtype=np.uint8),
            np.zeros(m, dtype=np.uint16),
        )
        #: One row of each group: on them free volumes are looked for.
        self._few = rows
        #: Class -> what claims wish besides the size -> what those have got.
        self._given: dict[str, dict[tuple[Any, ...], _Given]] = {}
        #: The rows about which all is said; None = there is none.
        self._is_done: Bools | None = None

    # -- bound claims -----------------------------------------------------------------------------

    def look_at_bound(self, claims: tuple[PersistentVolumeClaim, ...]) -> None:
        """The first volume that is gone or out of reach is told."""
        is_pending = np.ones(len(self._rows), dtype=np.bool_)
        #: Volumes that are reached alike are looked at once.
        seen: set[NodeTopology] = set()
        for claim in claims:
            volume = self._storage.current_volume(claim.spec.volume_name)
            if volume is None:
                self._note(is_pending, VOLUME_GONE)
                return
            reach, is_migrated = _reach_of(volume), _is_migrated(volume)
            if reach in seen and not is_migrated:
                continue
            seen.add(reach)
            is_reached = self._storage.reaches.reachable_rows(reach, self._rows)
            if is_migrated:
                is_reached = self._reached_by_driver(volume, is_reached, is_pending)
            is_pending = self._left(is_pending)
            self._note(is_pending & ~is_reached, OUT_OF_REACH)
            is_pending &= is_reached

    def _reached_by_driver(
        self, volume: PersistentVolume, is_reached: Bools, is_pending: Bools
    ) -> Bools:
        """From which rows an in-tree volume is reached that CSI drivers may have taken over.

        Where one has, the driver's labels count; elsewhere it is as ``is_reached`` says.
        """
        kind = in_tree(volume.spec)
        assert kind is not None
        is_migrated = self._storage.csi_nodes.have_migrated(kind.plugin)[self._rows] > 0
        if not is_migrated.any():
            return is_reached
        try:
            translated = topology_of_affinity(translated_affinity(volume, kind))
        except TranslationError as error:
            self._fail(is_pending & is_migrated, f"could not translate pv: {error}")
            return is_reached
        by_driver = self._storage.reaches.reachable_rows(translated, self._rows)
        return np.where(is_migrated, by_driver, is_reached)

    def _fail(self, where: Bools, text: str) -> None:
        self.found.errors.append(text)
        self.found.error_at[where] = len(self.found.errors)
        self._settle(where)

    # -- unbound claims ---------------------------------------------------------------------------

    def look_for_unbound(self, claims: tuple[PersistentVolumeClaim, ...]) -> None:
        """Volumes for the claims, smallest claim first; what is not found has to be made."""
        placed = [claim for claim in claims if SELECTED_NODE in claim.metadata.annotations]
        others = [claim for claim in claims if SELECTED_NODE not in claim.metadata.annotations]
        for claim in placed:
            self._keep_to(claim.metadata.annotations[SELECTED_NODE])
        others.sort(key=lambda claim: amount(claim.spec.resources.requests).nanos)
        self._group_rows(others)
        for claim in others:
            try:
                match = self._match(claim)
            except SelectorError as error:
                self._fail(self._left(), f"{_SELECTOR_PROBLEM}: {_called(claim)}: {error}")
                return
            if len(others) > 1:
                self._give_away(claim_class(claim), match)
            self.found.matches.append(match)
        for claim in placed:
            self._provision(claim, None)
        for match in self.found.matches:
            self._provision_where_missing(match)

    def _provision_where_missing(self, match: Match) -> None:
        """Has a volume made where none was found."""
        nothing = [
            places == NONE for places in (match.named_at, match.free_at) if places is not None
        ]
        if not nothing:
            self._provision(match.claim, None)
            return
        is_missing = np.logical_and.reduce(nothing) if len(nothing) > 1 else nothing[0]
        if is_missing.any():
            group_of = self.found.group_of
            self._provision(match.claim, is_missing if group_of is None else is_missing[group_of])

    def _group_rows(self, claims: list[PersistentVolumeClaim]) -> None:
        """With many claims, look at one of all rows that reach the same free volumes."""
        if len(claims) < _MANY_CLAIMS:
            return
        group = np.zeros(len(self._rows), dtype=np.intp)
        for class_name in dict.fromkeys(map(claim_class, claims)):
            free = self._storage.free_volumes(class_name)
            topology_groups = [] if free is None else free.topology_groups(self._rows)
            if len(topology_groups) > _WAYS_MAX:
                return
            for way in topology_groups:
                kinds, part = np.unique(way, return_inverse=True)
                group = np.unique(group * len(kinds) + part, return_inverse=True)[1]
        if any(self._storage.volumes_naming(_called(each), claim_class(each)) for each in claims):
            return
        _, first, self.found.group_of = np.unique(group, return_index=True, return_inverse=True)
        self._few = self._rows[first]

    def _keep_to(self, node_name: str) -> None:
        """A volume is being made for this node: the pod can go nowhere else."""
        is_other = self._rows != self._nodes.live_row(node_name)
        self._note(self._left(is_other), NOTHING_TO_BIND)
        self._settle(is_other)

    def _match(self, claim: PersistentVolumeClaim) -> Match:
        """The smallest volume that will do; one that names the claim comes before all others."""
        class_name = claim_class(claim)
        wanted = _wanted(claim)
        named = [
            volume
            for volume in self._storage.volumes_naming(_called(claim), class_name)
            if is_bound_to(volume.spec.claim_ref, claim) and _will_do(volume, wanted)
        ]
        free = self._storage.free_volumes(class_name)
        free_at = None
        if free is not None:
            after, taken = self._given_away(class_name, wanted)
            free_at = free.choose(wanted, self._few, after=after, taken=taken)
        if not named:
            return Match(claim, wanted, named, None, free_at)
        named_at, is_open = self._match_named(claim, named)
        if free_at is not None:
            free_at[~is_open] = NONE
        return Match(claim, wanted, named, named_at, free_at)

    def _given_away(
        self, class_name: str, wanted: VolumeRequest
    ) -> tuple[Positions | None, list[Positions]]:
        """What earlier claims of the class have got: all up to some place, and others besides.

        Of claims that ask for the same but the size, each takes the next volume after the one
        before it, since they come in order of size. So of those only the last one matters.
        """
        before = self._given.get(class_name, {})
        alike = before.get(wanted[1:])
        if alike is None or alike.has_named:
            return None, [places for each in before.values() for places in each.places]
        last = alike.places[-1]
        after = np.where(last == NONE, _BEYOND, last)  # where it found nothing, there is nothing
        others = (each for each in before.values() if each is not alike)
        return after, [places for each in others for places in each.places]

    def _give_away(self, class_name: str, match: Match) -> None:
        """Remembers what a claim has got."""
        if match.free_at is None:
            return
        of_class = self._given.setdefault(class_name, {})
        alike = of_class.setdefault(match.wanted[1:], _Given([], has_named=False))
        alike.places.append(match.free_at)
        alike.has_named |= bool(match.named)

    def _match_named(
        self, claim: PersistentVolumeClaim, named: list[PersistentVolume]
    ) -> tuple[Positions, Bools]:
        """Which of ``named`` is taken on each row, and where the search goes on.

        The first one that is not taken already is the only one that counts, reached or not.
        """
        named_at = np.full(len(self._rows), NONE, dtype=np.intp)
        is_open = np.ones(len(self._rows), dtype=np.bool_)
        own = _called(claim)
        before = [
            match.named_at
            for match in self.found.matches
            if match.named_at is not None and _called(match.claim) == own
        ]
        for index, volume in enumerate(named):
            is_due = is_open.copy()
            for taken in before:
                is_due &= taken != index
            is_reached = self._storage.reaches.reachable_rows(_reach_of(volume), self._rows)
            named_at[is_due & is_reached] = index
            is_open &= ~is_due
        return named_at, is_open

    def _provision(self, claim: PersistentVolumeClaim, where: Bools | None) -> None:
        """A volume has to be made for the claim: can it be, on these rows (None = all)?"""
        self.found.provisions.append(Provision(claim, where))
        is_needed = self._left(where)
        if not is_needed.any():
            return
        against = self._rooms.against(self._snapshot, claim)
        if against is None:
            name = claim_class(claim)
            self._fail(is_needed, f'failed to find storage class "{name}"')
            return
        bits = against.take(self._rows)
        bits *= is_needed
        self.found.bits |= bits
        self._settle(bits != 0)

    def _left(self, where: Bools | None = None) -> Bools:
        """Returns those of ``where`` (None = all) about which something is still to be said."""
        if self._is_done is None:
            return where if where is not None else np.ones(len(self._rows), dtype=np.bool_)
        return ~self._is_done if where is None else where & ~self._is_done

    def _settle(self, where: Bools) -> None:
        """All is said about these rows."""
        self._is_done = where if self._is_done is None else self._is_done | where

    def _note(self, where: Bools, reason: int) -> None:
        self.found.bits |= where.view(np.uint8) * np.uint8(reason)


_SELECTOR_PROBLEM: Final = "error creating internal label selector for claim"


def _reach_of(volume: PersistentVolume) -> NodeTopology:
    affinity = volume.spec.node_affinity
    return topology_of_affinity(affinity.required if affinity is not None else None)


def _is_migrated(volume: PersistentVolume) -> bool:
    """Returns whether it is of a kind that CSI drivers take over."""
    kind = in_tree(volume.spec)
    return kind is not None and kind.is_migrated


def _called(claim: PersistentVolumeClaim) -> str:
    return f"{claim.metadata.namespace}/{claim.metadata.name}"


def _wanted(claim: PersistentVolumeClaim) -> VolumeRequest:
    """What the claim asks of a volume.

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


def _will_do(volume: PersistentVolume, wanted: VolumeRequest) -> bool:
    """Returns whether a volume that names the claim can be its volume, wherever it is."""
    spec = volume.spec
    mode = spec.volume_mode if spec.volume_mode is not None else "Filesystem"
    return (
        amount(spec.capacity).nanos >= wanted.nanos
        and mode == wanted.volume_mode
        and (spec.volume_attributes_class_name or "") == wanted.attributes_class
        and volume.metadata.deletion_timestamp is None
    )
