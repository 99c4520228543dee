"""The node table: one row per node in columns, updated in place.

::

    put_node ----> a row with a node --remove_node, no pods--> free row, reused
                      |        ^
       remove_node,   |        |  put_node
       pods left      v        |
                   placeholder row: its pods still count, no pod is scheduled to it
                      ^
      put_pod on a node that the cache does not have yet

A row number means the same node until the next ``await``; code that awaits must keep the node
name, not the row.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from mooring.errors import InvariantViolation
from mooring.objects.node import Node, Taint
from mooring.objects.quantity import wrap_int64
from mooring.objects.requests import allocatable_units
from mooring.state.columns.change_log import Change, ChangeLog
from mooring.state.columns.images import ImageTable
from mooring.state.columns.interner import Interner
from mooring.state.columns.labels import LabelColumn, LabelColumns
from mooring.state.columns.ports import PortTable
from mooring.state.columns.visit_order import VisitOrder, zone_key
from mooring.state.tables.pods import FIXED_RESOURCES, PlacedPod, PodInfo

#: Resource ids that never change; every other resource gets the next free one.
CPU, MEMORY, EPHEMERAL_STORAGE = 0, 1, 2

#: Plain ints: combining flags is slow, and these are written for every pod.
_USAGE = int(Change.USAGE)
_USAGE_AND_PORTS = int(Change.USAGE | Change.PORTS)


def node_allocatable(node: Node) -> dict[str, int]:
    """Returns ``status.allocatable`` in scheduler units: cpu in millicores, the rest in units."""
    return allocatable_units(node.status.allocatable)


#: The columns by row; labels have their own.
_COLUMNS: Final = (
    *("_allocatable", "_requested", "_nonzero", "_pod_count", "_allowed_pods"),
    *("_unschedulable", "_alive", "_taint_ids"),
)


class NodeTable:
    """One row per node. All columns are int64 and shared read-only unless said otherwise.

    - ``allocatable``, ``requested``: shape (n_resources, capacity), one line per resource id.
    - ``nonzero_requested``: shape (2, capacity), cpu millicores and memory bytes.
    - ``pod_count``, ``allowed_pods``: shape (capacity,).
    - ``unschedulable``, ``alive``: bool, shape (capacity,); ``alive`` = the row has a node.
    - ``taint_ids``: int32, shape (capacity,); ids of ``taint_sets``.

    Rows from ``size`` on were never used. Only the Cache writes.
    """

    def __init__(self, capacity: int = 64) -> None:
        self.capacity = capacity
        self.size = 0
        self._node_count = 0
        self.names: list[str] = []
        self.objects: list[Node | None] = []
        self.log = ChangeLog()
        self.images = ImageTable()
        self.ports = PortTable()
        self.order = VisitOrder()
        self.resources: Interner[str] = Interner()
        self.taint_sets: Interner[tuple[Taint, ...]] = Interner()
        self._labels = LabelColumns(capacity)
        self._row_of: dict[str, int] = {}
        self._free: list[int] = []
        self._allocatable_ids: dict[int, tuple[int, ...]] = {}
        self._no_taints = self.taint_sets.acquire(())
        for name in FIXED_RESOURCES:
            self.resources.acquire(name)
        self._allocate(n_resources=8)

    def _allocate(self, n_resources: int) -> None:
        self._allocatable = np.zeros((n_resources, self.capacity), dtype=np.int64)
        self._requested = np.zeros((n_resources, self.capacity), dtype=np.int64)
        self._nonzero = np.zeros((2, self.capacity), dtype=np.int64)
        self._pod_count = np.zeros(self.capacity, dtype=np.int64)
        self._allowed_pods = np.zeros(self.capacity, dtype=np.int64)
        self._unschedulable = np.zeros(self.capacity, dtype=np.bool_)
        self._alive = np.zeros(self.capacity, dtype=np.bool_)
        self._taint_ids = np.full(self.capacity, self._no_taints, dtype=np.int32)
        self._publish()

    def _publish(self) -> None:
        """Makes the public read-only views of the columns."""
        self.allocatable = read_only(self._allocatable)
        self.requested = read_only(self._requested)
        self.nonzero_requested = read_only(self._nonzero)
        self.pod_count = read_only(self._pod_count)
        self.allowed_pods = read_only(self._allowed_pods)
        self.unschedulable = read_only(self._unschedulable)
        self.alive = read_only(self._alive)
        self.taint_ids = read_only(self._taint_ids)

    # -- queries ----------------------------------------------------------------------------

    def __len__(self) -> int:
        """Returns the number of nodes, without placeholder rows."""
        return self._node_count

    def row(self, name: str) -> int:
        """Returns the row of node ``name``, also a placeholder row; -1 if there is none."""
        return self._row_of.get(name, -1)

    def live_row(self, name: str) -> int:
        """Returns the row of node ``name``; -1 if there is no such node (placeholder row)."""
        row = self._row_of.get(name, -1)
        return row if row >= 0 and self.objects[row] is not None else -1

    def node(self, row: int) -> Node:
        """Returns the Node object of a live row.

        Raises:
            InvariantViolation: if the row has no node.
        """
        node = self.objects[row]
        if node is None:
            raise InvariantViolation(f"row {row} has no node")
        return node

    def resource_id(self, name: str) -> int:
        """Returns the id of a resource that a node has or a placed pod requests; -1 otherwise."""
        return self.resources.find(name)

    def label(self, key: str) -> LabelColumn:
        """Returns the column of label ``key``."""
        return self._labels.column(key, self.objects)

    def has_label(self, key: str) -> bool:
        """Returns whether any node has the label ``key``. Complexity: O(1)."""
        return self._labels.has(key)

    @property
    def labels(self) -> LabelColumns:
        """All label columns, for the audit."""
        return self._labels

    # -- changes of nodes ---------------------------------------------------------------------

    def put(self, node: Node) -> int:
        """Adds or updates a node, and returns its row."""
        name = node.metadata.name
        allocatable = node_allocatable(node)  # first: may raise, then nothing has changed
        row = self._row_of.get(name, -1)
        if row < 0:
            row = self._new_row(name)
        before = self.objects[row]
        kinds = _differences(before, node)
        self._node_count += before is None
        self.objects[row] = node
        self._alive[row] = True
        if kinds & (Change.LABELS | Change.EXISTENCE):
            self.order.put(row, zone_key(node.metadata.labels))
            labels_before = before.metadata.labels if before is not None else {}
            self._labels.put(row, labels_before, node.metadata.labels)
        if kinds & (Change.TAINTS | Change.EXISTENCE):
            self._put_taints(row, node.spec.taints)
            self._unschedulable[row] = node.spec.unschedulable
        if kinds & (Change.ALLOCATABLE | Change.EXISTENCE):
            self._put_allocatable(row, allocatable)
        if self.images.put(row, node.status.images):
            kinds |= Change.IMAGES
        if kinds:
            self.log.append(row, kinds)
        return row

    def remove(self, name: str) -> None:
        """Removes a node; if pods remain on it, its row becomes a placeholder row.

        Raises:
            InvariantViolation: if there is no such node.
        """
        row = self.live_row(name)
        if row < 0:
            raise InvariantViolation(f"cannot remove node {name}: no such node")
        self._node_count -= 1
        self.order.remove(row)
        self.images.put(row, ())
        self._labels.put(row, self.node(row).metadata.labels, {})
        self._put_taints(row, ())
        self._put_allocatable(row, {})
        self._unschedulable[row] = False
        self._alive[row] = False
        self.objects[row] = None
        self.log.append(row, Change.ALL)
        if self._pod_count[row] == 0:
            self._free_row(row)

    # -- changes of pods ----------------------------------------------------------------------

    def add_pod(self, info: PodInfo, name: str) -> PlacedPod:
        """Counts a pod on node ``name``; creates a placeholder row for an unknown node."""
        row = self._row_of.get(name, -1)
        if row < 0:
            row = self._new_row(name)
        for resource in info.usage:
            self.resources.acquire(resource)
        if len(self.resources) > len(self._requested):
            self._grow_resources()
        placed = PlacedPod(info, row)
        self._count(placed, 1)
        self.ports.add(row, info.host_ports)
        return placed

    def remove_pod(self, placed: PlacedPod) -> None:
        """Subtracts exactly what ``add_pod`` added."""
        row = placed.row
        self._count(placed, -1)
        self.ports.remove(row, placed.info.host_ports)
        for resource in placed.info.usage:
            self.resources.release(self.resources.ids[resource])
        if self._pod_count[row] == 0 and self.objects[row] is None:
            self._free_row(row)

    def _count(self, placed: PlacedPod, sign: int) -> None:
        row, info = placed.row, placed.info
        requested, ids = self._requested, self.resources.ids
        for resource, amount in info.usage.items():
            _add(requested, ids[resource], row, sign * amount)
        cpu_milli, memory_bytes = info.nonzero_usage
        _add(self._nonzero, 0, row, sign * cpu_milli)
        _add(self._nonzero, 1, row, sign * memory_bytes)
        self._pod_count[row] += sign
        self.log.append(row, _USAGE_AND_PORTS if info.host_ports else _USAGE)

    def recount(self, row: int, placed: Iterable[PlacedPod]) -> None:
        """Sums up again what the pods of a row use: a repair after an audit."""
        self._requested[:, row] = 0
        self._nonzero[:, row] = 0
        self._pod_count[row] = 0
        for pod in placed:
            self._count(pod, 1)
        self.log.append(row, _USAGE)

    # -- rows -----------------------------------------------------------------------------------

    def _new_row(self, name: str) -> int:
        if self._free:
            row = self._free.pop()
            self.names[row] = name
        else:
            row = self.size
            self.size += 1
            self.names.append(name)
            self.objects.append(None)
            if self.size > self.capacity:
                self._grow_rows()
        self._row_of[name] = row
        return row

    def _free_row(self, row: int) -> None:
        del self._row_of[self.names[row]]
        self.names[row] = ""
        self._free.append(row)

    def _grow_rows(self) -> None:
        old_capacity = self.capacity
        self.capacity = 2 * old_capacity
        before = {name: getattr(self, name) for name in _COLUMNS}
        self._allocate(n_resources=len(self._requested))
        for name, column in before.items():
            getattr(self, name)[..., :old_capacity] = column
        self._labels.grow(self.capacity)

    def _grow_resources(self) -> None:
        allocatable, requested = self._allocatable, self._requested
        n_resources = max(2 * len(requested), len(self.resources))
        self._allocatable = np.zeros((n_resources, self.capacity), dtype=np.int64)
        self._requested = np.zeros((n_resources, self.capacity), dtype=np.int64)
        self._allocatable[: len(allocatable)] = allocatable
        self._requested[: len(requested)] = requested
        self._publish()

    # -- one column of one row --------------------------------------------------------------------

    def _put_taints(self, row: int, taints: tuple[Taint, ...]) -> None:
        old = int(self._taint_ids[row])
        new = self.taint_sets.acquire(taints) if taints else self._no_taints
        self._taint_ids[row] = new
        if old != self._no_taints:
            self.taint_sets.release(old)

    def _put_allocatable(self, row: int, amounts: dict[str, int]) -> None:
        self._allowed_pods[row] = amounts.pop("pods", 0)
        new = {self.resources.acquire(name): amount for name, amount in amounts.items()}
        if len(self.resources) > len(self._allocatable):
            self._grow_resources()
        old = self._allocatable_ids.pop(row, ())
        for resource in old:
            self._allocatable[resource, row] = 0
        for resource, amount in new.items():
            self._allocatable[resource, row] = amount
        for resource in old:
            self.resources.release(resource)
        if new:
            self._allocatable_ids[row] = tuple(new)


Scalar = TypeVar("Scalar", bound=np.generic)


def read_only(column: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
    """Returns a read-only view of ``column``."""
    view = column.view()
    view.flags.writeable = False
    return view


def _add(column: npt.NDArray[np.int64], line: int, row: int, amount: int) -> None:
    """Adds to one cell with int64 wraparound, as Go does.

    Plain ints are faster here than numpy's scalars, which would also warn.
    """
    total = column.item(line, row) + amount
    try:
        column[line, row] = total
    except OverflowError:
        column[line, row] = wrap_int64(total)


def _differences(before: Node | None, after: Node) -> int:
    """Returns the kinds of columns in which two versions of a node differ."""
    if before is None:
        return Change.ALL
    kinds = 0
    if before.metadata.labels != after.metadata.labels:
        kinds |= Change.LABELS
    if (before.spec.taints, before.spec.unschedulable) != (
        after.spec.taints,
        after.spec.unschedulable,
    ):
        kinds |= Change.TAINTS
    if before.status.allocatable != after.status.allocatable:
        kinds |= Change.ALLOCATABLE
    if (
        before.metadata.annotations != after.metadata.annotations
        or before.status.conditions != after.status.conditions
        or before.status.declared_features != after.status.declared_features
    ):
        kinds |= Change.OTHER
    return kinds
