"""A living scheduler for tests: embedded API server, virtual time, and a hand in between.

``living`` is a whole one, of which everything can be asked; at its end it must be at rest and its
cache must say what its objects say.
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
from mooring.virtual_loop import LoopClock, run_virtually

#: Virtual seconds after which a test does not believe that something happens any more.
DEADLINE_S = 60.0
CHECK_INTERVAL_S = 0.01

Hook = Callable[[Request], Awaitable[None]]


def virtually(
    test: Callable[..., Coroutine[Any, Any, None]],
) -> Callable[..., None]:
    """Run a test that is a coroutine on virtual time."""

    @functools.wraps(test)
    def run(*arguments: Any, **named: Any) -> None:
        run_virtually(test(*arguments, **named))

    return run


class Told(NamedTuple):
    """An event as the API server has it."""

    type: str
    reason: str
    action: str
    note: str


class Seen(Observer):
    """Remembers what it was told: (what, pod's name, detail)."""

    def __init__(self) -> None:
        #: The versions of pods in which they came back into the queue.
        self.parked: list[PodInfo] = []
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
        self.parked.append(entry.pod)
        self._note(
            "failed", entry, error_text(why) if isinstance(why, SchedulerError) else why.message
        )

    def of(self, *whats: str) -> list[tuple[str, str, str]]:
        """The lines about these."""
        return [line for line in self.lines if line[0] in whats]

    def names(self, what: str) -> list[str]:
        """The pods of which ``what`` was said, in order."""
        return [name for said, name, _ in self.lines if said == what]


class Meddler:
    """A transport that passes everything on; hooks run before a request, or before its answer.

    A hook may wait, and may raise what a transport raises.
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
        """How many requests there were of this method, whose path ends so."""
        found = [each for each in self.requests if each.method == method]
        return sum(each.path.endswith(end) for each in found)


def on(method: str, end: str, *, times: int = 1) -> Callable[[Hook], Hook]:
    """Run a hook only for the first so many requests of this method whose path ends so."""

    def only(hook: Hook) -> Hook:
        left = times

        async def run(request: Request) -> None:
            nonlocal left
            if left and request.method == method and request.path.endswith(end):
                left -= 1
                await hook(request)

        return run

    return only


class _MeddledCluster(InMemoryCluster):
    """Whose scheduler talks through a ``Meddler``."""

    meddlers: list[Meddler]

    def _client(self, headers: dict[str, str], rng: Rng) -> Client:
        meddler = Meddler(InProcessTransport(self.api.handle, headers=headers))
        if not hasattr(self, "meddlers"):
            self.meddlers = []
        self.meddlers.append(meddler)
        return Client(meddler, rng=rng)


class Life:
    """What a test may do to a living scheduler, and ask of it."""

    def __init__(self, world: _MeddledCluster, seen: Seen, clock: LoopClock) -> None:
        self.world = world
        self.seen = seen
        self.clock = clock
        self.api = world.api
        self.client = world.client
        self.service: Service = world.service
        self.wire = world.meddlers[-1]

    async def create(self, *objects: Any) -> Any:
        """Store objects; returns the last one as stored."""
        for obj in objects:
            stored = await self.client.create(obj)
        return stored

    async def delete(self, name: str, *, grace_period_s: int | None = 0) -> None:
        """Delete a pod."""
        await self.client.delete("Pod", name, "default", grace_period_s=grace_period_s)

    async def until(self, holds: Callable[[], Any], *, deadline_s: float = DEADLINE_S) -> None:
        """Let time go by until something holds."""
        ends_s = self.clock.monotonic_s() + deadline_s
        while not holds():
            assert self.clock.monotonic_s() < ends_s, self.seen.lines[-20:]
            await asyncio.sleep(CHECK_INTERVAL_S)

    async def until_seen(self, what: str, name: str, *, times: int = 1) -> None:
        """Let time go by until ``what`` was said of a pod so often."""
        await self.until(
            lambda: [said for said, of, _ in self.seen.lines if of == name].count(what) >= times
        )

    async def again(self, name: str) -> None:
        """Have a parked pod tried, once its news have come."""
        await asyncio.sleep(CHECK_INTERVAL_S)
        pod = self.service.informers["Pod"].objects[f"default/{name}"]
        self.service.queue.activate([pod.metadata.uid])

    async def settle(self) -> None:
        """Let time go by until the scheduler has nothing to do."""
        await asyncio.sleep(0.1)
        await self.until(lambda: self.service.is_settled)

    async def node_of(self, name: str) -> str:
        """Where a pod is, as the API server says."""
        return str((await self.client.get("Pod", name, "default")).spec.node_name)

    async def raw(self, name: str, kind: str = "pods", namespace: str = "default") -> Any:
        """An object as the API writes it."""
        path = f"/api/v1/namespaces/{namespace}/{kind}/{name}"
        return json.loads(await self.client.read(Request("GET", path, deadline_s=5.0)))

    async def condition(self, name: str) -> Any:
        """The pod's PodScheduled condition; None if it has none."""
        found = (await self.raw(name))["status"].get("conditions", [])
        return next((each for each in found if each["type"] == "PodScheduled"), None)

    async def events(self, name: str) -> list[Told]:
        """What the API server was told of a pod, in the order of its names' times."""
        found = await self.client.list("Event", "default")
        items = sorted(found.items, key=lambda event: event.event_time or "")
        return [
            Told(event.type, event.reason, event.action, event.note)
            for event in items
            if event.regarding.name == name
        ]


@asynccontextmanager
async def living(
    *objects: Any,
    plugins: Any = (),
    config: KubeSchedulerConfiguration | None = None,
    at_rest: bool = True,
    instant_deletion: bool = True,
    **options: Any,
) -> AsyncIterator[Life]:
    """A scheduler that knows ``objects``; ended with the block, by ``stop``.

    Args:
        objects: Are there before it.
        plugins: Further plugins.
        config: Of the scheduler.
        at_rest: Whether nothing may be left over at the end.
        instant_deletion: Of the API server.
        options: As ``ServiceOptions``.
    """
    clock, seen = LoopClock(asyncio.get_running_loop()), Seen()
    world = _MeddledCluster(
        config,
        clock=clock,
        rng=seeded_random(0),
        options=ServiceOptions(plugins=plugins, observer=seen, **options),
        instant_deletion=instant_deletion,
    )
    life = Life(world, seen, clock)
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
