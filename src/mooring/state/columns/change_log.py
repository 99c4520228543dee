"""Bounded log of the changes in the node columns, from which caches update themselves."""

from __future__ import annotations

import enum

import numpy as np
import numpy.typing as npt


class Change(enum.IntFlag):
    """The changed columns of a row. Plugins declare with these what they read (``reads``)."""

    #: The row got a node, or lost its node.
    EXISTENCE = 1
    LABELS = 2
    #: Taints and ``spec.unschedulable``.
    TAINTS = 4
    #: Allocatable resources and the number of pods allowed.
    ALLOCATABLE = 8
    #: Requested resources and the number of pods.
    USAGE = 16
    #: Host ports in use.
    PORTS = 32
    #: Images of any node: the number of nodes with an image matters to all nodes that have it.
    IMAGES = 64
    #: Annotations, conditions and everything else of the Node object.
    OTHER = 128

    ALL = 255


class ChangeLog:
    """The last ``capacity`` changes as (row, kinds), numbered by an increasing generation.

    Entry ``g`` is at ring position ``g % capacity``. A cache that is current at generation ``g``
    calls ``since(g)``; after more than ``capacity`` further changes the result is ``None``, and
    the cache must rebuild. Appending costs two array stores.
    """

    __slots__ = ("_kinds", "_rows", "capacity", "generation")

    def __init__(self, capacity: int = 1 << 14) -> None:
        self.capacity = capacity
        self.generation = 0
        self._rows: npt.NDArray[np.int32] = np.zeros(capacity, dtype=np.int32)
        self._kinds: npt.NDArray[np.uint8] = np.zeros(capacity, dtype=np.uint8)

    def append(self, row: int, kinds: int) -> None:
        """Records a change of the columns ``kinds`` of ``row``."""
        position = self.generation % self.capacity
        self._rows[position] = row
        self._kinds[position] = kinds
        self.generation += 1

    def rows_since(self, generation: int) -> list[int] | None:
        """Returns the rows of ``since``; mostly there is none or one, which needs no arrays."""
        behind = self.generation - generation
        if behind == 0:
            return []
        if behind == 1:
            return [self._rows.item(generation % self.capacity)]
        changes = self.since(generation)
        if changes is None:
            return None
        rows: list[int] = changes[0].tolist()
        return rows

    def rows_with(self, kinds: int, generation: int) -> list[int] | None:
        """Returns the rows of ``since`` in which one of the columns ``kinds`` changed."""
        behind = self.generation - generation
        if behind == 0:
            return []
        if behind == 1:
            position = generation % self.capacity
            is_other = self._kinds.item(position) & kinds
            return [self._rows.item(position)] if is_other else []
        changes = self.since(generation)
        if changes is None:
            return None
        rows, changed = changes
        selected: list[int] = rows[(changed & kinds) != 0].tolist()
        return selected

    def since(self, generation: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8]] | None:
        """Returns rows and kinds of changes since ``generation``, oldest first; None if lost."""
        behind = self.generation - generation
        if behind > self.capacity:
            return None
        start = generation % self.capacity
        stop = start + behind
        if stop <= self.capacity:
            return self._rows[start:stop], self._kinds[start:stop]
        wrapped = stop - self.capacity
        return (
            np.concatenate([self._rows[start:], self._rows[:wrapped]]),
            np.concatenate([self._kinds[start:], self._kinds[:wrapped]]),
        )
