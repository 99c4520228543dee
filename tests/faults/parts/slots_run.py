"""Bindings that take long, of a few namespaces at the same time, beside a model of who must wait.

The model knows when each binding began and ended, and nothing else: a binding waits only while 32
of its namespace have been in progress for two seconds, and for at most 30 seconds; scheduling waits
only while too many are in progress that are not slow. A wake-up that is missed is seen because
nothing happens at the next look.
"""

from __future__ import annotations

import asyncio
import math
from contextlib import nullcontext
from functools import partial
from random import Random
from typing import Final, NamedTuple

from mooring.clock import Rng, seeded_random
from mooring.errors import SchedulerError
from mooring.scheduler.binding_tasks import BindingTasks
from tests.faults.parts.virtual_runs import check_run_of_tasks

BINDINGS: Final = 220
NAMESPACES: Final = ("shop", "shop", "shop", "bank")
#: The limits of binding_tasks, written down here and not imported.
SLOW_S: Final = 2.0
SLOW_MAX: Final = 32
WAIT_S_MAX: Final = 30.0
#: A look at the moment of a change may come before those who are woken by it.
LOOK_S: Final = 0.25
LOOKS_MAX: Final = 2
QUIET_S: Final = 400.0
#: In such seeds, modulo three, some requests do not reach the server.
UNREACHABLE: Final = 1
#: In such seeds, modulo four, the nomination is written before the wait in Permit.
ANNOUNCES: Final = 2
ANNOUNCED_S_MAX: Final = 4.0
#: The pause before a pod is scheduled, once a request was not sent: it doubles up to the limit.
PAUSE_S: Final = 0.2
PAUSE_S_MAX: Final = 5.0
#: A drain does not wait for bindings that wait like this.
IDLE: Final = ("permit", "object")
#: So many of those that wait for an object do so in a part of PreBind, a task of its own.
PARTS_SHARE: Final = 0.3
#: Beside a drain so many tasks that are no bindings, such as preemptions, wait for an object.
OTHER_WAITS: Final = (0, 0, 1, 3)
#: A binding that waits for others does so for so long, beyond any drain, or for a while.
WAITING_S: Final = 100.0
#: A drain is over so soon after the last binding has ended, or waits for others.
DRAIN_S: Final = 0.001
#: What is cancelled ends so soon.
ENDED_S: Final = 0.001


class Binding:
    """A binding, and when its request began and the wait before it; the loop's time."""

    def __init__(self, namespace: str, now_s: float) -> None:
        self.namespace = namespace
        self.waits_since_s = now_s
        self.began_s: float | None = None
        #: Looks at which it might have begun, but had not.
        self.looks = 0


class Phase(NamedTuple):
    """A binding that works, waits for others ("permit", "object", "" = not at all), and works.

    A wait of a part of PreBind ("part") is none of the binding: other parts may work meanwhile.
    """

    before_s: float
    kind: str
    waits_s: float
    after_s: float

    @property
    def ends_s(self) -> tuple[float, float]:
        """The ends of its work; before the wait, and the last one."""
        return self.before_s, self.before_s + (self.waits_s if self.kind else 0.0) + self.after_s

    def is_working(self, at_s: float) -> bool:
        """Returns whether a drain has to wait for it at this time."""
        ends_s, last_s = self.ends_s
        is_in_wait = self.kind in IDLE and ends_s <= at_s < ends_s + self.waits_s
        return not is_in_wait and at_s < last_s


class SlotsRun:
    """One run.

    Attributes:
        problems: Waits that are too long or too short.
    """

    def __init__(self, seed: int, tasks: asyncio.TaskGroup) -> None:
        self.problems: list[str] = []
        self._rng = rng = seeded_random(seed)
        self._limit = rng.choice((8, 40, 120))
        self._slow_share = rng.choice((0.3, 0.7, 0.95))
        self._longest_s = rng.choice((20.0, 60.0, 200.0))
        self._permit_share = rng.choice((0.0, 0.2))
        self._tasks = BindingTasks(rng, limit=self._limit)
        self._tasks.open(tasks)
        self._group = tasks
        self._open: list[Binding] = []
        self._announcing = seeded_random(seed + 3_000_000) if seed % 4 == ANNOUNCES else None
        #: Bindings whose nomination is being written, and those in Permit, which do not count.
        self._announced = self._in_permit = 0
        self._waits_for_slot = False
        self._looks = 0
        #: Looks since scheduling may go on because a binding has ended, or waits.
        self._looks_since_event: int | None = None
        self._outages = seeded_random(seed + 2_000_000) if seed % 3 == UNREACHABLE else None
        self._pause_s = 0.0
        self._draining = seeded_random(seed + 4_000_000)
        self._others = Random(f"{seed} others")

    async def run(self) -> None:
        """Starts bindings as the scheduler does, and lets all end."""
        looking = self._group.create_task(self._look())
        for _ in range(BINDINGS):
            await asyncio.sleep(self._rng.choice((0.0, 0.0, 0.0, 0.1, 1.5)))
            self._draw_outage()
            began_s = self._now_s()
            is_free = self._tasks._in_progress() < self._limit
            self._waits_for_slot = not self._pause_s
            await self._tasks.wait_for_slot()
            self._waits_for_slot, self._looks_since_event, self._looks = False, None, 0
            self._check_pause(self._now_s() - began_s, is_free=is_free)
            if self.problems:
                break
            if self._counted() > self._limit:
                self.problems.append(f"{self._counted()} bindings count for {self._limit}")
            self._tasks.start(self._bind)
        await asyncio.sleep(QUIET_S)
        looking.cancel()
        if self._open or len(self._tasks):
            self.problems.append(f"{len(self._tasks)} bindings have not ended")
        if not self.problems:
            await self._drain()

    async def _drain(self) -> None:
        """Starts a few bindings, and waits for them as a scheduler that ends.

        It waits only for those that do not wait for others: in Permit, or for an object.
        """
        rng, began_s = self._draining, self._now_s()
        phases = [self._phase(rng) for _ in range(rng.randrange(1, 5))]
        others = self._wait_beside()
        for phase in phases:
            self._tasks.start(partial(self._phased, phase))
        await asyncio.sleep(0.0)
        deadline_s = rng.choice((3.0, 15.0, 60.0))
        left = await self._tasks.drain(deadline_s)
        lasted_s = self._now_s() - began_s
        due_s, n_left = _drained(phases, deadline_s)
        if abs(lasted_s - due_s) > DRAIN_S or left != n_left:
            self.problems.append(
                f"{phases} are drained in {lasted_s:.3f} s but for {left}, "
                f"not in {due_s:.3f} s but for {n_left}"
            )
        self._tasks.cancel()
        await asyncio.sleep(ENDED_S)
        if len(self._tasks):
            self.problems.append(f"{len(self._tasks)} bindings go on after they are cancelled")
        for task in others:
            task.cancel()

    def _wait_beside(self) -> list[asyncio.Task[None]]:
        """Lets tasks that are no bindings wait for an object: no drain ends because of them."""
        rng = self._others

        async def wait(before_s: float, waits_s: float) -> None:
            await asyncio.sleep(before_s)
            await self._wait_for_object(waits_s)

        return [
            self._group.create_task(wait(rng.uniform(0.0, 5.0), rng.choice((1.0, WAITING_S))))
            for _ in range(rng.choice(OTHER_WAITS))
        ]

    def _phase(self, rng: Rng) -> Phase:
        kind, waits_s = rng.choice(("", "permit", "object")), rng.choice((WAITING_S, 3.0, 8.0))
        if kind == "object" and self._others.random() < PARTS_SHARE:
            kind = "part"
        return Phase(rng.uniform(0.0, 10.0), kind, waits_s, rng.uniform(0.0, 10.0))

    async def _phased(self, phase: Phase) -> None:
        """Works, waits for others, and works again."""
        is_in_prebind = phase.kind in ("object", "part")
        with self._tasks.outside_request() if is_in_prebind else nullcontext():
            await asyncio.sleep(phase.before_s)
            if phase.kind == "object":
                await self._wait_for_object(phase.waits_s)
            elif phase.kind == "part":
                async with asyncio.TaskGroup() as parts:
                    parts.create_task(self._wait_for_object(phase.waits_s))
            elif phase.kind == "permit":
                with self._tasks.waiting_in_permit():
                    await asyncio.sleep(phase.waits_s)
            await asyncio.sleep(phase.after_s)

    async def _wait_for_object(self, waits_s: float) -> None:
        with self._tasks.waiting_for_object():
            await asyncio.sleep(waits_s)

    def _draw_outage(self) -> None:
        """Reports, in some runs, that requests reach the server, or do not."""
        rng = self._outages
        if rng is None:
            return
        for _ in range(rng.choice((0, 0, 1, 1, 3))):
            if rng.random() < 0.85:
                self._tasks.record_unreachable()
                self._pause_s = min(2 * self._pause_s, PAUSE_S_MAX) if self._pause_s else PAUSE_S
            else:
                self._tasks.record_success()
                self._pause_s = 0.0

    def _check_pause(self, lasted_s: float, *, is_free: bool) -> None:
        """Checks the pause before a pod is scheduled: it has a jitter of its own length."""
        # Before it there may be a wait for a slot.
        longest_s = 2 * self._pause_s if is_free else math.inf
        if not self._pause_s - 1e-9 <= lasted_s <= longest_s + 1e-9:
            self.problems.append(f"a pause of {lasted_s:.2f} s, not of {self._pause_s:.2f} s")

    async def _bind(self) -> None:
        """Waits in Permit, perhaps, and then for the answer to a request."""
        rng = self._rng
        if rng.random() < self._permit_share:
            await self._announce()
            self._in_permit += 1
            self._note_event()
            try:
                with self._tasks.waiting_in_permit():
                    await asyncio.sleep(rng.uniform(0.0, 30.0))
            finally:
                self._in_permit -= 1
        binding = Binding(rng.choice(NAMESPACES), self._now_s())
        self._open.append(binding)
        request = self._tasks.request(binding.namespace)
        assert request is not None
        try:
            async with request:
                binding.began_s = self._now_s()
                is_slow = rng.random() < self._slow_share
                await asyncio.sleep(rng.uniform(0.0, self._longest_s if is_slow else SLOW_S))
        except SchedulerError:
            self._check_refusal(binding)
        finally:
            self._open.remove(binding)
            self._note_event()

    async def _announce(self) -> None:
        """Writes a nomination, in some runs: the binding counts for the limit meanwhile."""
        if self._announcing is not None:
            self._announced += 1
            await asyncio.sleep(self._announcing.uniform(0.0, ANNOUNCED_S_MAX))
            self._announced -= 1

    def _note_event(self) -> None:
        """Notes that a binding ends, or waits: scheduling may go on because of that."""
        if self._waits_for_slot and self._running() < self._limit:
            self._looks_since_event = 0

    def _running(self) -> int:
        """Returns how many bindings can count for the limit, those that wait for others too."""
        return len(self._tasks) - self._in_permit - sum(map(self._is_slow, self._open))

    def _check_refusal(self, binding: Binding) -> None:
        waited_s = self._now_s() - binding.waits_since_s
        if waited_s < WAIT_S_MAX - 0.001 or self._slow_of(binding.namespace) < SLOW_MAX:
            self.problems.append(f"a binding of {binding.namespace} fails after {waited_s:.2f} s")

    async def _look(self) -> None:
        """Looks regularly for waits without a reason."""
        while True:
            await asyncio.sleep(LOOK_S)
            for binding in self._open:
                if binding.began_s is not None:
                    continue
                is_free = self._slow_of(binding.namespace) < SLOW_MAX
                binding.looks = binding.looks + 1 if is_free else 0
                if binding.looks > LOOKS_MAX:
                    self.problems.append(f"a binding of {binding.namespace} was not woken")
                if self._now_s() > binding.waits_since_s + WAIT_S_MAX + LOOK_S:
                    self.problems.append(f"a binding of {binding.namespace} waits too long")
            is_free = self._waits_for_slot and self._counted() < self._limit
            self._looks = self._looks + 1 if is_free else 0
            if self._looks_since_event is not None:
                self._looks_since_event += 1
                if self._looks_since_event > LOOKS_MAX:
                    self.problems.append("scheduling was not woken")
            # A request becomes slow without an event: that is looked up every two seconds.
            if self._looks * LOOK_S > SLOW_S + LOOKS_MAX * LOOK_S:
                self.problems.append("scheduling waits, but not too many bindings are in progress")

    def _slow_of(self, namespace: str) -> int:
        return sum(self._is_slow(it) for it in self._open if it.namespace == namespace)

    def _is_slow(self, binding: Binding) -> bool:
        return binding.began_s is not None and binding.began_s <= self._now_s() - SLOW_S

    def _counted(self) -> int:
        """Returns how many bindings have a request in progress that is not slow."""
        return self._announced + sum(
            it.began_s is not None and not self._is_slow(it) for it in self._open
        )

    @staticmethod
    def _now_s() -> float:
        return asyncio.get_running_loop().time()


def _drained(phases: list[Phase], deadline_s: float) -> tuple[float, int]:
    """Returns how long a drain takes, and how many bindings are left for which it waited."""
    times = {deadline_s} | {time_s for phase in phases for time_s in phase.ends_s}
    for time_s in sorted(time_s for time_s in times if time_s <= deadline_s):
        n_working = sum(phase.is_working(time_s) for phase in phases)
        if not n_working:
            return time_s, 0
    return deadline_s, n_working


def run_slots(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: a binding waits too long, or not long enough.
    """
    check_run_of_tasks(SlotsRun, seed)
