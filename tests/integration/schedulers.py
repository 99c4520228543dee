"""Living schedulers on API servers of both kinds, and what must be true afterwards."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, cast

from mooring.client import Client
from mooring.client.transport.auth import connect
from mooring.client.transport.kubeconfig import Access, read_kubeconfig
from mooring.client.transport.transport import Request, Response, Stream, Transport
from mooring.clock import SystemClock, seeded_random
from mooring.errors import SchedulerError
from mooring.event_loop import loop_factory
from mooring.objects import Node, Pod
from mooring.objects.quantity import Quantity
from mooring.queue import QueuedPod
from mooring.scheduler.observer import Observer
from mooring.scheduler.service import Service, ServiceOptions
from mooring.state.audit import audit
from mooring.testing import make_node
from mooring.testing.controlplane import ControlPlane
from tests.integration.embedded import Embedded, running

#: For everything in one test; nothing here waits for so long if it works.
SECONDS_MAX = 150.0
CREATORS = 16


class Server(Protocol):
    """An API server of its own, that may be killed."""

    def access(self, identity: str = "admin") -> Access:
        """Returns where it is, and who we are."""
        ...

    def kill(self) -> None:
        """Ends it as a power cut does."""
        ...

    def start(self) -> None:
        """Starts it again with what it has kept."""
        ...


class Real:
    """kube-apiserver and etcd."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane

    def access(self, identity: str = "admin") -> Access:
        return read_kubeconfig([str(self.plane.kubeconfig(identity))])

    def kill(self) -> None:
        self.plane.apiserver.kill()
        self.plane.etcd.kill()

    def start(self) -> None:
        self.plane.etcd.restart()
        self.plane.apiserver.restart()


class InMemory:
    """``mooring apiserver --data``, a process of its own."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack
        self._port = 0
        self.start()

    def access(self, identity: str = "admin") -> Access:
        # It has one kubeconfig, the administrator's; a new one whenever it starts.
        return read_kubeconfig([str(self.process.kubeconfig)])

    def kill(self) -> None:
        self.process.process.kill()
        self.process.process.wait()

    def save(self) -> None:
        """Ends it in peace: only then all is surely in its file."""
        assert self.process.stop() == 0

    def start(self) -> None:
        options = (f"--data={self._folder / 'data'}", f"--port={self._port}", "--instant-deletion")
        self.process: Embedded = self._stack.enter_context(running(self._folder, *options))
        self._port = int(self.process.url.rpartition(":")[2])


@contextmanager
def real() -> Iterator[Server]:
    """Runs a separate control plane."""
    with ControlPlane() as plane:
        yield Real(plane)


@contextmanager
def in_memory(folder: Path) -> Iterator[Server]:
    """Runs a separate embedded server."""
    with ExitStack() as stack:
        yield InMemory(folder, stack)


def run(main: Callable[[], Any]) -> None:
    """Runs a test on the loop that ``mooring run`` has, and not for ever."""

    async def limited() -> None:
        async with asyncio.timeout(SECONDS_MAX):
            await main()

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(limited())


async def until(holds: Callable[[], Any]) -> None:
    """Waits until a condition holds; the test has a deadline."""
    while not holds():  # noqa: ASYNC110 - what is waited for has no event
        await asyncio.sleep(0.02)


class Renewable:
    """A transport that can be given another one: new credentials, and another way.

    While ``gate`` is not set, requests wait before they are sent.
    """

    def __init__(self, inner: Transport) -> None:
        self.inner = inner
        self.gate = asyncio.Event()
        self.gate.set()
        self.sent = 0

    async def request(self, request: Request) -> Response:
        await self.gate.wait()
        self.sent += 1
        try:
            return await self.inner.request(request)
        finally:
            self.sent -= 1

    def stream(self, request: Request, *, idle_s: float) -> AbstractAsyncContextManager[Stream]:
        return self.inner.stream(request, idle_s=idle_s)

    async def close(self) -> None:
        await self.inner.close()

    async def renew(self, access: Access) -> None:
        """Continues with these credentials."""
        old, self.inner = self.inner, connect(access, clock=SystemClock(), environment=os.environ)
        await old.close()


@asynccontextmanager
async def transport_to(access: Access, url: str = "") -> AsyncIterator[Renewable]:
    """Yields a transport to a server; to ``url`` if there is a proxy."""
    if url:
        access = replace(access, server=url)
    transport = Renewable(connect(access, clock=SystemClock(), environment=os.environ))
    try:
        yield transport
    finally:
        await transport.close()


class Bound(Observer):
    """Counts bindings by pod, and records the attempts that failed with an error."""

    def __init__(self) -> None:
        self.times: Counter[str] = Counter()
        self.errors: list[str] = []

    def bound(self, entry: QueuedPod, node_name: str) -> None:
        self.times[entry.uid] += 1

    def failed(self, entry: QueuedPod, why: Any) -> None:
        if isinstance(why, SchedulerError):
            self.errors.append(str(why))


@asynccontextmanager
async def scheduling(transport: Transport, **more: Any) -> AsyncIterator[Service]:
    """Runs a scheduler during the block; afterwards it must be idle."""
    config = more.pop("config", None)
    service = Service(
        Client(transport, rng=seeded_random(1)),
        config,
        clock=SystemClock(),
        rng=seeded_random(2),
        options=ServiceOptions(**more),
    )
    async with asyncio.TaskGroup() as tasks:
        working = tasks.create_task(service.run())
        yield service
        service.stop()
        await working
    assert not len(service.bindings)


async def create_all(client: Client, objects: Iterable[Any]) -> None:
    """Creates objects, several at a time."""
    waiting = iter(objects)

    async def create() -> None:
        for obj in waiting:
            await client.create(obj)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(CREATORS):
            tasks.create_task(create())


def nodes(count: int, **room: str) -> list[Node]:
    """Nodes with little room."""
    amounts = {"cpu": "4", "memory": "16Gi", "pods": "40", **room}
    return [make_node(f"node-{number:03}", allocatable=amounts) for number in range(count)]


async def pods_of(client: Client) -> Sequence[Pod]:
    """Returns all pods, as the server has them."""
    return cast("Sequence[Pod]", (await client.list("Pod")).items)


async def assert_sound(client: Client) -> None:
    """Checks that no node is overcommitted, by the objects on the server."""
    room = {node.metadata.name: node for node in (await client.list("Node")).items}
    pods = await pods_of(client)
    used: Counter[tuple[str, str]] = Counter()
    for pod in pods:
        if not pod.spec.node_name:
            continue
        assert pod.spec.node_name in room, f"{pod.metadata.name} is on a node that is not there"
        used[pod.spec.node_name, "pods"] += 1
        for container in pod.spec.containers:
            for name, amount in container.resources.requests.items():
                used[pod.spec.node_name, name] += Quantity.from_wire(amount).milli()
    for (node, name), amount in used.items():
        has = Quantity.from_wire(room[node].status.allocatable[name])
        limit = has.value() if name == "pods" else has.milli()
        assert amount <= limit, f"{node} has {amount} of {limit} {name}"


async def assert_at_rest(service: Service, client: Client) -> None:
    """Checks that the scheduler is idle, and that its cache agrees with the server."""
    await until(lambda: service.is_settled)
    assert service.queue.in_flight_events == 0
    assert service.cache.assumed_count() == 0
    assert not len(service.handle.waiting)
    assert audit(service.cache) == []
    listed = await pods_of(client)
    on_nodes = {pod.metadata.uid: pod.spec.node_name for pod in listed if pod.spec.node_name}
    held = {placed.info.uid: placed.info.node_name for placed in service.cache.pods}
    assert held == on_nodes
    ours = {pod.metadata.uid for pod in listed if pod.spec.scheduler_name in service.profiles}
    waiting = {entry.uid for entry in service.queue.pods()}
    assert waiting == ours - on_nodes.keys()
