"""Two and three schedulers with one lease: skewed clocks, partitions, and schedulers that end.

Each scheduler has a network of its own, which fails for up to a minute, and a clock that is wrong
by up to an hour and runs up to 20 % too fast or too slow. The judge is the server: at every write
of a scheduler, the stored Lease must name it. At the end all pods are bound, once.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec
import pytest

from mooring.apiserver import ApiServer
from mooring.apiserver.resources import BY_PATH
from mooring.client import Client, Elector, InProcessTransport, Transport
from mooring.clock import Rng, seeded_random
from mooring.errors import LeaseLost
from mooring.objects.codec.decode import encode
from mooring.scheduler.service import Service, ServiceOptions
from mooring.virtual_loop import LoopClock, VirtualLoop
from tests.faults.fault_fixture import PODS, small_node, small_pod
from tests.faults.harness.faults import Faults, FaultyNetwork
from tests.faults.harness.faulty_transport import FaultyTransport

#: MOORING_SEEDS=1000 runs more of them.
SEEDS: Final = int(os.environ.get("MOORING_SEEDS", "200")) // 20
BLOCK: Final = 10

PODS_MAX: Final = 30
BUSY_S: Final = 240.0
#: A lease of 15 s, a try every 2 s, a list after up to 60 s, a backoff of 10 s.
BOUND_S: Final = 120.0
FAULTS: Final = Faults(unreachable=0.05, lost=0.05, server_error=0.05, cut=0.05)

#: Path -> least number in ten seeds: about a third of what was counted.
LEAST: Final = {
    "pod bound": 100,
    "leader changed": 15,
    "partition": 30,
    "lease lost": 8,
    "stopped": 3,
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
        response = await self.api.handle(method, path, query, headers, body)
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
            transport = self.wire(FaultyTransport(network, server), tasks)
            elector = Elector(
                transport,
                "kube-system",
                "mooring",
                identity=identity,
                clock=clock,
                rng=self.rng,
                sleep=clock.sleep,
            )
            client = Client(transport, rng=self.rng, fence=elector.fence)
            options = ServiceOptions(elector=elector)
            service = Service(client, clock=clock, rng=self.rng, options=options, sleep=clock.sleep)
            self.running[name] = service
            try:
                await service.run()
                self.paths["stopped"] += 1
            except LeaseLost:
                self.paths["lease lost"] += 1
            await asyncio.sleep(1.0)

    # -- users ------------------------------------------------------------------------------------

    async def post(self, path: str, obj: Any) -> None:
        """Creates an object."""
        body: dict[str, Any] = msgspec.json.decode(encode(obj))
        body["metadata"] = {"name": obj.metadata.name}
        await self.user.write("POST", path, msgspec.json.encode(body))

    async def disturb(self) -> None:
        """Creates pods; cuts a scheduler off, or stops one."""
        for number in range(PODS_MAX):
            await self.post(PODS, small_pod(f"p{number}"))
            await asyncio.sleep(self.rng.uniform(0.0, 2 * BUSY_S / PODS_MAX))
            action = self.rng.random()
            if action < 0.5:
                self.rng.choice(self.networks).restart(self.rng.uniform(1.0, 40.0))
                self.paths["partition"] += 1
            elif action < 0.6:
                self.rng.choice(list(self.running.values())).stop()

    def unbound(self) -> list[str]:
        """Returns the pods without a node."""
        pods = self.api.store.collection(BY_PATH["", "v1", "pods"])
        objects = [pod.object() for pod in pods.in_order()]
        return [pod["metadata"]["name"] for pod in objects if not pod["spec"].get("nodeName")]


async def run(seed: int) -> Counter[str]:
    """Runs a seed; returns the paths that it took."""
    lab = LeaseLab(seed)
    await lab.post("/api/v1/nodes", small_node("a", pods=PODS_MAX))
    async with asyncio.TaskGroup() as tasks:
        names = ("red", "blue", "green")[: lab.rng.choice((2, 3))]
        schedulers = [tasks.create_task(lab.run_scheduler(name, tasks)) for name in names]
        await asyncio.sleep(0.1)
        await lab.disturb()
        for network in lab.networks:
            network.heal()
        await asyncio.sleep(BOUND_S)
        for scheduler in schedulers:
            scheduler.cancel()
    problems = [*lab.problems, *(f"{name} is not bound" for name in lab.unbound())]
    assert not problems, f"seed {seed}: {problems[:5]}"
    return lab.paths


def run_seed(seed: int) -> Counter[str]:
    """Runs a seed on a loop of its own; AssertionError if an invariant is violated."""
    with asyncio.Runner(loop_factory=partial(VirtualLoop, seeded_random(seed))) as runner:
        return runner.run(run(seed))


@pytest.mark.parametrize("first", range(0, SEEDS, BLOCK))
def test_only_the_holder_of_the_lease_writes_and_all_pods_are_bound(first: int) -> None:
    paths = sum(map(run_seed, range(first, first + BLOCK)), Counter())

    assert {name: paths[name] for name in LEAST if paths[name] < LEAST[name]} == {}, paths


def test_a_scheduler_that_ignores_its_lease_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Elector, "fence", lambda self: 10.0)
    monkeypatch.setattr(Elector, "_is_held_by_another", lambda self, now_s: False)

    with pytest.raises((AssertionError, ExceptionGroup)):
        run_seed(0)
