"""A cluster with injected faults, generated from a seed, on virtual time.

::

    seed ──> faults, cluster, user actions, order of callbacks
             phase 1: faults; safety is checked after every write and every step
            phase 2: no faults; all feasible pods get bound, and nothing leaks

The checks are in ``checkers``, ``scheduler_checker`` and ``ledger``, the faults in ``faults``. A
seed reproduces its run exactly, in any process.
"""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Final

from mooring.apiserver import ApiServer
from mooring.apiserver.auth.authentication import ADMIN, IDENTITIES
from mooring.client import Client, InProcessTransport
from mooring.clock import Rng, seeded_random
from mooring.devcluster.kubelet.kubelets import Kubelets
from mooring.garbage import rare_collections
from mooring.metrics.registry import Metrics
from mooring.objects.meta import LabelSelector, ObjectMeta
from mooring.objects.workloads import PodDisruptionBudget, PodDisruptionBudgetSpec
from mooring.queue import QueueOptions
from mooring.scheduler.observer import Observer, ObserverGroup
from mooring.scheduler.service import Service, ServiceOptions
from mooring.virtual_loop import LoopClock, VirtualLoop
from tests.faults.harness.checkers import SCHEDULER, Decisions, Findings, StoreChecker
from tests.faults.harness.faults import Faults, FaultyNetwork, Fired, now_s
from tests.faults.harness.faulty_transport import FaultyTransport
from tests.faults.harness.final_checker import RETRIED_S, WRITTEN_S, FinalChecker
from tests.faults.harness.ledger import Ledger
from tests.faults.harness.odd_run import OddRun
from tests.faults.harness.plugins import RAISES, RAISES_TOO, Raising, SecondPermit
from tests.faults.harness.reactions import Reactions
from tests.faults.harness.scenario_user import BUDGETS, PODS, PRIORITY_VALUES, TIER, Users
from tests.faults.harness.scheduler_checker import SchedulerChecker, leaks
from tests.faults.harness.trace import Trace
from tests.faults.twins.scenario_twins import ScenarioTwins
from tests.helpers.virtual_loop import LimitedLoop

#: Time from the end of the last fault until all pods that fit are bound: an informer may wait 60 s
#: before it lists again, and a pod 10 s in backoff.
BOUND_S: Final = 75.0
#: When the last pod is created.
LATE_POD_S: Final = 50.0
#: Until status updates and events that cannot be written are dropped.
QUIET_S: Final = 60.0

#: Share of the runs in which plugins raise.
RAISING_SHARE: Final = 0.3

#: The least rate of 410 in runs with lists by pages.
EXPIRED_RATE: Final = 0.15

#: An informer without faults has every object after so long.
LAG_S: Final = 0.37
LAG_TRIES: Final = 3

#: Generators that a run branches off before that of the faults: the loop's, and its own.
_BRANCHES_BEFORE_FAULTS: Final = 2

#: Minimum of a meaningful run.
BINDS_MIN: Final = 10
FAULTS_MIN: Final = 1


@dataclass(frozen=True, slots=True)
class Scenario:
    """The size of a run.

    Attributes:
        seed: Of all random choices.
        faults: Those of phase 1; None = drawn.
        nodes: At the start.
        n_safe: The number of these that users never change.
        pods: At the start.
        user_actions: Number of user actions in phase 1.
        busy_s: How long phase 1 lasts.
        has_broken_pods: False where a broken pod of high priority may evict others for ever.
        rate_factor: The drawn rates of faults are multiplied by this, up to 0.9.
        node_share: How many times as often as else users add and change nodes.
        page_size: Lists have pages of so many objects, as those of a server that does not stream
            them; 0 = it does.
        is_odd: The queue has other options, and a plugin activates several pods at once.
        has_reactions: Users change the pods that the scheduler is just working on.
    """

    seed: int
    faults: Faults | None = None
    nodes: int = 5
    n_safe: int = 3
    pods: int = 12
    user_actions: int = 40
    busy_s: float = 120.0
    has_broken_pods: bool = True
    rate_factor: float = 1.0
    node_share: int = 1
    page_size: int = 0
    is_odd: bool = False
    has_reactions: bool = False


@dataclass(frozen=True, slots=True)
class Report:
    """Statistics of a run that ended without an ``InvariantBroken``.

    Attributes:
        seed: Of the run.
        digest: Of its trace.
        binds: Pods bound by the scheduler.
        attempts: Decisions.
        preemptions: Number of preemptions.
        writes: Writes of pods and nodes, each of which was checked.
        steps: Rounds of the loop.
        fired: Fault -> number of occurrences.
        paths: Fault, user action, or path of the code -> number of occurrences.
        trace: All events.
    """

    seed: int
    digest: str
    binds: int
    attempts: int
    preemptions: int
    writes: int
    steps: int
    fired: Counter[str]
    paths: Counter[str]
    trace: Trace

    @property
    def counts(self) -> bool:
        """True if enough happened for a meaningful run."""
        return self.binds >= BINDS_MIN and self.fired.total() >= FAULTS_MIN


def run_scenario(scenario: Scenario, trace: Trace | None = None) -> Report:
    """Runs a scenario.

    Args:
        scenario: The scenario.
        trace: Filled during the run, so that it can be read after an exception.

    Raises:
        InvariantBroken: an invariant is violated.
    """
    rng = seeded_random(scenario.seed)

    def loop_factory() -> VirtualLoop:
        return LimitedLoop(_branch(rng))

    # A scheduler collects garbage and freezes the heap when it starts, and unfreezes it when it is
    # the last that ends. Freezing before makes each start cheap, that of a second one, too.
    with rare_collections():
        gc.freeze()
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            loop = runner.get_loop()
            assert isinstance(loop, VirtualLoop)
            cluster = ScenarioCluster(scenario, rng, loop, trace if trace is not None else Trace())
            loop.on_step = cluster.on_step
            try:
                return runner.run(cluster.run())
            finally:
                # Cancelled tasks may violate invariants.
                loop.on_step = lambda: None
                cluster.store.close()


def _branch(rng: Rng) -> Rng:
    """Returns a separate generator, so that draws of one part do not change those of others."""
    return seeded_random(rng.getrandbits(64))


def drawn_faults(scenario: Scenario) -> Faults:
    """Returns the rates of faults in a run of the scenario."""
    rng = seeded_random(scenario.seed)
    for _ in range(_BRANCHES_BEFORE_FAULTS):
        _branch(rng)
    return _faults_of(scenario, _branch(rng))


def _faults_of(scenario: Scenario, rng: Rng) -> Faults:
    faults = scenario.faults or Faults.drawn(rng).times(scenario.rate_factor)
    if scenario.page_size:
        # A list is rare without lost versions, and so is one that expires between two pages.
        faults = replace(faults, expired=max(faults.expired, EXPIRED_RATE))
    return faults if scenario.has_broken_pods else replace(faults, broken_pods=0.0)


def _observer(
    scenario: Scenario,
    checker: SchedulerChecker,
    client: Client,
    store: StoreChecker,
    network: FaultyNetwork,
) -> Observer:
    """Returns who observes the scheduler: the checker, and in some runs users who react to it."""
    if not scenario.has_reactions:
        return checker
    n_safe = scenario.n_safe
    reactions = Reactions(scenario.seed, checker, client, store, network, n_safe=n_safe)
    return ObserverGroup(checker, reactions)


def _uid_at(store: StoreChecker, path: str) -> str:
    """Returns the UID of the pod at a path; "" if there is none."""
    for pod in store.pods.values():
        if path == f"{PODS}/{pod.metadata.name}":
            return pod.metadata.uid
    return ""


async def until_read(problems: Callable[[], Iterator[str]]) -> None:
    """Waits a little for the watch: a pod may have been written at this very moment."""
    for _ in range(LAG_TRIES):
        if not any(problems()):
            break
        await asyncio.sleep(LAG_S)


class ScenarioCluster:
    """An API server, a network, a scheduler, users, and checkers."""

    def __init__(self, scenario: Scenario, rng: Rng, loop: VirtualLoop, trace: Trace) -> None:
        self._scenario = scenario
        self._loop = loop
        self._clock = LoopClock(loop)
        self._rng = _branch(rng)
        self._faults = _faults_of(scenario, _branch(rng))
        self._findings = Findings(trace)
        decisions = Decisions()
        self._evictions = decisions.evictions
        self.api = ApiServer(self._clock, _branch(rng))
        self.store = StoreChecker(self.api, self._findings, decisions)
        self._checker = SchedulerChecker(self._findings, decisions)
        ledger_rng = _branch(rng)
        self._network = FaultyNetwork(_branch(rng), self._on_fault)
        self._network.page_size = scenario.page_size
        self._ledger = Ledger(self._findings, self.store, self._network.requests, ledger_rng)
        self._network.requests.uid_at = partial(_uid_at, self.store)
        sound = InProcessTransport(self.store.handler("user"), headers=ADMIN.headers())
        self._client = Client(sound, rng=_branch(rng))
        self._kubelets = Kubelets(self._client, clock=self._clock, rng=_branch(rng))
        self._has_kubelets = self._rng.random() < 0.5
        #: A plugin that filters turns some caches off, so most runs have none.
        has_raising_pods = scenario.has_broken_pods and self._rng.random() < RAISING_SHARE
        self._second = SecondPermit(self._findings, _branch(rng))
        names = {"Raising": RAISES, "RaisingToo": RAISES_TOO} if has_raising_pods else {}
        self._raising = [Raising(self._findings, name, label) for name, label in names.items()]
        self._users = Users(
            self._client,
            self.store,
            _branch(rng),
            n_safe=scenario.n_safe,
            node_share=scenario.node_share,
            has_raising_pods=has_raising_pods,
        )
        self._service_rng = _branch(rng)
        self._final = FinalChecker(self.store, self._checker, self._network)
        self._odd = OddRun(scenario.seed) if scenario.is_odd else None
        self._queue_options = self._odd.options if self._odd else QueueOptions()
        self._n_tasks = 0
        self._twins: ScenarioTwins | None = None

    def _make_service(self) -> Service:
        headers = IDENTITIES["mooring"].headers()
        inner = InProcessTransport(self.store.handler(SCHEDULER), headers=headers)
        client = Client(FaultyTransport(self._network, inner), rng=self._service_rng)
        # Those that raise come last: the ledger expects a Reserve before each Unreserve.
        plugins = [self._ledger, self._second, *self._raising]
        observer = _observer(self._scenario, self._checker, self._client, self.store, self._network)
        metrics = Metrics(clock=self._clock) if self._scenario.seed % 2 else None
        options = ServiceOptions(
            plugins=plugins, observer=observer, queue=self._queue_options, metrics=metrics
        )
        service = Service(client, clock=self._clock, rng=self._service_rng, options=options)
        self._checker.service = service
        self._ledger.handle = self._second.handle = service.handle
        self._twins = ScenarioTwins(
            service,
            self._clock,
            self._queue_options,
            self._findings,
            self.store,
            self._checker,
            self._final,
            checks_changes=self._scenario.seed % 2 == 0,
            metrics=metrics,
        )
        return service

    def _on_fault(self, fired: Fired) -> None:
        self._findings.trace.add(fired.at_s, f"fault {fired.name} {fired.what}")

    def on_step(self) -> None:
        """Checks all invariants after every round of callbacks."""
        if self._twins is not None:
            self._twins.on_step()
        self._checker.on_step()
        for rule, message in self._network.requests.problems():
            self._findings.report(rule, message)
        self._findings.raise_first()

    async def run(self) -> Report:
        """Runs both phases."""
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
            self._n_tasks = self._count_tasks(service)
            restarts = tasks.create_task(self._restart_randomly())
            await self._run_with_faults()
            restarts.cancel()
            await self._run_without_faults(service)
            report = self._report(scenario.seed)
            twins, self._twins = self._twins, None
            service.stop()
            await running
            for task in helpers:
                task.cancel()
        if twins is not None:
            self._report_all("M2", iter(twins.leftovers.problems()))
        return report

    async def _prepare(self) -> None:
        """Creates the nodes, PriorityClasses, and PodDisruptionBudgets."""
        for name, value in PRIORITY_VALUES.items():
            await self._users.create_priority(name, value)
        for tier, allowed in BUDGETS.items():
            await self._create_budget(tier, allowed)
        for _ in range(self._scenario.nodes):
            await self._users.add_node()

    async def _create_budget(self, tier: str, allowed: int) -> None:
        """Creates a budget; no controller changes how many disruptions it allows."""
        selector = LabelSelector(match_labels={TIER: tier})
        budget = PodDisruptionBudget(
            metadata=ObjectMeta(name=tier, namespace="default"),
            spec=PodDisruptionBudgetSpec(selector=selector),
        )
        await self._client.create(budget)
        status = {"disruptionsAllowed": allowed, "observedGeneration": 1}
        await self._client.patch(
            "PodDisruptionBudget",
            tier,
            {"status": status},
            namespace="default",
            subresource="status",
        )

    async def _run_with_faults(self) -> None:
        """Runs phase 1."""
        scenario, rng = self._scenario, self._rng
        for _ in range(scenario.pods):
            await self._users.create_pod()
        starts_s = now_s()
        moments = sorted(rng.uniform(0, scenario.busy_s) for _ in range(scenario.user_actions))
        for moment_s in moments:
            # Some actions happen at the same time.
            if rng.random() < 0.7:
                await asyncio.sleep(max(0.0, starts_s + moment_s - now_s()))
            await self._users.act()
        await asyncio.sleep(max(0.0, starts_s + scenario.busy_s - now_s()))

    async def _restart_randomly(self) -> None:
        rng, per_minute = self._network.rng, self._faults.restarts
        while per_minute:
            await asyncio.sleep(rng.expovariate(per_minute / 60.0))
            self._network.restart(rng.random() ** 2 * 60.0)
            if rng.random() < 0.5:
                # A new server has no history: earlier watches get a 410 from it.
                for collection in self.api.store.collections():
                    collection.history.drop(1 << 30)

    async def _run_without_faults(self, service: Service) -> None:
        """Runs phase 2."""
        self._network.heal()
        self._ledger.is_passive = self._second.is_passive = True
        for plugin in self._raising:
            plugin.is_passive = True
        healed_s = max(self._network.healed_at_s, now_s())
        self._findings.trace.add(now_s(), "heal")
        await asyncio.sleep(healed_s + LATE_POD_S - now_s())
        # In half of the runs no other event occurs, so a lost pod is not requeued by accident.
        if self._rng.random() < 0.5:
            await self._users.create_expiring_pod()
        else:
            await self._users.help_once()
        await asyncio.sleep(healed_s + BOUND_S - now_s())
        self._report_all("L2", self._final.unbound_pods())
        await until_read(lambda: self._final.informer_lag(service))
        self._report_all("L6", self._final.informer_lag(service))
        # Before the flush of the unschedulable pods: their next attempts would write it again.
        await asyncio.sleep(WRITTEN_S)
        self._report_all("L3", self._final.overdue_condition())
        await asyncio.sleep(RETRIED_S - WRITTEN_S)
        await until_read(lambda: self._final.differing_nominations(service))
        unwritten = (self._final.missing_condition(), self._final.stale_condition())
        self._report_all("L3", chain(*unwritten, self._final.differing_nominations(service)))
        self._report_all("L4", self._final.starved())
        self._report_all("L2", self._evictions.missing_evictions(self.store.pods))
        self._network.repair()
        await asyncio.sleep(QUIET_S)
        self._report_all("L5", leaks(service))
        self._report_all("S8", (f"{uid} is still reserved" for uid in self._ledger.open))
        if self._count_tasks(service) != self._n_tasks:
            message = f"{self._count_tasks(service)} tasks, at the start there were {self._n_tasks}"
            self._findings.report("L5", message)
        self._findings.raise_first()

    def _report_all(self, rule: str, problems: Iterator[str]) -> None:
        for message in problems:
            self._findings.report(rule, message)
        self._findings.raise_first()

    def _count_tasks(self, service: Service) -> int:
        """Returns the number of tasks, without those that end by themselves."""
        tasks = [task for task in asyncio.all_tasks() if not task.done()]
        return len(tasks) - self._network.late_count - len(service.bindings)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            self.api.tick()
            if self._checker.service is not None:
                problems = self._checker.wakeups.problems(self._checker.service, now_s())
                self._report_all("L2", problems)
            if self._twins is not None:
                self._twins.on_tick()
            if self._odd is not None and not self._ledger.is_passive:
                self._odd.activate_some(self._checker.service)

    def _paths(self) -> Counter[str]:
        """Returns all counters of the run."""
        paths = Counter(self._findings.paths)
        paths.update({f"fault {name}": count for name, count in self._network.fired.items()})
        paths.update({f"user {name}": count for name, count in self._users.done.items()})
        paths["unschedulable pod compared"] += self._checker.wakeups.checked
        paths["unschedulable pod fits"] += self._checker.wakeups.fitting
        assert self._checker.service is not None
        for informer in self._checker.service.informers.values():
            statistics = informer.statistics()
            paths["relist"] += statistics.lists - 1
            paths["deletion missed by a watch"] += statistics.missed_deletes
        return paths

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
            paths=self._paths(),
            trace=trace,
        )
