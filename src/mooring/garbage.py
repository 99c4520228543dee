"""The collector of garbage: when it should not search, and where.

Source: none; the collector of Go runs beside the program.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

#: A collection of all generations that takes longer freezes what is left, in seconds.
LONG_COLLECTION_S: Final = 0.02
OLDEST_GENERATION: Final = 2


@contextmanager
def without_collections() -> Iterator[None]:
    """Suspends the search for cycles in the block, for work that makes much and no cycles."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def short_collections(now: Callable[[], float]) -> Iterator[None]:
    """Keeps collections short while the heap grows, for a process that stores many objects.

    A collection of the oldest generation visits all objects of the process: 0.1 s with 50 000
    pods, in which no request is answered. What is left after one that has taken
    ``LONG_COLLECTION_S`` is frozen: later ones visit what came after it. Frozen objects are freed
    as ever once nothing refers to them, except for those in cycles.

    At the end of the block the heap is unfrozen.

    Args:
        now: Returns monotonic seconds.
    """
    started_s = now()

    def on_collection(phase: str, info: dict[str, Any]) -> None:
        nonlocal started_s
        if phase == "start":
            started_s = now()
        elif info["generation"] == OLDEST_GENERATION and now() - started_s >= LONG_COLLECTION_S:
            gc.freeze()

    gc.callbacks.append(on_collection)
    try:
        yield
    finally:
        gc.callbacks.remove(on_collection)
        gc.unfreeze()
