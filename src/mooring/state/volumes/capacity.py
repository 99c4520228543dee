"""Storage capacity for new volumes of each class, by the nodes that can use it.

A CSIStorageCapacity selects its nodes by labels, mostly by one: a zone, or the host name. The
largest volume that can be provisioned is stored per value of such a label.

Source: pkg/scheduler/framework/plugins/volumebinding/binder.go (hasEnoughCapacity, volumeLimit).
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from mooring.objects.meta import key
from mooring.objects.quantity import Quantity
from mooring.objects.storage import CSIStorageCapacity
from mooring.state.columns.labels import LabelColumn
from mooring.state.tables.nodes import NodeTable
from mooring.state.types import Bools, Ints, Rows
from mooring.state.volumes.topology import (
    ALL_NODES,
    NodeTopology,
    TopologyMasks,
    one_label,
    topology_of_selector,
)

#: Less than any size.
_NO_CAPACITY: Final = -(2**63)


class _ByValue:
    """The largest volume that can be provisioned, per value of a label."""

    __slots__ = ("_column", "_largest", "_limits", "_version")

    def __init__(self) -> None:
        #: Value -> capacity object -> limit in bytes.
        self._limits: dict[str, dict[str, int]] = {}
        self._reset()

    def _reset(self) -> None:
        self._column: LabelColumn | None = None
        self._version = -1
        self._largest: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)

    @property
    def is_empty(self) -> bool:
        """True if no value has a limit."""
        return not self._limits

    def put(self, values: tuple[str, ...], object_key: str, limit: int) -> None:
        """Adds an object's limit for nodes with one of the values."""
        for value in values:
            self._limits.setdefault(value, {})[object_key] = limit
            self._update_value(value)

    def remove(self, values: tuple[str, ...], object_key: str) -> None:
        """Removes an object's limit."""
        for value in values:
            limits = self._limits[value]
            del limits[object_key]
            if not limits:
                del self._limits[value]
            self._update_value(value)

    def largest(self, column: LabelColumn) -> npt.NDArray[np.int64]:
        """Returns the limits by value code, with a last entry for nodes without the label."""
        if self._column is not column or self._version != column.values.version:
            self._column, self._version = column, column.values.version
            self._largest = np.full(len(column.values) + 1, _NO_CAPACITY, dtype=np.int64)
            for value in self._limits:
                self._update_value(value)
        return self._largest

    def _update_value(self, value: str) -> None:
        """Updates one entry of the table, if the table is current."""
        column = self._column
        if column is None or self._version != column.values.version:
            return
        code = column.values.find(value)
        if code >= 0:
            self._largest[code] = max(self._limits.get(value, {}).values(), default=_NO_CAPACITY)


class Capacities:
    """The capacities of one class. Owned by Storage."""

    def __init__(self, nodes: NodeTable, reaches: TopologyMasks) -> None:
        self._nodes = nodes
        self._reaches = reaches
        self._limits_by_object: dict[str, tuple[NodeTopology, int]] = {}
        #: The field ``capacity`` of each, in bytes.
        self._sizes: dict[str, int] = {}
        self._by_label: dict[str, _ByValue] = {}
        #: Capacities whose topology is not given by one label.
        self._others: dict[str, tuple[NodeTopology, int]] = {}

    def __len__(self) -> int:
        """Returns the number of capacities with a limit and a topology."""
        return len(self._limits_by_object)

    def put(self, object_key: str, capacity: CSIStorageCapacity) -> None:
        """Adds or updates a capacity."""
        self.remove(object_key)
        limit = volume_limit(capacity)
        reach = topology_of_selector(capacity.node_topology)
        if limit is None or not reach.terms:
            return
        entry = self._limits_by_object[object_key] = reach, limit.value()
        size = capacity.capacity
        self._sizes[object_key] = 0 if size is None else Quantity.from_wire(size).value()
        label = one_label(reach)
        if label is None:
            self._others[object_key] = entry
        else:
            of_key = self._by_label.setdefault(label.key, _ByValue())
            of_key.put(label.values, object_key, entry[1])

    def remove(self, object_key: str) -> None:
        """Removes a capacity. Unknown keys are ignored."""
        entry = self._limits_by_object.pop(object_key, None)
        self._sizes.pop(object_key, None)
        if entry is None or self._others.pop(object_key, None) is not None:
            return
        label = one_label(entry[0])
        assert label is not None
        of_key = self._by_label[label.key]
        of_key.remove(label.values, object_key)
        if of_key.is_empty:
            del self._by_label[label.key]

    def can_hold(self, size_bytes: int, rows: Rows) -> Bools:
        """Returns a mask of the rows on which a volume of this size can be provisioned."""
        mask = np.zeros(len(rows), dtype=np.bool_)
        for label, of_key in self._by_label.items():
            column = self._nodes.label(label)
            mask |= (of_key.largest(column) >= size_bytes)[column.codes[rows]]
        for reach, limit in self._others.values():
            if limit < size_bytes:
                continue
            if reach == ALL_NODES:
                return np.ones(len(rows), dtype=np.bool_)
            mask |= self._reaches.mask(reach)[rows]
        return mask

    def sizes(self, size_bytes: int, rows: Rows) -> Ints:
        """Returns the capacity, in bytes, from which each row gets a volume of this size; -1: none.

        Of several the first by name counts. Complexity: O(rows x capacities).
        """
        sizes = np.full(len(rows), -1, dtype=np.int64)
        for object_key in sorted(self._limits_by_object, reverse=True):
            reach, limit = self._limits_by_object[object_key]
            if limit >= size_bytes:
                mask = slice(None) if reach == ALL_NODES else self._reaches.mask(reach)[rows]
                sizes[mask] = self._sizes[object_key]
        return sizes


class CapacitiesByClass:
    """The capacities of all classes. Owned by Storage."""

    def __init__(self, nodes: NodeTable, reaches: TopologyMasks) -> None:
        self._nodes = nodes
        self._reaches = reaches
        self._by_class: dict[str, Capacities] = {}
        self._class_of: dict[str, str] = {}

    def get(self, class_name: str) -> Capacities | None:
        """Returns the capacities of a class; None = there are none."""
        return self._by_class.get(class_name)

    def put(self, capacity: CSIStorageCapacity) -> None:
        """Adds or updates a capacity."""
        object_key, name = key(capacity), capacity.storage_class_name
        if self._class_of.get(object_key, name) != name:
            self.remove(object_key)
        self._class_of[object_key] = name
        of_class = self._by_class.get(name)
        if of_class is None:
            of_class = self._by_class[name] = Capacities(self._nodes, self._reaches)
        of_class.put(object_key, capacity)

    def remove(self, object_key: str) -> None:
        """Removes a capacity. Unknown keys are ignored."""
        of_class = self._by_class.get(self._class_of.pop(object_key, ""))
        if of_class is not None:
            of_class.remove(object_key)
        self._by_class = {name: free for name, free in self._by_class.items() if len(free)}


def volume_limit(capacity: CSIStorageCapacity) -> Quantity | None:
    """Returns the largest volume that can be provisioned there; None = unknown."""
    raw = capacity.maximum_volume_size
    if raw is None:
        raw = capacity.capacity
    return None if raw is None else Quantity.from_wire(raw)
