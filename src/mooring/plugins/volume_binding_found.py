"""What VolumeBinding found for the claims of a pod on each node, and what is to be done on one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mooring.objects.storage import PersistentVolume, PersistentVolumeClaim
from mooring.objects.volume_claims import claim_class
from mooring.state import Snapshot
from mooring.state.free_volume_groups import Places
from mooring.state.free_volumes import NONE, Wanted

Bools = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.intp]


class Match(NamedTuple):
    """A claim and what was found for it, by row.

    ``named`` are the volumes that name the claim, ``named_at`` which of them was taken; ``free_at``
    are places among the free volumes of its class. NONE = nothing.
    """

    claim: PersistentVolumeClaim
    wanted: Wanted
    named: list[PersistentVolume]
    named_at: Places
    free_at: Places


class Provision(NamedTuple):
    """A claim whose volume has to be made, on the rows where that is so, bool shape (m,)."""

    claim: PersistentVolumeClaim
    is_needed: Bools


@dataclass(slots=True)
class Found:
    """What was found on m rows.

    Attributes:
        rows: The rows, rising; places among free volumes are good as long as ``version`` is.
        version: Storage's, when this was found.
        bits: What is against each row, uint8 shape (m,).
        error_at: 0, or 1 + index into ``errors``, uint16 shape (m,).
        errors: What went wrong on some rows.
        matches: The claims that were looked for among volumes, smallest first.
        provisions: The claims whose volumes are to be made.
    """

    rows: Rows
    version: int
    bits: npt.NDArray[np.uint8]
    error_at: npt.NDArray[np.uint16]
    errors: list[str] = field(default_factory=list)
    matches: list[Match] = field(default_factory=list)
    provisions: list[Provision] = field(default_factory=list)

    def is_about(self, snapshot: Snapshot, rows: Rows) -> bool:
        """Whether it holds, and tells of just these rows."""
        return self.version == snapshot.storage.version and np.array_equal(self.rows, rows)

    def is_of(self, snapshot: Snapshot, row: int) -> bool:
        """Whether it holds, and tells of this row."""
        at = int(np.searchsorted(self.rows, row))
        is_there = at < len(self.rows) and self.rows[at] == row
        return bool(is_there) and self.version == snapshot.storage.version


class Chosen(NamedTuple):
    """What is to be done for a pod on one node."""

    bindings: list[tuple[PersistentVolume, PersistentVolumeClaim]]
    provisions: list[PersistentVolumeClaim]


def chosen(found: Found, snapshot: Snapshot, row: int) -> Chosen:
    """What is to be done on a row that can take the pod, by what was found there just now."""
    at = int(np.searchsorted(found.rows, row))
    bindings = []
    for claim, _, named, named_at, free_at in found.matches:
        if named_at[at] != NONE:
            bindings.append((named[named_at[at]], claim))
        elif free_at[at] != NONE:
            free = snapshot.storage.free_volumes(claim_class(claim))
            assert free is not None
            bindings.append((free.at(int(free_at[at])), claim))
    return Chosen(bindings, [claim for claim, needed in found.provisions if needed[at]])
