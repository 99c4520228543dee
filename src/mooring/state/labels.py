"""Node labels as columns: one int32 code per row, for the keys that somebody asked for.

A selector is then evaluated once per distinct value instead of once per node: look the values up
in ``LabelColumn.values``, build a table of answers by code, and index it with ``codes``.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from mooring.state.interner import Interner

#: The code of a row that does not have the label.
MISSING = -1

#: Columns kept at most; the one unused for longest is dropped and rebuilt when asked for again.
#: 256 keys x 5 000 nodes x 4 bytes = 5 MB.
COLUMN_LIMIT = 256


class LabelColumn:
    """The values of one label key: ``codes`` int32 shape (capacity,), ``MISSING`` where absent."""

    __slots__ = ("codes", "values")

    def __init__(self, capacity: int) -> None:
        self.codes: npt.NDArray[np.int32] = np.full(capacity, MISSING, dtype=np.int32)
        self.values: Interner[str] = Interner()

    def put(self, row: int, value: str | None) -> None:
        """Row ``row`` has ``value`` now; None = the label is gone."""
        old = int(self.codes[row])
        self.codes[row] = MISSING if value is None else self.values.acquire(value)
        if old != MISSING:
            self.values.release(old)

    def grow(self, capacity: int) -> None:
        """Make room for ``capacity`` rows."""
        codes = np.full(capacity, MISSING, dtype=np.int32)
        codes[: len(self.codes)] = self.codes
        self.codes = codes


class LabelColumns:
    """The label columns of a node table, made when first asked for and kept up to date since."""

    __slots__ = ("_capacity", "_columns")

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._columns: OrderedDict[str, LabelColumn] = OrderedDict()

    def column(self, key: str, labels: Sequence[Mapping[str, str] | None]) -> LabelColumn:
        """The column of ``key``.

        ``labels`` are the label maps by row (None = no node there), read only if the column has
        to be built. Complexity: O(rows) the first time, O(1) afterwards.
        """
        column = self._columns.get(key)
        if column is not None:
            self._columns.move_to_end(key)
            return column
        column = LabelColumn(self._capacity)
        for row, of_row in enumerate(labels):
            if of_row is not None and key in of_row:
                column.put(row, of_row[key])
        self._columns[key] = column
        if len(self._columns) > COLUMN_LIMIT:
            self._columns.popitem(last=False)
        return column

    def put(self, row: int, labels: Mapping[str, str]) -> None:
        """Row ``row`` carries ``labels`` now (an empty map if its node is gone)."""
        for key, column in self._columns.items():
            column.put(row, labels.get(key))

    def grow(self, capacity: int) -> None:
        """Make room for ``capacity`` rows."""
        self._capacity = capacity
        for column in self._columns.values():
            column.grow(capacity)

    def items(self) -> list[tuple[str, LabelColumn]]:
        """The columns that exist, for the audit."""
        return list(self._columns.items())
