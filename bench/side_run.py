"""One run of the comparison: a fresh control plane, one scheduler, and what it cost."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench.ladder import WORKLOADS
from mooring.client import Client, Informer, ObjectChange
from mooring.client.transport.auth import connect
from mooring.client.transport.kubeconfig import find_access
from mooring.client.transport.transport import Request
from mooring.clock import SystemClock, seeded_random
from mooring.config.types import API_VERSION, KIND
from mooring.testing import controlplane, make_pod

#: Requests of the creator at a time.
CREATORS: Final = 32
WAIT_S_MAX: Final = 120.0
TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
NAMESPACE: Final = "default"

#: kube-scheduler's own limit of 50 requests a second would be all that is measured.
UNLIMITED: Final = {"clientConnection": {"qps": 5000, "burst": 5000}}

SCHEDULERS: Final = ("kube-scheduler", "mooring", "null", "null-events")


class Case(NamedTuple):
    """What is run."""

    scheduler: str
    mode: str
    nodes: int
    pods: int
    rate: float = 0.0
    workload: str = "basic"
    #: As in a KubeSchedulerConfiguration.
    extenders: tuple[dict[str, Any], ...] = ()
    #: The interpreter that runs mooring.
    python: str = sys.executable


class Result(NamedTuple):
    """What a run came to; CPU microseconds a pod, seconds from create to bound."""

    pods_per_s: float
    scheduler_us: float
    server_us: float
    rss_bytes: int
    p50_s: float
    p99_s: float


class Watch:
    """When each pod was first seen on a node.

    An informer, since kube-apiserver ends watches that it thinks too slow, and it resumes them.
    """

    def __init__(self, client: Client) -> None:
        self.bound_s: dict[str, float] = {}
        self._clock = SystemClock()
        self._changed = asyncio.Event()
        rng = seeded_random(0)
        self.informer = Informer(client, "Pod", self._on_pod, clock=self._clock, rng=rng)

    def _on_pod(self, change: ObjectChange) -> None:
        pod = change.new
        if pod is not None and pod.spec.node_name:
            self.bound_s.setdefault(pod.metadata.name, self._clock.monotonic_s())
            self._changed.set()

    async def until(self, count: int) -> None:
        """Return when so many pods are bound."""
        async with asyncio.timeout(WAIT_S_MAX):
            while len(self.bound_s) < count:
                self._changed.clear()
                await self._changed.wait()


class Cost(NamedTuple):
    """What a process has used so far."""

    cpu_s: float
    rss_bytes: int

    @classmethod
    def of(cls, pid: int) -> Cost:
        """Read from /proc: user and system time, and the most memory so far."""
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks = int(fields[11]) + int(fields[12])
        status = Path(f"/proc/{pid}/status").read_text()
        peak = next(line for line in status.splitlines() if line.startswith("VmHWM"))
        return cls(ticks / TICKS_PER_S, int(peak.split()[1]) * 1024)


def run(case: Case) -> Result:
    """One run on a control plane of its own."""
    configuration = {**UNLIMITED, **({"extenders": case.extenders} if case.extenders else {})}
    with controlplane.ControlPlane(
        scheduler=case.scheduler == "kube-scheduler", scheduler_configuration=configuration
    ) as plane:
        if case.scheduler == "kube-scheduler":
            plane.scheduler.kill()
        return asyncio.run(_run(case, plane))


async def _run(case: Case, plane: controlplane.ControlPlane) -> Result:
    async with _client(plane) as client, asyncio.TaskGroup() as tasks:
        await _create(client, [WORKLOADS[case.workload].node(i) for i in range(case.nodes)])
        watch = Watch(client)
        watching = tasks.create_task(watch.informer.run())
        await watch.informer.wait_until_synced()
        found = await _measure(case, plane, client, watch)
        watching.cancel()
    return found


async def _measure(
    case: Case, plane: controlplane.ControlPlane, client: Client, watch: Watch
) -> Result:
    pods = [WORKLOADS[case.workload].pod(number) for number in range(case.pods)]
    created_s: dict[str, float] = {}
    if case.mode == "backlog":
        await _create(client, pods)
    with _scheduler(case, plane) as pid:
        warm = 0
        if case.mode == "stream":
            # Only a scheduler that works binds this one: what follows is no start-up.
            await client.create(make_pod("warm-up"))
            warm = 1
        await watch.until(1)  # what it costs to start is another question
        before, server = Cost.of(pid), Cost.of(plane.apiserver.pid)
        if case.mode == "stream":
            await _create(client, pods, created_s=created_s, rate=case.rate)
        await watch.until(case.pods + warm)
        if case.scheduler != "null":
            await _until_events(client, case.pods + warm)  # they are part of what a pod costs
        after, server_after = Cost.of(pid), Cost.of(plane.apiserver.pid)
    bound = [watch.bound_s[pod.metadata.name] for pod in pods]
    begun_s = min(created_s.values()) if created_s else min(bound)
    waits = sorted(watch.bound_s[name] - at for name, at in created_s.items()) or [0.0]
    return Result(
        pods_per_s=case.pods / (max(bound) - begun_s),
        scheduler_us=1e6 * (after.cpu_s - before.cpu_s) / case.pods,
        server_us=1e6 * (server_after.cpu_s - server.cpu_s) / case.pods,
        rss_bytes=after.rss_bytes,
        p50_s=waits[len(waits) // 2],
        p99_s=waits[int(len(waits) * 0.99)],
    )


async def _until_events(client: Client, count: int) -> None:
    """Return when so many events are written."""
    path = f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events"
    query = [("limit", "1")]
    async with asyncio.timeout(WAIT_S_MAX):
        while True:
            body = await client.read(Request("GET", path, deadline_s=30.0, query=query))
            found = json.loads(body)
            if len(found["items"]) + found["metadata"].get("remainingItemCount", 0) >= count:
                return
            await asyncio.sleep(0.2)


async def _create(
    client: Client,
    objects: list[Any],
    *,
    created_s: dict[str, float] | None = None,
    rate: float = 0.0,
) -> None:
    """Create objects, some at a time; with ``rate`` so many a second."""
    clock = SystemClock()
    waiting = iter(objects)
    started_s, number = clock.monotonic_s(), 0

    async def create_some() -> None:
        nonlocal number
        for obj in waiting:
            number += 1
            if rate:
                await asyncio.sleep(max(0.0, started_s + number / rate - clock.monotonic_s()))
            if created_s is not None:
                created_s[obj.metadata.name] = clock.monotonic_s()
            await client.create(obj)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(CREATORS):
            tasks.create_task(create_some())


@asynccontextmanager
async def _client(plane: controlplane.ControlPlane) -> AsyncIterator[Client]:
    access = find_access(str(plane.kubeconfig("admin")), environment=os.environ)
    transport = connect(access, clock=SystemClock(), environment=os.environ)
    try:
        yield Client(transport, rng=seeded_random(0))
    finally:
        await transport.close()


@contextmanager
def _scheduler(case: Case, plane: controlplane.ControlPlane) -> Iterator[int]:
    """A scheduler in a process of its own, whose number is yielded; it ends with the block."""
    name = case.scheduler
    if name == "kube-scheduler":
        plane.scheduler.launch()
        plane.scheduler.wait_until_ready()
        yield plane.scheduler.pid
        return
    log = plane.folder / "logs" / "measured-scheduler.log"
    with log.open("wb") as out:
        process = subprocess.Popen(_command(case, plane), stdout=out, stderr=out)
        try:
            yield process.pid
            if process.poll() is not None:
                raise RuntimeError(f"{name} ended: {log.read_text()[-2000:]}")
        except TimeoutError as error:
            raise RuntimeError(f"{name} did not finish: {log.read_text()[-2000:]}") from error
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    return port


def _command(case: Case, plane: controlplane.ControlPlane) -> list[str]:
    kubeconfig, name = str(plane.kubeconfig("mooring")), case.scheduler
    if name == "mooring":
        # As in production: HTTPS endpoints, metrics and leader election, with a lease of its own.
        port = f"--secure-port={_free_port()}"
        words = ["run", "--kubeconfig", kubeconfig, "--log-level", "warning"]
        words += ["--bind-address=127.0.0.1", port]
        document: dict[str, Any] = {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "extenders": case.extenders or [],
            "leaderElection": {"leaderElect": True, "resourceName": "mooring"},
        }
        file = plane.folder / "mooring.yaml"
        file.write_text(json.dumps(document))
        words += ["--config", str(file)]
        return [case.python, "-m", "mooring", *words]
    words = ["--kubeconfig", kubeconfig, *(["--events"] if name == "null-events" else [])]
    return [sys.executable, "-m", "bench.null_scheduler", *words]
