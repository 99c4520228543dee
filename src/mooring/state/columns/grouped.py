"""Counts per row, with sums of them over groups of rows that are kept up to date.

Pod after pod asks how many others there are in each zone, and between two of them one row has
changed. So sums that were asked for lately stay beside the counts, and follow every change::

    change(row) ──> counts[row]
               └──> sums[group of the row], for each way of grouping that is kept
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

#: Per row: counters count in int32, sums of several are int64.
Counts = npt.NDArray[np.integer[Any]]
#: Per group.
Sums = npt.NDArray[np.int64]

#: Ways of grouping that are kept for one column of counts: zones, hosts, and those for a while
#: that were before the nodes changed. 40 KB each at most, at 5 000 nodes.
SUMS_KEPT: Final = 4


class Groups(Protocol):
    """A way of grouping rows; it never changes, and stands for itself as a key."""

    def add_up(self, counts: Counts) -> Sums:
        """What counts per row come to in each group, the caller's own array."""
        ...

    def add(self, sums: Sums, row: int, by: int) -> None:
        """Changes sums as ``by`` more on ``row`` changes them; it may be a row of no group."""
        ...


class GroupedCounts(ABC):
    """A count per row, and the sums over groups of rows that were asked for lately.

    Complexity: a change costs O(sums kept); ``sums_over`` O(1), the first time O(rows).
    """

    __slots__ = ("_sums",)

    def __init__(self) -> None:
        self._sums: dict[Groups, Sums] = {}

    @abstractmethod
    def column(self) -> Counts:
        """Returns the counts by row, shape (capacity,); read only."""

    def sums_over(self, groups: Groups) -> Sums:
        """What the counts come to in each group. Read only; it follows the counts: copy it."""
        sums = self._sums.get(groups)
        if sums is None:
            if len(self._sums) >= SUMS_KEPT:
                del self._sums[next(iter(self._sums))]  # the first that came
            sums = self._sums[groups] = groups.add_up(self.column())
        return sums

    def kept(self) -> list[tuple[Groups, Sums]]:
        """Returns the sums that are kept, for the audit."""
        return list(self._sums.items())

    def _changed(self, row: int, by: int) -> None:
        """The count of ``row`` has changed by so much."""
        for groups, sums in self._sums.items():
            groups.add(sums, row, by)
