"""Paths of values below ``device``, and the sizes that the API guarantees for them.

Source: cel-go v0.26.0, checker/cost.go (paths); dynamic-resource-allocation v0.36.3,
cel/compile.go (sizeEstimator).
"""

from __future__ import annotations

from typing import Final

from mooring.cel.estimate.ranges import Range

KEYS: Final = "@keys"
VALUES: Final = "@values"
ITEMS: Final = "@items"
INDICES: Final = "@indices"

_DOMAIN_MAX: Final = 63
_ID_MAX: Final = 32
_DRIVER_MAX: Final = 63
_VALUE_MAX: Final = 64
_ENTRIES_MAX: Final = 32


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


class _Kind:
    """A declared type: its greatest size, and the types of its parts."""

    def __init__(
        self, size: int, below: dict[str, _Kind] | None = None, any_name: _Kind | None = None
    ) -> None:
        self.size = size
        self.below = below or {}
        self.any_name = any_name


def _map_of(key: _Kind, value: _Kind, any_name: _Kind | None = None) -> _Kind:
    return _Kind(_ENTRIES_MAX, {KEYS: key, VALUES: value, ITEMS: value}, any_name)


_DOMAIN: Final = _Kind(_DOMAIN_MAX)
_ID: Final = _Kind(_ID_MAX)
_ATTRIBUTE: Final = _Kind(_VALUE_MAX)
_DEVICE: Final = _Kind(
    0,
    {
        "driver": _Kind(_DRIVER_MAX),
        "allowMultipleAllocations": _Kind(1),
        "attributes": _map_of(_DOMAIN, _map_of(_ID, _ATTRIBUTE, _ATTRIBUTE)),
        "capacity": _map_of(_DOMAIN, _map_of(_ID, _Kind(0))),
    },
)


def declared_size(path: Path) -> Range | None:
    """Returns the size of what is at a path; None if it is not below ``device``."""
    parts = path.parts
    if not parts or parts[0] != "device":
        return None
    kind = _DEVICE
    for part in parts[1:]:
        below = kind.below.get(part, None if part.startswith("@") else kind.any_name)
        if below is None:
            return None
        kind = below
    return Range(0, kind.size)
