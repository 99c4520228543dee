"""Values to small ints and back, so that a column can hold strings, label sets or taint sets.

Ids are dense, start at 0, and are reused once nobody refers to them: nothing grows for ever in a
cluster whose nodes and labels come and go.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from mooring.errors import InvariantViolation

V = TypeVar("V", bound=Hashable)


class Interner(Generic[V]):
    """A reference-counted two-way table: value -> id -> value.

    ``acquire`` once for each holder, ``release`` once for each holder that is gone; the id of a
    value without holders is given to the next new value.

    Example:
        >>> zones = Interner[str]()
        >>> zones.acquire("a"), zones.acquire("b"), zones.acquire("a")
        (0, 1, 0)
        >>> zones.release(1)
        >>> zones.acquire("c")
        1
    """

    __slots__ = ("_free", "_ids", "_references", "_values", "version")

    def __init__(self) -> None:
        self._ids: dict[V, int] = {}
        self._values: list[V | None] = []
        self._references: list[int] = []
        self._free: list[int] = []
        #: Rises whenever an id gets a new meaning, so that tables indexed by id know to rebuild.
        self.version = 0

    def __len__(self) -> int:
        """How many ids were ever in use at once: the length of a table indexed by id."""
        return len(self._values)

    def acquire(self, value: V, ref_count: int = 1) -> int:
        """Returns the id of ``value``, with one more holder, or with several at once."""
        index = self._ids.get(value)
        if index is None:
            index = self._new(value)
        self._references[index] += ref_count
        return index

    def release(self, index: int) -> None:
        """One holder of ``index`` less.

        Raises:
            InvariantViolation: if nobody held it.
        """
        if self._references[index] <= 0:
            raise InvariantViolation(f"id {index} was released more often than acquired")
        self._references[index] -= 1
        if self._references[index] == 0:
            value = self._values[index]
            self._values[index] = None
            self._free.append(index)
            del self._ids[value]  # type: ignore[arg-type]  # held ids always have a value

    def find(self, value: V) -> int:
        """Returns the id of ``value``, or -1 if no holder has it."""
        return self._ids.get(value, -1)

    def value(self, index: int) -> V:
        """What ``index`` stands for.

        Raises:
            InvariantViolation: if the id is not in use.
        """
        if self._references[index] <= 0:
            raise InvariantViolation(f"id {index} is not in use")
        return self._values[index]  # type: ignore[return-value]  # held ids always have a value

    def values(self) -> list[V | None]:
        """Returns the values by id; ``None`` where an id is free. Shared: read, do not change."""
        return self._values

    def ref_count(self, value: V) -> int:
        """How many holders ``value`` has."""
        index = self._ids.get(value, -1)
        return 0 if index < 0 else self._references[index]

    def _new(self, value: V) -> int:
        self.version += 1
        if self._free:
            index = self._free.pop()
            self._values[index] = value
        else:
            index = len(self._values)
            self._values.append(value)
            self._references.append(0)
        self._ids[value] = index
        return index
