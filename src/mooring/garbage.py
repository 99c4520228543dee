"""The collector of garbage: when it should not search, and where.

The cache and the store hold millions of objects without cycles. A search of all of them finds
nothing, takes a seventh of the CPU time, and pauses scheduling.

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

#: New objects before a collection of the youngest generation, then collections of one generation
#: before one of the next, while a scheduler runs. Python's default is 700, 10, 10.
THRESHOLDS: Final = (50_000, 20, 50)

#: The thresholds at the begin of each block of ``rare_collections`` that has not ended.
_outside: list[tuple[int, int, int]] = []


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
def measured_collections(
    now: Callable[[], float], ended: Callable[[int, float], None]
) -> Iterator[None]:
    """Measures each collection in the block.

    Args:
        now: Returns monotonic seconds.
        ended: Called after each collection with its generation and its duration in seconds.
    """
    started_s = now()

    def on_collection(phase: str, info: dict[str, Any]) -> None:
        nonlocal started_s
        if phase == "start":
            started_s = now()
        else:
            ended(info["generation"], now() - started_s)

    gc.callbacks.append(on_collection)
    try:
        yield
    finally:
        gc.callbacks.remove(on_collection)


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

    def ended(generation: int, duration_s: float) -> None:
        if generation == OLDEST_GENERATION and duration_s >= LONG_COLLECTION_S:
            gc.freeze()

    try:
        with measured_collections(now, ended):
            yield
    finally:
        gc.unfreeze()


@contextmanager
def rare_collections() -> Iterator[None]:
    """Raises the collection thresholds inside the block; unfreezes the heap at its end.

    Of several schedulers in a process the last one that ends does so: the heap stays frozen for the
    others.
    """
    _outside.append(gc.get_threshold())
    gc.set_threshold(*THRESHOLDS)
    try:
        yield
    finally:
        # They may end in any order: the first entry is that of no block.
        last = _outside.pop()
        if not _outside:
            gc.set_threshold(*last)
            gc.unfreeze()


def freeze_heap() -> None:
    """Collects once, then freezes the long-lived heap."""
    gc.collect()
    gc.freeze()
