"""The event loop of the embedded API server, and its periodic tasks."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: How late a pod may go after its grace period, whose unit is the second.
TICK_S = 0.2
SEED_BYTES = 16


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Returns uvloop's loop factory for ``asyncio.Runner``, if installed; None = asyncio's."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def fresh_seed() -> int:
    """Returns a seed for a server's rng: UIDs must differ from those of earlier runs."""
    return int.from_bytes(ssl.RAND_bytes(SEED_BYTES), "big")


@contextmanager
def ticking(tick: Callable[[], object]) -> Iterator[None]:
    """Calls ``tick`` every ``TICK_S``; what it raises goes to the loop's exception handler."""
    loop = asyncio.get_running_loop()
    handles: list[asyncio.TimerHandle] = []

    def again() -> None:
        handles[:] = [loop.call_later(TICK_S, again)]
        tick()

    handles.append(loop.call_later(TICK_S, again))
    try:
        yield
    finally:
        handles[0].cancel()
