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
    """Returns an event that SIGINT, SIGTERM and SIGHUP set; from now on they do nothing else.

    SIGHUP, when a terminal is closed, stays ignored if it is, as by ``nohup``.
    """
    stopped = asyncio.Event()
    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    for number in numbers:
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    return stopped
