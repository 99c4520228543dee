"""Event loops of the commands, and the signals that stop them."""

from __future__ import annotations

import asyncio
import signal
from typing import Any


def loop_factory_for(*, is_virtual: bool) -> Any:
    """Returns the factory of an event loop on virtual time, or on real time."""
    if is_virtual:
        from mooring.virtual_loop import VirtualLoop

        return VirtualLoop
    from mooring.event_loop import loop_factory

    return loop_factory()


def interruption() -> asyncio.Event:
    """Returns an event that SIGINT and SIGTERM set; from now on they do nothing else."""
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    return stopped
