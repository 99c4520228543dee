"""A step's scheduler on an API server in memory and on virtual time, to be tried out."""

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
from mooring.objects import Node, ObjectMeta, Pod
from mooring.objects.node import NodeSpec
from mooring.virtual_loop import LoopClock, run_virtually

Result = TypeVar("Result")

STEPS = range(1, 9)
NAME = "default-scheduler"

#: (method, path) -> an answer instead of the server's, or None.
Fault = Callable[[str, str], tuple[int, dict[str, str], bytes] | None]


class Lab:
    """One scheduler at work.

    Attributes:
        client: An administrator's.
        scheduler: The step's.
        board: What it has told.
        stage: Creates nodes and pods.
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
        """Another one of the same step."""
        make = lesson(self.step).module.Scheduler
        return make(self.own_client, NAME, clock=self.clock, rng=self.rng, emit=self.event_log.emit)

    def words(self, pod: str, *whats: str) -> list[str]:
        """What happened to a pod, in order; only these words, if any are given."""
        return [line.what for line in self.lines(pod, *whats)]

    def lines(self, pod: str, *whats: str) -> list[Line]:
        """The lines about a pod with these words, or all of them."""
        own = [line for line in self.event_log.lines if line.pod == f"default/{pod}"]
        return [line for line in own if not whats or line.what in whats]

    async def pod(self, name: str) -> Pod:
        """As the API server has it."""
        found: Pod = await self.client.get("Pod", name, "default")
        return found

    async def open(self, node: str) -> None:
        """Let a cordoned node take pods again."""
        await self.client.patch("Node", node, {"spec": {"unschedulable": False}})

    async def node(self, name: str, *, cordoned: bool = False) -> None:
        """Create one node under any name."""
        spec = NodeSpec(unschedulable=cordoned)
        await self.client.create(Node(metadata=ObjectMeta(name=name), spec=spec))
        await asyncio.sleep(0.1)

    async def delete(self, pod: str) -> None:
        """Delete a pod, and let the news go round."""
        await self.client.delete("Pod", pod, "default", grace_period_s=0)
        await asyncio.sleep(0.1)


@asynccontextmanager
async def lab(
    step: int, *, seed: int = 0, fault: Fault = lambda _method, _path: None
) -> AsyncIterator[Lab]:
    """A lab whose scheduler works for as long as the block lasts."""
    found = Lab(step, seed, fault)
    async with working(found.scheduler):
        yield found


@asynccontextmanager
async def working(scheduler: Any) -> AsyncIterator[asyncio.Task[None]]:
    """Run a scheduler; it must not end by itself."""
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(scheduler.run())
        await scheduler.nodes.wait_until_synced()
        await scheduler.pods.wait_until_synced()
        yield task
        assert not task.done()
        task.cancel()


def virtually(work: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
    """The result of a coroutine on virtual time; an hour of that is enough for anything."""

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
    """What ``play`` returns, in a lab of its own."""

    async def work() -> Result:
        async with lab(step, seed=seed, fault=fault or (lambda _method, _path: None)) as found:
            return await play(found)

    return virtually(work)


def learn(step: int, variant: str, seed: int) -> LessonResult:
    """A whole lesson, as ``mooring learn --fast`` gives it."""

    async def work() -> LessonResult:
        clock = LoopClock(asyncio.get_running_loop())
        hooks = OutputHooks(lambda _: None, lambda _time_s, _text: None)
        rng = seeded_random(seed)
        return await learn_embedded(lesson(step), variant, hooks, clock=clock, rng=rng)

    return virtually(work)
