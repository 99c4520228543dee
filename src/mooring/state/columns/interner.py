"""Maps values to small ints and back, for columns of strings, label sets or taint sets.

Ids are dense, start at 0, and are reused when their reference count is 0, so memory stays bounded
while nodes and labels change.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from mooring.errors import InvariantViolation

V = TypeVar("V", bound=Hashable)


class Interner(Generic[V]):
    """A reference-counted two-way table: value -> id -> value.

    ``acquire`` adds a reference, ``release`` removes one; the id of a value without references is
    reused for the next new value.

    Example:
        >>> zones = Interner[str]()
        >>> zones.acquire("a"), zones.acquire("b"), zones.acquire("a")
        (0, 1, 0)
        >>> zones.release(1)
        >>> zones.acquire("c")
        1
    """

    __slots__ = ("_free", "_references", "_values", "ids", "version")

    def __init__(self) -> None:
        #: Value -> id. Shared: read-only.
        self.ids: dict[V, int] = {}
        self._values: list[V | None] = []
        self._references: list[int] = []
        self._free: list[int] = []
        #: Rises when an id gets a new value, so that tables indexed by id can detect it.
        self.version = 0

    def __len__(self) -> int:
        """Returns the length of a table indexed by id: the highest id ever used, plus 1."""
        return len(self._values)

    def acquire(self, value: V, ref_count: int = 1) -> int:
        """Returns the id of ``value``, and adds ``ref_count`` references."""
        index = self.ids.get(value)
        if index is None:
            index = self._new(value)
        self._references[index] += ref_count
        return index

    def release(self, index: int) -> None:
        """Removes one reference to ``index``.

        Raises:
            InvariantViolation: if it has no reference.
        """
        if self._references[index] <= 0:
            raise InvariantViolation(f"id {index} was released more often than acquired")
        self._references[index] -= 1
        if self._references[index] == 0:
            value = self._values[index]
            self._values[index] = None
            self._free.append(index)
            del self.ids[value]  # type: ignore[arg-type]  # referenced ids always have a value

    def find(self, value: V) -> int:
        """Returns the id of ``value``, or -1 if it has none."""
        return self.ids.get(value, -1)

    def value(self, index: int) -> V:
        """Returns the value of the id ``index``.

        Raises:
            InvariantViolation: if the id is not in use.
        """
        if self._references[index] <= 0:
            raise InvariantViolation(f"id {index} is not in use")
        return self._values[index]  # type: ignore[return-value]  # referenced ids always have a value

    def values(self) -> list[V | None]:
        """Returns the values by id; ``None`` where an id is free. Shared: read-only."""
        return self._values

    def ref_count(self, value: V) -> int:
        """Returns the number of references to ``value``."""
        index = self.ids.get(value, -1)
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
        self.ids[value] = index
        return index
