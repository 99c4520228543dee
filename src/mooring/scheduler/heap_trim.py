"""Returns memory that malloc keeps free to the operating system, once a minute.

Objects of many sizes come and go for hours, and what is freed between two that stay is kept by
malloc. It is used again, but never all of it: the resident memory of a scheduler that runs for a
long time rises, although its objects do not become more. Go's runtime, and so kube-scheduler,
returns such memory in the background.

Source: malloc_trim(3) of the GNU C library, which returns whole free pages anywhere in the heap.
"""

from __future__ import annotations

import asyncio
import ctypes
from collections.abc import Callable
from typing import Final

from mooring.client.retry import Sleep

TRIM_INTERVAL_S: Final = 60.0


def trim_function() -> Callable[[], object] | None:
    """Returns what trims the heap; None if the C library of this process has no such function."""
    try:
        malloc_trim = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None  # musl, macOS
    malloc_trim.argtypes = [ctypes.c_size_t]
    malloc_trim.restype = ctypes.c_int
    return lambda: malloc_trim(0)


async def keep_heap_trimmed(sleep: Sleep = asyncio.sleep) -> None:
    """Trims the heap every ``TRIM_INTERVAL_S`` until cancelled."""
    trim = trim_function()
    while True:
        await sleep(TRIM_INTERVAL_S)
        if trim is not None:
            trim()
