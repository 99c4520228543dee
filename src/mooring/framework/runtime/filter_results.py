"""Which filter refused each node first, and why: the working sheet of the Filter stage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from mooring.framework.diagnosis import Diagnosis
from mooring.framework.status import Code, FilterStatuses, Status

#: ``refused_by`` of a row that is not looked at: no node, or left out by PreFilter or sampling.
NOT_VISITED = 255

#: Up to this many rows are looked at one by one: numpy needs longer to begin.
FEW_ROWS = 8

#: A refusal is stored as the number of its plugin in one byte, beside 0 and NOT_VISITED.
MAX_FILTERS = 254

Rows = npt.NDArray[np.intp]


class FilterResults:
    """One line per row of the node table.

    ``refused_by`` uint8 shape (capacity,): 0 = feasible, p + 1 = refused by filter plugin p,
    NOT_VISITED. ``codes[p]`` uint16 shape (capacity,): 0, or 1 + index into ``tables[p]``.
    ``feasible`` is ``refused_by == 0``, and ``count`` how many rows that are.
    """

    __slots__ = (
        "_borrowed",
        "_errors",
        "_known",
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
        self._known: list[dict[Status, int]] = [{} for _ in plugins]
        #: The errors in the tables.
        self._errors: list[Status] = []
        #: The plugins whose codes are those of the sheet that this is a copy of.
        self._borrowed: set[int] = set()

    def copy(self) -> FilterResults:
        """Returns a copy that can be written to as long as this sheet stays as it is.

        The tables, which only grow, are shared; codes are copied where they are written.
        """
        twin = FilterResults((), 0)
        twin.plugins = self.plugins
        twin.refused_by = self.refused_by.copy()
        twin.feasible = self.feasible.copy()
        twin.count = self.count
        twin.codes = list(self.codes)
        twin._borrowed = set(range(len(self.codes)))
        twin.tables = self.tables
        twin._known = self._known
        twin._errors = self._errors
        return twin

    def clear(self) -> None:
        """Nobody has refused anything, and no row was looked at. Copies of the sheet stay right."""
        self.refused_by.fill(NOT_VISITED)
        self.feasible.fill(False)
        self.count = 0
        for plugin in self._refusing():
            self.codes[plugin] = np.zeros_like(self.codes[plugin])
        self.tables = [[] for _ in self.plugins]
        self._known = [{} for _ in self.plugins]
        self._errors = []

    # -- writing ----------------------------------------------------------------------------------

    def set_codes(self, plugin: int, rows: slice | Rows, verdicts: FilterStatuses) -> None:
        """Notes what plugin number ``plugin`` says of ``rows``.

        Call ``recompute_first`` when all plugins have written.
        """
        self._own(plugin)[rows] = self._translate(plugin, verdicts)

    def write_one(self, plugin: int, row: int, status: Status | None) -> None:
        """As ``set_codes``, of one row."""
        self._own(plugin)[row] = 0 if status is None else self._number(plugin, status)

    def recompute_first(self, rows: Rows | None, size: int) -> None:
        """Finds the first refusal of each of ``rows`` (None = rows 0 to ``size``) anew."""
        if rows is None:
            first = np.zeros(size, dtype=np.uint8)
            for plugin in reversed(self._refusing()):
                first[self.codes[plugin][:size] != 0] = plugin + 1
            self.refused_by[:size] = first
            np.equal(self.refused_by, 0, out=self.feasible)
            self.count = int(np.count_nonzero(self.feasible))
        elif len(rows) <= FEW_ROWS:
            refusing = [(plugin + 1, self.codes[plugin]) for plugin in self._refusing()]
            for row in rows.tolist():
                said = (number for number, codes in refusing if codes.item(row))
                self.set_first(row, next(said, 0))
        else:
            first = np.zeros(len(rows), dtype=np.uint8)
            for plugin in reversed(self._refusing()):
                first[self.codes[plugin][rows] != 0] = plugin + 1
            self.set_many(rows, first)

    def set_first(self, row: int, first: int) -> None:
        """The first refusal of one row (0 = feasible)."""
        is_feasible = first == 0
        self.count += is_feasible - bool(self.feasible[row])
        self.refused_by[row] = first
        self.feasible[row] = is_feasible

    def set_many(self, rows: Rows, first: npt.NDArray[np.uint8] | int) -> None:
        """As ``set_first``, of several rows."""
        is_feasible = np.equal(first, 0)
        self.count -= int(np.count_nonzero(self.feasible[rows]))
        self.refused_by[rows] = first
        self.feasible[rows] = is_feasible
        self.count += int(np.count_nonzero(self.feasible[rows]))

    def _own(self, plugin: int) -> npt.NDArray[np.uint16]:
        """Returns the plugin's codes, to be written to."""
        if plugin in self._borrowed:
            self._borrowed.remove(plugin)
            self.codes[plugin] = self.codes[plugin].copy()
        return self.codes[plugin]

    def _translate(self, plugin: int, verdicts: FilterStatuses) -> npt.NDArray[np.uint16]:
        """Returns the verdicts' codes in terms of this sheet's table."""
        table = verdicts.table
        numbers = [0, *(self._number(plugin, status) for status in table)]
        if numbers == list(range(len(numbers))):
            return verdicts.codes
        return np.array(numbers, dtype=np.uint16)[verdicts.codes]

    def _number(self, plugin: int, status: Status) -> int:
        """Returns the number of a status in the plugin's table, where it is put if it is new."""
        known = self._known[plugin]
        number = known.get(status)
        if number is None:
            number = known[status] = len(known) + 1
            self.tables[plugin].append(status.named(self.plugins[plugin]))
            if status.code is Code.ERROR:
                self._errors.append(status)
        return number

    def _refusing(self) -> list[int]:
        """Returns the plugins that have ever refused a row: mostly two or three."""
        return [plugin for plugin, table in enumerate(self.tables) if table]

    # -- reading ----------------------------------------------------------------------------------

    def status(self, row: int) -> Status | None:
        """Returns the first refusal of ``row``; None if it is feasible or was not looked at."""
        first = int(self.refused_by[row])
        if first in (0, NOT_VISITED):
            return None
        return self.tables[first - 1][int(self.codes[first - 1][row]) - 1]

    def mask_of_code(self, code: Code, marks: npt.NDArray[np.bool_]) -> None:
        """Says in ``marks``, shape (capacity,), of every refused row whether it is by this code."""
        for plugin, table in enumerate(self.tables):
            rows = np.flatnonzero(self.refused_by == plugin + 1)
            if len(rows):
                is_wanted = np.array([False, *(status.code is code for status in table)])
                marks[rows] = is_wanted[self.codes[plugin][rows]]

    def refused_rows(self) -> Rows:
        """Returns the rows that some filter refused, rising."""
        return np.flatnonzero((self.refused_by != 0) & (self.refused_by != NOT_VISITED))

    def refused_count(self) -> int:
        """How many rows some filter refused."""
        visited = len(self.refused_by) - int(np.count_nonzero(self.refused_by == NOT_VISITED))
        return visited - self.count

    def status_counts(self) -> Iterator[tuple[Status, int]]:
        """Each status and the number of rows whose first refusal it is, in plugin order."""
        per_plugin = np.bincount(self.refused_by, minlength=256).tolist()
        for plugin, codes in enumerate(self.codes):
            if not per_plugin[plugin + 1]:
                continue
            counts = np.bincount(codes[self.refused_by == plugin + 1]).tolist()
            for number, count in enumerate(counts):
                if count:
                    yield self.tables[plugin][number - 1], count

    def describe(self, diagnosis: Diagnosis) -> None:
        """Counts the refusals into ``diagnosis``."""
        reasons: Counter[str] = diagnosis.reasons
        for status, count in self.status_counts():
            for reason in status.reasons:
                reasons[reason] += count
            diagnosis.note_plugin(status)

    def has_errors(self) -> bool:
        """Returns whether some filter may have failed (rather than refused) at some node."""
        return bool(self._errors)
