"""Notices that the event loop hangs, names the plugin that runs, and lets signals end the process.

Plugins run in the event loop: one that loops for ever stops all other work, so neither a health
endpoint nor the handler of SIGTERM in the loop can answer. A thread of its own watches the loop:

::

    loop ── heartbeat every second ──> Watchdog thread ── none for 10 s ──> log: plugin, method, pod
                                            └── a signal, and still none ──> the process exits
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final, NamedTuple

from mooring.clock import Clock

#: The loop hangs if it has not run for so long, in seconds.
HANG_S: Final = 10.0

#: Heartbeats, and checks, in this many parts of it.
CHECKS_PER_HANG: Final = 10

EXIT_HANGING: Final = 1

_log = logging.getLogger(__name__)


class Culprit(NamedTuple):
    """The plugin, method and pod that the main thread works on, "" if unknown, and its stack."""

    plugin: str
    method: str
    pod: str
    stack: str


class Watchdog:
    """Watches one event loop.

    Args:
        plugins: Returns the plugins of all profiles.
        clock: Monotonic seconds; read from a second thread too.
        hang_s: The loop hangs if it has not run for so long.
        end: Ends the process; tests pass their own.
        on_hang: Called in the watchdog's thread with what the loop runs.
    """

    def __init__(
        self,
        plugins: Callable[[], Iterable[Any]],
        *,
        clock: Clock,
        hang_s: float = HANG_S,
        end: Callable[[int], None] = os._exit,
        on_hang: Callable[[Culprit], None] = lambda _: None,
    ) -> None:
        self._plugins = plugins
        self._clock = clock
        self._hang_s = hang_s
        self._end = end
        self._on_hang = on_hang
        self._beat_s = self._clock.monotonic_s()
        self._main_thread = threading.get_ident()
        self._is_ending = False
        self._stopped = threading.Event()

    @property
    def is_hanging(self) -> bool:
        """True if the loop has not run for too long."""
        return self._clock.monotonic_s() - self._beat_s > self._hang_s

    def check_health(self) -> str | None:
        """Returns what is wrong; None if the loop runs."""
        if not self.is_hanging:
            return None
        return f"the event loop has not run for {self._clock.monotonic_s() - self._beat_s:.0f} s"

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Watches the running loop during the block."""
        self._main_thread = threading.get_ident()
        self._beat(asyncio.get_running_loop())
        thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stopped.set()

    def _beat(self, loop: asyncio.AbstractEventLoop) -> None:
        self._beat_s = self._clock.monotonic_s()
        if not self._stopped.is_set():
            loop.call_later(self._hang_s / CHECKS_PER_HANG, self._beat, loop)

    def handle_signals(self, stop: Callable[[], None]) -> None:
        """Calls ``stop`` in the loop on SIGINT and SIGTERM; the second one ends the process.

        The handlers are Python's, not the loop's: they run even while a plugin loops.
        """
        loop = asyncio.get_running_loop()

        def handle(number: int, _: FrameType | None) -> None:
            if self._is_ending or self.is_hanging:
                _log.error("ended by a signal", extra={"signal": signal.Signals(number).name})
                self._end(EXIT_HANGING)
                return
            self._is_ending = True
            loop.call_soon_threadsafe(stop)

        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, handle)

    def _watch(self) -> None:
        was_hanging, reported_s = False, 0.0
        while not self._stopped.wait(self._hang_s / CHECKS_PER_HANG):
            is_hanging = self.is_hanging
            now_s = self._clock.monotonic_s()
            # Again from time to time: it may hang in another plugin by now.
            if is_hanging and (not was_hanging or now_s - reported_s > self._hang_s):
                reported_s = now_s
                self._report()
            elif was_hanging and not is_hanging:
                _log.warning("the event loop runs again")
            was_hanging = is_hanging
            if is_hanging and self._is_ending:
                _log.error("the event loop hangs while it should end")
                self._end(EXIT_HANGING)

    def _report(self) -> None:
        culprit = culprit_of(sys._current_frames().get(self._main_thread), self._plugins())  # noqa: SLF001 - the only way to see another thread's stack
        fields = {
            "seconds": round(self._clock.monotonic_s() - self._beat_s, 1),
            "plugin": culprit.plugin or "none",
            "method": culprit.method,
            "pod": culprit.pod,
            "stack": culprit.stack,
        }
        _log.error("the event loop hangs", extra=fields)
        self._on_hang(culprit)


def culprit_of(frame: FrameType | None, plugins: Iterable[Any]) -> Culprit:
    """Returns the plugin, its method and the pod of a stack.

    Args:
        frame: The innermost frame; None if the thread has ended.
        plugins: The plugins to look for.
    """
    if frame is None:
        return Culprit("", "", "", "")
    by_id = {id(plugin): plugin for plugin in plugins}
    plugin, method, pod = "", "", ""
    for caller in _frames(frame):
        owner = by_id.get(id(caller.f_locals.get("self")))
        if owner is not None:
            # The outermost frame of the plugin is the extension point.
            plugin, method = owner.name, caller.f_code.co_name
        pod = pod or _pod_in(caller.f_locals)
    stack = "".join(traceback.format_stack(frame))
    return Culprit(plugin, method, pod, stack)


def _frames(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _pod_in(names: dict[str, Any]) -> str:
    """Returns the key of the pod among local variables of the scheduling cycle, "" if none."""
    for name in ("cycle", "entry"):
        pod = getattr(names.get(name), "pod", None)
        key = getattr(pod, "key", "")
        if isinstance(key, str) and key:
            return key
    return ""
