"""A small cluster on virtual time whose faults are planned, one by one."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from mooring.apiserver import ApiServer
from mooring.apiserver.resources import BY_PATH
from mooring.client import Client, InProcessTransport, Request, Transport
from mooring.client.transport.transport import Response, Stream
from mooring.clock import seeded_random
from mooring.config import KubeSchedulerConfiguration
from mooring.objects import Node, Pod
from mooring.objects.codec.decode import encode
from mooring.scheduler.service import Service, ServiceOptions
from mooring.testing import make_node, make_pod
from mooring.virtual_loop import LoopClock, VirtualLoop, run_virtually
from tests.faults.harness.checkers import SCHEDULER, Decisions, Findings, StoreChecker
from tests.faults.harness.faults import FaultyNetwork
from tests.faults.harness.faulty_transport import FaultyTransport
from tests.faults.harness.scheduler_checker import SchedulerChecker, leaks
from tests.faults.harness.trace import Trace

PODS = "/api/v1/namespaces/default/pods"


class Counting:
    """A transport that writes down when what was asked."""

    def __init__(self, inner: Transport) -> None:
        self.asked: list[tuple[float, str]] = []
        self._inner = inner

    async def request(self, request: Request) -> Response:
        self._note(request)
        return await self._inner.request(request)

    @asynccontextmanager
    async def stream(self, request: Request, *, idle_s: float) -> AsyncIterator[Stream]:
        self._note(request)
        async with self._inner.stream(request, idle_s=idle_s) as stream:
            yield stream

    async def close(self) -> None:
        await self._inner.close()

    def _note(self, request: Request) -> None:
        now_s = asyncio.get_running_loop().time()
        self.asked.append((now_s, f"{request.method} {request.path}"))

    def times_s(self, what: str) -> list[float]:
        """When requests with this in their "METHOD path" were sent."""
        return [at_s for at_s, asked in self.asked if what in asked]


class Lab:
    """An API server, a network, a scheduler; every invariant is checked after every step."""

    def __init__(
        self, *, seed: int = 1, config: KubeSchedulerConfiguration | None = None, **options: Any
    ) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        clock, rng = LoopClock(loop), seeded_random(seed)
        self.findings, decisions = Findings(Trace()), Decisions()
        self.api = ApiServer(clock, rng)
        self.store = StoreChecker(self.api, self.findings, decisions)
        self.network = FaultyNetwork(rng)
        self.checker = SchedulerChecker(self.findings, decisions)
        self.user = Client(InProcessTransport(self.store.handler("user")), rng=rng)
        inner = InProcessTransport(self.store.handler(SCHEDULER))
        self.transport = Counting(FaultyTransport(self.network, inner))
        self.service = Service(
            Client(self.transport, rng=rng),
            config,
            clock=clock,
            rng=rng,
            options=ServiceOptions(observer=self.checker, **options),
        )
        self.checker.service = self.service
        loop.on_step = self.checker.on_step

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """The scheduler is at work, and knows the cluster."""
        async with asyncio.TaskGroup() as tasks:
            self.network.open(tasks)
            work = tasks.create_task(self.service.run())
            await self.service.wait_until_synced()
            yield
            self.service.stop()
            await work

    async def add(self, *objects: Node | Pod) -> None:
        """Create nodes and pods."""
        for obj in objects:
            body: dict[str, Any] = msgspec.json.decode(encode(obj))
            path = PODS if isinstance(obj, Pod) else "/api/v1/nodes"
            body["metadata"] = {
                name: value
                for name, value in body["metadata"].items()
                if name in ("name", "labels")
            }
            await self.user.write("POST", path, msgspec.json.encode(body))

    async def wait_until(
        self, holds: Callable[[], object], *, within_s: float = 60.0, every_s: float = 0.001
    ) -> None:
        """Return when that holds; TimeoutError if it takes longer (virtual seconds)."""
        async with asyncio.timeout(within_s):
            while True:
                if holds():
                    return
                await asyncio.sleep(every_s)

    def node_of(self, name: str) -> str:
        """Where the API server has a pod; "" if nowhere."""
        found = [pod for pod in self.store.pods.values() if pod.metadata.name == name]
        return found[0].spec.node_name if found else ""

    def events(self) -> Counter[str]:
        """Reason -> how many events."""
        found = self.api.store.collection(BY_PATH["", "v1", "events"])
        return Counter(each.object()["reason"] for each in found.in_order())

    def is_idle(self) -> bool:
        """Whether nothing is left over, and both sides know the same pods."""
        mine = {key: pod.spec.node_name for key, pod in self.pods().items()}
        theirs = {f"default/{pod.metadata.name}": pod for pod in self.store.pods.values()}
        same = mine == {key: pod.spec.node_name for key, pod in theirs.items()}
        return same and not list(leaks(self.service))

    def pods(self) -> dict[str, Pod]:
        """What the scheduler's informer knows."""
        return dict(self.service.informers["Pod"].objects)


def in_lab(work: Callable[[Lab], Awaitable[None]], *, seed: int = 1, **more: Any) -> None:
    """Run a test in a lab of its own; whatever is broken there fails it."""

    async def run() -> None:
        lab = Lab(seed=seed, **more)
        try:
            await work(lab)
        finally:
            lab.store.close()
        lab.findings.raise_first()

    run_virtually(run(), seeded_random(seed))


def small_node(name: str = "a", pods: int = 1) -> Node:
    """Room for so many pods."""
    ready = [{"type": "Ready", "status": "True"}]
    return make_node(name, allocatable={"pods": str(pods)}, status={"conditions": ready})


def small_pod(name: str, **more: Any) -> Pod:
    """A pod that asks for little."""
    return make_pod(name, requests={"cpu": "10m"}, **more)
