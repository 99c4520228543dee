"""A loaded cluster in one process: is anything lost, does memory stay flat, how late is the loop?

``python -m bench load --nodes 5000 --pods 50000 --idle 10000 --minutes 10`` creates the nodes and
pods, starts the embedded API server, a scheduler, informers and idle watches on one event loop, and
then changes pods and nodes at a constant rate: each second ``--rate`` pods are created without a
node, as many of the oldest are deleted, and a tenth as many nodes get a new status.

- Lag: a task sleeps 10 ms, again and again, and records how late it wakes up.
- Slow watchers read their first list at once, then one batch in ``--slow-s`` seconds. The server
  drops them when they are too far behind; they resume from their last version, or list again.
- At the end all changes stop. Every pod must be bound; every informer, the slow ones too, must have
  the objects of the server.

With ``--server embedded`` requests are function calls: sockets and TLS are measured by
``bench.apiserver``. With ``--server real`` kube-apiserver and etcd are processes of their own, and
scheduler, watchers and load share the event loop.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
from collections import deque
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterator,
    Mapping,
)
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np

from bench.load_clusters import LoadCluster, Stored, load_cluster
from bench.machine import machine
from bench.objects import running_pod
from bench.soak_samples import RSS, process_sample
from mooring.client import Client, Informer, ObjectChange
from mooring.client.transport.transport import (
    Request,
    Response,
    Stream,
    StreamBroken,
    Transport,
)
from mooring.clock import SystemClock, seeded_random
from mooring.errors import Unreachable
from mooring.event_loop import loop_factory
from mooring.testing import make_node, make_pod

TICK_S: Final = 0.01
SAMPLE_S: Final = 1.0
ZONES: Final = 10
#: Requests under way while objects are created, and after how many of them others have a turn.
CREATORS: Final = 16
PAUSE_EVERY: Final = 50
#: The namespace of pods that come and go.
NAMESPACE: Final = "churn"
#: The namespaces of the pods that stay.
TEAMS: Final = 20
FAST_WATCHERS: Final = 3
#: Idle watches that share the connections of a client, which are limited.
IDLE_PER_TRANSPORT: Final = 32
#: Pods that come and go and are there at a time, per pod and second of the rate.
ALIVE_S: Final = 10
#: The time after the last change until all pods must be bound and all informers equal.
SETTLE_S: Final = 120.0
#: The bar for the 99th percentile of the lag.
BAR_LAG_S: Final = 0.020
#: Resident bytes may grow by this share from the first to the last third after the warm-up.
RSS_SHARE: Final = 0.03


@dataclass(frozen=True)
class Plan:
    """The options of a run."""

    nodes: int
    pods: int
    rate: float
    seconds: float
    idle: int
    slow: int
    slow_s: float


class SlowTransport:
    """A transport whose streams are read slowly for a while.

    Attributes:
        streams: Watches that were started.
        is_slow: Set while there is a wait before each batch.
    """

    def __init__(self, inner: Transport, slow_s: float) -> None:
        self.streams = 0
        self.is_slow = asyncio.Event()
        self._is_fast = asyncio.Event()
        self._slow_s = slow_s
        self._inner = inner

    def be_fast(self) -> None:
        """Ends the wait before the present batch, and all later ones."""
        self.is_slow.clear()
        self._is_fast.set()

    async def wait(self) -> None:
        """Waits before a batch."""
        if self.is_slow.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(self._slow_s):
                    await self._is_fast.wait()

    async def request(self, request: Request) -> Response:
        """Sends a request, without a delay."""
        return await self._inner.request(request)

    @asynccontextmanager
    async def stream(self, request: Request, *, idle_s: float) -> AsyncIterator[Stream]:
        """Opens a stream that is read slowly."""
        self.streams += 1
        async with self._inner.stream(request, idle_s=idle_s) as stream:
            yield _SlowStream(stream, self)

    async def close(self) -> None:
        """Closes the inner transport."""
        await self._inner.close()


class _SlowStream:
    """A stream that waits before each batch."""

    def __init__(self, inner: Stream, transport: SlowTransport) -> None:
        self.status, self.headers = inner.status, inner.headers
        self._inner, self._transport = inner, transport

    async def batches(self) -> AsyncGenerator[list[bytes], None]:
        async for lines in self._inner.batches():
            await self._transport.wait()
            yield lines


class LoadRun:
    """One run.

    Args:
        plan: The options.
        cluster: The API server and the scheduler.

    Attributes:
        lag_s: How late the loop was, at each tick.
        resident: Resident bytes, at each sample.
        counts: What was done -> how often.
    """

    def __init__(self, plan: Plan, cluster: LoadCluster) -> None:
        self.plan = plan
        self.cluster = cluster
        self.lag_s: list[float] = []
        self.resident: list[float] = []
        self.counts: dict[str, int] = dict.fromkeys(("created", "deleted", "node updates"), 0)
        clock, rng = SystemClock(), seeded_random(1)
        self.client = cluster.client
        self._alive: deque[str] = deque()
        self._numbers = itertools.count()
        self._started_s = 0.0
        self.slow_transports = [
            SlowTransport(cluster.transport(), plan.slow_s) for _ in range(plan.slow)
        ]
        self.idle_transports = [
            cluster.transport() for _ in range(0, plan.idle, IDLE_PER_TRANSPORT)
        ]
        transports = [self.client.transport] * FAST_WATCHERS
        self.informers = [
            Informer(Client(transport, rng=rng), "Pod", _ignore, clock=clock, rng=rng)
            for transport in [*transports, *self.slow_transports]
        ]

    async def fill(self) -> None:
        """Creates the nodes, and the pods that stay, which are bound already."""
        plan = self.plan
        for name in (NAMESPACE, *(f"team-{number}" for number in range(TEAMS))):
            namespace = {"metadata": {"name": name}}
            await self.client.write("POST", "/api/v1/namespaces", msgspec.json.encode(namespace))
        await _by_many(self._create_node, plan.nodes)
        await _by_many(self._create_running_pod, plan.pods)

    async def _create_node(self, number: int) -> None:
        await self.client.create(make_node(node_name(number), zone=f"zone-{number % ZONES}"))

    async def _create_running_pod(self, number: int) -> None:
        nodes = self.plan.nodes
        body = msgspec.json.decode(running_pod(number, nodes=nodes))
        metadata = body["metadata"]
        for field in ("uid", "resourceVersion", "generation", "creationTimestamp"):
            metadata.pop(field, None)
        del metadata["ownerReferences"]  # it would go with an owner that is absent
        body["spec"]["nodeName"] = node_name(number % nodes)
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods"
        await self.client.write("POST", path, msgspec.json.encode(body))

    async def idle_watch(self, number: int) -> None:
        """Watches a kind that nobody changes, until cancelled."""
        transport = self.idle_transports[number // IDLE_PER_TRANSPORT]
        path = f"/api/v1/namespaces/idle-{number}/configmaps"
        query = [("watch", "1"), ("allowWatchBookmarks", "true"), ("timeoutSeconds", "3600")]
        request = Request("GET", path, deadline_s=60.0, query=query)
        while True:
            with suppress(Unreachable, StreamBroken):
                await _watch(transport, request)
            await asyncio.sleep(1.0)

    async def change_pods(self) -> None:
        """Creates pods at the rate, and deletes the oldest ones."""
        for number in itertools.count():
            await self._wait_until(number / self.plan.rate)
            name = f"pod-{next(self._numbers):07}"
            app = f"app-{number % 40}"
            pod = make_pod(name, namespace=NAMESPACE, labels={"app": app}, requests={"cpu": "10m"})
            await self.client.create(pod)
            self._alive.append(name)
            self.counts["created"] += 1
            if len(self._alive) > self.plan.rate * ALIVE_S:
                name = self._alive.popleft()
                await self.client.delete("Pod", name, NAMESPACE, grace_period_s=0)
                self.counts["deleted"] += 1

    async def change_nodes(self) -> None:
        """Writes the status of one node after the other, as kubelets do."""
        for number in itertools.count():
            await self._wait_until(10 * number / self.plan.rate)
            condition = {"type": "Ready", "status": "True", "message": f"heartbeat {number}"}
            await self.client.patch(
                "Node",
                node_name(number % self.plan.nodes),
                {"status": {"conditions": [condition]}},
                subresource="status",
            )
            self.counts["node updates"] += 1

    async def measure_lag(self) -> None:
        """Records how late the loop is, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            due_s = loop.time() + TICK_S
            await asyncio.sleep(TICK_S)
            self.lag_s.append(loop.time() - due_s)

    async def sample(self) -> None:
        """Records the resident bytes, until cancelled."""
        while True:
            self.resident.append(process_sample()[RSS])
            await asyncio.sleep(SAMPLE_S)

    async def _wait_until(self, after_s: float) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(max(0.0, self._started_s + after_s - loop.time()))

    async def run(self) -> list[str]:
        """Runs; returns what was lost."""
        plan, loop = self.plan, asyncio.get_running_loop()
        await self.fill()
        async with asyncio.TaskGroup() as tasks:
            readers: list[Coroutine[Any, Any, Any]] = [
                *(informer.run() for informer in self.informers),
                *(self.idle_watch(number) for number in range(plan.idle)),
            ]
            watching = [tasks.create_task(reader) for reader in readers]
            running = tasks.create_task(self.cluster.run())
            await self.cluster.service.wait_until_synced()
            for informer in self.informers:
                await informer.wait_until_synced()
            for transport in self.slow_transports:
                transport.is_slow.set()
            self._started_s = loop.time()
            work = (self.change_pods(), self.change_nodes(), self.measure_lag(), self.sample())
            changing = [tasks.create_task(coroutine) for coroutine in work]
            await asyncio.sleep(plan.seconds)
            for task in changing:
                task.cancel()
            lost = await self._settle()
            self.cluster.service.stop()
            await running
            for task in watching:
                task.cancel()
        await self.cluster.close()
        return lost

    async def _settle(self) -> list[str]:
        for transport in self.slow_transports:
            transport.be_fast()
        loop = asyncio.get_running_loop()
        end_s = loop.time() + SETTLE_S
        while True:
            lost = list(self.lost(await self.cluster.stored()))
            if not lost or loop.time() >= end_s:
                return lost
            await asyncio.sleep(self.cluster.poll_s)

    def lost(self, stored: Mapping[str, Stored]) -> Iterator[str]:
        """Yields what the server has and others do not."""
        for name, pod in stored.items():
            if not pod.is_bound:
                yield f"{name} is not bound"
        versions = {name: pod.version for name, pod in stored.items()}
        for number, informer in enumerate(self.informers):
            cached = {name: pod.metadata.resource_version for name, pod in informer.objects.items()}
            if cached != versions:
                yield f"informer {number} differs in {len(cached.items() ^ versions.items())} pods"


async def _watch(transport: Transport, request: Request) -> None:
    """Reads a watch until it ends."""
    async with transport.stream(request, idle_s=3600.0) as stream:
        async for _ in stream.batches():
            pass


async def _by_many(create: Callable[[int], Awaitable[None]], count: int) -> None:
    """Creates objects by number; several requests are under way at a time."""
    numbers = iter(range(count))

    async def create_next() -> None:
        for number in numbers:
            await create(number)
            if number % PAUSE_EVERY == 0:
                await asyncio.sleep(0)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(CREATORS):
            tasks.create_task(create_next())


def _ignore(_: ObjectChange) -> None:
    """Is called with each change of an informer."""


def node_name(number: int) -> str:
    """Returns the name of a node."""
    return f"node-{number:05}"


def thirds(samples: list[float]) -> tuple[float, float]:
    """Returns the medians of the first and the last third after the first quarter."""
    rest = samples[len(samples) // 4 :]
    third = max(1, len(rest) // 3)
    return float(np.median(rest[:third])), float(np.median(rest[-third:]))


def report(run: LoadRun, lost: list[str]) -> int:
    """Prints the result of a run; returns 1 if something was lost or a bar is missed."""
    plan = run.plan
    print(", ".join(f"{count} {name}" for name, count in run.counts.items()))
    lag_ms = 1e3 * np.percentile(run.lag_s, (50, 99, 99.9, 100))
    print(
        f"lag of the loop: p50 {lag_ms[0]:.1f}, p99 {lag_ms[1]:.1f}, p99.9 {lag_ms[2]:.1f}, "
        f"max {lag_ms[3]:.1f} ms in {len(run.lag_s)} ticks"
    )
    first, last = thirds(run.resident)
    print(f"resident: {first / 2**20:.1f} -> {last / 2**20:.1f} MiB")
    for number, informer in enumerate(run.informers):
        kind = "fast" if number < FAST_WATCHERS else "slow"
        statistics = informer.statistics()
        print(f"{kind} watcher: {statistics.events} events, {statistics.lists} lists", end="")
        if kind == "slow":
            print(f", {run.slow_transports[number - FAST_WATCHERS].streams} watches", end="")
        print()
    print(f"{plan.idle} idle watches; lost: {'; '.join(lost[:5]) or 'nothing'}")
    is_late, has_grown = lag_ms[1] > 1e3 * BAR_LAG_S, last > first * (1 + RSS_SHARE)
    if is_late:
        print(f"  MISSED: the bar for p99 is {1e3 * BAR_LAG_S:.0f} ms")
    if has_grown:
        print(f"  MISSED: resident bytes grew by more than {100 * RSS_SHARE:.0f} %")
    return int(bool(lost) or is_late or has_grown)


def main(arguments: list[str]) -> int:
    """Reads the options and runs; the defaults take about a minute."""
    parser = argparse.ArgumentParser(prog="python -m bench load", description=__doc__)
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--pods", type=int, default=5_000)
    parser.add_argument("--rate", type=float, default=50.0, help="pods per second")
    parser.add_argument("--minutes", type=float, default=0.5)
    parser.add_argument("--idle", type=int, default=1_000, help="idle watches")
    parser.add_argument("--slow", type=int, default=2, help="slow watchers")
    parser.add_argument("--slow-s", type=float, default=3.0, help="seconds per batch of these")
    parser.add_argument("--server", choices=("embedded", "real"), default="embedded")
    words = parser.parse_args(arguments)
    plan = Plan(
        words.nodes,
        words.pods,
        words.rate,
        60 * words.minutes,
        words.idle,
        words.slow,
        words.slow_s,
    )
    print(machine())
    print(
        f"{plan.nodes} nodes, {plan.pods} pods, {plan.rate:g} pods/s, {words.minutes:g} minutes, "
        f"{plan.idle} idle watches, {plan.slow} slow watchers, {words.server}"
    )
    with (
        load_cluster(words.server) as cluster,
        asyncio.Runner(loop_factory=loop_factory()) as runner,
    ):
        run = LoadRun(plan, cluster)
        lost = runner.run(run.run())
    return report(run, lost)
