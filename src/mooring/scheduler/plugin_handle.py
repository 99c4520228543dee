"""The handle of a running scheduler: plugins reach clock, rng, API server and pods through it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, Protocol

from mooring.client import Client
from mooring.client.retry import Sleep
from mooring.client.transport.transport import Request
from mooring.clock import Clock, Rng
from mooring.errors import PluginError
from mooring.framework.interface import PATCHED_KINDS
from mooring.metrics.recorders import NO_SCHEDULER_METRICS, SchedulerRecorder
from mooring.objects.kinds import kind_named
from mooring.objects.meta import key as key_of
from mooring.scheduler.bind_pod import bind_pod
from mooring.scheduler.pods_in_prebind import PodsInPreBind
from mooring.scheduler.read_only_handle import ReadOnlyHandle
from mooring.scheduler.resource_claims.claim_writer import ClaimWriter
from mooring.state import PodInfo
from mooring.state.cache import Cache
from mooring.state.listers import Lister

#: Deadline of a plugin's read.
READ_S: Final = 10.0


class HandleBackend(Protocol):
    """The parts of a running scheduler that plugins reach through their handle."""

    def activate(self, uids: Iterable[str]) -> None:
        """Moves these pods to the active queue."""
        ...

    def is_preempting(self, uid: str) -> bool:
        """Returns whether victims of this pod are being evicted."""
        ...

    def store(self, kind: str) -> Mapping[str, Any] | None:
        """Returns the objects of a kind, by "namespace/name" or "name"; None = not watched."""
        ...

    def report(self, pod: PodInfo, reason: str, action: str, note: str) -> None:
        """Writes an event of type Normal about the pod."""
        ...


class NoBackend:
    """The backend of a handle without a running scheduler: nothing is watched or queued."""

    def activate(self, uids: Iterable[str]) -> None:
        """Does nothing."""

    def is_preempting(self, uid: str) -> bool:  # noqa: ARG002
        """Returns False."""
        return False

    def store(self, kind: str) -> Mapping[str, Any] | None:  # noqa: ARG002
        """Returns None."""
        return None

    def report(self, pod: PodInfo, reason: str, action: str, note: str) -> None:
        """Does nothing."""


class PluginHandle(ReadOnlyHandle):
    """The ``Handle`` of a scheduler that runs against an API server.

    Args:
        cache: The scheduler's view of the cluster.
        client: Its fence guards every write.
        backend: The running scheduler.
        clock: Monotonic seconds.
        rng: Of this run.
        sleep: Waits; tests pass their own.
        recorder: Counts the claims that are created.
    """

    def __init__(
        self,
        cache: Cache,
        client: Client,
        *,
        clock: Clock,
        rng: Rng,
        backend: HandleBackend | None = None,
        sleep: Sleep = asyncio.sleep,
        recorder: SchedulerRecorder = NO_SCHEDULER_METRICS,
    ) -> None:
        super().__init__(cache, clock, rng)
        self.pods_in_prebind = PodsInPreBind()
        #: True once the scheduler is built, and the watched kinds are fixed.
        self.is_complete = False
        self._backend: HandleBackend = backend if backend is not None else NoBackend()
        self._client = client
        self._sleep = sleep
        #: Writes resource claims, for DynamicResources.
        self.claim_writer = ClaimWriter(
            client, cache.devices, clock=clock, rng=rng, sleep=sleep, recorder=recorder
        )
        self._awaited: dict[tuple[str, str], list[asyncio.Event]] = {}
        #: Is entered while ``until`` waits.
        self.while_waiting: Callable[[], AbstractContextManager[None]] = nullcontext

    def lister(self, kind: str) -> Lister:
        """Returns the objects of a kind; once the scheduler is built, only of one it watches.

        Raises:
            ConfigError: there is no such kind.
            PluginError: the kind is not watched.
        """
        name = kind_named(kind).name
        lister = self.listers.get(name)
        if lister is None and self.is_complete:
            problem = f"kind {kind} is not watched: call handle.lister in the plugin's constructor"
            raise PluginError("", "lister", problem)
        return lister if lister is not None else self.listers.lister(name)

    def activate(self, *uids: str) -> None:
        """Tries these pods now, if they wait in the queue."""
        self._backend.activate(uids)

    def is_preempting(self, uid: str) -> bool:
        """Returns whether pods are being evicted at this moment to make room for this one."""
        return self._backend.is_preempting(uid)

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> None:
        """Calls ``callback`` once, ``delay_s`` seconds from now, between two attempts."""
        asyncio.get_running_loop().call_later(delay_s, callback)

    def report(self, pod: PodInfo, reason: str, action: str, note: str) -> None:
        """Writes an event of type Normal about the pod, in the background."""
        self._backend.report(pod, reason, action, note)

    async def bind(self, pod: PodInfo, node_name: str) -> None:
        """Binds the pod (with its UID) to the node, and returns when that is certain.

        Raises:
            ApiError: it is refused.
            OutcomeUnknown: no try was answered; it did not happen.
            Unreachable: it surely did not happen.
        """
        await bind_pod(
            self._client,
            pod.pod,
            node_name,
            clock=self._clock,
            rng=self._rng,
            sleep=self._sleep,
        )

    async def read(self, path: str) -> bytes:
        """Returns the API server's response to a GET of ``path``.

        Raises:
            ApiError: it refuses.
            Unreachable: it does not answer.
        """
        return await self._client.read(Request("GET", path, deadline_s=READ_S))

    async def patch(self, kind: str, key: str, patch: Mapping[str, Any]) -> Any:
        """Changes parts of a volume or a claim, and returns it as it is now.

        Raises:
            ApiError: it is refused.
            OutcomeUnknown: it may have happened.
            PluginError: for objects of other kinds.
        """
        if kind not in PATCHED_KINDS:
            raise PluginError("", "patch", f"plugins may not patch objects of kind {kind}")
        namespace, _, name = key.rpartition("/")
        return await self._client.patch(kind, name, patch, namespace=namespace)

    async def until(
        self, kind: str, key: str, predicate: Callable[[Any], bool], deadline_s: float
    ) -> Any:
        """Waits for an object to satisfy ``predicate`` (it is given None while there is none).

        Raises:
            PluginError: if that takes more than ``deadline_s`` seconds, or ``kind`` is not watched.
        """
        store = self._backend.store(kind)
        if store is None:
            raise PluginError("", "wait", f"objects of kind {kind} are not watched")
        changed = asyncio.Event()
        self._awaited.setdefault((kind, key), []).append(changed)
        try:
            async with asyncio.timeout(deadline_s):
                while not predicate(store.get(key)):
                    await self._wait_for_change(changed)
            return store.get(key)
        except TimeoutError as error:
            message = f"timed out after {deadline_s:g} s waiting for {kind} {key}"
            raise PluginError("", "wait", message) from error
        finally:
            waiters = self._awaited[kind, key]
            waiters.remove(changed)
            if not waiters:
                del self._awaited[kind, key]

    async def _wait_for_change(self, changed: asyncio.Event) -> None:
        changed.clear()
        with self.while_waiting():
            await changed.wait()

    def object_changed(self, kind: str, obj: Any) -> None:
        """Wakes the plugins that wait for a changed object."""
        if self._awaited:
            self.changed(kind, key_of(obj))

    def changed(self, kind: str, key: str) -> None:
        """Wakes the plugins that wait for an object."""
        for event in self._awaited.get((kind, key), ()):
            event.set()
