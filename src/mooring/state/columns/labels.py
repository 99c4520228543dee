"""Node labels as columns: one int32 code per row, for the requested keys.

A selector is then evaluated once per distinct value instead of once per node: look the values up
in ``LabelColumn.values``, build a table of results by code, and index it with ``codes``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from mooring.objects.node import Node
from mooring.state.columns.caches import LRUCache
from mooring.state.columns.interner import Interner

#: The code of a row that does not have the label.
MISSING = -1

#: Maximum number of columns; the least recently used is dropped, and rebuilt on demand.
#: 256 keys x 5 000 nodes x 4 bytes = 5 MB.
COLUMN_LIMIT = 256


class LabelColumn:
    """The values of one label key: ``codes`` int32 shape (capacity,), ``MISSING`` where absent."""

    __slots__ = ("codes", "values")

    def __init__(self, capacity: int) -> None:
        self.codes: npt.NDArray[np.int32] = np.full(capacity, MISSING, dtype=np.int32)
        self.values: Interner[str] = Interner()

    def put(self, row: int, value: str | None) -> None:
        """Sets the value of ``row``; None = it does not have the label."""
        old = int(self.codes[row])
        self.codes[row] = MISSING if value is None else self.values.acquire(value)
        if old != MISSING:
            self.values.release(old)

    def fill(self, values: Sequence[str | None]) -> None:
        """Sets the values of the rows from 0 on; the column must be empty."""
        codes: dict[str | None, int] = {
            value: MISSING if value is None else self.values.acquire(value, ref_count)
            for value, ref_count in Counter(values).items()
        }
        self.codes[: len(values)] = [codes[value] for value in values]

    def grow(self, capacity: int) -> None:
        """Grows to ``capacity`` rows."""
        codes = np.full(capacity, MISSING, dtype=np.int32)
        codes[: len(self.codes)] = self.codes
        self.codes = codes


class LabelColumns:
    """The label columns of a node table, built on demand and then kept up to date."""

    __slots__ = ("_absent", "_capacity", "_columns", "_holders")

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._columns: LRUCache[str, LabelColumn] = LRUCache(COLUMN_LIMIT)
        #: Key -> number of rows that have it.
        self._holders: dict[str, int] = {}
        #: The column of every key that no row has.
        self._absent = LabelColumn(capacity)

    def has(self, key: str) -> bool:
        """Returns whether any row has the label."""
        return key in self._holders

    def column(self, key: str, nodes: Sequence[Node | None]) -> LabelColumn:
        """Returns the column of ``key``; valid until labels change.

        ``nodes`` are those by row (None = no node there), read only if the column has to be built.
        Complexity: O(rows) the first time, O(1) afterwards, and for keys that no row has: a pod may
        name a thousand of those.
        """
        column = self._columns.recent(key)
        if column is not None:
            return column
        if key not in self._holders:
            return self._absent
        column = LabelColumn(self._capacity)
        column.fill([None if node is None else node.metadata.labels.get(key) for node in nodes])
        return self._columns.put(key, column)

    def put(self, row: int, before: Mapping[str, str], labels: Mapping[str, str]) -> None:
        """Updates the labels of ``row`` from ``before`` to ``labels``; empty without a node."""
        for key in labels:
            self._holders[key] = self._holders.get(key, 0) + 1
        for key in before:
            self._holders[key] -= 1
            if not self._holders[key]:
                del self._holders[key]
        for key, column in self._columns.items():
            column.put(row, labels.get(key))

    def grow(self, capacity: int) -> None:
        """Grows to ``capacity`` rows."""
        self._capacity = capacity
        for column in (self._absent, *self._columns.values()):
            column.grow(capacity)

    def items(self) -> list[tuple[str, LabelColumn]]:
        """Returns the columns that exist, for the audit."""
        return list(self._columns.items())

    def ref_count(self) -> dict[str, int]:
        """Returns key -> number of rows that have it, for the audit."""
        return dict(self._holders)
