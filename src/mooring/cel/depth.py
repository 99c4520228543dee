"""Room for deep recursion.

An expression nests at most 250 levels of each rule of the grammar, so that the calls of parser,
checker and closures stay below ``_MAX_FRAMES``. Python's own limit is lower, and raising it is
safe here: calls from Python to Python need no space on the stack of the process.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_MAX_FRAMES: Final = 30_000


@contextmanager
def deep_recursion() -> Iterator[None]:
    """Allows as many nested calls as the deepest expression needs."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _MAX_FRAMES))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)
