"""A fixture: collections of garbage look at what a test makes, not at all that pytest has."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def fast_collections() -> Iterator[None]:
    """Freezes what pytest has: a scheduler collects all garbage when it starts.

    That takes a second in a process with twenty thousand tests. A scheduler unfreezes the heap when
    it ends, so what a test leaves is collected at a later moment.
    """
    gc.freeze()
    yield
    gc.unfreeze()
