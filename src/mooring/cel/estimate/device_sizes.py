"""The sizes that the API guarantees for what is below ``device``.

Source: dynamic-resource-allocation v0.36.3, cel/compile.go (sizeEstimator).
"""

from __future__ import annotations

from typing import Final

from mooring.cel.estimate.paths import ITEMS, KEYS, VALUES, Path
from mooring.cel.estimate.ranges import Range

_DOMAIN_MAX: Final = 63
_ID_MAX: Final = 32
_DRIVER_MAX: Final = 63
_VALUE_MAX: Final = 64
_ENTRIES_MAX: Final = 32


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


def device_size(path: Path) -> Range | None:
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
