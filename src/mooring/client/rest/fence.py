"""The fence: a check before every write, so that nothing is written without the lease."""

from __future__ import annotations

import math
from collections.abc import Callable

#: Returns how many seconds a write may take from now on; raises LeaseLost if none may start.
Fence = Callable[[], float]


def no_fence() -> float:
    """Allows every write: for tools without leader election."""
    return math.inf
