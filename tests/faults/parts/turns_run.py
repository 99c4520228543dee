"""The number of attempts in a row, before events, requests and timers have their turn.

Attempts take some time, which a seed draws. A batch ends after 32 attempts or 2 ms, whichever comes
first, or when no pod is left; with extenders after each pod. While SchedulerAsyncPreemption is off,
no attempt begins before the victims of the one before it are evicted, however that ends.

In a quarter of the runs there are several nodes. An attempt without scores ends with the first one
that fits; the next one goes on behind it, and one that looks at no node changes nothing. In most
runs with extenders there are so many nodes that some are enough. An extender is called for half of
the pods, rejects all nodes, answers late or fails: the next attempt goes on behind the nodes that
plugins looked at, however this one ended.

Source: pkg/scheduler/schedule_one.go (findNodesThatFitPod, numFeasibleNodesToFind).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from random import Random
from types import SimpleNamespace
from typing import Any, Final

from mooring.clock import seeded_random
from mooring.errors import ServerError
from mooring.framework import Cycle, Diagnosis, Framework, Reject
from mooring.framework.status import PostFilterResult, Status
from mooring.framework.waiting_pods import WaitingPods
from mooring.objects.pod import Pod
from mooring.queue import QueuedPod, QueueName, SchedulingQueue
from mooring.scheduler.binding_tasks import BindingTasks
from mooring.scheduler.pods_in_prebind import PodsInPreBind
from mooring.scheduler.preemption import PreemptionExecutor
from mooring.scheduler.schedule_one import Scheduler
from mooring.scheduler.with_extenders import ExtenderScheduler
from mooring.state import PodInfo
from mooring.state.cache import Cache
from mooring.testing import make_node
from mooring.virtual_loop import LoopClock
from tests.faults.parts import turns_extenders
from tests.faults.parts.turns_extenders import SlowExtender, Starts
from tests.faults.parts.virtual_runs import check_run_of_tasks
from tests.helpers.queues import framework_of, pod

ROUNDS: Final = 12
NODE: Final = "a"
DELETED: Final = "2026-01-01T00:00:00Z"
#: The limits of schedule_one, written down here and not imported.
ATTEMPTS_MAX: Final = 32
SLICE_S: Final = 0.002
#: A part of a slice: no sum of them is as long as a slice.
WORK_S: Final = 2.0**-12
#: All evictions and bindings have ended after so long.
QUIET_S: Final = 100.0
#: A pod has an attempt after so many times as long, also if the next one has to wait each time.
WAITS_MAX: Final = 50
PREEMPTING: Final = "preempting"
#: In such seeds, modulo four, there are so many nodes.
MANY_NODES: Final = 1
NODES: Final = 7
#: Of the runs with extenders so many have one that is called.
EXTENDER_SHARE: Final = 0.8


class WorkClock(LoopClock):
    """The clock of the loop, and the time that attempts have taken."""

    def __init__(self) -> None:
        super().__init__(loop := asyncio.get_running_loop())
        self.worked_s = 0.0
        self.monotonic_s = lambda: loop.time() + self.worked_s


class Costly:
    """A plugin whose attempts take time; it rejects some pods, and preempts others for them."""

    name = "Costly"

    def __init__(self, run: TurnsRun) -> None:
        self._run = run

    def pre_enqueue(self, info: PodInfo) -> Status | None:
        """Gates a preemptor, as DefaultPreemption."""
        is_gated = self._run.is_async and self._run.executor.is_running(info.uid)
        return Reject("waits for its victims", resolvable=False) if is_gated else None

    def pre_filter(self, cycle: Cycle) -> Status | None:
        """Takes some time; rejects what has to preempt."""
        self._run.clock.worked_s += self._run.cost_s()
        if self._run.extender is not None and (
            rejected := self._run.extender.pre_filter(cycle.pod)
        ):
            return rejected
        return Reject("no node") if PREEMPTING in cycle.pod.metadata.labels else None

    def post_filter(self, cycle: Cycle, diagnosis: Diagnosis) -> PostFilterResult:
        """Chooses victims."""
        del diagnosis
        if PREEMPTING not in cycle.pod.metadata.labels:
            return PostFilterResult(Reject("an extender rejects it"))
        victims = self._run.victims(cycle.pod)
        return PostFilterResult(None if victims else Reject("no victims"), NODE, victims)

    async def bind(self, cycle: Cycle, node_name: str) -> Status | None:
        """Binds, after a while."""
        del cycle, node_name
        await asyncio.sleep(1.0)
        return None


class TurnsRun:
    """One run.

    Attributes:
        problems: Batches that are too long or too short, and attempts that do not wait.
        clock: The time that attempts take is added to that of the loop.
        is_async: Whether evictions go on while other pods are scheduled.
        executor: Evicts victims.
        extender: Is called for half of the pods; None = there is none.
    """

    def __init__(self, seed: int, tasks: asyncio.TaskGroup) -> None:
        self.problems: list[str] = []
        self.clock = WorkClock()
        self._rng = rng = seeded_random(seed)
        self._tasks = tasks
        self.is_async = rng.random() < 0.4
        has_extenders = rng.random() < 0.3
        self._limit = 1 if has_extenders else ATTEMPTS_MAX
        self._slice_s = float("inf") if has_extenders else SLICE_S
        self._costs = rng.choice(((0,), (0, 0, 0, 1), (1, 2), (0, 1, 9)))
        self._preempting_share = rng.choice((0.02, 0.2, 0.2))
        self._failing_share = rng.choice((0.0, 0.3))
        self._count = self._evicting = 0
        self._pods: dict[str, Pod] = {}
        #: UIDs of the pods that had no attempt yet.
        self._new: set[str] = set()
        #: Names of terminating pods: how often they are reported, less how often they are popped.
        self._skipped: Counter[str] = Counter()
        #: The batch that runs now: its attempts, and when it began.
        self._attempts, self._began_s = 0, 0.0
        framework = framework_of(Costly(self), clock=_any(self.clock))
        profiles = {"default-scheduler": framework}
        self._ready = asyncio.Event()
        self._queue = SchedulingQueue(profiles, clock=self.clock, on_ready=self._ready.set)
        self._pop, _any(self._queue).pop = self._queue.pop, self._popped
        bindings, cache = BindingTasks(rng), Cache()
        bindings.open(tasks)
        n_nodes = NODES if seed % 4 == MANY_NODES else 1
        self.extender = _with_extender(framework, seed) if has_extenders else None
        if self.extender is not None:
            n_nodes = turns_extenders.MANY_NODES
        for number in range(n_nodes):
            cache.put_node(make_node(f"{NODE}{number}" if number else NODE))
        reporting = _any(SimpleNamespace)(
            **dict.fromkeys(("bound", "placed", "failed", "failed_for_good"), _ignore),
            **dict.fromkeys(("preempted", "eviction_failed"), _ignore),
            skipped=lambda info: self._skipped.update((info.key,)),
        )
        handle = _any(SimpleNamespace)(
            waiting=WaitingPods(), pods_in_prebind=PodsInPreBind(), until=self._until
        )
        evictor = _any(SimpleNamespace)(evict=self._evict)
        self.executor = PreemptionExecutor(
            self._queue, cache.nominator, handle, self._pods, evictor, reporting
        )
        self.executor.open(tasks)
        self._scheduler = (ExtenderScheduler if has_extenders else Scheduler)(
            cache,
            self._queue,
            profiles,
            self._pods,
            bindings,
            reporting,
            clock=self.clock,
            observer=Starts(n_nodes, self.extender, self.problems.append),
            preemptions=self.executor,
            buffer_events=self._buffer_events,
            gates={"SchedulerAsyncPreemption": self.is_async},
        )

    async def run(self) -> None:
        """Creates pods, few or many at once, and schedules until all had an attempt."""
        rng = self._rng
        scheduling = self._tasks.create_task(self._schedule())
        for _ in range(ROUNDS):
            await asyncio.sleep(rng.choice((0.0, 0.0, 0.5, 4.0)))
            for _ in range(rng.choice((1, 2, 5, 32, 33, 50))):
                self._add()
            if self.problems:
                break
        for _ in range(WAITS_MAX):
            await asyncio.sleep(QUIET_S)
            if not self._new:
                break
        scheduling.cancel()
        if self._new:
            self.problems.append(f"{len(self._new)} pods had no attempt")
        if unequal := {name: count for name, count in self._skipped.items() if count}:
            self.problems.append(f"terminating pods are not reported once: {unequal}")
        if len(self.executor) or self._evicting:
            self.problems.append("evictions have not ended")

    # -- the scheduler ----------------------------------------------------------------------------

    async def _schedule(self) -> None:
        while True:
            self._attempts, self._began_s = 0, self.clock.monotonic_s()
            has_more = await self._scheduler.schedule_batch()
            self._check_batch(has_more=has_more)
            if not has_more:
                self._ready.clear()
                await self._ready.wait()
            await asyncio.sleep(0)

    def _popped(self) -> QueuedPod | None:
        """Checks that another attempt may begin now."""
        if (entry := self._pop()) is None:
            return None
        if self._is_over():
            self.problems.append(f"{entry.pod.key} is tried: {self._batch_text()}")
        if not self.is_async and self._evicting:
            self.problems.append(f"{entry.pod.key} is tried during {self._evicting} evictions")
        self._attempts += 1
        self._new.discard(entry.uid)
        if entry.pod.metadata.deletion_timestamp is not None:
            self._skipped.subtract((entry.pod.key,))
        return entry

    def _check_batch(self, *, has_more: bool) -> None:
        n_active = self._queue.counts()[QueueName.ACTIVE]
        if has_more != self._is_over() or (n_active and not has_more):
            self.problems.append(f"{n_active} pods wait, {has_more}: {self._batch_text()}")

    def _is_over(self) -> bool:
        """Returns whether others must have their turn now."""
        lasted_s = self.clock.monotonic_s() - self._began_s
        return self._attempts >= self._limit or (self._attempts > 0 and lasted_s >= self._slice_s)

    def _batch_text(self) -> str:
        lasted_s = self.clock.monotonic_s() - self._began_s
        return f"a batch has {self._attempts} attempts in {lasted_s:.4f} s"

    def cost_s(self) -> float:
        """Returns how long an attempt takes."""
        return WORK_S * self._rng.choice(self._costs)

    def _buffer_events(self) -> AbstractContextManager[Any]:
        return nullcontext({}) if self.extender is None else self.extender.buffer_events()

    # -- pods -------------------------------------------------------------------------------------

    def _add(self) -> None:
        info = self._pod("pod")
        self._new.add(info.uid)
        self._queue.add(info)

    def _pod(self, kind: str) -> PodInfo:
        """Creates a pod; some have to preempt, and some are terminating: they are not tried."""
        self._count += 1
        fields: dict[str, Any] = {"node": NODE} if kind == "victim" else {}
        if kind == "pod" and self._rng.random() < self._preempting_share:
            fields["labels"] = {PREEMPTING: "yes"}
        elif kind == "pod" and self._rng.random() < 0.05:
            fields["metadata"] = {"deletionTimestamp": DELETED}
        info = pod(f"{kind}-{self._count}", **fields)
        self._pods[info.key] = info.pod
        return info

    def victims(self, preemptor: PodInfo) -> tuple[PodInfo, ...]:
        """Returns the victims of a preemptor, which has some at its first attempt alone."""
        del preemptor
        return tuple(self._pod("victim") for _ in range(self._rng.choice((0, 1, 3))))

    async def _evict(self, victim: Pod, message: str) -> bool:
        """Evicts a victim, after a while, or fails."""
        del message
        self._evicting += 1
        try:
            await asyncio.sleep(self._rng.choice((0.0, 0.5, 3.0)))
        finally:
            self._evicting -= 1
        if self._rng.random() < self._failing_share:
            raise ServerError("no", status=500)
        self._pods.pop(f"default/{victim.metadata.name}", None)
        return True

    async def _until(self, *_: object) -> None:
        """Returns at once: victims that are evicted are gone."""


def _with_extender(framework: Framework, seed: int) -> SlowExtender | None:
    """Gives an extender to a framework, in most runs."""
    own = Random(f"{seed} extenders")
    if own.random() >= EXTENDER_SHARE:
        return None
    extender, percentage = SlowExtender(own), turns_extenders.PERCENTAGE
    framework.profile = replace(framework.profile, percentage_of_nodes_to_score=percentage)
    framework.set_extenders([_any(extender)], own.random)
    return extender


def _any(value: Any) -> Any:
    return value


def _ignore(*_: object, **__: object) -> None:
    """Reports nothing: there are no events here."""


def run_turns(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: a batch is too long or too short, or an attempt does not wait.
    """
    check_run_of_tasks(TurnsRun, seed)
