"""Allocatable, allocated, demanded and stranded resources of a cluster over time.

Plain arithmetic over objects, independent of the scheduler's own state. A resource is *stranded* on
a node if it is free there while pods wait, and none of the waiting pods would fit by its requests.
It is *fragmented* to the degree that a pod like those that came so far could not use it there.
"""

from __future__ import annotations

import operator
from array import array
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np

from mooring.client import ObjectChange
from mooring.objects.meta import key
from mooring.objects.node import Node
from mooring.objects.pod import FINISHED_PHASES, Pod, PodSpec
from mooring.objects.quantity import wrap_int64
from mooring.objects.requests import allocatable_units
from mooring.simulation.utilization import PODS, Utilization

#: Requests of a waiting pod: one number for each resource.
_Shape = tuple[int, ...]
#: Different requests that fragmentation looks at: pods with further ones are not counted.
SHAPES_MAX: Final = 256
#: Requests whose numbers are kept ready.
SHAPES_CACHED: Final = 10_000
#: Up to so many different requests are summed up as plain numbers, which is faster than an array;
#: numpy adds so few numbers one after the other, too, so the sums are the same to the last bit.
SHAPES_FEW: Final = 7


class ClusterUsage:
    """Follows the nodes and pods of a cluster.

    Attributes:
        resources: The names of the resources, without ``pods``.
        allocatable: By resource, in a scheduler's units.
        allocated: By resource, of bound pods.
        waiting: By resource, requests of pods without a node.
        n_nodes: Number of nodes.
        n_waiting: Number of pods without a node.
        n_bound: Number of pods with one.

    Args:
        resources: The names of the resources.
    """

    def __init__(self, resources: tuple[str, ...]) -> None:
        self.resources = resources
        n = len(resources)
        # Plain numbers: for the few resources of a node they are faster than arrays.
        self.allocatable = [0] * n
        self.allocated = [0] * n
        self.waiting = [0] * n
        self.n_nodes = self.n_waiting = self.n_bound = 0
        self._requests = Utilization()
        self._rows: dict[str, int] = {}
        self._unused_rows: list[int] = []
        #: Free amounts by row, the number of pods last.
        self._free: list[list[int]] = []
        self._of_node: dict[str, list[int]] = {}
        #: The same as int64 (rows, n + 1), but for the changed rows.
        self._free_columns = np.zeros((64, n + 1), np.int64)
        #: By row, whether a waiting pod would fit, but for the changed rows.
        self._fits = np.zeros(64, bool)
        self._pods: dict[str, tuple[_Shape, str]] = {}
        #: Requests -> the number of waiting pods with them.
        self._shapes: dict[_Shape, int] = {}
        self._minimal: list[_Shape] = []
        self._minimal_is_old = True
        self._changed_rows: set[int] = set()
        #: The same for fragmentation, which looks at all changes.
        self._moved_rows: set[int] = set()
        self._fragmentation = Fragmentation(n)
        #: Pods on nodes that are not there.
        self._shapes_of: dict[int, tuple[PodSpec, _Shape]] = {}

    def shape_of(self, pod: Pod) -> _Shape:
        """Returns the requests of a pod, the number of pods last."""
        spec = pod.spec
        cached = self._shapes_of.get(id(spec.containers))
        if cached is not None and _requests_the_same(cached[0], spec):
            return cached[1]
        amounts = self._requests.requests(pod)
        shape = (*(amounts.get(resource, 0) for resource in self.resources), 1)
        if len(self._shapes_of) > SHAPES_CACHED:
            self._shapes_of.clear()
        self._shapes_of[id(spec.containers)] = spec, shape
        return shape

    def on_change(self, kind: str, change: ObjectChange) -> None:
        """Follows a write."""
        if kind == "Pod":
            old, new = change.old, change.new
            if new is None or new.status.phase in FINISHED_PHASES:
                self._remove(key(old if new is None else new))
            elif old is None or old.spec.node_name != new.spec.node_name:
                shape = self.shape_of(new)
                if old is None:
                    self._fragmentation.count(shape)
                self._put(key(new), shape, new.spec.node_name)
        elif kind == "Node":
            if change.new is None:
                self._remove_node(change.old.metadata.name)
            else:
                self._put_node(change.new)

    # -- pods -------------------------------------------------------------------------------------

    def _put(self, pod_key: str, shape: _Shape, node: str) -> None:
        self._remove(pod_key)
        self._pods[pod_key] = shape, node
        if node:
            self.n_bound += 1
            self.allocated = _plus(self.allocated, shape)
            self._change_free(node, shape, -1)
        else:
            self.n_waiting += 1
            self.waiting = _plus(self.waiting, shape)
            count = self._shapes[shape] = self._shapes.get(shape, 0) + 1
            self._minimal_is_old |= count == 1

    def _remove(self, pod_key: str) -> None:
        entry = self._pods.pop(pod_key, None)
        if entry is None:
            return
        shape, node = entry
        if node:
            self.n_bound -= 1
            self.allocated = _minus(self.allocated, shape)
            self._change_free(node, shape, 1)
            return
        self.n_waiting -= 1
        self.waiting = _minus(self.waiting, shape)
        count = self._shapes[shape] - 1
        if count:
            self._shapes[shape] = count
        else:
            del self._shapes[shape]
            self._minimal_is_old = True

    def _change_free(self, node: str, shape: _Shape, sign: int) -> None:
        row = self._rows.get(node)
        if row is not None:
            change = operator.add if sign > 0 else operator.sub
            self._free[row] = [*map(change, self._free[row], shape)]
            self._changed_rows.add(row)
            self._moved_rows.add(row)

    # -- nodes ------------------------------------------------------------------------------------

    def _put_node(self, node: Node) -> None:
        name = node.metadata.name
        units = allocatable_units(node.status.allocatable)
        amounts = [units.get(resource, 0) for resource in (*self.resources, PODS)]
        before = self._of_node.get(name)
        if before is None:
            self.n_nodes += 1
            row = self._rows[name] = self._new_row()
            free = amounts
            for shape, node_name in self._pods.values():
                if node_name == name:
                    free = _minus(free, shape)
            self._free[row] = free
            self.allocatable = _plus(self.allocatable, amounts)
        elif before != amounts:
            row, more = self._rows[name], _minus(amounts, before)
            self._free[row] = _plus(self._free[row], more)
            self.allocatable = _plus(self.allocatable, more)
        else:
            return
        self._of_node[name] = amounts
        self._changed_rows.add(row)
        self._moved_rows.add(row)

    def _new_row(self) -> int:
        if self._unused_rows:
            return self._unused_rows.pop()
        row = len(self._free)
        self._free.append([])
        if row == len(self._fits):
            columns = self._free_columns
            self._free_columns = np.concatenate([columns, np.zeros_like(columns)])
            self._fits = np.concatenate([self._fits, np.zeros_like(self._fits)])
        return row

    def _remove_node(self, name: str) -> None:
        amounts = self._of_node.pop(name, None)
        if amounts is None:
            return
        self.n_nodes -= 1
        self.allocatable = _minus(self.allocatable, amounts)
        row = self._rows.pop(name)
        self._free[row] = [0] * len(amounts)
        self._unused_rows.append(row)
        self._changed_rows.add(row)
        self._moved_rows.add(row)

    def point(self) -> list[Any]:
        """Returns the values of ``curve_names`` for these resources, in this order."""
        allocated = self.allocated
        return [
            *self.allocatable,
            *allocated,
            *(_plus(allocated, self.waiting) if self.n_waiting else allocated),
            *self.stranded(),
            *self.fragmented(),
            self.n_waiting,
            self.n_bound,
            self.n_nodes,
        ]

    # -- stranded ---------------------------------------------------------------------------------

    def stranded(self) -> list[int]:
        """Returns the free amounts where no waiting pod would fit, by resource; 0 if none waits."""
        if not self.n_waiting:
            return [0] * len(self.resources)
        n = len(self._free)
        rows = [*self._changed_rows]
        self._changed_rows.clear()
        if rows:
            self._free_columns[rows] = _int64([self._free[row] for row in rows])
        free = self._free_columns[:n]
        if self._minimal_is_old:
            minimal = _minimal(self._shapes)
            self._minimal_is_old = False
            if minimal != self._minimal:
                self._minimal = minimal
                self._fits[:n] = self._fitting(free)
                rows = []
        if rows:
            self._fits[rows] = self._fitting(free[rows])
        unfit = np.maximum(free[~self._fits[:n]], 0)
        total: list[int] = unfit.sum(axis=0)[:-1].tolist()
        return total

    def fragmented(self) -> list[float]:
        """Returns what a pod like those that came so far could not use of what is free.

        By resource, the mean over all pods that came; see ``Fragmentation``.
        """
        moved = self._moved_rows
        if moved:
            for row in sorted(moved):
                self._fragmentation.move(row, self._free[row])
            moved.clear()
        return self._fragmentation.amounts()

    def _fitting(self, free: Any) -> Any:
        """Returns for each row whether one of the smallest waiting pods would fit."""
        fits = np.zeros(len(free), bool)
        for shape in self._minimal:
            fits |= (free >= np.array(shape)).all(axis=1)
        return fits


class Fragmentation:
    """The expected amounts that are free and of no use to a pod, over the pods that came so far.

    On a node where a pod does not fit by its requests, everything that is free is of no use to it;
    where it fits, those resources are that it does not request.

    Source: Weng et al., Beware of Fragmentation (USENIX ATC 2023), section 3: with nodes instead of
    devices, and the pods that came instead of typical ones.

    Args:
        n_resources: r; shapes have one number more, that of pods.
    """

    def __init__(self, n_resources: int) -> None:
        self._n = n_resources
        self._index: dict[_Shape, int] = {}
        self._shapes = np.zeros((0, n_resources + 1), np.int64)
        #: The largest number of each resource: a node with so much free takes all shapes.
        self._largest = [0] * (n_resources + 1)
        #: int64 (s, r): 1 for the resources that a shape does not request.
        self._unrequested = np.zeros((0, n_resources), np.int64)
        #: The resources that some shape does not request.
        self._unrequested_by_some: list[int] = []
        #: How many pods had each shape: s numbers, which are plain as they change with every pod.
        self._counts = array("d")
        #: Their sum.
        self._n_counted = 0
        #: What each shape cannot use: int64 (s, r).
        self._useless = np.zeros((0, n_resources), np.int64)
        #: What is free by row, as far as it is part of ``_useless``; and whether all shapes fit.
        self._free: list[list[int]] = []
        self._all_fit: list[bool] = []
        self._amounts = [0.0] * n_resources
        self._is_old = False

    def count(self, shape: _Shape) -> None:
        """Counts a pod."""
        at = self._index.get(shape)
        if at is None:
            if len(self._index) == SHAPES_MAX:
                return
            at = self._index[shape] = len(self._index)
            own = np.array([shape], np.int64)
            self._shapes = np.concatenate([self._shapes, own])
            self._largest = [*map(max, self._largest, shape)]
            unrequested = (self._shapes[:, :-1] == 0).astype(np.int64)
            self._unrequested = unrequested
            self._unrequested_by_some = np.flatnonzero(unrequested.any(axis=0)).tolist()
            self._counts.append(0.0)
            free = _int64(self._free).reshape(-1, self._n + 1)
            self._useless = np.concatenate([self._useless, _useless(own, unrequested[-1:], free)])
            self._all_fit = [*map(self._fits_all, self._free)]
        self._counts[at] += 1
        self._n_counted += 1
        # The mean over one shape is what that shape cannot use, however many pods have it.
        self._is_old |= len(self._counts) > 1 or self._n_counted == 1

    def move(self, row: int, free: list[int]) -> None:
        """Takes what is free on a row now: r + 1 numbers."""
        while row >= len(self._free):
            self._free.append([0] * len(free))
            self._all_fit.append(self._fits_all(self._free[-1]))
        old, did_all_fit = self._free[row], self._all_fit[row]
        self._free[row], self._all_fit[row] = free, self._fits_all(free)
        if did_all_fit and self._all_fit[row]:
            # All shapes fit before and after: only what they do not request is of no use.
            if not self._has_unrequested_change(old, free):
                return
            self._useless += self._unrequested * _int64([_minus(free, old)[:-1]])
        else:
            self._useless += _useless(self._shapes, self._unrequested, _int64([free]))
            self._useless -= _useless(self._shapes, self._unrequested, _int64([old]))
        self._is_old = True

    def _fits_all(self, free: list[int]) -> bool:
        return all(map(operator.ge, free, self._largest))

    def _has_unrequested_change(self, old: list[int], new: list[int]) -> bool:
        """Returns whether an amount has changed that some shape does not request."""
        resources = self._unrequested_by_some
        return [old[at] for at in resources] != [new[at] for at in resources]

    def amounts(self) -> list[float]:
        """Returns the expected amounts by resource."""
        if self._is_old and self._index:
            if len(self._index) == 1:
                self._amounts = [*map(float, self._useless[0].tolist())]
            elif len(self._index) <= SHAPES_FEW:
                self._amounts = self._amounts_of_few()
            else:
                counts = np.frombuffer(self._counts)[:, None]
                sums = (counts * self._useless).sum(axis=0) / self._n_counted
                self._amounts = sums.tolist()
            self._is_old = False
        return self._amounts

    def _amounts_of_few(self) -> list[float]:
        sums = [0.0] * self._n
        for count, useless in zip(self._counts, self._useless.tolist(), strict=True):
            for at, amount in enumerate(useless):
                sums[at] += count * amount
        return [total / self._n_counted for total in sums]


def _requests_the_same(spec: PodSpec, other: PodSpec) -> bool:
    """Returns whether the requests are those of copies, such as a pod before and after binding."""
    return (
        spec.containers is other.containers
        and spec.init_containers is other.init_containers
        and spec.overhead is other.overhead
        and spec.resources is other.resources
    )


def _plus(totals: Sequence[int], amounts: Sequence[int]) -> list[int]:
    """Returns the sums by resource; a last amount, that of pods, is left out."""
    return [*map(operator.add, totals, amounts)]


def _minus(totals: Sequence[int], amounts: Sequence[int]) -> list[int]:
    """Returns the differences by resource; a last amount, that of pods, is left out."""
    return [*map(operator.sub, totals, amounts)]


def _int64(rows: Sequence[Sequence[int]]) -> Any:
    """Returns rows of numbers as int64 (rows, numbers), which wraps around."""
    return np.array([[*map(wrap_int64, row)] for row in rows], np.int64)


def _useless(shapes: Any, unrequested: Any, free: Any) -> Any:
    """Returns what pods cannot use on some nodes.

    Args:
        shapes: int64 (s, r + 1), the number of pods last.
        unrequested: int64 (s, r), 1 for the resources that a shape does not request.
        free: int64 (k, r + 1).

    Returns:
        int64 (s, r), the sum over the nodes.
    """
    fits = (free[None, :, :] >= shapes[:, None, :]).all(axis=2).astype(np.int64)
    amounts = np.maximum(free[:, :-1], 0)
    return (1 - fits) @ amounts + unrequested * (fits @ amounts)


def curve_names(resources: tuple[str, ...]) -> list[str]:
    """Returns the names of the curves."""
    kinds = ("allocatable", "allocated", "demanded", "stranded", "fragmentation")
    return [f"{kind}.{resource}" for kind in kinds for resource in resources] + [
        "pending",
        "running",
        "nodes",
    ]


def _minimal(shapes: Iterable[_Shape]) -> list[_Shape]:
    """Returns the shapes that are not at least as large as another one in everything."""
    minimal: list[_Shape] = []
    for shape in sorted(shapes, key=lambda own: (sum(own), own)):
        if not any(all(a <= b for a, b in zip(own, shape, strict=True)) for own in minimal):
            minimal.append(shape)
    return minimal
