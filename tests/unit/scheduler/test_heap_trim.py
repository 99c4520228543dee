"""Memory that malloc keeps free goes back to the operating system."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from mooring.scheduler.heap_trim import TRIM_INTERVAL_S, keep_heap_trimmed, trim_function

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
#: More than Python's own allocator takes, less than what malloc maps by itself.
BLOCK_BYTES = 2048
BLOCKS = 32_768
KEPT_EVERY = 64


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES


def test_free_memory_between_blocks_in_use_is_returned() -> None:
    trim = trim_function()
    assert trim is not None  # the GNU C library
    trim()
    before = resident_bytes()
    blocks = [bytes(BLOCK_BYTES) for _ in range(BLOCKS)]
    full = resident_bytes()
    assert full - before > BLOCK_BYTES * BLOCKS * 0.9
    kept = blocks[::KEPT_EVERY]
    del blocks
    assert resident_bytes() - before > BLOCK_BYTES * BLOCKS * 0.5  # malloc keeps what is free
    trim()
    assert resident_bytes() - before < BLOCK_BYTES * BLOCKS * 0.25
    assert len(kept) == BLOCKS // KEPT_EVERY


def test_it_is_trimmed_once_a_minute_until_cancelled() -> None:
    sleeps: list[float] = []

    async def sleep(seconds: float) -> None:
        sleeps.append(seconds)
        if len(sleeps) == 3:
            raise asyncio.CancelledError

    async def main() -> None:
        task = asyncio.create_task(keep_heap_trimmed(sleep))
        await asyncio.wait([task])
        assert task.cancelled()

    asyncio.run(main())
    assert sleeps == [TRIM_INTERVAL_S] * 3
