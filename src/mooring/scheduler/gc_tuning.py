"""Python's garbage collector, kept out of the way of decisions.

A cluster in memory is millions of objects that live long and hold no cycles. Looking at them again
and again takes a seventh of all CPU, and stops everything while it lasts.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

#: New objects before a collection of the youngest generation, and how many of one generation make
#: one of the next. By default 700, 10, 10.
THRESHOLDS: Final = (50_000, 20, 50)


@contextmanager
def gc_thresholds() -> Iterator[None]:
    """Collect rarely for as long as the block lasts; what was frozen in it is let go at its end."""
    before = gc.get_threshold()
    gc.set_threshold(*THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def freeze_heap() -> None:
    """What is there now lives long: it is looked at once more, and then left alone."""
    gc.collect()
    gc.freeze()
