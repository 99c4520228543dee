"""Runs calls one after the other; long ones in a thread, so that the event loop serves the others.

Decoding, validating and encoding an object of a mebibyte takes up to a second of Python. In a
thread this delays other requests by milliseconds only. What the thread reads does not change
meanwhile: no other call begins before it ends or pauses, and all its changes are commits, which run
on the event loop, where everything else reads::

    thread   │ decode, validate, encode │           │ render the response │
                                        ▼           ▲
    loop     read, read, read, read ... │  commit   │  read, read ...      the next call

What takes seconds, such as the evaluation of rules in CEL, often depends on a request alone. Such a
computation ends the turn of its call. When its result is there, the call begins anew, and uses it::

    call          │ decode ─ pending │                   │ decode ─ use the result ─ commit │
    other calls                      │ write │ write ... │
    computation                      │ compute           │

Source: none; kube-apiserver has goroutines, and etcd for the commits.
"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final, TypeVar, cast

from mooring.garbage import without_collections

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Hashable

T = TypeVar("T")

#: Bytes of JSON from which on the handling of a request should run in a thread: decoding and
#: validating takes up to a microsecond for each.
LARGE_BYTES: Final = 32 * 1024

#: Commits of a call in a thread after which other calls come first.
COMMITS_BETWEEN_PAUSES: Final = 50

#: Calls that may pause at the same time; each keeps its thread.
PAUSED_MAX: Final = 3

#: Computations of a call that end its turn. A call that needs more, because what it reads changes
#: each time, keeps its turn.
COMPUTATIONS_MAX: Final = 3


class Pending(BaseException):
    """A computation of a call that ends its turn; no code of the call may catch it."""

    def __init__(self, key: Hashable, compute: Callable[[], object]) -> None:
        super().__init__("a computation is pending")
        self.key = key
        self.compute = compute


class _Results:
    """Results that a call has when it begins anew."""

    def __init__(self) -> None:
        self.values: dict[Hashable, object] = {}
        self.n_computed = 0


class SerialExecutor:
    """Runs one call at a time.

    Attributes:
        has_threads: Whether long calls may run in threads; not on a virtual event loop.
    """

    def __init__(self) -> None:
        self.has_threads = False
        self._turn = asyncio.Lock()
        self._waiting = 0
        #: Of the call that runs in a thread.
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0
        self._commits = 0
        self._paused = 0
        self._results: _Results | None = None
        #: Not that of the event loop: the call whose turn it is must find a thread.
        self._threads = ThreadPoolExecutor(PAUSED_MAX + 1, "serial-executor")
        #: One thread: several would take turns, and compute the same.
        self._readers = ThreadPoolExecutor(1, "serial-reader")
        #: One as well, so that the event loop has half of the time.
        self._computers = ThreadPoolExecutor(1, "serial-computer")

    @property
    def may_run(self) -> bool:
        """True if the caller may make changes: no thread runs a call, or it is this thread."""
        return self._loop is None or threading.get_ident() == self._thread

    async def run(self, call: Callable[[], T]) -> T:
        """Runs a short call on the event loop; waits only while a long one runs in a thread."""
        if self._loop is None and not self._turn.locked():
            return call()
        async with self._in_turn():
            return call()

    async def read_in_thread(self, call: Callable[[], T]) -> T:
        """Runs a long call that reads only what never changes, such as the schemas of resources."""
        if not self.has_threads:
            return call()
        return await asyncio.get_running_loop().run_in_executor(self._readers, call)

    async def run_in_thread(self, call: Callable[[], T]) -> T:
        """Runs a long call in a thread; its changes are made on the event loop by ``commit``.

        If the caller is cancelled, the call ends first. A call begins anew after a computation that
        has ended its turn, so it must not have changed anything before.
        """
        results = _Results()
        while True:
            try:
                return await self._run_in_turn(call, results)
            except Pending as pending:
                loop = asyncio.get_running_loop()
                with without_collections():
                    value = await loop.run_in_executor(self._computers, pending.compute)
                results.values[pending.key] = value
                results.n_computed += 1

    async def _run_in_turn(self, call: Callable[[], T], results: _Results) -> T:
        async with self._in_turn():
            self._loop = asyncio.get_running_loop()
            try:
                # Decoded JSON has no cycles, and a search would hold both threads.
                with without_collections():
                    return await _ended(
                        self._loop.run_in_executor(self._threads, self._run, call, results)
                    )
            finally:
                self._loop = None

    @asynccontextmanager
    async def _in_turn(self) -> AsyncIterator[None]:
        self._waiting += 1
        try:
            await self._turn.acquire()
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            self._turn.release()

    def _run(self, call: Callable[[], T], results: _Results) -> T:
        self._thread = threading.get_ident()
        self._commits = 0
        self._results = results
        try:
            return call()
        finally:
            self._results = None

    def computed(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Returns the result of a function; a call in a thread ends its turn while it runs.

        Args:
            key: What the result depends on, in this call.
            compute: Computes for long, and reads nothing that other calls change.

        Raises:
            Pending: the call begins anew when the result is there.
        """
        results = self._own_results()
        if results is None:
            return compute()
        if key not in results.values and results.n_computed < COMPUTATIONS_MAX:
            raise Pending(key, compute)
        return self.decided(key, compute)

    def decided(self, key: Hashable, decide: Callable[[], T]) -> T:
        """Returns the result of a short function, which is the same if the call begins anew.

        For what is random, or depends on the time.
        """
        results = self._own_results()
        if results is None:
            return decide()
        if key not in results.values:
            results.values[key] = decide()
        return cast("T", results.values[key])

    def _own_results(self) -> _Results | None:
        """Returns the results of the call in this thread; None on the event loop."""
        is_own = self._loop is not None and threading.get_ident() == self._thread
        return self._results if is_own else None

    def commit(self, change: Callable[[], T]) -> T:
        """Makes a change on the event loop, and returns its result; at once unless in a thread."""
        loop = self._loop
        if loop is None or threading.get_ident() != self._thread:
            return change()
        self._commits += 1
        return _on_loop(loop, change)

    def pause(self) -> None:
        """Lets other calls come first, after many commits of a call in a thread.

        For loops over many objects that cope with what others change meanwhile.
        """
        loop = self._loop
        if loop is None or threading.get_ident() != self._thread:
            return
        if self._commits < COMMITS_BETWEEN_PAUSES or not self._waiting:
            return
        if self._paused >= PAUSED_MAX:
            return
        self._paused += 1
        asyncio.run_coroutine_threadsafe(self._let_others_run(loop), loop).result()
        self._paused -= 1
        self._commits = 0

    async def _let_others_run(self, loop: asyncio.AbstractEventLoop) -> None:
        thread, results, self._loop = self._thread, self._results, None
        self._turn.release()
        is_back = False
        while not is_back:
            # All tasks are cancelled if the loop ends, but the thread has to end its call.
            with suppress(asyncio.CancelledError):
                is_back = await self._turn.acquire()
        self._loop, self._thread, self._results = loop, thread, results


def _on_loop(loop: asyncio.AbstractEventLoop, change: Callable[[], T]) -> T:
    """Calls a function on the event loop, and waits for its result in this thread."""
    future: Future[T] = Future()

    def call() -> None:
        try:
            future.set_result(change())
        except BaseException as error:  # noqa: BLE001 - the thread raises it
            future.set_exception(error)

    loop.call_soon_threadsafe(call)
    return future.result()


async def _ended(running: asyncio.Future[T]) -> T:
    """Waits for the end of a thread's call, even if the caller is cancelled meanwhile."""
    cancelled: asyncio.CancelledError | None = None
    while not running.done():
        try:
            await asyncio.wait([running])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is None:
        return running.result()
    running.exception()  # else asyncio logs that it was not read
    raise cancelled
