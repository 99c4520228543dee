"""Tuning of Python's garbage collector.

The cache holds millions of long-lived objects without cycles. Collecting them repeatedly takes a
seventh of all CPU time, and pauses scheduling.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

#: New objects before a collection of the youngest generation, then collections of one generation
#: before one of the next. Python's default is 700, 10, 10.
THRESHOLDS: Final = (50_000, 20, 50)


#: The thresholds at the begin of each block that has not ended.
_outside: list[tuple[int, int, int]] = []


@contextmanager
def gc_thresholds() -> Iterator[None]:
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
