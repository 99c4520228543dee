"""The fence: what every write passes first, so that nothing is written without the lease."""

from __future__ import annotations

import math
from collections.abc import Callable

#: How many seconds from now a write may still take; raises LeaseLost when none may begin any more.
Fence = Callable[[], float]


def no_fence() -> float:
    """Writing is always allowed: for tools that elect no leader."""
    return math.inf
