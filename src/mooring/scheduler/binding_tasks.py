"""Runs binding cycles as tasks, and limits those with a request in progress."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from typing import Any, Final, NamedTuple

from mooring.clock import Rng
from mooring.errors import InvariantViolation, LeaseLost, SchedulerError

#: Bindings with a request in progress; scheduling pauses beyond that. The API server limits its own
#: concurrency, so more would only be refused (429).
BINDINGS_MAX: Final = 256

#: A request that takes longer is slow, and does not count for the limit: requests that are never
#: answered must not stop the scheduling of all other pods.
SLOW_S: Final = 2.0

#: Slow requests of one namespace. Further ones wait, so that they do not use up the connections.
SLOW_PER_NAMESPACE_MAX: Final = 32

#: How long a binding waits for that, before it fails.
NAMESPACE_WAIT_S_MAX: Final = 30.0

#: Pause of scheduling after a request that did not reach the API server: doubled up to the maximum.
PAUSE_S: Final = 0.2
PAUSE_S_MAX: Final = 5.0

_log = logging.getLogger(__name__)


class _Request(NamedTuple):
    """A binding request in progress; the time is the event loop's."""

    namespace: str
    started_at_s: float


class _Requests:
    """The requests in progress, and how many of them are slow. Complexity: O(1), amortized."""

    def __init__(self) -> None:
        #: The oldest first.
        self._recent: dict[object, _Request] = {}
        self._slow: dict[object, _Request] = {}
        self._slow_by_namespace: Counter[str] = Counter()

    def start(self, namespace: str, now_s: float) -> object:
        """Adds a request; returns what ends it."""
        key = object()
        self._recent[key] = _Request(namespace, now_s)
        return key

    def end(self, key: object) -> None:
        """Removes a request."""
        if self._recent.pop(key, None) is not None:
            return
        namespace = self._slow.pop(key).namespace
        self._slow_by_namespace[namespace] -= 1
        if not self._slow_by_namespace[namespace]:
            del self._slow_by_namespace[namespace]

    def slow_count(self, now_s: float) -> int:
        """Returns the number of slow requests."""
        self._update(now_s)
        return len(self._slow)

    def slow_count_of(self, namespace: str, now_s: float) -> int:
        """Returns the number of slow requests of one namespace."""
        self._update(now_s)
        return self._slow_by_namespace[namespace]

    def _update(self, now_s: float) -> None:
        while self._recent:
            key, request = next(iter(self._recent.items()))
            if request.started_at_s > now_s - SLOW_S:
                return  # this one and all later ones are not slow
            self._slow[key] = self._recent.pop(key)
            self._slow_by_namespace[request.namespace] += 1


class RequestInProgress:
    """A request that is in progress while the block runs."""

    __slots__ = ("_key", "_namespace", "_tasks")

    def __init__(self, tasks: BindingTasks, namespace: str) -> None:
        self._tasks = tasks
        self._namespace = namespace

    async def __aenter__(self) -> None:
        self._key = await self._tasks.start_request(self._namespace)

    async def __aexit__(self, *_: object) -> None:
        self._tasks.end_request(self._namespace, self._key)


class BindingTasks:
    """Starts binding tasks and counts those with a request in progress.

    Args:
        rng: For jitter.
        limit: Bindings with a request in progress at the same time.
    """

    def __init__(self, rng: Rng, *, limit: int = BINDINGS_MAX) -> None:
        self._rng = rng
        self._limit = limit
        self._running: set[asyncio.Task[None]] = set()
        self._tasks: asyncio.TaskGroup | None = None
        #: Bindings that wait in Permit or PreBind, outside any request.
        self._waiting = 0
        #: Of those, the ones that wait in Permit, or in PreBind for a change of an object.
        self._idle = 0
        self._requests = _Requests()
        #: Namespace with too many slow requests -> set when one of them ends.
        self._resumed: dict[str, asyncio.Event] = {}
        self._changed = asyncio.Event()
        self._pause_s = 0.0
        #: The event loop's clock; its method is kept by ``open``, since to find the running loop
        #: takes a system call in Python 3.11.
        self._now_s: Callable[[], float] = _loop_time_s

    def __len__(self) -> int:
        return len(self._running)

    def open(self, tasks: asyncio.TaskGroup) -> None:
        """Starts bindings as tasks of this group from now on."""
        self._tasks = tasks
        self._now_s = asyncio.get_running_loop().time

    def start(self, binding: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Runs a binding in the background. Its failures never end other bindings."""
        assert self._tasks is not None, "open() comes first"
        task = self._tasks.create_task(self._supervise(binding))
        self._running.add(task)
        task.add_done_callback(self._ended)

    async def wait_for_slot(self) -> None:
        """Waits until another pod may be scheduled."""
        while self._in_progress() >= self._limit:
            await self._wait_for_change()
        if self._pause_s:
            await asyncio.sleep(self._pause_s * (1 + self._rng.random()))

    async def drain(self, deadline_s: float) -> int:
        """Waits for running bindings. Returns how many did not end in time.

        Bindings that wait in Permit, or for a change of an object, are not waited for: that may
        never come, and none of their requests is in progress.
        """
        try:
            async with asyncio.timeout(deadline_s):
                while len(self._running) > self._idle:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            pass
        return len(self._running) - self._idle

    def cancel(self) -> None:
        """Cancels all running bindings: the scheduler ends."""
        for task in list(self._running):
            task.cancel()

    def request(self, namespace: str) -> AbstractAsyncContextManager[None] | None:
        """Is in progress while the block runs, which binds a pod of this namespace.

        Returns None if a binding takes no time, so that none is ever in progress.

        Raises:
            SchedulerError: too many requests of the namespace have no answer.
        """
        return RequestInProgress(self, namespace)

    async def start_request(self, namespace: str) -> object:
        """Begins a request of ``request``; returns what ``end_request`` needs."""
        if self._is_full(namespace):
            await self._wait_for_namespace(namespace)
        return self._requests.start(namespace, self._now_s())

    def end_request(self, namespace: str, key: object) -> None:
        """Ends a request."""
        self._requests.end(key)
        self._changed.set()
        if self._resumed and not self._is_full(namespace):
            self._resumed.pop(namespace, asyncio.Event()).set()

    def _is_full(self, namespace: str) -> bool:
        return self._requests.slow_count_of(namespace, self._now_s()) >= SLOW_PER_NAMESPACE_MAX

    def _in_progress(self) -> int:
        """Returns the number of bindings that count for the limit."""
        return len(self._running) - self._waiting - self._requests.slow_count(self._now_s())

    async def _wait_for_namespace(self, namespace: str) -> None:
        with self.outside_request(), suppress(TimeoutError):
            async with asyncio.timeout(NAMESPACE_WAIT_S_MAX):
                while self._is_full(namespace):
                    # Not at every change: hundreds of bindings may wait here.
                    await self._resumed.setdefault(namespace, asyncio.Event()).wait()
        if self._is_full(namespace):
            message = f"{SLOW_PER_NAMESPACE_MAX} bindings of namespace {namespace} have no answer"
            raise SchedulerError(f"not bound: {message}")

    async def _wait_for_change(self) -> None:
        """Waits until a binding ends or waits, or a request may have become slow."""
        self._changed.clear()
        # Cheaper than asyncio.timeout: with slow bindings, this is done for each pod.
        timer = asyncio.get_running_loop().call_later(SLOW_S, self._changed.set)
        try:
            await self._changed.wait()
        finally:
            timer.cancel()

    @contextmanager
    def outside_request(self) -> Iterator[None]:
        """Excludes this binding from the in-request limit while it waits."""
        self._waiting += 1
        self._changed.set()
        try:
            yield
        finally:
            self._waiting -= 1

    @contextmanager
    def waiting_in_permit(self) -> Iterator[None]:
        """Excludes this binding from the limit, and from ``drain``, while it waits in Permit."""
        self._idle += 1
        try:
            with self.outside_request():
                yield
        finally:
            self._idle -= 1

    @contextmanager
    def waiting_for_object(self) -> Iterator[None]:
        """Excludes this binding from ``drain`` while PreBind waits for a change of an object.

        Does nothing in a task that is no binding, or only a part of one.
        """
        is_binding = asyncio.current_task() in self._running
        self._idle += is_binding
        self._changed.set()
        try:
            yield
        finally:
            self._idle -= is_binding

    def record_unreachable(self) -> None:
        """Pauses scheduling: a request did not reach the API server."""
        self._pause_s = min(2 * self._pause_s or PAUSE_S, PAUSE_S_MAX)

    def record_success(self) -> None:
        """Ends the pause: a request was answered."""
        self._pause_s = 0.0

    async def _supervise(self, binding: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            # Created here: a task that is cancelled before it starts leaves no coroutine behind.
            await binding()
        except (InvariantViolation, LeaseLost):
            raise
        except Exception:  # noqa: BLE001 - a failure of one binding must not end the others
            _log.exception("unexpected error in binding")

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._changed.set()


def _loop_time_s() -> float:
    return asyncio.get_running_loop().time()
