"""Evictions that fail and take long, for several preemptors at once, beside the model.

Besides ``tests/faults/twins/attached_preemption.py``, a preemption clears the nominations of lower
priority on its node, and no others; each victim is reported as its eviction ended, and so is each
preemption in the metric; at the end no preemptor is gated. Some victims are not bound yet. In some
runs the lease is lost at last: that ends all, without any report.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextvars import ContextVar
from types import SimpleNamespace
from typing import Any, Final

from msgspec.structs import replace

from mooring.clock import Rng, seeded_random
from mooring.errors import (
    Conflict,
    Forbidden,
    LeaseLost,
    NotFound,
    OutcomeUnknown,
    SchedulerError,
    ServerError,
    TooManyRequests,
    Unreachable,
)
from mooring.framework import Reject
from mooring.framework.status import PostFilterResult, Status
from mooring.objects.pod import Pod
from mooring.queue import QueueName
from mooring.scheduler.preemption import PreemptionExecutor
from mooring.state import Nominator, PodInfo
from mooring.virtual_loop import LoopClock, VirtualLoop
from tests.faults.parts.preemption_ends import check_ends
from tests.faults.parts.preemption_events import SCHEDULERS, PreemptionEvents
from tests.faults.parts.unbound_victims import STEP_S, UnboundVictims
from tests.faults.twins.attached_preemption import AttachedPreemption
from tests.helpers.queues import POD_GONE, Bench, GatePlugin, Refuser, on, pod
from tests.helpers.virtual_loop import run_virtually

ROUNDS: Final = 25
NODE: Final = "a"
DELETED: Final = "2026-01-01T00:00:00Z"
#: Evictions and deletions take so long at most; a gated preemptor is activated after five seconds.
QUIET_S: Final = 60.0
#: How long a gated preemptor waits for its victims.
OBSERVED_S: Final = 5.0
#: The share of the runs in which the lease is lost in the end.
LEASE_SHARE: Final = 0.5
#: What is cancelled ends so soon.
ENDED_S: Final = 0.001
#: How a write fails.
ERRORS: Final[tuple[SchedulerError, ...]] = (
    Unreachable("refused"),
    OutcomeUnknown("no response"),
    Forbidden("no", status=403),
    Conflict("no", status=409),
    TooManyRequests("busy", status=429, retry_after_s=3.0),
    ServerError("no", status=500),
)
#: The UID of the preemptor whose task clears nominations.
_CLEARS_FOR: ContextVar[str] = ContextVar("clears_for")


class Reports:
    """Compares what preemptions report with what they have to.

    Attributes:
        expected: "UID outcome" of a victim -> how often it has to be reported.
        retries: How many preemptors were retried.
        cancelled: UIDs of the victims whose attempt was cancelled.
    """

    def __init__(self) -> None:
        self.expected: Counter[str] = Counter()
        self.cancelled: set[str] = set()
        self.retries = 0
        self._real: Counter[str] = Counter()
        self._ends: Counter[bool] = Counter()

    def add(self, victim: PodInfo, outcome: str) -> None:
        """Notes a report."""
        self._real[f"{victim.uid} {outcome}"] += 1

    def on_end(self, started_s: float, *, succeeded: bool) -> None:
        """Notes what the metric of preemptions gets."""
        del started_s
        self._ends[succeeded] += 1

    def on_cancel(self, uid: str, *, is_cancelled: bool) -> bool:
        """Expects a report if a victim was preempted before its binding."""
        self.expected[f"{uid} preempted"] += is_cancelled
        if is_cancelled:
            self.cancelled.add(uid)
        return is_cancelled

    def problems(self) -> Iterator[str]:
        """Yields the differences, once all preemptions have ended."""
        if self._real != +self.expected:
            more, less = self._real - self.expected, self.expected - self._real
            yield f"{more} are reported, but {less} are not"
        if self._ends[False] != self.retries:
            yield f"{self._ends[False]} have failed, but {self.retries} were retried"


class PreemptionRun:
    """One run.

    Attributes:
        problems: Differences to the models.
    """

    def __init__(self, seed: int, tasks: asyncio.TaskGroup) -> None:
        self.problems: list[str] = []
        self._rng = rng = seeded_random(seed)
        self._tasks = tasks
        self._failing = rng.choice((0.0, 0.2, 0.6))
        self._slow_s = rng.choice((0.1, 3.0, 12.0))
        gate = GatePlugin("DefaultPreemption", lambda it: _gate(self, it), on(POD_GONE))
        self._bench = Bench(gate, Refuser("Fit", on(POD_GONE)), schedulers=SCHEDULERS)
        self._queue, self._pods = self._bench.queue, dict[str, Pod]()
        self._nominator, self._count = Nominator(), 0
        self._changed = asyncio.Event()
        #: UIDs of the victims that were terminating before.
        self._terminating: set[str] = set()
        #: UID of the preemptor -> those of the pods whose nominations its last preemption cleared.
        self._cleared: dict[str, list[str]] = {}
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        #: All moments are multiples of half a second: many things happen at the same time.
        self._has_steps = rng.random() < 0.5
        #: The lease is lost; or it is lost while evictions are in progress, some of which fail.
        self._is_lease_lost = self._is_losing = False
        self._writes_without_lease = 0
        self._loop, self._unbound = loop, UnboundVictims(LoopClock(loop), rng, self._bind)
        self._reports = Reports()
        handle: Any = SimpleNamespace(
            waiting=self._unbound.waiting,
            pods_in_prebind=self._unbound.pods_in_prebind,
            until=self._until,
        )
        evictor: Any = SimpleNamespace(evict=self._evict, clear_nomination=self._clear)
        report, cancelled = self.problems.append, self._reports.cancelled
        self._events = PreemptionEvents(seed, NODE, self._on_report, report, cancelled)
        recorder, events = _recorder(self._reports), self._events
        self._executor = PreemptionExecutor(
            self._queue, self._nominator, handle, self._pods, evictor, events, recorder
        )
        self._executor.open(tasks)
        service: Any = SimpleNamespace(
            queue=self._queue,
            handle=handle,
            preemption_executor=self._executor,
            informers={"Pod": SimpleNamespace(objects=self._pods)},
        )
        self._listeners: list[Any] = []
        attached: Any = SimpleNamespace(listen=self._listeners.append)
        self._real_retry = self._queue.retry_after_backoff
        self._queue.retry_after_backoff = self._on_retry  # type: ignore[method-assign]
        self.model = AttachedPreemption(service, attached, self.problems.append)
        real: Any = self._executor
        cancel = real._cancel_waiting_victim
        real._cancel_waiting_victim = lambda *args: self._reports.on_cancel(
            args[0], is_cancelled=cancel(*args)
        )
        self._real_clear = real._clear_lower_priority_nominations
        real._clear_lower_priority_nominations = self._on_clear
        check_ends(real, self._pods, self.problems.append)

    def _on_report(self, victim: PodInfo, outcome: str) -> None:
        self._reports.add(victim, outcome)
        if self._is_lease_lost and outcome == "failed":
            self.problems.append(f"{victim.key} is reported, but the lease is lost")

    def _on_retry(self, uid: str) -> None:
        self._reports.retries += 1
        if self._is_lease_lost or (self._is_losing and self._writes_without_lease):
            self.problems.append(f"{uid} is retried, but the lease is lost")
        for listener in self._listeners:
            listener("retry_after_backoff", (uid,), {})
        self._real_retry(uid)

    async def run(self) -> None:
        """Starts preemptions at random moments, and lets them end."""
        rng = self._rng
        ticking = self._tasks.create_task(_tick(self._bench, self.model))
        for _ in range(ROUNDS):
            await asyncio.sleep(rng.choice((0.0, 0.5, 3.0, 20.0)))
            if self._has_steps:
                await asyncio.sleep(-asyncio.get_running_loop().time() % STEP_S)
            self._preempt()
            if rng.random() < 0.3:
                self._queue.move(POD_GONE, pod("other").pod, None)
        self._failing = 0.0
        await asyncio.sleep(QUIET_S)
        ticking.cancel()
        if gated := [e.pod.key for e in self._queue.pods() if e.queue_name is QueueName.GATED]:
            self.problems.append(f"{gated} are still gated")
        if len(self._executor):
            self.problems.append("a preemption has not ended")
        self.problems += self._reports.problems()
        if rng.random() < LEASE_SHARE:
            await self._lose_lease()
        else:
            await self._end()

    async def _end(self) -> None:
        """Cancels preemptions, as a scheduler that ends."""
        self._loop.on_step = lambda: None  # the model knows of no end
        self._slow_s = QUIET_S
        for _ in range(3):
            self._preempt()
        await asyncio.sleep(self._rng.random())
        self.problems += await _end(self._executor, self._reports)

    async def _lose_lease(self) -> None:
        """Preempts without a lease: the first write ends the task group, and so the scheduler."""
        self._loop.on_step = lambda: None  # what is cancelled has no result
        self._is_losing = self._rng.random() < 0.5
        self._is_lease_lost = not self._is_losing
        self._queue.add(self._new("preemptor", priority=10))
        self._preempt()
        await asyncio.sleep(QUIET_S)
        if self._writes_without_lease:
            self.problems.append("the lease is lost, but nothing has ended")

    # -- the scheduler ----------------------------------------------------------------------------

    def _preempt(self) -> None:
        """Tries a pod, which preempts some others; it is new, or was tried before."""
        rng = self._rng
        if rng.random() < 0.6:
            self._queue.add(self._new("preemptor", priority=10))
        if (entry := self._queue.pop()) is None:
            return
        victims = [self._victim() for _ in range(rng.choice((1, 2, 3, 4)))]
        if not self._is_lease_lost and rng.random() < 0.5:
            victims.append(self._new("unbound"))
            rng.shuffle(victims)
        for _ in range(rng.choice((0, 0, 1, 3))):
            lower = self._new("nominated", priority=rng.choice((0, 5, 10, 20)))
            is_named = {"nominated_node_name": NODE if rng.random() < 0.8 else ""}
            named = replace(lower.pod, status=replace(lower.pod.status, **is_named))
            self._pods[lower.key] = named
            self._nominator.nominate(PodInfo(named), NODE)
            self._events.note_nominated(named)
            if rng.random() < 0.4:
                self._tasks.create_task(self._end_nominated(PodInfo(named)))
        for victim in victims:
            if not victim.spec.node_name:
                self._tasks.create_task(self._unbound.run(victim, NODE))
        result = PostFilterResult(None, NODE, tuple(victims), plugin="DefaultPreemption")
        with self._queue.in_flight(entry):
            self.problems += _started(self._executor, entry.pod, result)
            self._queue.add_unschedulable(entry, entry.pod, refused_by=["Fit"])

    def _new(self, kind: str, *, priority: int = 0, node: str = "") -> PodInfo:
        self._count += 1
        name = f"{kind}-{self._count}"
        spec = {"schedulerName": self._events.scheduler()}
        info = pod(name, priority=priority, node=node, spec=spec)
        self._pods[info.key] = info.pod
        return info

    def _victim(self) -> PodInfo:
        """Returns a pod on the node, which may be terminating already."""
        info = self._new("victim", node=NODE)
        if self._rng.random() < 0.8:
            return info
        metadata = replace(info.pod.metadata, deletion_timestamp=DELETED)
        self._pods[info.key] = replace(info.pod, metadata=metadata)
        self._terminating.add(info.uid)
        return PodInfo(self._pods[info.key])

    def _bind(self, info: PodInfo) -> None:
        """Binds a victim whose attempt was not cancelled, if it exists."""
        self.model.check_binding(info.pod)
        if (live := self._pods.get(info.key)) is not None:
            self._pods[info.key] = replace(live, spec=replace(live.spec, node_name=NODE))
            self._changed.set()

    async def _on_clear(self, preemptor: PodInfo, node_name: str) -> bool:
        """Compares the cleared nominations: those at the beginning, of pods that live till then."""
        pods = self._nominator.pods_on(node_name)
        lower = [info for info in pods if info.priority < preemptor.priority]
        before = [info for info in lower if info.status.nominated_node_name]
        unwritten = self._events.unwritten(lower)
        cleared = self._cleared[preemptor.uid] = list[str]()
        token = _CLEARS_FOR.set(preemptor.uid)
        is_cleared: bool = await self._real_clear(preemptor, node_name)
        _CLEARS_FOR.reset(token)
        live = {pod.metadata.uid for pod in self._pods.values()} | {*cleared}
        expected = [info.uid for info in before if info.uid in live]
        if cleared != expected:
            self.problems.append(f"the nominations {cleared} are cleared, not {expected}")
        self._events.check_withdrawn(unwritten, live, self._nominator)
        return is_cleared

    async def _end_nominated(self, info: PodInfo) -> None:
        """Deletes a nominated pod after a while; mostly another one has its name then."""
        await asyncio.sleep(self._rng.random() * self._slow_s)
        if self._rng.random() < 0.7:
            self._pods[info.key] = _made_anew(info)
        else:
            del self._pods[info.key]

    # -- the API server ---------------------------------------------------------------------------

    async def _evict(self, victim: Pod, message: str) -> bool:
        """Deletes a victim, before or after the answer, or not at all."""
        self._events.note_message(victim, message)
        rng, info = self._rng, PodInfo(victim)
        if info.uid in self._terminating:
            self.problems.append(f"{info.key} is evicted, but is terminating")
        if self._is_lease_lost:
            self._writes_without_lease += 1
            raise LeaseLost("the lease is another's")
        if self._is_losing and rng.random() < 0.5:
            await _take(self._rng, has_steps=self._has_steps, longest_s=self._slow_s)
            self._writes_without_lease += 1
            raise LeaseLost("the lease is another's")
        if rng.random() < (0.7 if self._is_losing else self._failing):
            self._reports.expected[f"{info.uid} failed"] += 1
            await _take(self._rng, has_steps=self._has_steps, longest_s=self._slow_s)
            raise rng.choice(ERRORS)
        self._tasks.create_task(self._go(info))
        await _take(self._rng, has_steps=self._has_steps, longest_s=self._slow_s)
        is_evicted = rng.random() < 0.9
        self._reports.expected[f"{info.uid} preempted"] += is_evicted
        return is_evicted

    async def _go(self, info: PodInfo) -> None:
        """Reports that a victim is terminating, and then that it is gone."""
        await asyncio.sleep(self._rng.random() * self._slow_s)
        metadata = replace(info.pod.metadata, deletion_timestamp=DELETED)
        self._pods[info.key] = replace(info.pod, metadata=metadata)
        self._changed.set()
        await asyncio.sleep(self._rng.random() * self._slow_s)
        del self._pods[info.key]
        if self._rng.random() < 0.3:
            self._pods[info.key] = _made_anew(info)  # as its controller does
        self._changed.set()
        self._queue.move(POD_GONE, info.pod, None)

    async def _clear(self, nominated: Pod) -> None:
        info = PodInfo(nominated)
        self._cleared[_CLEARS_FOR.get()].append(info.uid)
        await _take(self._rng, has_steps=self._has_steps, longest_s=self._slow_s / 4)
        if self._is_lease_lost:
            self._writes_without_lease += 1
            raise LeaseLost("the lease is another's")
        if self._rng.random() < self._failing:
            raise self._rng.choice((*ERRORS, NotFound("no such pod", status=404)))
        self._nominator.remove(info.uid)

    async def _until(self, kind: str, key: str, is_seen: Any, timeout_s: float) -> None:
        del kind, timeout_s
        while not is_seen(self._pods.get(key)):
            self._changed.clear()
            await self._changed.wait()


async def _tick(bench: Bench, model: AttachedPreemption) -> None:
    """Advances the clock of the queue, second by second."""
    while True:
        await asyncio.sleep(1.0)
        bench.clock.advance(1.0)
        if bench.queue.next_flush_at_s() <= bench.clock.monotonic_s():
            bench.queue.flush()
        model.on_tick()


async def _take(rng: Rng, *, has_steps: bool, longest_s: float) -> None:
    """Takes a while, as a request does."""
    seconds = rng.random() * longest_s
    await asyncio.sleep(seconds - seconds % STEP_S if has_steps else seconds)


def _made_anew(info: PodInfo) -> Pod:
    """Returns another pod of the name."""
    return replace(info.pod, metadata=replace(info.pod.metadata, uid=f"{info.uid}-anew"))


def _started(
    executor: PreemptionExecutor, preemptor: PodInfo, result: PostFilterResult
) -> Iterator[str]:
    """Starts a preemption; yields a difference of the victims that are listed then."""
    executor.start(preemptor, result)
    if all(info.metadata.deletion_timestamp for info in result.victims):
        return
    real, expected = executor.victims_of(preemptor.uid), [info.key for info in result.victims]
    if real != expected:
        yield f"the victims of {preemptor.uid} are {real}, not {expected}"


async def _end(executor: PreemptionExecutor, reports: Reports) -> list[str]:
    """Cancels preemptions; returns what goes on."""
    retries = reports.retries
    executor.cancel()
    await asyncio.sleep(ENDED_S)
    problems = []
    if len(executor) or reports.retries != retries:
        problems.append(f"{len(executor)} preemptions go on after the end")
    return problems


def _gate(run: PreemptionRun, info: PodInfo) -> Status | None:
    """Gates a preemptor; an error of the gate would gate it, too, and nothing else shows it."""
    try:
        is_gated = run._executor.is_running(info.uid)
    except Exception as error:
        run.problems.append(f"the gate of {info.key} raises {error!r}")
        raise
    return Reject("waits for its victims") if is_gated else None


def _recorder(reports: Reports) -> Any:
    return SimpleNamespace(
        now=lambda: 0.0, preemption_started=_ignore, preemption_ended=reports.on_end
    )


def _ignore(*_: object) -> None:
    """Reports nothing: there are no events here."""


def run_preemption(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: a preemption differs from its model.
    """

    async def run() -> list[str]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        problems: list[str] = []
        try:
            async with asyncio.TaskGroup() as tasks:
                preemption = PreemptionRun(seed, tasks)
                problems = preemption.problems
                loop.on_step = preemption.model.on_step
                await preemption.run()
        except* LeaseLost:
            pass  # the last preemption of some runs
        finally:
            loop.on_step = lambda: None
        return problems

    problems = run_virtually(run(), seeded_random(seed + 1_000_000))
    assert not problems, problems[0]
