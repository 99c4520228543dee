"""What VolumeBinding found for the claims of a pod on each node, and what is to be done on one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from mooring.objects.storage import PersistentVolume, PersistentVolumeClaim
from mooring.objects.volume_claims import claim_class
from mooring.state import Snapshot
from mooring.state.volumes.free_index.first_match import NONE, VolumeRequest
from mooring.state.volumes.free_index.groups import Positions

Bits = npt.NDArray[np.uint8]
Bools = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.intp]

#: What can be against a node, as bits, in the order in which kube-scheduler tells it.
OUT_OF_REACH, NOTHING_TO_BIND, NO_ROOM, VOLUME_GONE = 1, 2, 4, 8
REASONS: Final = {
    OUT_OF_REACH: "node(s) didn't match PersistentVolume's node affinity",
    NOTHING_TO_BIND: "node(s) didn't find available persistent volumes to bind",
    NO_ROOM: "node(s) did not have enough free storage",
    VOLUME_GONE: "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
}


class Match(NamedTuple):
    """A claim and what was found for it, by group of rows.

    ``named`` are the volumes that name the claim, ``named_at`` which of them was taken (None = no
    volume names it); ``free_at`` are places among the free volumes of its class (None = it has
    none). NONE = nothing.
    """

    claim: PersistentVolumeClaim
    wanted: VolumeRequest
    named: list[PersistentVolume]
    named_at: Positions | None
    free_at: Positions | None


class Provision(NamedTuple):
    """A claim whose volume has to be made, on the rows where that is so, bool shape (m,).

    None = everywhere.
    """

    claim: PersistentVolumeClaim
    is_needed: Bools | None


@dataclass(slots=True)
class VolumeMatches:
    """What was found on m rows.

    Attributes:
        rows: The rows, rising; places among free volumes are good as long as ``version`` is.
        version: Storage's, when this was found.
        bits: What is against each row, uint8 shape (m,).
        error_at: 0, or 1 + index into ``errors``, uint16 shape (m,).
        errors: What went wrong on some rows.
        group_of: Which rows are alike for free volumes; None = each is a group of its own.
        matches: The claims that were looked for among volumes, smallest first.
        provisions: The claims whose volumes are to be made.
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
        """Returns whether it holds, and tells of just these rows."""
        return self.version == snapshot.storage.version and np.array_equal(self.rows, rows)

    def covers_row(self, snapshot: Snapshot, row: int) -> bool:
        """Returns whether it holds, and tells of this row."""
        at = int(self.rows.searchsorted(row))
        is_there = at < len(self.rows) and self.rows[at] == row
        return bool(is_there) and self.version == snapshot.storage.version


class Chosen(NamedTuple):
    """What is to be done for a pod on one node."""

    bindings: list[tuple[PersistentVolume, PersistentVolumeClaim]]
    provisions: list[PersistentVolumeClaim]


def plan_for(found: VolumeMatches, snapshot: Snapshot, row: int) -> Chosen:
    """What is to be done on a row that can take the pod, by what was found there just now."""
    at = int(found.rows.searchsorted(row))
    group = at if found.group_of is None else int(found.group_of[at])
    bindings = []
    for claim, _, named, named_at, free_at in found.matches:
        if named_at is not None and named_at[group] != NONE:
            bindings.append((named[named_at[group]], claim))
        elif free_at is not None and free_at[group] != NONE:
            free = snapshot.storage.free_volumes(claim_class(claim))
            assert free is not None
            bindings.append((free.at(int(free_at[group])), claim))
    made = [claim for claim, needed in found.provisions if needed is None or needed[at]]
    return Chosen(bindings, made)
