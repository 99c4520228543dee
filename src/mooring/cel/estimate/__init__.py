"""The worst-case cost of a selector, estimated from its text alone.

``estimate_cost`` walks a checked tree; nothing is evaluated. The API server refuses selectors whose
estimate exceeds the limit; the scheduler never needs one.
"""

from mooring.cel.estimate.ranges import Range
from mooring.cel.estimate.tree import estimate_cost

__all__ = ["Range", "estimate_cost"]
