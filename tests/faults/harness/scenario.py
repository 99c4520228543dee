"""A cluster with injected faults, generated from a seed, on virtual time.

::

    seed ──> faults, cluster, user actions, order of callbacks
             phase 1: faults; safety is checked after every write and every step
            phase 2: no faults; all feasible pods get bound, and nothing leaks

What is checked stands in ``checkers``, ``scheduler_checker`` and ``ledger``; what each fault is, in
``faults``. A seed repeats its run exactly, in any process.
"""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import msgspec

from mooring.apiserver import ApiServer
from mooring.apiserver.auth.authentication import ADMIN, IDENTITIES
from mooring.client import Client, InProcessTransport
from mooring.clock import Rng, seeded_random
from mooring.devcluster.kubelets import Kubelets
from mooring.objects.meta import LabelSelector, ObjectMeta, key
from mooring.objects.pod import Pod
from mooring.objects.workloads import PodDisruptionBudget, PodDisruptionBudgetSpec
from mooring.scheduler.service import Service, ServiceOptions
from mooring.virtual_loop import LoopClock, VirtualLoop
from tests.faults.harness.checkers import SCHEDULER, Decisions, Findings, StoreChecker
from tests.faults.harness.faults import Faults, FaultyNetwork, Fired, now_s
from tests.faults.harness.faulty_transport import FaultyTransport
from tests.faults.harness.ledger import Ledger
from tests.faults.harness.reference_fit import fit_error
from tests.faults.harness.scenario_user import PODS, PROTECTION, Users
from tests.faults.harness.scheduler_checker import SchedulerChecker, leaks
from tests.faults.harness.trace import Trace

#: So long after the last fault is over, whatever fits is bound: an informer may wait for 60 s
#: before it asks again, and a pod for 10 s before it is tried again.
BOUND_S: Final = 75.0
#: When a last pod comes.
LATE_POD_S: Final = 50.0
#: Until every pod that waits has been tried once more: 5 minutes, looked at every 30 s, backoff.
TRIED_S: Final = 345.0
#: A status that cannot be written, or an event, is given up at last.
QUIET_S: Final = 60.0

#: No pod of these may be evicted: no controller ever sets disruptionsAllowed.
PROTECTED: Final = PodDisruptionBudget(
    metadata=ObjectMeta(name="protected", namespace="default"),
    spec=PodDisruptionBudgetSpec(selector=LabelSelector(match_labels=PROTECTION)),
)

#: Stands for a pod without a PodScheduled=False condition.
NOTHING: Final = "nothing"

#: Minimum of a meaningful run.
BINDS_MIN: Final = 10
FAULTS_MIN: Final = 1


@dataclass(frozen=True, slots=True)
class Scenario:
    """The size of a run.

    Attributes:
        seed: Everything else is drawn from it.
        faults: Those of phase 1; None = drawn.
        nodes: At the start.
        n_safe: Of these, those that nobody changes.
        pods: At the start.
        user_actions: Number of user actions in phase 1.
        busy_s: How long phase 1 lasts.
    """

    seed: int
    faults: Faults | None = None
    nodes: int = 5
    n_safe: int = 3
    pods: int = 12
    user_actions: int = 40
    busy_s: float = 120.0


@dataclass(frozen=True, slots=True)
class Report:
    """What a run was like; that it ended without an ``InvariantBroken`` is the result.

    Attributes:
        seed: Of the run.
        digest: Of its trace.
        binds: Pods bound by the scheduler.
        attempts: Decisions.
        preemptions: How often pods were to leave for another one.
        writes: Of pods and nodes, each of which was checked.
        steps: Rounds of the loop.
        fired: Fault -> how often.
        trace: All that happened.
    """

    seed: int
    digest: str
    binds: int
    attempts: int
    preemptions: int
    writes: int
    steps: int
    fired: Counter[str]
    trace: Trace

    @property
    def counts(self) -> bool:
        """Whether enough happened for the run to show anything."""
        return self.binds >= BINDS_MIN and self.fired.total() >= FAULTS_MIN


def run_scenario(scenario: Scenario, trace: Trace | None = None) -> Report:
    """Run it.

    Args:
        scenario: What to run.
        trace: Filled as it runs, so that it can be read when an exception ends the run.

    Raises:
        InvariantBroken: something that must hold did not.
    """
    rng = seeded_random(scenario.seed)

    def loop_factory() -> VirtualLoop:
        return VirtualLoop(_branch(rng))

    # The scheduler collects and freezes what it knows at its start. What was there before need not
    # be looked at again for every run, and what a run leaves behind must be collected some day.
    gc.freeze()
    try:
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            loop = runner.get_loop()
            assert isinstance(loop, VirtualLoop)
            cluster = ScenarioCluster(scenario, rng, loop, trace if trace is not None else Trace())
            loop.on_step = cluster.on_step
            try:
                return runner.run(cluster.run())
            finally:
                # What is broken off now ends in some state or other.
                loop.on_step = lambda: None
                cluster.store.close()
    finally:
        gc.unfreeze()


def _branch(rng: Rng) -> Rng:
    """Returns a separate generator, so that draws of one part do not change those of others."""
    return seeded_random(rng.getrandbits(64))


class ScenarioCluster:
    """An API server, a network, a scheduler, users, and checkers."""

    def __init__(self, scenario: Scenario, rng: Rng, loop: VirtualLoop, trace: Trace) -> None:
        self._scenario = scenario
        self._loop = loop
        self._clock = LoopClock(loop)
        self._rng = _branch(rng)
        self._faults = scenario.faults or Faults.drawn(_branch(rng))
        self._findings = Findings(trace)
        decisions = Decisions()
        self._evictions = decisions.evictions
        self.api = ApiServer(self._clock, _branch(rng))
        self.store = StoreChecker(self.api, self._findings, decisions)
        self._checker = SchedulerChecker(self._findings, decisions)
        self._ledger = Ledger(self._findings, self.store, _branch(rng))
        self._network = FaultyNetwork(_branch(rng), self._on_fault)
        sound = InProcessTransport(self.store.handler("user"), headers=ADMIN.headers())
        self._client = Client(sound, rng=_branch(rng))
        self._kubelets = Kubelets(self._client, clock=self._clock, rng=_branch(rng))
        self._has_kubelets = self._rng.random() < 0.5
        self._users = Users(self._client, self.store, _branch(rng), n_safe=scenario.n_safe)
        self._service_rng = _branch(rng)
        self._n_tasks = 0

    def _make_service(self) -> Service:
        headers = IDENTITIES["mooring"].headers()
        inner = InProcessTransport(self.store.handler(SCHEDULER), headers=headers)
        client = Client(FaultyTransport(self._network, inner), rng=self._service_rng)
        options = ServiceOptions(plugins=[self._ledger], observer=self._checker)
        service = Service(client, clock=self._clock, rng=self._service_rng, options=options)
        self._checker.service = service
        self._ledger.handle = service.handle
        return service

    def _on_fault(self, fired: Fired) -> None:
        self._findings.trace.add(fired.at_s, f"fault {fired.name} {fired.what}")

    def on_step(self) -> None:
        """After every round of callbacks."""
        self._checker.on_step()
        if self._network.early:
            self._findings.broken("F5", self._network.early[0])
        self._findings.raise_first()

    async def run(self) -> Report:
        """Both phases."""
        scenario = self._scenario
        await self._prepare()
        service = self._make_service()
        async with asyncio.TaskGroup() as tasks:
            self._network.open(tasks)
            helpers = [tasks.create_task(self._tick())]
            if self._has_kubelets:
                helpers.append(tasks.create_task(self._kubelets.run()))
            self._network.faults = self._faults
            running = tasks.create_task(service.run())
            await service.wait_until_synced()
            await asyncio.sleep(1.0)
            self._n_tasks = self._tasks_now(service)
            restarts = tasks.create_task(self._restart_now_and_then())
            await self._be_busy()
            restarts.cancel()
            await self._come_to_rest(service)
            report = self._report(scenario.seed)
            service.stop()
            await running
            for task in helpers:
                task.cancel()
        return report

    async def _prepare(self) -> None:
        """The nodes, a class of pods that go first, and a budget for some of the others."""
        urgent = {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "urgent"},
            "value": 1000,
        }
        path = "/apis/scheduling.k8s.io/v1/priorityclasses"
        await self._client.write("POST", path, msgspec.json.encode(urgent))
        await self._client.create(PROTECTED)
        for _ in range(self._scenario.nodes):
            await self._users.add_node()

    async def _be_busy(self) -> None:
        """Phase 1."""
        scenario, rng = self._scenario, self._rng
        for _ in range(scenario.pods):
            await self._users.create_pod()
        starts_s = now_s()
        moments = sorted(rng.uniform(0, scenario.busy_s) for _ in range(scenario.user_actions))
        for moment_s in moments:
            # Some things happen at the very same time.
            if rng.random() < 0.7:
                await asyncio.sleep(max(0.0, starts_s + moment_s - now_s()))
            await self._users.act()
        await asyncio.sleep(max(0.0, starts_s + scenario.busy_s - now_s()))

    async def _restart_now_and_then(self) -> None:
        rng, a_minute = self._network.rng, self._faults.restarts
        while a_minute:
            await asyncio.sleep(rng.expovariate(a_minute / 60.0))
            self._network.restart(rng.random() ** 2 * 60.0)
            if rng.random() < 0.5:
                # A new server remembers nothing: watches from before get a 410 of its own.
                for collection in self.api.store.collections():
                    collection.history.drop(1 << 30)

    async def _come_to_rest(self, service: Service) -> None:
        """Phase 2."""
        self._network.calm()
        self._ledger.is_calm = True
        calm_s = max(self._network.calm_at_s, now_s())
        self._findings.trace.add(now_s(), "calm")
        await asyncio.sleep(calm_s + LATE_POD_S - now_s())
        # When nothing else happens any more, nothing else can help a pod that was forgotten.
        await self._users.create_expiring_pod()
        await asyncio.sleep(calm_s + BOUND_S - now_s())
        self._report_all("L2", self._unbound_pods())
        self._report_all("L6", self._informer_lag(service))
        await asyncio.sleep(TRIED_S)
        self._report_all("L3", self._missing_condition())
        self._report_all("L3", self._stale_condition())
        self._report_all("L4", self._starved())
        self._report_all("L2", self._evictions.missing_evictions(self.store.pods))
        await asyncio.sleep(QUIET_S)
        self._report_all("L5", leaks(service))
        self._report_all("S8", (f"{uid} is still reserved" for uid in self._ledger.open))
        if self._tasks_now(service) != self._n_tasks:
            message = f"{self._tasks_now(service)} tasks, at the start there were {self._n_tasks}"
            self._findings.broken("L5", message)
        self._findings.raise_first()

    def _report_all(self, rule: str, problems: Iterator[str]) -> None:
        for message in problems:
            self._findings.broken(rule, message)
        self._findings.raise_first()

    def _unbound_pods(self) -> Iterator[str]:
        """L2: pods that fit a node but are not bound."""
        for pod in self.store.pending():
            for name, node in self.store.nodes.items():
                if not fit_error(pod, node, self.store.on_node(name)):
                    yield f"{key(pod)} fits {name}, and is not bound"

    def _informer_lag(self, service: Service) -> Iterator[str]:
        """L6: informers that differ from the server."""
        pods = {key(pod): pod.metadata.resource_version for pod in self.store.pods.values()}
        nodes = {name: node.metadata.resource_version for name, node in self.store.nodes.items()}
        for kind, expected in (("Pod", pods), ("Node", nodes)):
            objects = service.informers[kind].objects
            cached = {name: obj.metadata.resource_version for name, obj in objects.items()}
            if cached != expected:
                yield f"{kind}: {set(cached.items()) ^ set(expected.items())} differ"

    def _missing_condition(self) -> Iterator[str]:
        """L3: unschedulable pods without the message of their last attempt as condition."""
        for pod in self.store.pending():
            expected = self._checker.messages.get(pod.metadata.uid, (0.0, NOTHING))[1]
            written = _condition(pod)
            if written != expected:
                yield f"{key(pod)} has the condition {written!r}, expected {expected!r}"
            n_nodes = len(self.store.nodes)
            if not expected.startswith(f"0/{n_nodes} nodes are available"):
                yield f"{key(pod)} failed with {expected!r}, but there are {n_nodes} nodes"

    def _stale_condition(self) -> Iterator[str]:
        """L3: pods bound by the scheduler with a PodScheduled=False condition."""
        for uid, actor in self.store.bound_by.items():
            pod = self.store.pods.get(uid)
            if pod is None or actor != SCHEDULER or self._is_excused(pod):
                continue
            if _condition(pod) != NOTHING:
                yield f"{key(pod)} is on {pod.spec.node_name}, and says {_condition(pod)!r}"

    def _is_excused(self, pod: Pod) -> bool:
        """True if a status update of the pod was delayed and may have come after its binding."""
        return f"{PODS}/{pod.metadata.name}/status" in self._network.delayed

    def _starved(self) -> Iterator[str]:
        """L4: pending pods without a recent attempt."""
        for pod in self.store.pending():
            tried_at_s = self._checker.attempted_at_s.get(pod.metadata.uid, -1.0)
            if now_s() - tried_at_s > TRIED_S:
                yield f"{key(pod)} was last tried at {tried_at_s:.1f} s"

    def _tasks_now(self, service: Service) -> int:
        """The tasks of the scheduler and of others, without those that end by themselves."""
        names = [task for task in asyncio.all_tasks() if not task.done()]
        return len(names) - self._network.late_count - len(service.bindings)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            self.api.tick()

    def _report(self, seed: int) -> Report:
        trace = self._findings.trace
        return Report(
            seed=seed,
            digest=trace.digest,
            binds=self._checker.binds,
            attempts=self._checker.attempts,
            preemptions=self._checker.preemptions,
            writes=self.store.writes,
            steps=self._loop.steps,
            fired=self._network.fired,
            trace=trace,
        )


def _condition(pod: Pod) -> str:
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            return condition.message
    return NOTHING
