"""NodeView: the nodes as plugins see them, as columns of length m.

Each of the m nodes is a row of the node table, or a hypothetical node: such a row with pods added
(nominated pods) or removed (victims). A filter treats both alike, so the same code filters nodes,
evaluates nominated pods, and does the dry runs of preemption.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from mooring.deprecated import RenamedAttribute
from mooring.framework.node_info import NodeInfo
from mooring.framework.pod_deltas import COUNT, USAGE, Amount, PodsPerNode, RemovedPods, pick, sums
from mooring.objects.node import Taint
from mooring.state.columns.labels import LabelColumn
from mooring.state.columns.ports import HostPort, conflicts
from mooring.state.snapshot import Snapshot
from mooring.state.tables.counters import CounterKey, CounterKeys
from mooring.state.tables.nodes import NodeTable, Scalar, read_only
from mooring.state.tables.pods import PodInfo
from mooring.state.types import Bools, Ints, Rows

#: The resources with defaults for missing requests, in the table's order.
NONZERO = ("cpu", "memory")


class NodeView:
    """m nodes, perhaps hypothetical ones, as read-only columns of shape (m,). Rows may repeat.

    Example::

        free = nodes.allocatable("cpu") - nodes.requested("cpu")
        return FilterStatuses.reject(free < cycle.pod.requests["cpu"], Reject("Insufficient cpu"))
    """

    __slots__ = ("_added", "_length", "_removed", "_rows", "snapshot")

    everything = RenamedAttribute("everything", "all_nodes")
    where = RenamedAttribute("where", "subset")

    def __init__(
        self,
        snapshot: Snapshot,
        rows: Rows | None = None,
        *,
        added: PodsPerNode | None = None,
        removed: PodsPerNode | None = None,
    ) -> None:
        """Views ``rows``; None = every row of the table, all of which must have a node."""
        self.snapshot = snapshot
        self._rows = rows
        self._length = snapshot.nodes.size if rows is None else len(rows)
        self._added = added
        self._removed = removed

    @classmethod
    def all_nodes(cls, snapshot: Snapshot) -> NodeView:
        """Returns a view of every node, without deltas."""
        nodes = snapshot.nodes
        if len(nodes) == nodes.size:
            return cls(snapshot)
        return cls(snapshot, np.flatnonzero(nodes.alive[: nodes.size]))

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[NodeInfo]:
        """Yields the nodes as plain objects; much slower than columns."""
        return (self.info(position) for position in range(self._length))

    # -- which nodes ------------------------------------------------------------------------------

    @property
    def rows(self) -> Rows:
        """The row of each node, intp."""
        if self._rows is None:
            return _first_rows(self._length)
        return self._rows

    @property
    def names(self) -> list[str]:
        """The name of each node."""
        names = self._nodes.names
        return [names[row] for row in self.rows.tolist()]

    def info(self, position: int) -> NodeInfo:
        """Returns one node as a plain object."""
        row = position if self._rows is None else int(self._rows[position])
        added = self._added[position] if self._added is not None else ()
        removed = self._removed[position] if self._removed is not None else ()
        return NodeInfo(self.snapshot, row, added, removed)

    # -- columns ----------------------------------------------------------------------------------

    def allocatable(self, resource: str) -> Ints:
        """Returns the allocatable ``resource``: millicores, bytes, units; 0 where unknown."""
        return self._resource(self._nodes.allocatable, resource)

    def requested(self, resource: str) -> Ints:
        """Returns the amount of ``resource`` that the pods of each node request."""
        amounts = self._resource(self._nodes.requested, resource)
        if not self.has_deltas:
            return amounts
        return amounts + self.change(lambda pod: pod.usage.get(resource, 0), (USAGE, resource))

    def nonzero_requested(self, resource: str) -> Ints:
        """Returns ``requested`` of cpu or memory, with defaults for missing requests."""
        index = NONZERO.index(resource)
        amounts = self.take(self._nodes.nonzero_requested[index])
        if not self.has_deltas:
            return amounts
        return amounts + self.change(lambda pod: pod.nonzero_usage[index], ("nonzero", index))

    def allocatables(self, resources: Sequence[str]) -> Ints:
        """Returns ``allocatable`` of several resources: shape (k, m)."""
        return self._lines(self._nodes.allocatable, self._ids(resources))

    def requesteds(self, resources: Sequence[str]) -> Ints:
        """Returns ``requested`` of several resources: shape (k, m)."""
        if self.has_deltas:
            return self._stack([self.requested(name) for name in resources])
        return self._lines(self._nodes.requested, self._ids(resources))

    def nonzero_requesteds(self, resources: Sequence[str]) -> Ints:
        """Returns ``nonzero_requested`` of cpu and memory, ``requested`` of others: (k, m)."""
        if not self.has_deltas and tuple(resources) == NONZERO:
            return self._lines(self._nodes.nonzero_requested, [0, 1])
        return self._stack(
            [
                self.nonzero_requested(name) if name in NONZERO else self.requested(name)
                for name in resources
            ]
        )

    @property
    def pod_count(self) -> Ints:
        """The number of pods of each node."""
        count = self.take(self._nodes.pod_count)
        return count if not self.has_deltas else count + self.change(lambda _: 1, COUNT)

    @property
    def allowed_pods(self) -> Ints:
        """The maximum number of pods of each node."""
        return self.take(self._nodes.allowed_pods)

    @property
    def unschedulable(self) -> Bools:
        """True for nodes that are cordoned."""
        return self.take(self._nodes.unschedulable)

    @property
    def taint_ids(self) -> npt.NDArray[np.int32]:
        """The id of each node's set of taints; index ``taint_sets`` with it."""
        return self.take(self._nodes.taint_ids)

    @property
    def taint_sets(self) -> list[tuple[Taint, ...] | None]:
        """The sets of taints by id; None where an id is free."""
        return self._nodes.taint_sets.values()

    def label(self, key: str) -> tuple[npt.NDArray[np.int32], LabelColumn]:
        """Returns the codes of label ``key``, int32 shape (m,), -1 = absent, and their column."""
        column = self._nodes.label(key)
        return self.take(column.codes), column

    def has_port_conflict(self, ports: Iterable[HostPort]) -> Bools:
        """Returns the nodes where a pod uses a host port that conflicts with one of ``ports``."""
        ports = tuple(ports)

        def count_of(pod: PodInfo) -> int:
            return sum(any(conflicts(port, used) for port in ports) for used in pod.host_ports)

        if isinstance(self._removed, RemovedPods):
            by_added: Bools = sums(self._added, count_of, None, self._length) > 0
            return by_added | self._removed.has_port_conflict(ports, self.rows)
        count_by_row = np.zeros(self._nodes.capacity, dtype=np.int64)
        counts = self._nodes.ports.rows_in_conflict(ports)
        count_by_row[list(counts)] = list(counts.values())
        count = self.take(count_by_row)
        return count > 0 if not self.has_deltas else count + self.change(count_of, None) > 0

    def image(self, name: str) -> tuple[int, int, Bools]:
        """Returns an image's (size in bytes, number of nodes with it, bool mask of shape (m,))."""
        has_image = np.zeros(self._nodes.capacity, dtype=np.bool_)
        state = self._nodes.images.get(name)
        if state is None:
            return 0, 0, self.take(has_image)
        has_image[list(state.rows)] = True
        return state.size_bytes, len(state.rows), self.take(has_image)

    # -- hypothetical nodes -----------------------------------------------------------------------

    @property
    def has_deltas(self) -> bool:
        """True if pods are added to or removed from any node."""
        return self._added is not None or self._removed is not None

    @property
    def added(self) -> PodsPerNode:
        """The pods added to each node."""
        return self._added if self._added is not None else [()] * self._length

    @property
    def removed(self) -> PodsPerNode:
        """The pods removed from each node."""
        return self._removed if self._removed is not None else [()] * self._length

    def change(self, amount: Amount, key: Hashable) -> Ints:
        """Returns the sum of ``amount`` over the added pods minus that over the removed pods.

        ``key`` identifies ``amount``: the amounts of removed pods are cached under it, so that
        preemption computes them once per pod, not once per dry run.
        """
        m = self._length
        return sums(self._added, amount, key, m) - sums(self._removed, amount, key, m)

    def change_of(self, key: CounterKey | CounterKeys) -> Ints:
        """Returns the change, per node, of the number of pods that ``key`` counts."""
        return self.change(key.counts, key)

    def plus(self, pods: PodsPerNode) -> NodeView:
        """Returns the same nodes with ``pods[i]`` added to node i."""
        both = [(*old, *new) for old, new in zip(self.added, pods, strict=True)]
        return NodeView(self.snapshot, self.rows, added=both, removed=self._removed)

    def without(self, pods: PodsPerNode) -> NodeView:
        """Returns the same nodes with ``pods[i]``, which must be on node i, removed from it."""
        both = [(*old, *new) for old, new in zip(self.removed, pods, strict=True)]
        return NodeView(self.snapshot, self.rows, added=self._added, removed=both)

    def subset(self, chosen: Bools | Rows) -> NodeView:
        """Returns some of the nodes: ``chosen`` is a bool mask of shape (m,), or positions."""
        positions = (np.flatnonzero(chosen) if chosen.dtype == np.bool_ else chosen).astype(np.intp)
        rows = positions if self._rows is None else self._rows[positions]
        return NodeView(
            self.snapshot,
            rows,
            added=pick(self._added, positions),
            removed=pick(self._removed, positions),
        )

    # -- inside -----------------------------------------------------------------------------------

    @property
    def _nodes(self) -> NodeTable:
        return self.snapshot.nodes

    def take(self, column: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
        """Returns the entries of these nodes of a column of shape (capacity,)."""
        if self._rows is None:
            return read_only(column[: self._length])
        entries = column.take(self._rows)
        entries.flags.writeable = False
        return entries

    def _stack(self, columns: list[Ints]) -> Ints:
        return read_only(np.array(columns, dtype=np.int64).reshape(len(columns), self._length))

    def _ids(self, resources: Sequence[str]) -> list[int]:
        return [self._nodes.resource_id(name) for name in resources]

    def _lines(self, table: Ints, ids: list[int]) -> Ints:
        """Returns the entries of these nodes of some lines of ``table``; 0 for a line -1."""
        rows, length = self._rows, self._length
        first = ids[0] if ids else 0
        if first >= 0 and ids == list(range(first, first + len(ids))):
            lines = table[first : first + len(ids)]
            return read_only(lines[:, :length] if rows is None else lines.take(rows, 1))
        result = np.zeros((len(ids), length), dtype=np.int64)
        for line, index in enumerate(ids):
            if index >= 0:
                result[line] = table[index, :length] if rows is None else table[index][rows]
        return read_only(result)

    def _resource(self, columns: Ints, resource: str) -> Ints:
        index = self._nodes.resource_id(resource)
        if index < 0:
            return read_only(np.zeros(self._length, dtype=np.int64))
        return self.take(columns[index])


@lru_cache(maxsize=16)
def _first_rows(length: int) -> Rows:
    """Returns the rows 0 to ``length``, read-only: the same array for the nodes of a cluster."""
    rows = np.arange(length, dtype=np.intp)
    rows.flags.writeable = False
    return rows
