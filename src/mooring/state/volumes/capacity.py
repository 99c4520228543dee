"""How much room is left for new volumes of one class, and from which nodes it can be used.

A CSIStorageCapacity names its part of the cluster by labels, mostly by one: a zone, or the host
itself. For each value of such a label the largest volume that can be made is kept.

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
from mooring.state.volumes.topology import (
    ALL_NODES,
    NodeTopology,
    TopologyMasks,
    one_label,
    reach_of_selector,
)

Bools = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.intp]

#: Less than any size.
_NO_ROOM: Final = -(2**63)


class _ByValue:
    """The largest volume that can be made, for each value of a label."""

    __slots__ = ("_column", "_largest", "_limits", "_version")

    def __init__(self) -> None:
        #: Value -> capacity object -> limit in bytes.
        self._limits: dict[str, dict[str, int]] = {}
        self._forget()

    def _forget(self) -> None:
        self._column: LabelColumn | None = None
        self._version = -1
        self._largest: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is known of any value."""
        return not self._limits

    def put(self, values: tuple[str, ...], object_key: str, limit: int) -> None:
        """An object's limit, where the label has one of the values."""
        for value in values:
            self._limits.setdefault(value, {})[object_key] = limit
            self._renew(value)

    def remove(self, values: tuple[str, ...], object_key: str) -> None:
        """The object is gone."""
        for value in values:
            limits = self._limits[value]
            del limits[object_key]
            if not limits:
                del self._limits[value]
            self._renew(value)

    def largest(self, column: LabelColumn) -> npt.NDArray[np.int64]:
        """The limits by code of the value, one more at the end: of nodes without the label."""
        if self._column is not column or self._version != column.values.version:
            self._column, self._version = column, column.values.version
            self._largest = np.full(len(column.values) + 1, _NO_ROOM, dtype=np.int64)
            for value in self._limits:
                self._renew(value)
        return self._largest

    def _renew(self, value: str) -> None:
        """Corrects one entry of the table, if there is one, and it is of the column as it is."""
        column = self._column
        if column is None or self._version != column.values.version:
            return
        code = column.values.find(value)
        if code >= 0:
            self._largest[code] = max(self._limits.get(value, {}).values(), default=_NO_ROOM)


class Capacities:
    """The capacities of one class. The one owner is Storage."""

    def __init__(self, nodes: NodeTable, reaches: TopologyMasks) -> None:
        self._nodes = nodes
        self._reaches = reaches
        self._known: dict[str, tuple[NodeTopology, int]] = {}
        self._by_label: dict[str, _ByValue] = {}
        #: Those that are not simply by one label.
        self._others: dict[str, tuple[NodeTopology, int]] = {}

    def __len__(self) -> int:
        """How many have a limit and can be used at all."""
        return len(self._known)

    def put(self, object_key: str, capacity: CSIStorageCapacity) -> None:
        """A capacity is new or changed."""
        self.remove(object_key)
        limit = volume_limit(capacity)
        reach = reach_of_selector(capacity.node_topology)
        if limit is None or not reach.terms:
            return
        entry = self._known[object_key] = reach, limit.value()
        label = one_label(reach)
        if label is None:
            self._others[object_key] = entry
        else:
            of_key = self._by_label.setdefault(label.key, _ByValue())
            of_key.put(label.values, object_key, entry[1])

    def remove(self, object_key: str) -> None:
        """A capacity is gone. Unknown ones are fine."""
        entry = self._known.pop(object_key, None)
        if entry is None or self._others.pop(object_key, None) is not None:
            return
        label = one_label(entry[0])
        assert label is not None
        of_key = self._by_label[label.key]
        of_key.remove(label.values, object_key)
        if of_key.is_empty:
            del self._by_label[label.key]

    def can_hold(self, size_bytes: int, rows: Rows) -> Bools:
        """On which of ``rows`` a volume of this size can be made."""
        found = np.zeros(len(rows), dtype=np.bool_)
        for label, of_key in self._by_label.items():
            column = self._nodes.label(label)
            found |= (of_key.largest(column) >= size_bytes)[column.codes[rows]]
        for reach, limit in self._others.values():
            if limit < size_bytes:
                continue
            if reach == ALL_NODES:
                return np.ones(len(rows), dtype=np.bool_)
            found |= self._reaches.mask(reach)[rows]
        return found


class CapacitiesByClass:
    """The capacities of all classes. The one owner is Storage."""

    def __init__(self, nodes: NodeTable, reaches: TopologyMasks) -> None:
        self._nodes = nodes
        self._reaches = reaches
        self._by_class: dict[str, Capacities] = {}
        self._class_of: dict[str, str] = {}

    def get(self, class_name: str) -> Capacities | None:
        """Those of a class; None = nothing is known."""
        return self._by_class.get(class_name)

    def put(self, capacity: CSIStorageCapacity) -> None:
        """A capacity is new or changed."""
        object_key, name = key(capacity), capacity.storage_class_name
        if self._class_of.get(object_key, name) != name:
            self.remove(object_key)
        self._class_of[object_key] = name
        of_class = self._by_class.get(name)
        if of_class is None:
            of_class = self._by_class[name] = Capacities(self._nodes, self._reaches)
        of_class.put(object_key, capacity)

    def remove(self, object_key: str) -> None:
        """A capacity is gone. Unknown ones are fine."""
        of_class = self._by_class.get(self._class_of.pop(object_key, ""))
        if of_class is not None:
            of_class.remove(object_key)
        self._by_class = {name: each for name, each in self._by_class.items() if len(each)}


def volume_limit(capacity: CSIStorageCapacity) -> Quantity | None:
    """Returns the largest volume that can be made there; None = not known."""
    raw = capacity.maximum_volume_size
    if raw is None:
        raw = capacity.capacity
    return None if raw is None else Quantity.from_wire(raw)
