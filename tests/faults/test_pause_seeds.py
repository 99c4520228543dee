"""Two and three schedulers with one lease, of which one is stopped for a while, as by SIGSTOP.

The process that holds the lease is stopped for 5 to 60 s, at any step: in a decision, between a
request and its answer, in the renewal. Requests take up to 3 s to arrive, answers 3 s to return.
When the process continues, everything that became due meanwhile happens at once, in random order.
The judge is the server, as in ``test_lease_seeds``: at every write the stored Lease must name its
sender. kube-scheduler has no such check; a process of it writes until its renewal notices.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from functools import partial
from typing import Final

import pytest

from mooring.client import Elector, Transport
from mooring.clock import seeded_random
from tests.faults.fault_fixture import PODS, small_node, small_pod
from tests.faults.harness.faulty_transport import FaultyTransport
from tests.faults.harness.freezable_loop import FreezableLoop, context_of
from tests.faults.harness.records import compared
from tests.faults.harness.wire import Wire
from tests.faults.test_lease_seeds import BOUND_S, LeaseLab, watch_steps

#: MOORING_SEEDS=1000 runs more of them.
SEEDS: Final = int(os.environ.get("MOORING_SEEDS", "200")) // 20
BLOCK: Final = 10

PODS_MAX: Final = 30
NODE_PODS: Final = 200
BUSY_S: Final = 300.0

#: Path -> least number in ten seeds: about a third of what was counted.
LEAST: Final = {
    "pod bound": 150,
    "leader changed": 28,
    "leader stopped": 24,
    "stopped beyond the lease": 17,
    "follower stopped": 4,
    "lease lost": 24,
}


class PauseLab(LeaseLab):
    """A ``LeaseLab`` whose processes are stopped, and continue."""

    #: With latency, two clocks may differ by less than without.
    skew = 0.05
    #: Pods that were created while a process was stopped.
    created = 0

    def wire(self, network: FaultyTransport, tasks: asyncio.TaskGroup) -> Transport:
        return Wire(network, self.rng, tasks)

    async def disturb(self) -> None:
        """Creates pods; meanwhile stops a process, mostly the leader, again and again."""
        async with asyncio.TaskGroup() as tasks:
            pausing = tasks.create_task(self._pause())
            for number in range(PODS_MAX):
                await self.post(PODS, small_pod(f"p{number}"))
                await asyncio.sleep(self.rng.uniform(0.0, 2 * BUSY_S / PODS_MAX))
            pausing.cancel()
        loop = _loop()
        for name in self.running:
            loop.thaw(name)

    async def _pause(self) -> None:
        while True:
            await asyncio.sleep(self.rng.uniform(0.0, 15.0))
            leader = self.holder().partition("-")[0]
            name = leader if self.rng.random() < 0.8 else self.rng.choice(list(self.running))
            if not name:
                continue
            seconds = self.rng.uniform(5.0, 60.0) if self.rng.random() < 0.8 else 1.0
            self.paths["leader stopped" if name == leader else "follower stopped"] += 1
            self.paths["stopped beyond the lease"] += name == leader and seconds > 15.0
            _loop().freeze(name)
            await asyncio.sleep(seconds)
            # Work for a process that believes that it leads.
            for _ in range(2):
                self.created += 1
                await self.post(PODS, small_pod(f"late-{self.created}"))
                _loop().thaw(name)
                await asyncio.sleep(self.rng.choice((0.0, 0.5)))


def _loop() -> FreezableLoop:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, FreezableLoop)
    return loop


async def run(seed: int) -> Counter[str]:
    """Runs a seed; returns the paths that it took."""
    lab = PauseLab(seed)
    watch_steps(lab)
    await lab.post("/api/v1/nodes", small_node("a", pods=NODE_PODS))
    async with asyncio.TaskGroup() as tasks:
        names = ("red", "blue", "green")[: lab.rng.choice((2, 3))]
        schedulers = [
            tasks.create_task(lab.run_scheduler(name, tasks), context=context_of(name))
            for name in names
        ]
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
    with asyncio.Runner(loop_factory=partial(FreezableLoop, seeded_random(seed))) as runner:
        return runner.run(run(seed))


@pytest.mark.parametrize("first", range(0, SEEDS, BLOCK))
def test_a_process_that_was_stopped_writes_nothing_under_the_lease_of_another(first: int) -> None:
    runs = partial(compared, "pause", run=run_seed)
    paths = sum(map(runs, range(first, first + BLOCK)), Counter())

    assert {name: paths[name] for name in LEAST if paths[name] < LEAST[name]} == {}, paths


def late_fence(patch: pytest.MonkeyPatch) -> None:
    """Lets writes pass until the renewal notices that the lease is lost, as kube-scheduler does."""
    patch.setattr(Elector, "fence", lambda self: 10.0)


def test_a_fence_that_waits_for_the_renewal_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    late_fence(monkeypatch)
    with pytest.raises((AssertionError, ExceptionGroup)):
        sum(map(run_seed, range(SEEDS)), Counter())
