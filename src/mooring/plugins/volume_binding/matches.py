"""The volumes that VolumeBinding found for a pod on each node, and the plan for one node."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from mooring.objects.storage import PersistentVolume, PersistentVolumeClaim
from mooring.objects.volume_claims import claim_class
from mooring.state import Snapshot
from mooring.state.types import Bools, Rows
from mooring.state.volumes.free_index.first_match import NONE, VolumeRequest
from mooring.state.volumes.free_index.groups import Positions

Bits = npt.NDArray[np.uint8]

#: The reasons against a node, as bits, in kube-scheduler's order.
AFFINITY_CONFLICT, NO_VOLUME_TO_BIND, NO_FREE_STORAGE, VOLUME_NOT_FOUND = 1, 2, 4, 8
REASONS: Final = {
    AFFINITY_CONFLICT: "node(s) didn't match PersistentVolume's node affinity",
    NO_VOLUME_TO_BIND: "node(s) didn't find available persistent volumes to bind",
    NO_FREE_STORAGE: "node(s) did not have enough free storage",
    VOLUME_NOT_FOUND: "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
}


class Match(NamedTuple):
    """A claim and the volume found for it, by group of rows.

    ``named`` are the volumes whose claimRef names the claim, ``named_at`` the index of the one that
    is taken (None = no volume names it); ``free_at`` are positions among the free volumes of its
    class (None = it has none). NONE = no volume.
    """

    claim: PersistentVolumeClaim
    request: VolumeRequest
    named: list[PersistentVolume]
    named_at: Positions | None
    free_at: Positions | None


class Provision(NamedTuple):
    """A claim whose volume has to be provisioned on some rows.

    ``is_needed`` bool shape (m,); None = on all rows.
    """

    claim: PersistentVolumeClaim
    is_needed: Bools | None


@dataclass(slots=True)
class VolumeMatches:
    """The result for m rows.

    Attributes:
        rows: The rows, ascending.
        version: Storage's version; positions among free volumes are valid for this version.
        bits: The reasons against each row, uint8 shape (m,).
        error_at: 0, or 1 + index into ``errors``, uint16 shape (m,).
        errors: The errors on some rows.
        group_of: The group of each row, with the same free volumes; None = one row per group.
        matches: The claims that volumes were searched for, smallest first.
        provisions: The claims whose volumes are to be provisioned.
    """

    rows: Rows
    version: int
    bits: Bits
    error_at: npt.NDArray[np.uint16]
    errors: list[str] = field(default_factory=list)
    group_of: Positions | None = None
    matches: list[Match] = field(default_factory=list)
    provisions: list[Provision] = field(default_factory=list)

    def covers_rows(self, snapshot: Snapshot, rows: Rows) -> bool:
        """Returns True if the result is valid and for exactly these rows."""
        return self.version == snapshot.storage.version and np.array_equal(self.rows, rows)

    def covers_row(self, snapshot: Snapshot, row: int) -> bool:
        """Returns True if the result is valid and includes this row."""
        position = int(self.rows.searchsorted(row))
        includes_row = position < len(self.rows) and self.rows[position] == row
        return bool(includes_row) and self.version == snapshot.storage.version


class BindingPlan(NamedTuple):
    """The bindings and provisions for a pod on one node."""

    bindings: list[tuple[PersistentVolume, PersistentVolumeClaim]]
    provisions: list[PersistentVolumeClaim]


def plan_for(result: VolumeMatches, snapshot: Snapshot, row: int) -> BindingPlan:
    """Returns the plan for a feasible row of a valid result."""
    position = int(result.rows.searchsorted(row))
    group = position if result.group_of is None else int(result.group_of[position])
    bindings = []
    for claim, _, named, named_at, free_at in result.matches:
        if named_at is not None and named_at[group] != NONE:
            bindings.append((named[named_at[group]], claim))
        elif free_at is not None and free_at[group] != NONE:
            free = snapshot.storage.free_volumes(claim_class(claim))
            assert free is not None
            bindings.append((free.at(int(free_at[group])), claim))
    provisions = [
        claim for claim, is_needed in result.provisions if is_needed is None or is_needed[position]
    ]
    return BindingPlan(bindings, provisions)
