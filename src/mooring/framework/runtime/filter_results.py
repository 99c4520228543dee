"""FilterResults: the status of each node by each filter, and the first filter that rejected it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

from mooring.framework.diagnosis import Diagnosis
from mooring.framework.status import Code, FilterStatuses, Status
from mooring.state.types import Rows

#: ``refused_by`` of a row that is not filtered: no node, or excluded by PreFilter or sampling.
NOT_VISITED = 255

#: Up to this many rows are processed one by one, which is faster than numpy.
FEW_ROWS = 8

#: ``refused_by`` stores the number of the plugin in one byte, beside 0 and NOT_VISITED.
MAX_FILTERS = 254


class FilterResults:
    """The result table of the Filter stage, with one entry per row of the node table.

    ``refused_by`` uint8 shape (capacity,): 0 = feasible, p + 1 = rejected by filter plugin p,
    NOT_VISITED. ``codes[p]`` uint16 shape (capacity,): 0, or 1 + index into ``tables[p]``.
    ``feasible`` is ``refused_by == 0``, and ``count`` how many rows that are.
    """

    __slots__ = (
        "_errors",
        "_numbers",
        "_refused_counts",
        "_rows",
        "_shared_codes",
        "codes",
        "count",
        "feasible",
        "plugins",
        "refused_by",
        "tables",
    )

    def __init__(self, plugins: tuple[str, ...], capacity: int) -> None:
        self.plugins = plugins
        self.refused_by = np.full(capacity, NOT_VISITED, dtype=np.uint8)
        self.feasible = np.zeros(capacity, dtype=np.bool_)
        self.count = 0
        self.codes = [np.zeros(capacity, dtype=np.uint16) for _ in plugins]
        self.tables: list[list[Status]] = [[] for _ in plugins]
        self._numbers: list[dict[Status, int]] = [{} for _ in plugins]
        #: The errors in the tables.
        self._errors: list[Status] = []
        #: The plugins whose codes are shared with the original of this copy (copy on write).
        self._shared_codes: set[int] = set()
        #: The result of ``refused_counts``; None = it has to be computed.
        self._refused_counts: list[int] | None = None
        #: The result of ``feasible_rows``; None = it has to be computed.
        self._rows: Rows | None = None

    def copy(self) -> FilterResults:
        """Returns a copy that can be modified as long as the original is not.

        The tables, which only grow, are shared; codes are copied on write.
        """
        copy = FilterResults((), 0)
        copy.plugins = self.plugins
        copy.refused_by = self.refused_by.copy()
        copy.feasible = self.feasible.copy()
        copy.count = self.count
        copy._rows = self._rows
        if self._refused_counts is not None:
            copy._refused_counts = self._refused_counts.copy()
        copy.codes = list(self.codes)
        copy._shared_codes = set(range(len(self.codes)))
        copy.tables = self.tables
        copy._numbers = self._numbers
        copy._errors = self._errors
        return copy

    def clear(self) -> None:
        """Resets all rows to "not visited". Existing copies are unaffected."""
        self.refused_by.fill(NOT_VISITED)
        self._refused_counts = self._rows = None
        self.feasible.fill(False)
        self.count = 0
        for plugin in self._refusing():
            self.codes[plugin] = np.zeros_like(self.codes[plugin])
        self.tables = [[] for _ in self.plugins]
        self._numbers = [{} for _ in self.plugins]
        self._errors = []

    # -- writing ----------------------------------------------------------------------------------

    def set_codes(self, plugin: int, rows: slice | Rows, statuses: FilterStatuses) -> None:
        """Sets the statuses of ``rows`` by plugin number ``plugin``.

        Call ``recompute_first`` after the codes of all plugins are set.
        """
        self._own(plugin)[rows] = self._translate(plugin, statuses)

    def set_code(self, plugin: int, row: int, status: Status | None) -> bool:
        """Does the same as ``set_codes``, for one row; returns whether the code is another now."""
        code = 0 if status is None else self._number(plugin, status)
        if self.codes[plugin].item(row) == code:
            return False
        self._own(plugin)[row] = code
        return True

    def recompute_first(self, rows: Rows | None, size: int) -> None:
        """Recomputes the first rejection of ``rows`` (None = rows 0 to ``size``)."""
        if rows is None:
            first = np.zeros(size, dtype=np.uint8)
            for plugin in reversed(self._refusing()):
                first[self.codes[plugin][:size] != 0] = plugin + 1
            self._refused_counts = self._rows = None
            self.refused_by[:size] = first
            np.equal(self.refused_by, 0, out=self.feasible)
            self.count = int(np.count_nonzero(self.feasible))
        elif len(rows) <= FEW_ROWS:
            refusing = [(plugin + 1, self.codes[plugin]) for plugin in self._refusing()]
            for row in rows.tolist():
                rejections = (number for number, codes in refusing if codes.item(row))
                self.set_first(row, next(rejections, 0))
        else:
            first = np.zeros(len(rows), dtype=np.uint8)
            for plugin in reversed(self._refusing()):
                first[self.codes[plugin][rows] != 0] = plugin + 1
            self.set_many(rows, first)

    def set_first(self, row: int, first: int) -> None:
        """Sets the first rejection of one row (0 = feasible)."""
        is_feasible = first == 0
        change = is_feasible - self.feasible.item(row)
        if change:
            self.count += change
            self._rows = None
        if self._refused_counts is not None:
            self._refused_counts[self.refused_by.item(row)] -= 1
            self._refused_counts[first] += 1
        self.refused_by[row] = first
        self.feasible[row] = is_feasible

    def set_many(self, rows: Rows, first: npt.NDArray[np.uint8] | int) -> None:
        """Does the same as ``set_first``, for several rows."""
        is_feasible = np.equal(first, 0)
        self.count -= int(np.count_nonzero(self.feasible[rows]))
        if self._refused_counts is not None:
            self._move_counts(rows, first)
        self._rows = None
        self.refused_by[rows] = first
        self.feasible[rows] = is_feasible
        self.count += int(np.count_nonzero(self.feasible[rows]))

    def _move_counts(self, rows: Rows, first: npt.NDArray[np.uint8] | int) -> None:
        """Updates ``refused_counts``; forgets them if the rows differ before or after."""
        counts = self._refused_counts
        if counts is None or not isinstance(first, int) or self.refused_by[rows].any():
            self._refused_counts = None
            return
        counts[0] -= len(rows)
        counts[first] += len(rows)

    def _own(self, plugin: int) -> npt.NDArray[np.uint16]:
        """Returns the plugin's codes for writing; copies them if they are shared."""
        if plugin in self._shared_codes:
            self._shared_codes.remove(plugin)
            self.codes[plugin] = self.codes[plugin].copy()
        return self.codes[plugin]

    def _translate(self, plugin: int, statuses: FilterStatuses) -> npt.NDArray[np.uint16]:
        """Returns the codes of ``statuses``, converted to indexes into this object's table."""
        numbers = self.numbers(plugin, statuses.table)
        if numbers == list(range(len(numbers))):
            return statuses.codes
        return np.array(numbers, dtype=np.uint16)[statuses.codes]

    def numbers(self, plugin: int, statuses: Iterable[Status]) -> list[int]:
        """Returns the code of feasible rows, 0, and that of each status; adds the new ones."""
        return [0, *(self._number(plugin, status) for status in statuses)]

    def own_codes(self, plugin: int) -> npt.NDArray[np.uint16]:
        """Returns the codes of a plugin for writing; they are no longer those of the original."""
        return self._own(plugin)

    def _number(self, plugin: int, status: Status) -> int:
        """Returns the number of a status in the plugin's table; adds it if it is new."""
        numbers = self._numbers[plugin]
        number = numbers.get(status)
        if number is None:
            number = numbers[status] = len(numbers) + 1
            self.tables[plugin].append(status.named(self.plugins[plugin]))
            if status.code is Code.ERROR:
                self._errors.append(status)
        return number

    def _refusing(self) -> list[int]:
        """Returns the plugins that have rejected any row: mostly two or three."""
        return [plugin for plugin, table in enumerate(self.tables) if table]

    # -- reading ----------------------------------------------------------------------------------

    def status(self, row: int) -> Status | None:
        """Returns the first rejection of ``row``; None if it is feasible or was not visited."""
        first = int(self.refused_by[row])
        if first in (0, NOT_VISITED):
            return None
        return self.tables[first - 1][int(self.codes[first - 1][row]) - 1]

    def mask_of_code(self, code: Code, marks: npt.NDArray[np.bool_]) -> None:
        """Sets ``marks``, shape (capacity,), of every rejected row: True if it has this code."""
        for plugin, table in enumerate(self.tables):
            rows = np.flatnonzero(self.refused_by == plugin + 1)
            if len(rows):
                has_code = np.array([False, *(status.code is code for status in table)])
                marks[rows] = has_code[self.codes[plugin][rows]]

    def feasible_rows(self) -> Rows:
        """Returns the rows that every filter accepted, ascending; read-only.

        Attempts that reject the same nodes, with the cached results of one, share the array.
        """
        if self._rows is None:
            # Not marked as read-only: numpy's take copies such an array of indexes first.
            self._rows = self.feasible.nonzero()[0]
        return self._rows

    def refused_rows(self) -> Rows:
        """Returns the rows that some filter rejected, ascending."""
        return np.flatnonzero((self.refused_by != 0) & (self.refused_by != NOT_VISITED))

    def refused_count(self) -> int:
        """Returns the number of rows that some filter rejected."""
        visited = len(self.refused_by) - int(np.count_nonzero(self.refused_by == NOT_VISITED))
        return visited - self.count

    def refused_counts(self) -> list[int]:
        """Returns how many rows have each value of ``refused_by``, length 256; read-only.

        It is kept up to date row by row, so that an attempt after a small change costs nothing.
        """
        if self._refused_counts is None:
            self._refused_counts = np.bincount(self.refused_by, minlength=256).tolist()
        return self._refused_counts

    def status_counts(self) -> Iterator[tuple[Status, int]]:
        """Yields each status and the number of rows whose first rejection it is, by plugin."""
        per_plugin = self.refused_counts()
        for plugin, codes in enumerate(self.codes):
            if not per_plugin[plugin + 1]:
                continue
            counts = np.bincount(codes[self.refused_by == plugin + 1]).tolist()
            for number, count in enumerate(counts):
                if count:
                    yield self.tables[plugin][number - 1], count

    def describe(self, diagnosis: Diagnosis) -> None:
        """Adds the counts of reasons and the plugins to ``diagnosis``."""
        reasons: Counter[str] = diagnosis.reasons
        for status, count in self.status_counts():
            for reason in status.reasons:
                reasons[reason] += count
            diagnosis.note_plugin(status)

    def has_errors(self) -> bool:
        """Returns True if a filter may have failed (rather than rejected) on some node."""
        return bool(self._errors)
