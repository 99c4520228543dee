"""Two and three schedulers with one lease: skewed clocks, partitions, and schedulers that end.

Each scheduler has a network of its own, which fails for up to 40 s, in both directions or in one,
or refuses its writes of the Lease; and a clock that is wrong by up to an hour and runs up to 20 %
too fast or too slow. On one node each pod preempts the one before it.

The judge is the server: at every write of a scheduler, the stored Lease must name it; a pod is
evicted only for a pending one of higher priority; and no node has more pods than it allows. At the
end all pods are bound, once.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import partial
from typing import Any, Final

import msgspec
import pytest

from mooring.apiserver import ApiServer
from mooring.apiserver.resources import BY_PATH
from mooring.client import Client, Elector, InProcessTransport, Request, Transport
from mooring.client.transport.transport import Response, Stream
from mooring.clock import Rng, seeded_random
from mooring.errors import LeaseLost
from mooring.objects.codec.decode import encode
from mooring.queue import QueueOptions
from mooring.scheduler.service import Service, ServiceOptions
from mooring.testing import make_node, make_pod
from mooring.virtual_loop import LoopClock, VirtualLoop
from tests.faults.fault_fixture import PODS, small_node, small_pod
from tests.faults.harness.faults import Faults, FaultyNetwork
from tests.faults.harness.faulty_transport import FaultyTransport
from tests.faults.harness.records import compared
from tests.faults.twins.attach import Twins
from tests.faults.twins.attached_elector import AttachedElector
from tests.helpers.virtual_loop import LimitedLoop

#: MOORING_SEEDS=1000 runs more of them.
SEEDS: Final = int(os.environ.get("MOORING_SEEDS", "200")) // 20
BLOCK: Final = 10

PODS_MAX: Final = 30
BUSY_S: Final = 240.0
#: A lease of 15 s, a try every 2 s, a list after up to 60 s, a backoff of 10 s.
BOUND_S: Final = 120.0
FAULTS: Final = Faults(unreachable=0.05, lost=0.05, server_error=0.05, cut=0.05)
#: The network carries requests, but neither answers nor events; or events, but no requests.
ONE_WAY: Final = (
    replace(FAULTS, lost=1.0, silent=1.0),
    replace(FAULTS, unreachable=1.0),
)
#: Statuses with which writes of the Lease are refused: no right, a webhook, an admission policy.
REFUSALS: Final = (403, 409, 422)

#: The node for one pod, on which each pod of the next higher priority preempts the last.
CONTESTED: Final = "contested"
URGENT: Final = "urgent-"
#: Of so many other pods one is urgent.
URGENT_EVERY: Final = 3

#: Path -> least number in ten seeds: about a third of what was counted.
LEAST: Final = {
    "pod bound": 100,
    "leader changed": 15,
    "partition": 30,
    "lease lost": 8,
    "stopped": 3,
    "lease refused": 14,
    "one direction": 15,
    "evicted": 14,
    "lease lost during an eviction": 4,
}


class SkewedClock:
    """A clock that is wrong, and too fast or too slow by a constant factor.

    Attributes:
        rate: Seconds of this clock in a second.
    """

    def __init__(self, rng: Rng, skew: float = 0.2) -> None:
        self.rate = rng.uniform(1.0 - skew, 1.0 + skew)
        self._offset_s = rng.uniform(-3600.0, 3600.0)
        self._clock = LoopClock(asyncio.get_running_loop())

    def monotonic_s(self) -> float:
        """Returns seconds of this clock."""
        return 4000.0 + self._offset_s + self._clock.monotonic_s() * self.rate

    def wall_s(self) -> float:
        return self._clock.wall_s() + self._offset_s

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / self.rate)


class Evictions:
    """A transport that knows which evictions have not been answered yet.

    Args:
        inner: Sends the requests.
        on_first: Called before the first request of each eviction.

    Attributes:
        open: The paths of the victims.
    """

    def __init__(self, inner: Transport, on_first: Callable[[], None]) -> None:
        self.open: set[str] = set()
        self._inner = inner
        self._on_first = on_first

    async def request(self, request: Request) -> Response:
        if request.method != "DELETE":
            return await self._inner.request(request)
        if request.path not in self.open:
            self.open.add(request.path)
            self._on_first()
        response = await self._inner.request(request)
        if response.status < 300 or response.status == 404:
            self.open.discard(request.path)
        return response

    def stream(self, request: Request, *, idle_s: float) -> AbstractAsyncContextManager[Stream]:
        return self._inner.stream(request, idle_s=idle_s)

    async def close(self) -> None:
        await self._inner.close()


class LeaseLab:
    """A server that judges each write, and schedulers that are started anew when they end.

    Attributes:
        problems: The violations, in order.
        paths: Path -> how often it was taken.
    """

    #: How much too fast or slow the clocks are, at most.
    skew: float = 0.2

    def __init__(self, seed: int) -> None:
        self.rng = seeded_random(seed)
        self.problems: list[str] = []
        self.paths: Counter[str] = Counter()
        self.api = ApiServer(LoopClock(asyncio.get_running_loop()), self.rng)
        self.user = Client(InProcessTransport(self.api.handle), rng=self.rng)
        self.networks: list[FaultyNetwork] = []
        self.running: dict[str, Service] = {}
        self.twins: dict[str, tuple[Twins, Elector]] = {}
        self.is_healed = False
        self._leader = ""
        self._nodes: dict[str, str] = {}

    def holder(self) -> str:
        """Returns the holder of the stored Lease."""
        leases = self.api.store.collection(BY_PATH["coordination.k8s.io", "v1", "leases"])
        for lease in leases.in_order():
            return str(lease.object()["spec"].get("holderIdentity") or "")
        return ""

    async def judged(
        self,
        identity: str,
        method: str,
        path: str,
        query: Sequence[tuple[str, str]],
        headers: Mapping[str, str],
        body: bytes,
    ) -> tuple[int, Mapping[str, str], bytes | AsyncIterator[bytes]]:
        """Handles a request of a scheduler; a write without the lease is a violation."""
        holder = self.holder()
        if method != "GET" and "/leases" not in path and holder != identity:
            self.problems.append(f"{identity}: {method} {path}, but {holder or 'none'} leads")
        # A repeated request, whose first response was lost, finds no victim any more.
        victim = path.rpartition("/")[2] if method == "DELETE" else ""
        is_eviction = victim.startswith(URGENT) and victim in self._on(CONTESTED)
        if is_eviction and not self._pending_above(victim):
            self.problems.append(f"{victim} is evicted, but no pod of higher priority is pending")
        response = await self.api.handle(method, path, query, headers, body)
        if is_eviction and response[0] < 300:
            self.paths["evicted"] += 1
        if len(self._on(CONTESTED)) > 1:
            self.problems.append(f"{CONTESTED} has {self._on(CONTESTED)}")
        if path.endswith("/binding") and response[0] < 300:
            self.paths["pod bound"] += 1
            node = json.loads(body)["target"]["name"]
            if self._nodes.setdefault(path, node) != node:
                self.problems.append(f"{path} was bound to {self._nodes[path]} and to {node}")
        if self.holder() not in ("", self._leader):
            self._leader = self.holder()
            self.paths["leader changed"] += 1
        return response

    def wire(self, network: FaultyTransport, tasks: asyncio.TaskGroup) -> Transport:
        """Returns the transport of a scheduler over its network."""
        return network

    async def run_scheduler(self, name: str, tasks: asyncio.TaskGroup) -> None:
        """Runs a scheduler, and a new one when it ends, until cancelled."""
        network, clock = FaultyNetwork(self.rng), SkewedClock(self.rng, self.skew)
        network.open(tasks)
        network.faults = FAULTS
        self.networks.append(network)
        for number in range(1000):
            identity = f"{name}-{number}"
            server = InProcessTransport(partial(self.judged, identity))
            wire = self.wire(FaultyTransport(network, server), tasks)
            evictions = Evictions(wire, partial(self._disturb_eviction, network))
            transport: Transport = evictions
            elector = Elector(
                transport,
                "kube-system",
                "mooring",
                identity=identity,
                clock=clock,
                rng=self.rng,
                sleep=clock.sleep,
            )
            AttachedElector(elector, clock, self.problems.append)
            client = Client(transport, rng=self.rng, fence=elector.fence)
            options = ServiceOptions(elector=elector)
            service = Service(client, clock=clock, rng=self.rng, options=options, sleep=clock.sleep)
            self.running[name] = service
            twins = Twins(service, clock, QueueOptions(), self.problems.append)
            self.twins[name] = twins, elector
            try:
                await self._run_checked(service, twins)
                self.paths["stopped"] += 1
            except LeaseLost:
                self.paths["lease lost"] += 1
                self.paths["lease lost during an eviction"] += bool(evictions.open)
            await asyncio.sleep(1.0)

    async def _run_checked(self, service: Service, twins: Twins) -> None:
        """Runs a scheduler, and compares it with its models each second of its own time."""

        async def tick() -> None:
            while True:
                await asyncio.sleep(1.0)
                # One that is being stopped flushes nothing, and ends its bindings.
                if any(twins is followed for followed, _ in self.twins.values()):
                    twins.on_tick()

        ticking = asyncio.create_task(tick())
        try:
            await service.run()
        finally:
            ticking.cancel()

    def on_step(self) -> None:
        """Checks the models after each step of the loop."""
        for twins, elector in self.twins.values():
            # One that loses the lease cancels its evictions.
            if elector.is_leading:
                twins.on_step()

    # -- users ------------------------------------------------------------------------------------

    async def post(self, path: str, obj: Any) -> None:
        """Creates an object."""
        body: dict[str, Any] = msgspec.json.decode(encode(obj))
        body["metadata"] = {"name": obj.metadata.name}
        await self.user.write("POST", path, msgspec.json.encode(body))

    async def disturb(self) -> None:
        """Creates pods; disturbs the network of a scheduler, or stops one."""
        contested = make_node(CONTESTED, allocatable={"pods": "1"}, taints=["urgent:NoSchedule"])
        await self.post("/api/v1/nodes", contested)
        for number in range(PODS_MAX):
            await self.post(PODS, small_pod(f"p{number}"))
            if number % URGENT_EVERY == 0:
                await self._create_urgent(number // URGENT_EVERY)
            await asyncio.sleep(self.rng.uniform(0.0, 2 * BUSY_S / PODS_MAX))
            seconds = self.rng.uniform(1.0, 40.0)
            self._disturb_once(self.rng.choice(self.networks), self.rng.random(), seconds)
        self.is_healed = True

    def _disturb_once(self, network: FaultyNetwork, action: float, seconds: float) -> None:
        if action < 0.4:
            network.restart(seconds)
            self.paths["partition"] += 1
        elif action < 0.55:
            network.refuse("/leases", self.rng.choice(REFUSALS))
            asyncio.get_running_loop().call_later(seconds, network.repair)
            self.paths["lease refused"] += 1
        elif action < 0.7:
            network.faults = self.rng.choice(ONE_WAY)
            asyncio.get_running_loop().call_later(seconds, self._both_ways, network)
            self.paths["one direction"] += 1
        elif action < 0.8:
            name = self.rng.choice(list(self.running))
            self.running[name].stop()
            self.twins.pop(name, None)

    def _disturb_eviction(self, network: FaultyNetwork) -> None:
        """Lets the network fail for longer than a lease lasts, in one of four evictions."""
        if not self.is_healed and self.rng.random() < 0.25:
            self._disturb_once(network, self.rng.choice((0.0, 0.6)), self.rng.uniform(20.0, 40.0))

    def _both_ways(self, network: FaultyNetwork) -> None:
        """Ends a failure in one direction, and the connections that have been silent since."""
        network.heal()
        if not self.is_healed:
            network.faults = FAULTS

    async def _create_urgent(self, number: int) -> None:
        """Creates a pod that fits only if the urgent one before it is evicted."""
        name = f"{URGENT}{number}"
        priority = {"metadata": {"name": name}, "value": number}
        path = "/apis/scheduling.k8s.io/v1/priorityclasses"
        await self.user.write("POST", path, msgspec.json.encode(priority))
        field = {"key": "metadata.name", "operator": "In", "values": [CONTESTED]}
        terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
        node_affinity = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
        spec = {
            "priorityClassName": name,
            "terminationGracePeriodSeconds": 0,
            "affinity": {"nodeAffinity": node_affinity},
        }
        await self.post(PODS, make_pod(name, tolerations=["urgent"], spec=spec))

    def _pods(self) -> list[tuple[str, str]]:
        """Returns the name and the node of each pod."""
        pods = self.api.store.collection(BY_PATH["", "v1", "pods"])
        objects = [pod.object() for pod in pods.in_order()]
        return [(pod["metadata"]["name"], pod["spec"].get("nodeName", "")) for pod in objects]

    def _on(self, node: str) -> list[str]:
        return [name for name, on_node in self._pods() if on_node == node]

    def _pending_above(self, victim: str) -> list[str]:
        """Returns the urgent pods without a node whose priority is higher."""
        return [
            name
            for name, node in self._pods()
            if name.startswith(URGENT) and not node and _rank(name) > _rank(victim)
        ]

    def unbound(self) -> list[str]:
        """Returns the pods without a node, but for urgent ones below the most urgent."""
        unbound = [name for name, node in self._pods() if not node]
        last = max(
            (name for name, _ in self._pods() if name.startswith(URGENT)), key=_rank, default=""
        )
        return [name for name in unbound if not name.startswith(URGENT) or name == last]


def _rank(name: str) -> int:
    """Returns the priority of an urgent pod."""
    return int(name.removeprefix(URGENT))


def watch_steps(lab: LeaseLab) -> None:
    """Lets the loop call ``on_step`` of the lab."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    loop.on_step = lab.on_step


async def run(seed: int) -> Counter[str]:
    """Runs a seed; returns the paths that it took."""
    lab = LeaseLab(seed)
    watch_steps(lab)
    await lab.post("/api/v1/nodes", small_node("a", pods=PODS_MAX))
    async with asyncio.TaskGroup() as tasks:
        names = ("red", "blue", "green")[: lab.rng.choice((2, 3))]
        schedulers = [tasks.create_task(lab.run_scheduler(name, tasks)) for name in names]
        await asyncio.sleep(0.1)
        await lab.disturb()
        for network in lab.networks:
            network.repair()
            network.heal()
        await asyncio.sleep(BOUND_S)
        for scheduler in schedulers:
            scheduler.cancel()
    problems = [*lab.problems, *(f"{name} is not bound" for name in lab.unbound())]
    assert not problems, f"seed {seed}: {problems[:5]}"
    return lab.paths


def run_seed(seed: int) -> Counter[str]:
    """Runs a seed on a loop of its own; AssertionError if an invariant is violated."""
    with asyncio.Runner(loop_factory=partial(LimitedLoop, seeded_random(seed))) as runner:
        return runner.run(run(seed))


@pytest.mark.parametrize("first", range(0, SEEDS, BLOCK))
def test_only_the_holder_of_the_lease_writes_and_all_pods_are_bound(first: int) -> None:
    runs = partial(compared, "lease", run=run_seed)
    paths = sum(map(runs, range(first, first + BLOCK)), Counter())

    assert {name: paths[name] for name in LEAST if paths[name] < LEAST[name]} == {}, paths


def test_a_scheduler_that_ignores_its_lease_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Elector, "fence", lambda self: 10.0)
    monkeypatch.setattr(Elector, "_is_held_by_another", lambda self, now_s: False)

    with pytest.raises((AssertionError, ExceptionGroup)):
        run_seed(0)
