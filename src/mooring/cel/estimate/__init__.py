"""The worst-case cost of an expression, estimated from its text alone.

``estimate_cost`` walks a checked tree; nothing is evaluated. The API server refuses selectors and
rules whose estimate exceeds the limit; the scheduler never needs one.
"""

from mooring.cel.estimate.device_sizes import device_size
from mooring.cel.estimate.paths import ITEMS, KEYS, VALUES, DeclaredSize, Path
from mooring.cel.estimate.ranges import Range
from mooring.cel.estimate.tree import estimate_cost

__all__ = [
    "ITEMS",
    "KEYS",
    "VALUES",
    "DeclaredSize",
    "Path",
    "Range",
    "device_size",
    "estimate_cost",
]
