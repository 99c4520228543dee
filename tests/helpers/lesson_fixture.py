"""The scheduler of a tutorial step, on an API server in memory and on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from mooring.apiserver import ApiServer
from mooring.apiserver.auth.authentication import ADMIN, IDENTITIES
from mooring.client import Client, InProcessTransport
from mooring.clock import seeded_random
from mooring.learn.event_log import EventLog, Line
from mooring.learn.lessons import lesson
from mooring.learn.running import LessonResult, OutputHooks, learn_embedded
from mooring.learn.scenario_runner import ScenarioRunner
from mooring.learn.scenarios import SCENARIOS
from mooring.objects import Node, ObjectMeta, Pod
from mooring.objects.node import NodeSpec
from mooring.virtual_loop import LoopClock, run_virtually

Result = TypeVar("Result")

STEPS = range(1, 9)
NAME = "default-scheduler"

#: (method, path) -> a response instead of the server's, or None.
Fault = Callable[[str, str], tuple[int, dict[str, str], bytes] | None]


class Lab:
    """One running scheduler.

    Attributes:
        client: An administrator's.
        scheduler: The step's.
        event_log: The events that it emitted.
        runner: Creates nodes and pods.
    """

    def __init__(self, step: int, seed: int, fault: Fault) -> None:
        clock, rng = LoopClock(asyncio.get_running_loop()), seeded_random(seed)
        api = ApiServer(clock, rng)

        async def handle(
            method: str,
            path: str,
            query: list[tuple[str, str]],
            headers: Mapping[str, str],
            body: bytes,
        ) -> Any:
            return fault(method, path) or await api.handle(method, path, query, headers, body)

        own = InProcessTransport(handle, headers=IDENTITIES["mooring"].headers())
        admin = InProcessTransport(api.handle, headers=ADMIN.headers())
        self.client = Client(admin, rng=rng)
        self.own_client = Client(own, rng=rng)
        self.clock, self.rng = clock, rng
        self.event_log = EventLog(clock)
        self.step = step
        self.scheduler = self.new_scheduler()
        self.runner = ScenarioRunner(
            self.client,
            self.scheduler,
            self.event_log,
            namespace="default",
            scheduler_name=NAME,
            labels={},
            on_say=lambda _time_s, _text: None,
        )

    def new_scheduler(self) -> Any:
        """Returns another scheduler of the same step."""
        make = lesson(self.step).module.Scheduler
        return make(self.own_client, NAME, clock=self.clock, rng=self.rng, emit=self.event_log.emit)

    def words(self, pod: str, *whats: str) -> list[str]:
        """Returns the names of a pod's events, in order; only ``whats``, if there are any."""
        return [line.what for line in self.lines(pod, *whats)]

    def lines(self, pod: str, *whats: str) -> list[Line]:
        """Returns the events of a pod; only ``whats``, if there are any."""
        own = [line for line in self.event_log.lines if line.pod == f"default/{pod}"]
        return [line for line in own if not whats or line.what in whats]

    async def pod(self, name: str) -> Pod:
        """Returns a pod from the API server."""
        pod: Pod = await self.client.get("Pod", name, "default")
        return pod

    async def open(self, node: str) -> None:
        """Uncordons a node."""
        await self.client.patch("Node", node, {"spec": {"unschedulable": False}})

    async def node(self, name: str, *, cordoned: bool = False) -> None:
        """Creates a node."""
        spec = NodeSpec(unschedulable=cordoned)
        await self.client.create(Node(metadata=ObjectMeta(name=name), spec=spec))
        await asyncio.sleep(0.1)

    async def delete(self, pod: str) -> None:
        """Deletes a pod, and waits for the watch event."""
        await self.client.delete("Pod", pod, "default", grace_period_s=0)
        await asyncio.sleep(0.1)


@asynccontextmanager
async def lab(
    step: int, *, seed: int = 0, fault: Fault = lambda _method, _path: None
) -> AsyncIterator[Lab]:
    """Runs a scheduler during the block."""
    setup = Lab(step, seed, fault)
    async with working(setup.scheduler):
        yield setup


@asynccontextmanager
async def working(scheduler: Any) -> AsyncIterator[asyncio.Task[None]]:
    """Runs a scheduler; it must not end by itself."""
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(scheduler.run())
        await scheduler.nodes.wait_until_synced()
        await scheduler.pods.wait_until_synced()
        yield task
        assert not task.done()
        task.cancel()


def virtually(work: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
    """Runs a coroutine on virtual time, for at most an hour of it."""

    async def limited() -> Result:
        async with asyncio.timeout(3600):
            return await work()

    return run_virtually(limited())


def in_lab(
    step: int,
    play: Callable[[Lab], Awaitable[Result]],
    *,
    seed: int = 0,
    fault: Fault | None = None,
) -> Result:
    """Returns the result of ``play`` in a new lab."""

    async def work() -> Result:
        async with lab(step, seed=seed, fault=fault or (lambda _method, _path: None)) as setup:
            return await play(setup)

    return virtually(work)


def learn(step: int, variant: str, seed: int) -> LessonResult:
    """Runs a whole lesson, as ``mooring learn --fast`` does."""

    async def work() -> LessonResult:
        clock = LoopClock(asyncio.get_running_loop())
        hooks = OutputHooks(lambda _: None, lambda _time_s, _text: None)
        rng = seeded_random(seed)
        scenario = SCENARIOS[variant][step - 1]
        return await learn_embedded(lesson(step), scenario, hooks, clock=clock, rng=rng)

    return virtually(work)
