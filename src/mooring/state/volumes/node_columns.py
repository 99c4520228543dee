"""Columns of numbers per node, computed from data stored by node name.

Objects about a node (a CSINode, a VolumeAttachment) may arrive before the node, and stay after it
is deleted. So their data is stored by name, and a column is built from it on demand; after that its
owner reports which names have changed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from mooring.state.columns.caches import LRUCache
from mooring.state.tables.nodes import NodeTable, read_only
from mooring.state.types import Ints

#: Maximum number of columns; the least recently used is dropped, and rebuilt on demand.
COLUMNS_MAX: Final = 64


class NodeColumns:
    """Columns int64 of shape (capacity,), by key; ``value(key, node name)`` computes a cell.

    Rows without a name have the value of the name "".
    """

    __slots__ = ("_columns", "_nodes", "_value")

    def __init__(self, nodes: NodeTable, value: Callable[[str, str], int]) -> None:
        self._nodes = nodes
        self._value = value
        self._columns: LRUCache[str, Ints] = LRUCache(COLUMNS_MAX)

    def column(self, key: str) -> Ints:
        """Returns the column of ``key``, read-only. Complexity: O(1), the first time O(rows)."""
        nodes = self._nodes
        column = self._columns.recent(key)
        if column is None or len(column) != nodes.capacity:
            value = self._value
            column = np.full(nodes.capacity, value(key, ""), dtype=np.int64)
            column[: nodes.size] = [value(key, name) for name in nodes.names]
            self._columns.put(key, column)
        return read_only(column)

    def items(self) -> list[tuple[str, Ints]]:
        """Returns the columns that exist, for the audit."""
        return list(self._columns.items())

    def update(self, name: str, key: str | None = None) -> None:
        """Recomputes the values of a node, for one key or (None) for all."""
        row = self._nodes.row(name)
        if row < 0:
            return
        for column_key in self._columns if key is None else (key,):
            column = self._columns.get(column_key)
            if column is not None and row < len(column):
                column[row] = self._value(column_key, name)
