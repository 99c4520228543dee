"""Numbers per node, from what is known by the node's name, as columns over the rows.

What other objects say of a node (a CSINode, a VolumeAttachment) may come before the node does, and
stay when it is gone. So it is kept by name, and a column is made of it when somebody asks; after
that whoever keeps it says which names have changed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt

from mooring.state.tables.nodes import NodeTable, read_only

Ints = npt.NDArray[np.int64]

#: Columns kept at most; the one unused for longest is dropped and made again when asked for.
COLUMNS_MAX: Final = 64


class NodeColumns:
    """Columns int64 of shape (capacity,), by key; ``value(key, node name)`` says what is in them.

    Rows that have no name have what is in them for the name "".
    """

    __slots__ = ("_columns", "_nodes", "_value")

    def __init__(self, nodes: NodeTable, value: Callable[[str, str], int]) -> None:
        self._nodes = nodes
        self._value = value
        self._columns: OrderedDict[str, Ints] = OrderedDict()

    def column(self, key: str) -> Ints:
        """The column of ``key``, read only. Complexity: O(rows) the first time, then O(1)."""
        nodes = self._nodes
        column = self._columns.get(key)
        if column is None or len(column) != nodes.capacity:
            value = self._value
            column = np.full(nodes.capacity, value(key, ""), dtype=np.int64)
            column[: nodes.size] = [value(key, name) for name in nodes.names]
            self._columns[key] = column
            if len(self._columns) > COLUMNS_MAX:
                self._columns.popitem(last=False)
        self._columns.move_to_end(key)
        return read_only(column)

    def items(self) -> list[tuple[str, Ints]]:
        """Returns the columns that exist, for the audit."""
        return [(key, column) for key, column in self._columns.items()]

    def update(self, name: str, key: str | None = None) -> None:
        """What is known of a node has changed, for one key or (None) for all."""
        row = self._nodes.row(name)
        if row < 0:
            return
        for each in self._columns if key is None else (key,):
            column = self._columns.get(each)
            if column is not None and row < len(column):
                column[row] = self._value(each, name)
