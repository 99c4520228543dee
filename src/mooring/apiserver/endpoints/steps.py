"""Work in steps: a long request yields to others between two of them.

Everything runs in one event loop, so a list of 50 000 objects in one piece would keep all other
clients waiting for half a second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterator, Sequence
from typing import Final, TypeVar

T = TypeVar("T")

#: Work that yields None after each step and returns its result.
Steps = Generator[None, None, T]

#: Objects of one step, some milliseconds of work.
SLICE_OBJECTS: Final = 500


def slices_of(items: Sequence[T], length: int) -> Iterator[Sequence[T]]:
    """Yields consecutive parts of a sequence.

    Example:
        >>> list(slices_of("abcde", 2))
        ['ab', 'cd', 'e']
    """
    for start in range(0, len(items), length):
        yield items[start : start + length]


def last_step(steps: Steps[T]) -> T:
    """Returns the result of work that is done at once."""
    try:
        while True:
            next(steps)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


async def wait_for_steps(steps: Steps[T]) -> T:
    """Returns the result of work; other tasks run between two steps."""
    try:
        while True:
            next(steps)
            await asyncio.sleep(0)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
