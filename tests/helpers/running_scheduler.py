"""A running scheduler for tests: embedded API server, virtual time, and hooks on its requests.

At the end of ``run_scheduler`` the scheduler must be idle, and its cache must agree with the
objects.
"""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, NamedTuple

from mooring.client import Client, InProcessTransport
from mooring.client.transport.transport import Request, Response, Stream, Transport
from mooring.clock import Rng, seeded_random
from mooring.config import KubeSchedulerConfiguration
from mooring.devcluster.cluster import InMemoryCluster
from mooring.errors import SchedulerError
from mooring.framework import Attempt, Diagnosis, Placement
from mooring.framework.status import Status
from mooring.framework.waiting_pods import WaitingPod
from mooring.queue import QueuedPod, QueueName
from mooring.scheduler.observer import Observer
from mooring.scheduler.reporting import error_text
from mooring.scheduler.service import Service, ServiceOptions
from mooring.state import PodInfo
from mooring.state.audit import audit
from mooring.virtual_loop import LoopClock
from tests.helpers.virtual_loop import run_virtually

#: Timeout of a wait in a test, in virtual seconds.
DEADLINE_S = 60.0
CHECK_INTERVAL_S = 0.01

Hook = Callable[[Request], Awaitable[None]]


def virtually(
    test: Callable[..., Coroutine[Any, Any, None]],
) -> Callable[..., None]:
    """Runs a test that is a coroutine on virtual time; one that never ends fails."""

    @functools.wraps(test)
    def run(*arguments: Any, **named: Any) -> None:
        run_virtually(test(*arguments, **named))

    return run


class RecordedEvent(NamedTuple):
    """An event on the API server."""

    type: str
    reason: str
    action: str
    note: str


class RecordingObserver(Observer):
    """Records the observed calls: (what, pod's name, detail)."""

    def __init__(self) -> None:
        #: The versions of pods that failed.
        self.failed_pods: list[PodInfo] = []
        self.lines: list[tuple[str, str, str]] = []

    def _note(self, what: str, entry: QueuedPod, detail: str = "") -> None:
        self.lines.append((what, entry.pod.metadata.name, detail))

    def moved(self, entry: QueuedPod, queue_name: QueueName, why: str) -> None:
        self._note(queue_name.value, entry, why)

    def attempted(self, entry: QueuedPod, attempt: Attempt, result: Placement | Diagnosis) -> None:
        self._note("attempted", entry, getattr(result, "node_name", ""))

    def waits(self, entry: QueuedPod, node_name: str, waiting: WaitingPod) -> None:
        self._note("waits", entry, ",".join(waiting.pending_plugins))

    def allowed(self, entry: QueuedPod, node_name: str) -> None:
        self._note("allowed", entry, node_name)

    def bound(self, entry: QueuedPod, node_name: str) -> None:
        self._note("bound", entry, node_name)

    def failed(self, entry: QueuedPod, why: Diagnosis | Status | SchedulerError) -> None:
        self.failed_pods.append(entry.pod)
        self._note(
            "failed", entry, error_text(why) if isinstance(why, SchedulerError) else why.message
        )

    def of(self, *whats: str) -> list[tuple[str, str, str]]:
        """Returns the lines with one of ``whats``."""
        return [line for line in self.lines if line[0] in whats]

    def names(self, what: str) -> list[str]:
        """Returns the names of the pods in lines with ``what``, in order."""
        return [name for line, name, _ in self.lines if line == what]


class HookTransport:
    """A transport with hooks before a request, or before its response is returned.

    A hook may wait, and may raise the errors of a transport.
    """

    def __init__(self, inner: Transport) -> None:
        self.before: list[Hook] = []
        self.after: list[Hook] = []
        self.requests: list[Request] = []
        self._inner = inner

    async def request(self, request: Request) -> Response:
        self.requests.append(request)
        for hook in list(self.before):
            await hook(request)
        response = await self._inner.request(request)
        for hook in list(self.after):
            await hook(request)
        return response

    def stream(self, request: Request, *, idle_s: float) -> AbstractAsyncContextManager[Stream]:
        return self._inner.stream(request, idle_s=idle_s)

    async def close(self) -> None:
        await self._inner.close()

    def count(self, method: str, end: str) -> int:
        """Returns the number of requests with this method whose path ends with ``end``."""
        return sum(sent.method == method and sent.path.endswith(end) for sent in self.requests)


def on(method: str, end: str, *, times: int = 1) -> Callable[[Hook], Hook]:
    """Limits a hook to the first requests with this method whose path ends with ``end``."""

    def only(hook: Hook) -> Hook:
        remaining = times

        async def run(request: Request) -> None:
            nonlocal remaining
            if remaining and request.method == method and request.path.endswith(end):
                remaining -= 1
                await hook(request)

        return run

    return only


class _HookedCluster(InMemoryCluster):
    """A cluster whose scheduler uses a ``HookTransport``."""

    transports: list[HookTransport]

    def _client(self, headers: dict[str, str], rng: Rng) -> Client:
        transport = HookTransport(InProcessTransport(self.api.handle, headers=headers))
        if not hasattr(self, "transports"):
            self.transports = []
        self.transports.append(transport)
        return Client(transport, rng=rng)


class Life:
    """The operations of tests on a running scheduler."""

    def __init__(
        self, world: _HookedCluster, observer: RecordingObserver, clock: LoopClock
    ) -> None:
        self.world = world
        self.observer = observer
        self.clock = clock
        self.api = world.api
        self.client = world.client
        self.service: Service = world.service
        self.wire = world.transports[-1]

    async def create(self, *objects: Any) -> Any:
        """Creates objects; returns the last one as stored."""
        for obj in objects:
            stored = await self.client.create(obj)
        return stored

    async def delete(self, name: str, *, grace_period_s: int | None = 0) -> None:
        """Deletes a pod."""
        await self.client.delete("Pod", name, "default", grace_period_s=grace_period_s)

    async def until(self, holds: Callable[[], Any], *, deadline_s: float = DEADLINE_S) -> None:
        """Waits until a condition holds."""
        ends_s = self.clock.monotonic_s() + deadline_s
        while not holds():
            assert self.clock.monotonic_s() < ends_s, self.observer.lines[-20:]
            await asyncio.sleep(CHECK_INTERVAL_S)

    async def until_seen(self, what: str, name: str, *, times: int = 1) -> None:
        """Waits until a pod has ``times`` lines with ``what``."""
        await self.until(
            lambda: [line for line, of, _ in self.observer.lines if of == name].count(what) >= times
        )

    async def again(self, name: str) -> None:
        """Activates a pod after its watch events have arrived."""
        await asyncio.sleep(CHECK_INTERVAL_S)
        pod = self.service.informers["Pod"].objects[f"default/{name}"]
        self.service.queue.activate([pod.metadata.uid])

    async def settle(self) -> None:
        """Waits until the scheduler is idle."""
        await asyncio.sleep(0.1)
        await self.until(lambda: self.service.is_settled)

    async def node_of(self, name: str) -> str:
        """Returns the node of a pod on the API server."""
        return str((await self.client.get("Pod", name, "default")).spec.node_name)

    async def raw(self, name: str, kind: str = "pods", namespace: str = "default") -> Any:
        """Returns an object as decoded JSON."""
        path = f"/api/v1/namespaces/{namespace}/{kind}/{name}"
        return json.loads(await self.client.read(Request("GET", path, deadline_s=5.0)))

    async def condition(self, name: str, kind: str = "PodScheduled") -> Any:
        """Returns a condition of a pod; None if it has none of this type."""
        conditions = (await self.raw(name))["status"].get("conditions", [])
        return next((item for item in conditions if item["type"] == kind), None)

    async def events(self, name: str) -> list[RecordedEvent]:
        """Returns the events of a pod, by time."""
        listed = await self.client.list("Event", "default")
        items = sorted(listed.items, key=lambda event: event.event_time or "")
        return [
            RecordedEvent(event.type, event.reason, event.action, event.note)
            for event in items
            if event.regarding.name == name
        ]


@asynccontextmanager
async def run_scheduler(
    *objects: Any,
    plugins: Any = (),
    config: KubeSchedulerConfiguration | None = None,
    at_rest: bool = True,
    instant_deletion: bool = True,
    **options: Any,
) -> AsyncIterator[Life]:
    """Runs a scheduler during the block.

    Args:
        objects: Created before it starts.
        plugins: Further plugins.
        config: Of the scheduler.
        at_rest: Whether it must be idle at the end.
        instant_deletion: Of the API server.
        options: As ``ServiceOptions``.
    """
    clock, observer = LoopClock(asyncio.get_running_loop()), RecordingObserver()
    world = _HookedCluster(
        config,
        clock=clock,
        rng=seeded_random(0),
        options=ServiceOptions(plugins=plugins, observer=observer, **options),
        instant_deletion=instant_deletion,
    )
    life = Life(world, observer, clock)
    if objects:
        await life.create(*objects)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(world.run())
        await world.service.wait_until_synced()
        yield life
        assert audit(world.service.cache) == []
        if at_rest:
            await life.settle()
            assert world.service.queue.in_flight_events == 0
            assert world.service.cache.assumed_count() == 0
            assert not len(world.service.handle.waiting)
        world.service.stop()
        await running
