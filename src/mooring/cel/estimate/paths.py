"""Paths of the values in an expression: of variables, their fields, elements and keys.

Source: cel-go v0.26.0, checker/cost.go (paths).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from mooring.cel.estimate.ranges import Range

KEYS: Final = "@keys"
VALUES: Final = "@values"
ITEMS: Final = "@items"
INDICES: Final = "@indices"


class Path:
    """A path that shares its parts with paths made from it, as Go's slices do.

    Upstream appends to slices: of two paths made from the same one, the second may overwrite the
    last part of the first. Estimates depend on it, so the same happens here.
    """

    __slots__ = ("_length", "_parts")

    def __init__(self, parts: list[str | None], length: int) -> None:
        self._parts = parts
        self._length = length

    def __len__(self) -> int:
        return self._length

    @property
    def parts(self) -> list[str]:
        """The parts, the name of a variable first."""
        return [part for part in self._parts[: self._length] if part is not None]

    def with_part(self, part: str) -> Path:
        """Returns the path with one more part."""
        parts, length = self._parts, self._length
        if length == len(parts):
            parts = [*parts, *([None] * max(length, 1))]
        parts[length] = part
        return Path(parts, length + 1)


EMPTY: Final = Path([], 0)


def of_variable(name: str) -> Path:
    """Returns the path of a variable."""
    return Path([name], 1)


#: Returns the size of what is at a path; None if nothing is declared of it.
DeclaredSize: TypeAlias = Callable[[Path], Range | None]
