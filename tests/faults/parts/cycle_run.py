"""Attempts that fail at every point, while users change the very pods: without a network.

The queue, the cache, the handlers of events, the scheduling and the binding cycle are real; the API
server is a dict. All takes multiples of half a second, so that many things happen at the same
moment. The models are those of whole runs, and ``cycle_script``.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from random import Random
from types import SimpleNamespace
from typing import Any, Final

from msgspec import to_builtins

from mooring.clock import Rng, seeded_random
from mooring.errors import InvariantViolation, LeaseLost
from mooring.framework import Attempt, Diagnosis, Framework, Placement, Profile
from mooring.framework.interface import EXTENSION_POINTS
from mooring.framework.status import ClaimChange, PostFilterResult
from mooring.framework.waiting_pods import WaitingPods
from mooring.metrics.registry import Metrics
from mooring.plugins.priority_sort import PrioritySort
from mooring.queue import QueuedPod, QueueOptions, SchedulingQueue
from mooring.scheduler.binding_tasks import BindingTasks
from mooring.scheduler.event_handlers import EventHandlers
from mooring.scheduler.metrics import SchedulerMetrics
from mooring.scheduler.observer import ObserverGroup
from mooring.scheduler.pods_in_prebind import PodsInPreBind
from mooring.scheduler.schedule_one import Scheduler
from mooring.scheduler.with_extenders import ExtenderScheduler
from mooring.state import PodInfo
from mooring.state.audit import audit
from mooring.state.cache import Cache
from mooring.testing import make_pod
from mooring.virtual_loop import LoopClock, VirtualLoop
from tests.faults.harness.preemption_checker import missing_victims
from tests.faults.harness.scheduler_checker import (
    cache_problems,
    nomination_problems,
    queue_problems,
)
from tests.faults.parts.claim_changes import ClaimChanges
from tests.faults.parts.cycle_cluster import NODES, PodCluster
from tests.faults.parts.cycle_extenders import FaultyExtenders
from tests.faults.parts.cycle_points import EndsOfFlights, MeasuredPlugin, point_problems
from tests.faults.parts.cycle_script import (
    ERROR,
    STEP_S,
    HangingScript,
    Script,
    SkippingScript,
    prepares,
)
from tests.faults.parts.latest_cycles import LatestCycles
from tests.faults.parts.narrowing import Narrowing
from tests.faults.parts.observed import observed_pair, observed_problems
from tests.faults.parts.second_wait import SecondWait
from tests.faults.twins.attached_handlers import AttachedHandlers
from tests.faults.twins.attached_queue import AttachedQueue
from tests.faults.twins.freed import FreedRoom
from tests.faults.twins.nominations import AttachedNominations
from tests.faults.twins.queue_twin import QueueTwin
from tests.faults.twins.recorded_calls import RecordedCalls
from tests.helpers.virtual_loop import run_virtually

ACTIONS: Final = 120
PROFILE: Final = "default-scheduler"
#: In such seeds, modulo five, no nomination is written before a binding.
ANNOUNCES_NOT: Final = 4
#: In such seeds, modulo three, a second plugin delays pods in Permit.
TWO_WAIT: Final = 2
#: In so many runs another plugin compares with which cycle each point is called.
LATEST_SHARE: Final = 0.3
#: In such seeds, modulo three, PostFilter wants claims to be changed, which may fail.
CHANGES_EVERY: Final = 3
#: In such seeds, modulo five, PreFilter leaves other nodes once extenders have answered.
NARROWS: Final = 1
#: In such seeds the lease is lost at last, or an invariant is violated.
ENDS_EVERY: Final = 2
#: In such seeds, modulo seven, PreBind has nothing to do for half of the pods, or hangs for some.
SCRIPTS_EVERY: Final = 7
SCRIPTS: Final[Mapping[int, type[Script]]] = {3: SkippingScript, 5: HangingScript}
#: Some of these are bound then; PreBind has something to do for the first one.
LAST_PODS: Final = ("last", "last-1", "last-2", "last-3", "last-4", "last-5")
#: Why an attempt is given up whose result does not fit the changed cluster, three times.
_CHANGED: Final = "times while extenders were called"
#: So often it is compared for which bindings a scheduler that ends would wait.
DRAINED_EVERY_S: Final = 5.0
#: At the end a pod waits 10 s in backoff at most, and is flushed after five minutes.
QUIET_S: Final = 345.0
WEIGHTS: Final = {
    "create": 6,
    "delete": 2,
    "replace": 1,
    "terminate": 1,
    "relabel": 2,
    "bind_elsewhere": 1,
    "nominate": 4,
    "preempt": 4,
}


class FakeReporting:
    """Counts what is reported, and writes nominations late, or not."""

    def __init__(self, run: CycleRun) -> None:
        self.failures = 0
        self._run = run
        #: UID -> the node that was written, and not withdrawn.
        self.announced: dict[str, str] = {}
        #: UIDs of pods whose nomination was to be written in this attempt.
        self.announcing: set[str] = set()
        #: UIDs of pods whose nomination is being written.
        self.writing: set[str] = set()

    def check(self, uid: str) -> None:
        """Checks that a pod is nominated before its binding if that takes a while, else not."""
        self._run.flights.check(uid)
        script = self._run.script
        is_due = self._run.announces and (script.delays(uid) or prepares(script, uid))
        if (uid in self.announcing) is not is_due:
            self._run.problems.append(f"{uid} is nominated before its binding: {not is_due}")

    def bound(self, pod: PodInfo, node_name: str) -> None:
        """Ends the nomination of a bound pod."""
        del node_name
        self.announcing.discard(pod.uid)
        self.announced.pop(pod.uid, None)

    def placed(self, pod: PodInfo) -> None:
        """Checks what is assumed: the pod on a node, without its nomination."""
        placed = self._run.cache.pods.get(pod.uid)
        assert placed is not None
        expected = to_builtins(pod.pod)
        expected["spec"]["nodeName"] = placed.info.node_name
        expected.get("status", {}).pop("nominatedNodeName", None)
        real = to_builtins(placed.info.pod)
        if real != expected or not placed.info.node_name:
            self._run.problems.append(f"{pod.key} is assumed as {real}, not {expected}")
        self._run.problems += self._run.unplaceable(pod)

    def skipped(self, pod: PodInfo) -> None:
        """Checks that the pod is being deleted, by its newest version."""
        self._run.problems += self._run.unskippable(pod)

    async def expected(self, pod: PodInfo, node_name: str) -> bool:
        """Writes a nomination, in most cases."""
        if not self._run.announces:
            self._run.problems.append(f"a nomination of {pod.key} is written, which is off")
        self.announcing.add(pod.uid)
        self.writing.add(pod.uid)
        try:
            await asyncio.sleep(self._run.step_s())
        finally:
            self.writing.discard(pod.uid)
        is_written = self._run.rng.random() < 0.7
        if is_written:
            self.announced[pod.uid] = node_name
        return is_written

    def failed(
        self,
        pod: PodInfo,
        why: Any,
        nominated: str | None,
        announced: str | None = None,
        *,
        quarantine_s: float = 0.0,
    ) -> None:
        """Checks that a nomination that was written is withdrawn."""
        del quarantine_s
        if self._run.script.has_ended:
            self._run.problems.append(f"{pod.key} has failed by {why}, but the scheduler ends")
        self.failures += 1
        self.announcing.discard(pod.uid)
        written = self.announced.pop(pod.uid, None)
        if announced != written:
            self._run.problems.append(f"{pod.key}: {written} was written, not {announced}")
        expected = self._run.script.nominated.pop(pod.uid, "")
        if nominated != expected:
            self._run.problems.append(f"{pod.key} is nominated to {nominated}, not {expected}")

    def failed_for_good(self, pod: PodInfo, why: Any) -> None:
        """Counts the failure of a pod that is gone, or has a node."""
        del why
        self.failures += 1
        self.announcing.discard(pod.uid)
        self.announced.pop(pod.uid, None)


class FakePreemptions:
    """Evicts some of the victims, at once."""

    def __init__(self, run: CycleRun) -> None:
        self._run = run

    def start(self, preemptor: PodInfo, result: PostFilterResult) -> None:
        """Checks that all victims are there when their eviction begins."""
        self._run.check_victims(preemptor, result)


class CycleRun(PodCluster):
    """One run.

    Attributes:
        problems, rng: Differences to the models; draws what happens.
        attached, cache, metrics: The model of the queue; pods and nodes; of the scheduler.
        bindings, reporting: The tasks that bind pods; counts what is reported.
    """

    def __init__(self, seed: int, tasks: asyncio.TaskGroup) -> None:
        self.problems, self._n_preempted = list[str](), 0
        #: Whether nominations are written before bindings; a gate switches that off.
        self.announces = seed % 5 != ANNOUNCES_NOT
        rng = seeded_random(seed)
        super().__init__(
            rng, lambda kind, change: self._service.events.on_change(kind, change), seed
        )
        clock, self.cache = LoopClock(self._loop), Cache()
        for node in self.nodes.values():
            self.cache.put_node(node)
        #: Draws an error that ends all at last; None = nothing ends.
        self._ends = seeded_random(seed + 3) if seed % ENDS_EVERY == 0 else None
        has_extenders = rng.random() < 0.4
        self.script = SCRIPTS.get(seed % SCRIPTS_EVERY, Script)(
            rng,
            NODES,
            self.waiting,
            self._bind_checked,
            self._candidates,
            self._placed_on,
            self.problems.append,
            has_extenders=has_extenders,
        )
        _widen(self.script, seed, has_extenders=has_extenders)
        self._measured, self.observed = MeasuredPlugin(self.script), observed_pair()
        self._framework = _framework_of(self.script, seed, clock, self.problems.append)
        self._extenders: FaultyExtenders | None = None
        if has_extenders:
            self._extenders = FaultyExtenders(clock, rng, self.script.causes, self.problems.append)
            self._framework.set_extenders(self._extenders.extenders, rng.random)
            self._extenders.on_call = self.during_call
        profiles = {PROFILE: self._framework}
        options, self._ready = QueueOptions(), asyncio.Event()
        self._queue = SchedulingQueue(
            profiles, clock=clock, options=options, on_ready=self._ready.set
        )
        events = EventHandlers(self.cache, self._queue, profiles, self._framework.waiting)
        self.bindings, self.reporting = BindingTasks(rng), FakeReporting(self)
        self.bindings.open(tasks)
        self.metrics, self._prebind = Metrics(clock=clock), PodsInPreBind()
        SchedulerMetrics(self._queue, self.cache, profiles, self.bindings).connect(self.metrics)
        self._scheduler = (ExtenderScheduler if has_extenders else Scheduler)(
            self.cache,
            self._queue,
            profiles,
            self._live,
            self.bindings,
            _any(self.reporting),
            clock=clock,
            observer=ObserverGroup(self.observed[0], self, self.observed[1]),
            preemptions=_any(FakePreemptions(self)),
            pods_in_prebind=self._prebind,
            buffer_events=events.buffer_events,
            write_claim=self._write_claim,
            gates={"NominatedNodeNameForExpectation": self.announces},
            recorder=self.metrics.scheduler,
        )
        self._attach(profiles, clock, options, events)
        self._weights = {name: it * rng.choice((0.3, 1, 1, 3)) for name, it in WEIGHTS.items()}

    def _attach(self, profiles: Any, clock: Any, options: Any, events: EventHandlers) -> None:
        """Attaches the models."""
        self.flights = EndsOfFlights(self._queue, self._prebind, self.problems.append)
        twin = QueueTwin(profiles, clock, options)
        self.attached = AttachedQueue(self._queue, twin, self.problems.append)
        self.attached.listen(self._on_queue_call)
        self._service: Any = _any(SimpleNamespace)(
            queue=self._queue,
            cache=self.cache,
            events=events,
            profiles=profiles,
            scheduler=self._scheduler,
            handle=SimpleNamespace(waiting=self._framework.waiting),
            informers={"Pod": SimpleNamespace(objects=self._live)},
        )
        self._freed = FreedRoom(self._service, self.attached, self.problems.append)
        self._recorded = RecordedCalls(self._service, self.attached, clock, _until_ended(self))
        AttachedHandlers(self._service, self.attached, self.problems.append, self._recorded)
        AttachedNominations(self._service, self.problems.append).follow_attempts(self._scheduler)
        scheduler: Any = self._scheduler
        self._real_failure = scheduler._handle_scheduling_failure
        scheduler._handle_scheduling_failure = self._on_failure
        scheduler._binding_cycle._handle_failure = self._on_failure

    def _bind_checked(self, pod: PodInfo, node_name: str) -> bool:
        self.reporting.check(pod.uid)
        return self._bind(pod, node_name)

    def check_victims(self, preemptor: PodInfo, result: PostFilterResult) -> None:
        """Checks that victims are on their node; some of them are deleted."""
        for problem in missing_victims(result, self.cache):
            self.problems.append(f"{preemptor.key}: {problem}")
        for victim in result.victims:
            stored = self._server.stored.get(victim.metadata.name)
            is_stored = stored is not None and stored.metadata.uid == victim.uid
            if stored is not None and is_stored and self.rng.random() < 0.5:
                self._server.remove(stored)
                self._watch(stored.metadata.name)

    def _on_failure(self, entry: QueuedPod, reason: Any, **named: Any) -> None:
        if _CHANGED in str(reason):
            self.script.causes[entry.uid] = ERROR
            self.script.nominated.pop(entry.uid, None)
        self.script.failed(entry.uid, reason)
        if named.get("is_binding", False) is (asyncio.current_task() is self._scheduling):
            self.problems.append(f"{entry.uid} failed in its binding cycle, or not: {named}")
        self._real_failure(entry, reason, **named)

    def step_s(self) -> float:
        """Returns a drawn time."""
        return STEP_S * self.rng.randrange(1, 7)

    async def run(self) -> None:
        """Lets users act, and then all pods be bound."""
        names, weights = list(self._weights), list(self._weights.values())
        async with asyncio.TaskGroup() as tasks:
            self._scheduling = scheduling = tasks.create_task(self._schedule())
            for _ in range(ACTIONS):
                await asyncio.sleep(STEP_S * self.rng.choice((0, 0, 1, 2, 5)))
                action: Callable[[], None] = getattr(
                    self, f"_{self.rng.choices(names, weights)[0]}"
                )
                action()
                if self.problems:
                    break
            self.script.is_passive = True
            if self._extenders is not None:
                self._extenders.is_passive = self.is_quiet = True
            await asyncio.sleep(QUIET_S)
            if isinstance(self.script, HangingScript):
                await self.script.release(self._server.stored.values(), QUIET_S)
            scheduling.cancel()
        for pod in self._server.stored.values():
            if not pod.spec.node_name and pod.metadata.deletion_timestamp is None:
                self.problems.append(f"{pod.metadata.name} is not bound")
        left = {
            "assumed": self.cache.assumed_count(),
            "reserved": len(self.script.open),
            "bindings": len(self.bindings),
            "in Permit": len(self._framework.waiting),
            "in PreBind": len(self._prebind),
            "events": self._queue.in_flight_events,
        }
        self.problems += [f"{count} pods are {what}" for what, count in left.items() if count]
        self.problems += audit(self.cache)
        self.problems += point_problems(self.metrics, self._n_preempted, self.script.texts.n_broken)
        self.problems += self._measured.problems(self.metrics)
        self.problems += observed_problems(self.observed, self.script.results)
        if not self.problems and self._ends is not None:
            await self._end(self._ends)

    async def _end(self, rng: Rng) -> None:
        """Lets a binding meet an error that ends the scheduler: nothing goes on, or is undone."""
        self._loop.on_step = lambda: None  # what is cancelled has no result
        self.script.ends = (
            rng.choice(("PreBind", "Bind")),
            rng.choice((LeaseLost("another holds it"), InvariantViolation("impossible"))),
        )
        for name in LAST_PODS[: rng.choice((1, 3, 6))]:
            self._store(make_pod(name, uid=name))
        async with asyncio.TaskGroup() as tasks:
            scheduling = tasks.create_task(_until_end(self._schedule(), self.script))
            await asyncio.sleep(QUIET_S)
            scheduling.cancel()
        self.problems.append(f"{self.script.ends}, but nothing has ended")

    async def _schedule(self) -> None:
        while True:
            self._ready.clear()
            if await self._scheduler.schedule_batch():
                self._ready.set()
            with suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await self._ready.wait()
            if self._queue.next_flush_at_s() <= self._loop.time():
                self._queue.flush()

    # -- checks -----------------------------------------------------------------------------------

    def _on_queue_call(self, name: str, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        del named
        if name == "activate":
            self.script.activated(list(args[0]))

    def on_step(self) -> None:
        """Checks all at the end of a step; after a difference there is no further one."""
        if self.problems:
            return
        self._freed.on_step()
        for problems in (queue_problems, cache_problems, nomination_problems):
            self.problems += problems(self._service)
        numbers = self.metrics.numbers("scheduler_schedule_attempts_total")
        counted = {result: number.value for (result, _), number in numbers.children.items()}
        counted = {result: count for result, count in counted.items() if count}
        if counted != self.script.results:
            self.problems.append(f"attempts are {counted}, not {dict(self.script.results)}")
        failures = self.script.results.total() - self.script.results["scheduled"]
        if self.reporting.failures > failures:
            self.problems.append(f"{self.reporting.failures} of {failures} failures are reported")

    def attempted(self, entry: QueuedPod, attempt: Attempt, result: Placement | Diagnosis) -> None:
        """Checks a placement that extenders had to accept, and that a Decision can be built."""
        if not attempt.snapshot.is_current:
            self.problems.append(f"the attempt at {entry.pod.key} ends with an outdated snapshot")
        if attempt.preemption is not self.script.records.pop(entry.uid, None):
            self.problems.append(f"the attempt at {entry.pod.key} has another record of PostFilter")
        if isinstance(result, Placement) and self._extenders is not None:
            self._extenders.chosen(entry.pod, result.node_name)

    def bound(self, entry: QueuedPod, node_name: str) -> None:
        """Checks, once PostBind is over, that the attempt wants nothing any more."""
        del node_name
        self._loop.call_soon(self.script.bound, entry.uid)

    # -- the API server, its watch, and users -----------------------------------------------------

    def waiting(self) -> WaitingPods:
        """Returns the pods in Permit."""
        return self._framework.waiting

    def _candidates(self) -> list[PodInfo]:
        return [entry.pod for entry in self._queue.pods()]

    def _placed_on(self, node_name: str) -> list[PodInfo]:
        row = self.cache.nodes.live_row(node_name)
        return [placed.info for placed in self.cache.pods.on_row(row)]

    def _write_claim(self, entry: QueuedPod, change: ClaimChange) -> None:
        """Writes a claim some time later; the pod is retried if that fails."""
        self.problems += self.script.changes.written(entry.uid, change)
        if (steps := self.script.changes.failing_after()) is not None:
            self._loop.call_later(STEP_S * steps, self._queue.retry_after_backoff, entry.uid)

    def _preempt(self) -> None:
        """Preempts a pod that waits in Permit, or is in PreBind."""
        chosen = [*(pod.pod.uid for pod in self._framework.waiting), *self._prebind._pods]
        if not chosen:
            return
        uid = self.rng.choice(chosen)
        waiting = self._framework.waiting.get(uid)
        if waiting is not None:
            is_cancelled = waiting.preempt("Script", "preempted")
        else:
            is_cancelled = self._prebind.cancel(uid, "preempted")
        if is_cancelled:
            self.script.cancelled.add(uid)
            self._n_preempted += 1


def _until_ended(run: CycleRun) -> Callable[[str], None]:
    """Returns a function that reports problems until all ends: what is cancelled has no result."""

    def report(text: str) -> None:
        if not run.script.has_ended:
            run.problems.append(text)

    return report


async def _until_end(scheduling: Coroutine[Any, Any, None], script: Script) -> None:
    """Schedules until all ends, in whose very step a binding cannot begin any more."""
    try:
        await scheduling
    except RuntimeError:
        if not script.has_ended:
            raise


def _widen(script: Script, seed: int, *, has_extenders: bool) -> None:
    """Lets PostFilter want changes of claims, or PreFilter leave some nodes."""
    if not has_extenders and seed % CHANGES_EVERY == 1:
        script.changes = ClaimChanges(seeded_random(seed + 4))
    if has_extenders and seed % 5 == NARROWS:
        script.narrowing = Narrowing(seeded_random(seed + 5))


def _framework_of(script: Script, seed: int, clock: Any, report: Any) -> Framework:
    others: list[Any] = [SecondWait(seed, script, clock, report)] if seed % 3 == TWO_WAIT else []
    if Random(f"{seed} latest cycles").random() < LATEST_SHARE:
        others.append(LatestCycles(report))
    plugins = [PrioritySort(), script, *others]
    points = {
        point: [plugin for plugin in plugins if hasattr(plugin, point)]
        for point in EXTENSION_POINTS
    }
    return Framework(Profile(PROFILE, points, {}), clock=clock)


def _any(fake: Any) -> Any:
    return fake


def run_cycle(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: an attempt does not do what the models say.
    """
    run_attempts(seed, CycleRun)


def run_attempts(seed: int, made: Callable[[int, asyncio.TaskGroup], CycleRun]) -> None:
    """Runs a seed of a run that ``made`` returns.

    Raises:
        AssertionError: an attempt does not do what the models say.
    """

    async def run() -> list[str]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        cycle: CycleRun | None = None
        try:
            async with asyncio.TaskGroup() as tasks:
                cycle = made(seed, tasks)
                loop.on_step = cycle.on_step
                checking = [
                    tasks.create_task(check(cycle))
                    for check in (_check_now_and_then, _check_drains)
                ]
                await cycle.run()
                loop.on_step = lambda: None
                for task in checking:
                    task.cancel()
        except* (LeaseLost, InvariantViolation):
            if cycle is None or not cycle.script.has_ended:
                raise
        assert cycle is not None
        return cycle.problems

    problems = run_virtually(run(), seeded_random(seed + 1_000_000))
    assert not problems, problems[0]


async def _check_drains(cycle: CycleRun) -> None:
    """Compares for how many bindings a scheduler that ends would wait: not for those in Permit."""
    await asyncio.sleep(STEP_S / 2)  # between two moments in which something happens
    while True:
        await asyncio.sleep(DRAINED_EVERY_S)
        waiting = [pod.pod.uid for pod in cycle.waiting() if pod.status is None]
        expected = cycle.script.open.keys() - (set(waiting) - cycle.reporting.writing)
        left = await cycle.bindings.drain(0.0)
        if left != len(expected):
            cycle.problems.append(f"a drain waits for {left} bindings, not for {sorted(expected)}")


async def _check_now_and_then(cycle: CycleRun) -> None:
    """Compares the gauge of the pending pods with the model of the queue."""
    while True:
        await asyncio.sleep(5.0)
        for refresh in cycle.metrics._on_scrape:
            refresh()
        numbers = cycle.metrics.numbers("scheduler_pending_pods").children
        expected = Counter(queued.queue.value for queued in cycle.attached._twin.pods.values())
        pending = {queue: number.value for (queue,), number in numbers.items() if number.value}
        if pending != expected:
            cycle.problems.append(f"pending pods are {pending}, not {dict(expected)}")
