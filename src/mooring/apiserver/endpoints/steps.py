"""Work in steps: a long request yields to others between two of them.

Everything runs in one event loop, so a list of 50 000 objects in one piece would keep all other
clients waiting for half a second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterable, Iterator
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from mooring.apiserver.storage.stored_object import Stored

T = TypeVar("T")

#: Work that yields None after each step and returns its result.
Steps = Generator[None, None, T]

#: Objects of one step, some milliseconds of work.
SLICE_OBJECTS: Final = 500
#: Of a step that decodes them, and makes a row of each maybe.
DECODED_OBJECTS: Final = 100
#: Their bytes: a step with large objects has few of them, at least one.
SLICE_BYTES: Final = 1 << 20


def slices_of(
    objects: Iterable[Stored], *, count_max: int = SLICE_OBJECTS
) -> Iterator[list[Stored]]:
    """Yields the objects in consecutive parts, each some milliseconds of work."""
    part: list[Stored] = []
    size_bytes = 0
    for stored in objects:
        if part and (len(part) >= count_max or size_bytes >= SLICE_BYTES):
            yield part
            part, size_bytes = [], 0
        part.append(stored)
        size_bytes += len(stored.tail)
    if part:
        yield part


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
