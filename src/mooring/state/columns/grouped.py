"""Per-row counts with cached per-group sums.

Every scheduling cycle needs the pod count of each zone, and between two cycles one row changes. So
recently requested sums are cached, and updated with every change::

    change(row) ──> counts[row]
               └──> sums[group of the row], for each cached grouping
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

#: Per row: counters are int32, sums of several counters int64.
Counts = npt.NDArray[np.integer[Any]]
#: Per group.
Sums = npt.NDArray[np.int64]

#: Groupings cached per column of counts: zones, hosts, and for a while those from before the last
#: change of nodes. At most 40 KB each at 5 000 nodes.
SUMS_CACHED: Final = 4


class Groups(Protocol):
    """A grouping of rows. Immutable, and hashable by identity."""

    def add_up(self, counts: Counts) -> Sums:
        """Returns the sum of the counts in each group, as a new array."""
        ...

    def add(self, sums: Sums, row: int, by: int) -> None:
        """Adds ``by`` to the sum of the group of ``row``; the row may be in no group."""
        ...


class GroupedCounts(ABC):
    """A count per row, with cached sums over groups of rows.

    Complexity: a change is O(cached sums); ``sums_over`` is O(1), the first time O(rows).
    """

    __slots__ = ("_sums",)

    def __init__(self) -> None:
        self._sums: dict[Groups, Sums] = {}

    @abstractmethod
    def column(self) -> Counts:
        """Returns the counts by row, shape (capacity,); read-only."""

    def sums_over(self, groups: Groups) -> Sums:
        """Returns the sum of each group. Read-only, and changes with the counts: copy it."""
        sums = self._sums.get(groups)
        if sums is None:
            if len(self._sums) >= SUMS_CACHED:
                del self._sums[next(iter(self._sums))]  # the oldest
            sums = self._sums[groups] = groups.add_up(self.column())
        return sums

    def cached_sums(self) -> list[tuple[Groups, Sums]]:
        """Returns the cached sums, for the audit."""
        return list(self._sums.items())

    def _changed(self, row: int, by: int) -> None:
        """Updates the cached sums after the count of ``row`` changed by ``by``."""
        for groups, sums in self._sums.items():
            groups.add(sums, row, by)
