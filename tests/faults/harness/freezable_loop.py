"""A virtual loop in which a process can be stopped for a while, as by SIGSTOP.

::

    running ── freeze ──> its callbacks wait; clocks, network and other processes go on
       ▲                                        │
       └──────────── thaw: all at once, in random order

A process is all callbacks whose context has its name in ``OWNER``: its tasks, their timers, and
the tasks that they create.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context, ContextVar
from typing import Any

from tests.helpers.virtual_loop import LimitedLoop

#: The name of the process that a callback belongs to; "" = none, it is never stopped.
OWNER: ContextVar[str] = ContextVar("OWNER", default="")


def context_of(owner: str) -> Context:
    """Returns a context for the tasks of a process."""
    context = Context()
    context.run(OWNER.set, owner)
    return context


class FreezableLoop(LimitedLoop):
    """A loop on virtual time with processes that can be stopped."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._frozen: dict[str, list[asyncio.Handle]] = {}

    def freeze(self, owner: str) -> None:
        """Stops a process: none of its callbacks runs until ``thaw``."""
        self._frozen.setdefault(owner, [])

    def thaw(self, owner: str) -> None:
        """Continues a process: what has become due meanwhile is ready at once."""
        for handle in self._frozen.pop(owner, ()):
            if not handle.cancelled():
                self._ready.append(handle)

    def is_frozen(self, owner: str) -> bool:
        """Returns whether a process is stopped."""
        return owner in self._frozen

    def _call_soon(
        self, callback: Callable[..., object], args: Any, context: Context | None
    ) -> asyncio.Handle:
        handle: asyncio.Handle = super()._call_soon(callback, args, context)  # type: ignore[misc]
        self._guard(handle)
        return handle

    def call_at(  # type: ignore[override]
        self, *args: Any, **more: Any
    ) -> asyncio.TimerHandle:
        """Schedules a timer; that of a stopped process runs when the process continues."""
        timer = super().call_at(*args, **more)
        self._guard(timer)
        return timer

    def _guard(self, handle: Any) -> None:
        """Makes a callback check at the last moment whether its process is stopped."""
        handle._args = (handle, handle._callback, handle._args)
        handle._callback = self._run_or_hold

    def _run_or_hold(self, handle: Any, callback: Callable[..., object], args: Any) -> None:
        buffered = self._frozen.get(handle._context.get(OWNER, ""))
        if buffered is None:
            callback(*args)
        else:
            buffered.append(handle)
