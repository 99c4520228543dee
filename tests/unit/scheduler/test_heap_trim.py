"""Memory that malloc keeps free goes back to the operating system."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys

from mooring.scheduler.heap_trim import TRIM_INTERVAL_S, keep_heap_trimmed, trim_function

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
#: More than Python's own allocator takes, less than what malloc maps by itself.
BLOCK_BYTES = 2048
BLOCKS = 32_768
KEPT_EVERY = 64


#: Prints resident bytes beyond those at the start, by a process whose heap has no holes before.
MEASUREMENT = f"""
from pathlib import Path

from mooring.scheduler.heap_trim import trim_function

def resident_bytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * {PAGE_BYTES}

trim = trim_function()
trim()
before = resident_bytes()
blocks = [bytes({BLOCK_BYTES}) for _ in range({BLOCKS})]
print(resident_bytes() - before)
kept = blocks[::{KEPT_EVERY}]
del blocks
print(resident_bytes() - before)
trim()
print(resident_bytes() - before)
"""


def test_free_memory_between_blocks_in_use_is_returned() -> None:
    assert trim_function() is not None  # the GNU C library
    done = subprocess.run(
        [sys.executable, "-c", MEASUREMENT], capture_output=True, text=True, check=True
    )
    full, freed, trimmed = map(int, done.stdout.split())
    assert full > BLOCK_BYTES * BLOCKS * 0.9
    assert freed > BLOCK_BYTES * BLOCKS * 0.5  # malloc keeps what is free
    assert trimmed < BLOCK_BYTES * BLOCKS * 0.25


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
