"""Notices that the event loop hangs, names the plugin that runs, and lets signals end the process.

Plugins run in the event loop: one that loops for ever stops all other work, so neither a health
endpoint nor the handler of SIGTERM in the loop can answer. A thread of its own watches the loop:

::

    loop ── heartbeat every second ──> Watchdog thread ── none for 10 s ──> log: plugin, method, pod
                                            └── a signal, and still none ──> the process exits

The commands that schedule offline have a ``PluginDeadline`` instead.
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
from mooring.errors import PluginError

#: The loop hangs if it has not run for so long, in seconds.
HANG_S: Final = 10.0

#: Heartbeats, and checks, in this many parts of it.
CHECKS_PER_HANG: Final = 10

EXIT_HANGING: Final = 1

#: A call of a plugin may take so long, in seconds.
PLUGIN_CALL_S_MAX: Final = 30.0

#: Looks at the stack, in this many parts of it.
LOOKS: Final = 20

#: A call that ignores the exception ends the process so many seconds later.
ENDS_AFTER_S: Final = 10.0

EXIT_OF_COMMAND: Final = 2

#: Modules that call plugins. What they call and is not mooring's is a plugin.
CALLERS: Final = ("mooring.framework.", "mooring.queue.")
OWN: Final = "mooring."

#: Modules of debuggers: a call that waits at a breakpoint does not hang.
DEBUGGERS: Final = ("bdb", "pdb", "pydevd", "debugpy")


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
    for caller in frames_of(frame):
        owner = by_id.get(id(caller.f_locals.get("self")))
        if owner is not None:
            # The outermost frame of the plugin is the extension point.
            plugin, method = owner.name, caller.f_code.co_name
        pod = pod or pod_in(caller.f_locals)
    stack = "".join(traceback.format_stack(frame))
    return Culprit(plugin, method, pod, stack)


def frames_of(frame: FrameType | None) -> Iterator[FrameType]:
    """Yields the frames of a stack, the innermost first."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def pod_in(names: dict[str, Any]) -> str:
    """Returns the key of the pod among local variables of the scheduling cycle, "" if none."""
    for name in ("cycle", "entry"):
        pod = getattr(names.get(name), "pod", None)
        key = getattr(pod, "key", "")
        if isinstance(key, str) and key:
            return key
    return ""


class PluginCall(NamedTuple):
    """A running call of a plugin: its frame, where it is, and the pod, "" if unknown."""

    frame: FrameType
    plugin: str
    point: str
    pod: str
    location: str

    def error(self, limit_s: float) -> PluginError:
        """Returns the error that ends the command."""
        of_pod = f" for pod {self.pod}" if self.pod else ""
        problem = f"has not returned{of_pod} in {limit_s:g} s, it is at {self.location}"
        return PluginError(self.plugin, self.point, problem)


def plugin_call(frame: FrameType | None) -> PluginCall | None:
    """Returns the innermost call of a plugin that is not mooring's own; None = there is none.

    Args:
        frame: The innermost frame of a thread.
    """
    for callee in frames_of(frame):
        module, caller = str(callee.f_globals.get("__name__", "")), callee.f_back
        if module.partition(".")[0] in DEBUGGERS:
            return None
        if caller is None or module.startswith(OWN):
            continue
        if str(caller.f_globals.get("__name__", "")).startswith(CALLERS):
            code = callee.f_code
            name = getattr(callee.f_locals.get("self"), "name", None)
            plugin = name if isinstance(name, str) else f"{module}.{code.co_qualname}"
            point = "".join(part.capitalize() for part in code.co_name.split("_"))
            pods = (pod_in(outer.f_locals) for outer in frames_of(callee))
            pod = next(filter(None, pods), "")
            location = f"{code.co_filename}:{callee.f_lineno}"
            return PluginCall(callee, plugin, point, pod, location)
    return None


class PluginDeadline:
    """Interrupts the main thread when a call of a plugin takes too long.

    Offline commands have no event loop that hangs. A thread looks at the stack of the main thread
    from time to time: a call is the same as long as its frame is. Plugins of mooring itself are not
    limited.

    Args:
        limit_s: A call may take so long.
        clock: Monotonic seconds; read from a second thread too.
        ends_after_s: The process ends if the call ignores the interruption for so long.
        end: Ends the process; tests pass their own.
    """

    def __init__(
        self,
        limit_s: float,
        *,
        clock: Clock,
        ends_after_s: float = ENDS_AFTER_S,
        end: Callable[[int], Any] = os._exit,
    ) -> None:
        self._limit_s = limit_s
        self._ends_after_s = ends_after_s
        self._clock = clock
        self._end = end
        self._stopped = threading.Event()
        self._call: PluginCall | None = None
        self._since_s = 0.0
        self._hanging: PluginCall | None = None

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Watches the calls of the block; in another thread than the main one, nothing.

        Raises:
            PluginError: a plugin did not return.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        number = signal.SIGALRM
        before = signal.signal(number, self._interrupt)
        main_thread = threading.get_ident()
        thread = threading.Thread(
            target=self._watch, args=(main_thread,), name="plugin-deadline", daemon=True
        )
        thread.start()
        try:
            yield
        except KeyboardInterrupt:
            if self._hanging is None:
                raise
            raise self._hanging.error(self._limit_s) from None
        finally:
            self._stopped.set()
            thread.join()
            signal.signal(number, before)

    def _interrupt(self, _number: int, _frame: FrameType | None) -> None:
        if self._hanging is not None and not self._stopped.is_set():
            raise KeyboardInterrupt

    def _watch(self, main_thread: int) -> None:
        while not self._stopped.wait(self._limit_s / LOOKS):
            self._look(main_thread)

    def _look(self, main_thread: int) -> None:
        call = plugin_call(sys._current_frames().get(main_thread))  # noqa: SLF001 - the only way to see another thread's stack
        now_s = self._clock.monotonic_s()
        if call is None or self._call is None or call.frame is not self._call.frame:
            self._call, self._since_s = call, now_s
            return
        lasted_s = now_s - self._since_s
        if lasted_s > self._limit_s + self._ends_after_s:
            _log.error("%s", call.error(self._limit_s))
            self._end(EXIT_OF_COMMAND)
        elif lasted_s > self._limit_s:
            self._hanging = call
            signal.pthread_kill(main_thread, signal.SIGALRM)
