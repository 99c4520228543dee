"""Device signatures of nodes: nodes with equal signatures have equal answers for equal claims.

A signature is a number for all that the search for devices reads of a node::

    pools in order ─▶ devices in order ─▶ driver, taints, capacity, and the attributes that a
                                          selector or a constraint has read so far
    devices in use ─▶ which of them, and how much of each

Names of nodes, pools and devices are not part of it, and so most clusters have few signatures: one
search for each decides for all nodes. An attribute counts from the first claim that reads it on. If
claims read an attribute that differs on every device, such as a serial number, every node has a
signature of its own, and every node is searched.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from mooring.dra import AllocatedState, AllocationError, NodePools, Slices, TargetNode
from mooring.dra.compiler import values_of
from mooring.dra.devices import SliceDevice
from mooring.dra.selectors import Names
from mooring.state.columns.change_log import Change, ChangeLog
from mooring.state.devices.changes import DeviceChanges
from mooring.state.tables.nodes import NodeTable
from mooring.state.types import Rows

#: The signature of nodes that share no answers: what counters have left depends on other nodes, and
#: an invalid node selector is an error.
UNSHARED: Final = 0

#: The signature of rows without a node.
NO_NODE: Final = 1

#: The numbers with a meaning of their own.
_RESERVED: Final = 2

#: Numbers in use before they start again: a template keeps one byte for each.
NUMBERS_MAX: Final = 1 << 16

#: Numbers up to which a row of each is looked up; of more, the column gives those in use.
NUMBERS_LISTED: Final = 256

#: Changed rows that are kept; a template that is further behind reads the whole column.
ROWS_MAX: Final = 1 << 12

#: The changes of a node after which its row is another node, or its pools are others.
_OTHER_NODE: Final = int(Change.EXISTENCE | Change.LABELS)


class _Static(NamedTuple):
    """The pools of a node, and their number: all of a signature except what is in use."""

    pools: NodePools
    number: int


class Usage(NamedTuple):
    """Tells nodes with equal pools apart.

    Attributes:
        pools: A number for the pools; equal numbers, equal pools.
        alone: The devices that are in use, without shares: bit ``1 << position`` for each.
        shares: What the shares of shared devices consume; empty = there are none.
    """

    pools: int
    alone: int
    shares: Hashable


class NodeSignatures:
    """The signatures of all nodes, updated by the nodes that changed. Owned by ``Devices``.

    Attributes:
        column: intp shape (capacity,): the signature of each row of the table of nodes.
        epoch: Rises when numbers lose their meaning.
        layout: Rises when the whole column is computed anew.
        log: The rows whose signature changed since then.
        count: Numbers in use, the reserved ones included.
    """

    def __init__(self, slices: Slices, allocated: AllocatedState, changes: DeviceChanges) -> None:
        self.column: npt.NDArray[np.intp] = np.zeros(0, dtype=np.intp)
        self.epoch = 0
        self.layout = 0
        self.log = ChangeLog(ROWS_MAX)
        self._slices = slices
        self._allocated = allocated
        self._changes = changes
        #: The attributes that count; None = all.
        self._names: Names = frozenset()
        self._contents: dict[Hashable, int] = {}
        self._signatures: dict[Usage, int] = {}
        #: The keys of ``_signatures``, in the order of their numbers.
        self._usages: list[Usage] = []
        #: By number: the row that got it last, which may have another by now; -1 = no row has it.
        self._row_of: list[int] = [-1] * _RESERVED
        self._static: dict[str, _Static] = {}
        self._table: NodeTable | None = None
        self._generation = 0
        self._node_generation = 0

    @property
    def count(self) -> int:
        """The numbers in use, the reserved ones included."""
        return len(self._signatures) + _RESERVED

    @property
    def names(self) -> Names:
        """The attributes that count; None = all."""
        return self._names

    def read(self, names: Names) -> None:
        """Lets signatures differ by these attributes from now on; None = by all."""
        before = self._names
        if before is None or (names is not None and names <= before):
            return
        self._names = None if names is None else before | names
        self._restart()

    def refresh(self, nodes: NodeTable) -> None:
        """Updates the column. Once per attempt, before it is read.

        Complexity: O(nodes with changes x their devices).
        """
        if len(self._signatures) >= NUMBERS_MAX:
            self._restart()
        names = self._changes.since(self._generation)
        others = None
        if nodes is self._table:
            others = nodes.log.rows_with(_OTHER_NODE, self._node_generation)
        self._generation = self._changes.generation
        self._table, self._node_generation = nodes, nodes.log.generation
        if names is None or others is None or len(self.column) != nodes.capacity:
            self._recompute(nodes)
            return
        rows = {nodes.live_row(name) for name in names}
        rows.update(others)
        for row in rows:
            if row >= 0:
                self._set(row, self.of(nodes, row))

    def of(self, nodes: NodeTable, row: int) -> int:
        """Returns the signature of a row, computed anew."""
        node = nodes.objects[row]
        if node is None:
            return NO_NODE
        name = node.metadata.name
        target = TargetNode(name, node.metadata.labels)
        try:
            pools = self._slices.pools(target)
        except AllocationError:
            return UNSHARED
        if pools.has_counters:
            return UNSHARED
        static = self._static.get(name)
        if static is None or static.pools is not pools:
            static = _Static(pools, self._number_of(pools, target))
            self._static[name] = static
        usage = Usage(static.number, *self._in_use(pools))
        number = self._signatures.get(usage)
        if number is None:
            number = self._signatures[usage] = self.count
            self._usages.append(usage)
            self._row_of.append(-1)
        return number

    def usage(self, number: int) -> Usage:
        """Returns what a signature stands for; not one of the reserved numbers."""
        return self._usages[number - _RESERVED]

    def one_row_of_each(self, rows: Rows | None = None) -> list[tuple[int, int]]:
        """Returns the numbers that nodes have, without the reserved ones, each with a row.

        Args:
            rows: The rows of some nodes; None = all nodes.

        Complexity: O(rows); for all nodes mostly O(numbers), if these are few.
        """
        if rows is None and self.count <= NUMBERS_LISTED:
            return self._rows_set_last()
        row_of = np.full(self.count, -1, dtype=np.intp)
        # Of several entries for a number the last one stays.
        if rows is None:
            row_of[self.column] = np.arange(len(self.column))
        else:
            row_of[self.column.take(rows)] = rows
        numbers = (row_of >= 0).nonzero()[0].tolist()
        return [(number, row_of.item(number)) for number in numbers if number >= _RESERVED]

    def _rows_set_last(self) -> list[tuple[int, int]]:
        """Returns the numbers of all nodes, each with the row that got it last if it still has it.

        Complexity: O(numbers), and O(rows) for those whose row has changed since the last call.
        """
        pairs = []
        for number in range(_RESERVED, self.count):
            row = self._row_of[number]
            if row >= 0 and self.column.item(row) != number:
                has_number = self.column == number
                row = int(has_number.argmax())
                row = self._row_of[number] = row if has_number.item(row) else -1
            if row >= 0:
                pairs.append((number, row))
        return pairs

    def _number_of(self, pools: NodePools, node: TargetNode) -> int:
        content = tuple(
            (pool.state, *[self._content_of(device, node) for device in pool.devices])
            for pool in pools.pools
        )
        return self._contents.setdefault(content, len(self._contents))

    def _content_of(self, device: SliceDevice, node: TargetNode) -> int:
        """Returns a number for what selectors, constraints and limits read of a device."""
        content = (
            device.driver,
            device.allows_sharing,
            device.is_selectable,
            device.is_blocked,
            device.is_on(node),
            device.problem,
            values_of(device, self._names),
            tuple(device.device.capacity.items()),
            device.taints,
        )
        return self._contents.setdefault(content, len(self._contents))

    def _in_use(self, pools: NodePools) -> tuple[int, Hashable]:
        """Returns which devices are in use alone, and what the shares of the others consume."""
        dedicated, consumed = self._allocated.dedicated, self._allocated.consumed
        ids = pools.ids
        alone = 0
        if dedicated:
            for i, device in enumerate(ids):
                if device in dedicated:
                    alone |= 1 << i
        if not consumed:
            return alone, ()
        shares = tuple(
            (i, tuple(sorted(consumed[device].items())))
            for i, device in enumerate(ids)
            if device in consumed
        )
        return alone, shares

    def _set(self, row: int, signature: int) -> None:
        if self.column.item(row) != signature:
            self.column[row] = signature
            self._row_of[signature] = row
            self.log.append(row, 0)

    def _recompute(self, nodes: NodeTable) -> None:
        self.layout += 1
        self.column = np.full(nodes.capacity, NO_NODE, dtype=np.intp)
        for name in self._static.keys() - set(nodes.names):
            del self._static[name]
        for row in np.flatnonzero(nodes.alive).tolist():
            self.column[row] = number = self.of(nodes, row)
            self._row_of[number] = row

    def _restart(self) -> None:
        """Forgets all numbers."""
        self.epoch += 1
        self._table = None
        self._contents.clear()
        self._signatures.clear()
        self._usages.clear()
        self._row_of = [-1] * _RESERVED
        self._static.clear()
