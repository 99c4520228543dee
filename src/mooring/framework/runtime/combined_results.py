"""Cached filter results together with the column of a filter that keeps its own results.

The results of DynamicResources depend on claims and devices, which no pod signature contains. So it
is not among the cached plugins, and would be called for all nodes for every pod. But it keeps a
column of results for pods with equal claims, and the log of the rows that changed::

    cached results of the other filters ─┐
                                         ├─▶ CombinedResults, updated for the rows that changed
    column of the plugin ────────────────┘

The combination is kept beside the cached results, one for each column that was used last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from mooring.framework.runtime.filter_results import NOT_VISITED, FilterResults
from mooring.framework.status import Status
from mooring.state.columns.caches import LRUCache
from mooring.state.columns.change_log import ChangeLog
from mooring.state.types import Rows

#: The combinations that are kept for one signature of pods: a node takes four bytes in each.
COLUMNS_MAX: Final = 8

#: After more changed rows than this, the combination is computed anew, which is faster.
CHANGES_MAX: Final = 64


class FilterColumn(Protocol):
    """The results of one filter for pods that it treats alike, by row of the table of nodes.

    Attributes:
        codes: uint16 shape (capacity,): 0 = feasible, or 1 + index into ``rejections``.
        is_unknown: bool shape (capacity,): rows without a result; their codes are 0.
        unknown_count: How many rows that are.
        version: Rises when other rows than those in ``log`` have changed.
        log: The rows with changes; perhaps also rows without.
    """

    codes: npt.NDArray[np.uint16]
    is_unknown: npt.NDArray[np.bool_]
    unknown_count: int
    version: int
    log: ChangeLog

    @property
    def rejections(self) -> Sequence[Status]:
        """The statuses."""
        ...


class CombinedResults:
    """The results of the cached filters and of one column.

    Attributes:
        column: The column.
        results: The statuses of the nodes by all of these filters; read-only for others. It shares
            the codes of the cached filters with their results.
    """

    __slots__ = (
        "_codes",
        "_generation",
        "_number",
        "_numbers",
        "_others",
        "_version",
        "column",
        "results",
    )

    def __init__(
        self, cached: FilterResults, number: int, column: FilterColumn, others: ChangeLog
    ) -> None:
        """Combines the cached results, changed as in ``others``, with filter ``number``."""
        self.column = column
        self.results = results = cached.copy()
        self._number = number
        self._version, self._generation = column.version, column.log.generation
        self._others = others.generation
        #: Code of the column -> code in the results.
        self._numbers = results.numbers(number, column.rejections)
        self._codes = results.own_codes(number)
        self._codes[:] = np.array(self._numbers, dtype=np.uint16)[column.codes]
        refused = column.codes.nonzero()[0]
        refused = refused[_is_reached(cached.refused_by[refused], number)]
        if len(refused):
            results.set_many(refused, number + 1)

    def update(self, cached: FilterResults, others: ChangeLog) -> bool:
        """Updates the rows that changed in the column or in the cached results.

        Returns:
            False if too many have changed: then the results are useless.
        """
        column = self.column
        changed = column.log.rows_since(self._generation)
        also_changed = others.rows_since(self._others)
        if changed is None or also_changed is None or column.version != self._version:
            return False
        rows = {*changed, *also_changed}
        if len(rows) > CHANGES_MAX:
            return False
        self._generation, self._others = column.log.generation, others.generation
        own_first = self._number + 1
        for row in rows:
            first, code = cached.refused_by.item(row), column.codes.item(row)
            self._codes[row] = self._numbers[code]
            is_reached = first == 0 or own_first < first != NOT_VISITED
            self.results.set_first(row, own_first if code and is_reached else first)
        return True


class CombinedCache:
    """The combinations of the cached filter results of one signature of pods with columns."""

    __slots__ = ("_by_column", "_log")

    def __init__(self) -> None:
        #: The columns are kept alive, so that their identities stay theirs.
        self._by_column: LRUCache[int, CombinedResults] = LRUCache(COLUMNS_MAX)
        #: The rows whose cached results changed.
        self._log: ChangeLog | None = None

    def clear(self) -> None:
        """Removes all combinations."""
        self._by_column.clear()

    def note(self, rows: Rows | None) -> None:
        """Notes which cached results have changed; None = those of all rows."""
        if not self._by_column or self._log is None:
            return
        if rows is None or len(rows) > CHANGES_MAX:
            self.clear()
            return
        for row in rows.tolist():
            self._log.append(row, 0)

    def of(self, cached: FilterResults, number: int, column: FilterColumn) -> FilterResults | None:
        """Returns the results of the cached filters and of filter ``number``, read-only.

        None if it has to be called, since a row that the other filters accept has no result yet.

        Complexity: O(rows that changed) for a column that was used before.
        """
        if needs_search(cached, number, column):
            return None
        if self._log is None:
            self._log = ChangeLog(2 * CHANGES_MAX)
        combined = self._by_column.recent(id(column))
        if combined is None or not combined.update(cached, self._log):
            combined = CombinedResults(cached, number, column, self._log)
            self._by_column.put(id(column), combined)
        return combined.results


def needs_search(cached: FilterResults, number: int, column: FilterColumn) -> bool:
    """Returns whether filter ``number`` has to be called for a row without a result."""
    if not column.unknown_count:
        return False
    return bool(_is_reached(cached.refused_by[column.is_unknown], number).any())


def _is_reached(first: npt.NDArray[np.uint8], number: int) -> npt.NDArray[np.bool_]:
    """Returns which rows filter ``number`` decides about: no earlier filter has rejected them."""
    reached: npt.NDArray[np.bool_] = (first == 0) | ((first > number + 1) & (first != NOT_VISITED))
    return reached
