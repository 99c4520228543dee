"""Scores nodes by the utilization of the storage that a pod's claims would use.

Only with the feature gate StorageCapacityScoring. A claim that gets an existing volume counts with
that volume; if no claim does, claims that are provisioned count with the capacity of their node.

Source: pkg/scheduler/framework/plugins/volumebinding/{volume_binding,scorer}.go. *Differs:* of
several CSIStorageCapacities of a node the first by name counts, upstream takes any.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import numpy as np

from mooring.config.types import UtilizationShapePoint
from mooring.framework.interface import MAX_SCORE, Scores
from mooring.objects.storage import PersistentVolumeClaim
from mooring.objects.volume_claims import STORAGE, amount, claim_class
from mooring.plugins.volume_binding.matches import BindingPlan, VolumeMatches, plan_for
from mooring.state import Snapshot
from mooring.state.types import Rows

_SHAPE_SCORE_MAX: Final = 10
_PERCENT_MAX: Final = 100


class CapacityScore:
    """The score function of a shape. Complexity: O(nodes x claims)."""

    def __init__(self, shape: Sequence[UtilizationShapePoint]) -> None:
        self._points = [
            (point.utilization, point.score * (MAX_SCORE // _SHAPE_SCORE_MAX)) for point in shape
        ]

    def scores(self, matches: VolumeMatches, snapshot: Snapshot, rows: Rows) -> Scores:
        """Returns the scores of feasible rows, int64 shape (len(rows),)."""
        scores = np.zeros(len(rows), dtype=np.int64)
        for index, row in enumerate(rows.tolist()):
            plan = plan_for(matches, snapshot, row)
            scores[index] = self._score(_requests(plan, snapshot, row))
        return scores

    def _score(self, by_class: dict[str, tuple[int, int]]) -> int:
        if not by_class:
            return 0
        total = sum(self._of_class(*pair) for pair in by_class.values())
        # Rounded half up, as Go's math.Round rounds positive numbers.
        return (2 * total + len(by_class)) // (2 * len(by_class))

    def _of_class(self, requested: int, capacity: int) -> int:
        if capacity == 0 or requested > capacity:
            return self._at(_PERCENT_MAX)
        return self._at(requested * _PERCENT_MAX // capacity)

    def _at(self, percent: int) -> int:
        """Returns the score at a utilization; divides toward zero, as Go does."""
        points = self._points
        for (low, below), (high, above) in pairwise(points):
            if low < percent <= high:
                rise = (above - below) * (percent - low)
                return below + (abs(rise) // (high - low)) * (1 if rise >= 0 else -1)
        return points[0][1] if percent <= points[0][0] else points[-1][1]


def _requests(plan: BindingPlan, snapshot: Snapshot, row: int) -> dict[str, tuple[int, int]]:
    """Returns storage class -> requested bytes, and bytes of capacity."""
    by_class: dict[str, tuple[int, int]] = {}
    for volume, claim in plan.bindings:
        requested, capacity = by_class.get(volume.spec.storage_class_name or "", (0, 0))
        by_class[volume.spec.storage_class_name or ""] = (
            requested + amount(claim.spec.resources.requests).value(),
            capacity + amount(volume.spec.capacity).value(),
        )
    if plan.bindings:
        return by_class
    for claim in plan.provisions:
        size = _capacity(claim, snapshot, row)
        if size is not None:
            # Not a sum: the claims share the capacity.
            requested, _ = by_class.get(claim_class(claim), (0, 0))
            requested += amount(claim.spec.resources.requests).value()
            by_class[claim_class(claim)] = requested, size
    return by_class


def _capacity(claim: PersistentVolumeClaim, snapshot: Snapshot, row: int) -> int | None:
    """Returns the bytes of the capacity that a new volume would use; None = not reported."""
    storage = snapshot.storage
    storage_class = storage.storage_class(claim_class(claim))
    driver = storage.driver(storage_class.provisioner) if storage_class is not None else None
    if driver is None or not driver.spec.storage_capacity:
        return None
    capacities = storage.capacities(claim_class(claim))
    if capacities is None or STORAGE not in claim.spec.resources.requests:
        return None
    size_bytes = amount(claim.spec.resources.requests).value()
    size = int(capacities.sizes(size_bytes, np.array([row], dtype=np.intp))[0])
    return size if size >= 0 else None
