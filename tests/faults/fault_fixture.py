"""A small cluster on virtual time with planned faults."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
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
from mooring.queue import QueueOptions
from mooring.scheduler.service import Service, ServiceOptions
from mooring.testing import make_node, make_pod
from mooring.virtual_loop import LoopClock, VirtualLoop
from tests.faults.harness.checkers import SCHEDULER, Decisions, Findings, StoreChecker
from tests.faults.harness.faults import FaultyNetwork
from tests.faults.harness.faulty_transport import FaultyTransport
from tests.faults.harness.scheduler_checker import SchedulerChecker, leaks
from tests.faults.harness.trace import Trace
from tests.faults.twins.attach import Twins
from tests.helpers.virtual_loop import run_virtually

PODS = "/api/v1/namespaces/default/pods"


#: More requests than any directed test needs: a loop without a pause would never end.
REQUESTS_MAX = 20_000


class Counting:
    """A transport that records the time of every request.

    Attributes:
        sent: Time, "METHOD path" of each request.
        forbidden: Requests whose "METHOD path" contains one of these are refused with 403.
    """

    def __init__(self, inner: Transport) -> None:
        self.sent: list[tuple[float, str]] = []
        self.forbidden: tuple[str, ...] = ()
        self._inner = inner

    async def request(self, request: Request) -> Response:
        self._note(request)
        if any(what in f"{request.method} {request.path}" for what in self.forbidden):
            status = {"kind": "Status", "code": 403, "reason": "Forbidden", "message": "no"}
            return Response(403, {}, msgspec.json.encode(status))
        return await self._inner.request(request)

    @asynccontextmanager
    async def stream(self, request: Request, *, idle_s: float) -> AsyncIterator[Stream]:
        self._note(request)
        async with self._inner.stream(request, idle_s=idle_s) as stream:
            yield stream

    async def close(self) -> None:
        await self._inner.close()

    def _note(self, request: Request) -> None:
        assert len(self.sent) < REQUESTS_MAX, f"a storm: {request.method} {request.path}"
        now_s = asyncio.get_running_loop().time()
        self.sent.append((now_s, f"{request.method} {request.path}"))

    def times_s(self, what: str) -> list[float]:
        """Returns the times of requests whose "METHOD path" contains ``what``."""
        return [at_s for at_s, request in self.sent if what in request]


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
        report = partial(self.findings.report, "T1")
        self._twins = Twins(self.service, clock, QueueOptions(), report)
        loop.on_step = self.on_step

    def on_step(self) -> None:
        """Checks the scheduler after every round of callbacks."""
        self._twins.on_step()
        self.checker.on_step()
        self.findings.raise_first()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Runs the scheduler, with synced caches, during the block."""
        async with asyncio.TaskGroup() as tasks:
            self.network.open(tasks)
            work = tasks.create_task(self.service.run())
            await self.service.wait_until_synced()
            yield
            self.service.stop()
            await work

    async def add(self, *objects: Node | Pod) -> None:
        """Creates nodes and pods."""
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
        """Waits until ``holds`` returns true; TimeoutError after ``within_s`` virtual seconds."""
        async with asyncio.timeout(within_s):
            while True:
                if holds():
                    return
                await asyncio.sleep(every_s)

    def node_of(self, name: str) -> str:
        """Returns the node of a pod on the API server; "" if it has none."""
        pods = [pod for pod in self.store.pods.values() if pod.metadata.name == name]
        return pods[0].spec.node_name if pods else ""

    def events(self) -> Counter[str]:
        """Returns the number of events by reason."""
        events = self.api.store.collection(BY_PATH["", "v1", "events"])
        return Counter(event.object()["reason"] for event in events.in_order())

    def check_leftovers(self) -> None:
        """Checks the tables of the cache, and empties it: the service has ended."""
        for problem in self._twins.leftovers.problems():
            self.findings.report("M2", problem)

    def is_idle(self) -> bool:
        """Returns whether nothing leaks, and informer and API server have the same pods.

        The informers of extenders have listed their objects, too.
        """
        cached = {key: pod.spec.node_name for key, pod in self.pods().items()}
        stored = {f"default/{pod.metadata.name}": pod for pod in self.store.pods.values()}
        same = cached == {key: pod.spec.node_name for key, pod in stored.items()}
        of_extenders = self.service.extenders.informers
        same = same and all(informer.has_synced for informer in of_extenders)
        return same and not list(leaks(self.service))

    def pods(self) -> dict[str, Pod]:
        """Returns the pods of the scheduler's informer."""
        return dict(self.service.informers["Pod"].objects)


def run_in_lab(work: Callable[[Lab], Awaitable[None]], *, seed: int = 1, **more: Any) -> None:
    """Runs a test in a new lab; a violated invariant fails it."""

    async def run() -> None:
        lab = Lab(seed=seed, **more)
        try:
            await work(lab)
        finally:
            lab.store.close()
        lab.check_leftovers()
        lab.findings.raise_first()

    run_virtually(run(), seeded_random(seed))


def small_node(name: str = "a", pods: int = 1) -> Node:
    """Returns a node for at most ``pods`` pods."""
    ready = [{"type": "Ready", "status": "True"}]
    return make_node(name, allocatable={"pods": str(pods)}, status={"conditions": ready})


def small_pod(name: str, **more: Any) -> Pod:
    """Returns a pod with small requests."""
    return make_pod(name, requests={"cpu": "10m"}, **more)
