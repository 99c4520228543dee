"""The nodes as a plugin sees them: columns of m worlds.

A world is one row, perhaps with pods added that are not there or removed that are: a nominated
pod that may come, victims that may go. A filter does not notice the difference, so the same code
decides real placements, the second look at nominated nodes, and preemption's dry runs.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from mooring.framework.node_info import NodeInfo
from mooring.framework.pod_deltas import COUNT, USAGE, Amount, PodsPerWorld, RemovedPods, pick, sums
from mooring.objects.node import Taint
from mooring.state.columns.labels import LabelColumn
from mooring.state.columns.ports import HostPort, conflicts
from mooring.state.snapshot import Snapshot
from mooring.state.tables.counters import CounterKey, CounterKeys
from mooring.state.tables.nodes import NodeTable, Scalar, read_only
from mooring.state.tables.pods import PodInfo

Ints = npt.NDArray[np.int64]
Rows = npt.NDArray[np.intp]
Bools = npt.NDArray[np.bool_]

#: The resources that count with defaults for containers that ask for none, in the table's order.
NONZERO = ("cpu", "memory")


class NodeView:
    """m worlds as columns of shape (m,), all read-only. Row numbers may repeat.

    Example::

        free = nodes.allocatable("cpu") - nodes.requested("cpu")
        return FilterStatuses.refuse(free < cycle.pod.requests["cpu"], Reject("Insufficient cpu"))
    """

    __slots__ = ("_added", "_length", "_removed", "_rows", "snapshot")

    def __init__(
        self,
        snapshot: Snapshot,
        rows: Rows | None = None,
        *,
        added: PodsPerWorld | None = None,
        removed: PodsPerWorld | None = None,
    ) -> None:
        """``rows`` None = every row of the table from 0 on, and every one of them has a node."""
        self.snapshot = snapshot
        self._rows = rows
        self._length = snapshot.nodes.size if rows is None else len(rows)
        self._added = added
        self._removed = removed

    @classmethod
    def everything(cls, snapshot: Snapshot) -> NodeView:
        """Returns every node, as it is."""
        nodes = snapshot.nodes
        if len(nodes) == nodes.size:
            return cls(snapshot)
        return cls(snapshot, np.flatnonzero(nodes.alive[: nodes.size]))

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[NodeInfo]:
        """Returns the worlds as plain objects; far slower than columns."""
        return (self.info(position) for position in range(self._length))

    # -- which nodes ------------------------------------------------------------------------------

    @property
    def rows(self) -> Rows:
        """The row of each world, intp."""
        if self._rows is None:
            return np.arange(self._length, dtype=np.intp)
        return self._rows

    @property
    def names(self) -> list[str]:
        """The node name of each world."""
        names = self._nodes.names
        return [names[row] for row in self.rows.tolist()]

    def info(self, position: int) -> NodeInfo:
        """Returns one world as a plain object."""
        row = position if self._rows is None else int(self._rows[position])
        added = self._added[position] if self._added is not None else ()
        removed = self._removed[position] if self._removed is not None else ()
        return NodeInfo(self.snapshot, row, added, removed)

    # -- columns ----------------------------------------------------------------------------------

    def allocatable(self, resource: str) -> Ints:
        """The nodes' whole amount of ``resource``: millicores, bytes, units; 0 where unknown."""
        return self._resource(self._nodes.allocatable, resource)

    def requested(self, resource: str) -> Ints:
        """What the pods in each world ask of ``resource``."""
        amounts = self._resource(self._nodes.requested, resource)
        if not self.has_deltas:
            return amounts
        return amounts + self.change(lambda pod: pod.usage.get(resource, 0), (USAGE, resource))

    def nonzero_requested(self, resource: str) -> Ints:
        """As ``requested``, of cpu or memory, with defaults for containers that ask for none."""
        index = NONZERO.index(resource)
        amounts = self.take(self._nodes.nonzero_requested[index])
        if not self.has_deltas:
            return amounts
        return amounts + self.change(lambda pod: pod.nonzero_usage[index], ("nonzero", index))

    def allocatables(self, resources: Sequence[str]) -> Ints:
        """As ``allocatable``, of several resources at once: shape (k, m)."""
        return self._lines(self._nodes.allocatable, self._ids(resources))

    def requesteds(self, resources: Sequence[str]) -> Ints:
        """As ``requested``, of several resources at once: shape (k, m)."""
        if self.has_deltas:
            return self._stack([self.requested(each) for each in resources])
        return self._lines(self._nodes.requested, self._ids(resources))

    def nonzero_requesteds(self, resources: Sequence[str]) -> Ints:
        """As ``nonzero_requested`` of cpu and memory, ``requested`` of all others: shape (k, m)."""
        if not self.has_deltas and tuple(resources) == NONZERO:
            return self._lines(self._nodes.nonzero_requested, [0, 1])
        return self._stack(
            [
                self.nonzero_requested(each) if each in NONZERO else self.requested(each)
                for each in resources
            ]
        )

    @property
    def pod_count(self) -> Ints:
        """How many pods each world has."""
        count = self.take(self._nodes.pod_count)
        return count if not self.has_deltas else count + self.change(lambda _: 1, COUNT)

    @property
    def allowed_pods(self) -> Ints:
        """How many pods each node takes."""
        return self.take(self._nodes.allowed_pods)

    @property
    def unschedulable(self) -> Bools:
        """Which nodes are cordoned."""
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
        """The codes of label ``key``, int32 shape (m,), -1 = absent, and what the codes mean."""
        column = self._nodes.label(key)
        return self.take(column.codes), column

    def has_port_conflict(self, ports: Iterable[HostPort]) -> Bools:
        """In which worlds some pod holds a host port that conflicts with one of ``ports``."""
        wanted = tuple(ports)

        def held_by(pod: PodInfo) -> int:
            return sum(any(conflicts(want, has) for want in wanted) for has in pod.host_ports)

        if isinstance(self._removed, RemovedPods):
            by_new: Bools = sums(self._added, held_by, None, self._length) > 0
            return by_new | self._removed.has_port_conflict(wanted, self.rows)
        holders = np.zeros(self._nodes.capacity, dtype=np.int64)
        found = self._nodes.ports.rows_in_conflict(wanted)
        holders[list(found)] = list(found.values())
        held = self.take(holders)
        return held > 0 if not self.has_deltas else held + self.change(held_by, None) > 0

    def image(self, name: str) -> tuple[int, int, Bools]:
        """An image's (size in bytes, number of nodes that have it, bool shape (m,): is it here)."""
        here = np.zeros(self._nodes.capacity, dtype=np.bool_)
        state = self._nodes.images.get(name)
        if state is None:
            return 0, 0, self.take(here)
        here[list(state.rows)] = True
        return state.size_bytes, len(state.rows), self.take(here)

    # -- other worlds -----------------------------------------------------------------------------

    @property
    def has_deltas(self) -> bool:
        """Whether any world may differ from what is really there."""
        return self._added is not None or self._removed is not None

    @property
    def added(self) -> PodsPerWorld:
        """The pods added to each world."""
        return self._added if self._added is not None else [()] * self._length

    @property
    def removed(self) -> PodsPerWorld:
        """The pods removed from each world."""
        return self._removed if self._removed is not None else [()] * self._length

    def change(self, amount: Amount, key: Hashable) -> Ints:
        """The sum of ``amount`` over the pods added to each world, less that over those removed.

        ``key`` stands for ``amount``: whoever uses one key twice means the same amounts, so that a
        preemption asks about each pod once, however many worlds it tries.
        """
        m = self._length
        return sums(self._added, amount, key, m) - sums(self._removed, amount, key, m)

    def change_of(self, key: CounterKey | CounterKeys) -> Ints:
        """How many pods more (or fewer) that ``key`` counts there are in each world."""
        return self.change(key.counts, key)

    def plus(self, pods: PodsPerWorld) -> NodeView:
        """Returns the same worlds with ``pods[i]`` added to world i."""
        both = [(*old, *new) for old, new in zip(self.added, pods, strict=True)]
        return NodeView(self.snapshot, self.rows, added=both, removed=self._removed)

    def without(self, pods: PodsPerWorld) -> NodeView:
        """The same worlds with ``pods[i]`` removed from world i; they must be on that node."""
        both = [(*old, *new) for old, new in zip(self.removed, pods, strict=True)]
        return NodeView(self.snapshot, self.rows, added=self._added, removed=both)

    def where(self, chosen: Bools | Rows) -> NodeView:
        """Only some of the worlds: a bool mask of shape (m,), or positions."""
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
        """The entries of a column over rows, shape (capacity,), that belong to these worlds."""
        if self._rows is None:
            return read_only(column[: self._length])
        taken = column[self._rows]
        taken.flags.writeable = False
        return taken

    def _stack(self, columns: list[Ints]) -> Ints:
        return read_only(np.array(columns, dtype=np.int64).reshape(len(columns), self._length))

    def _ids(self, resources: Sequence[str]) -> list[int]:
        return [self._nodes.resource_id(each) for each in resources]

    def _lines(self, table: Ints, ids: list[int]) -> Ints:
        """The entries of some lines of ``table`` that belong to these worlds; 0 for a line -1."""
        rows, length = self._rows, self._length
        first = ids[0] if ids else 0
        if first >= 0 and ids == list(range(first, first + len(ids))):
            lines = table[first : first + len(ids)]
            return read_only(lines[:, :length] if rows is None else lines.take(rows, 1))
        found = np.zeros((len(ids), length), dtype=np.int64)
        for line, index in enumerate(ids):
            if index >= 0:
                found[line] = table[index, :length] if rows is None else table[index][rows]
        return read_only(found)

    def _resource(self, columns: Ints, resource: str) -> Ints:
        index = self._nodes.resource_id(resource)
        if index < 0:
            return read_only(np.zeros(self._length, dtype=np.int64))
        return self.take(columns[index])
