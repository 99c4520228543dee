"""The order in which a scheduler starts and stops: tasks, the lease, the drain, the last writes.

Each part of the scheduler notes when it begins and when it ends, and takes as long as a seed says.
The reference writes down when each should: informers are listed before anything is scheduled, and
before or after the lease is taken; a leader waits for fresh objects; who stops finishes bindings,
writes what is left for at most two seconds, and releases the lease only if nothing is under way.
"""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, Final

from mooring.clock import Rng, seeded_random
from mooring.errors import InvariantViolation, LeaseLost
from mooring.queue import QueueName
from mooring.scheduler import service as service_module
from mooring.scheduler.service import Service
from mooring.virtual_loop import LoopClock
from tests.helpers.virtual_loop import run_virtually

DRAIN_S: Final = 10.0
FLUSHED_S_MAX: Final = 2.0
POLL_S: Final = 0.02
FLUSH_EVERY_S: Final = 1.0
NEVER_S: Final = 1e6
#: Differences of times up to this are rounding.
ROUNDING_S: Final = 1e-3
#: What ends a run, and the events that are not compared, since they are many.
ENDS: Final = ("stop", "stop", "stop", "term", "lost", "bug", "cancel")
Event = tuple[str, float]


class Sized:
    """Has a length that is set."""

    def __init__(self, length: Callable[[], int]) -> None:
        self._length = length

    def __len__(self) -> int:
        return self._length()


class FakeParts:
    """The parts of a scheduler, which note when they begin and end."""

    problems: list[str]
    _rng: Rng
    _clock: LoopClock
    _events: list[Event]
    _bug: asyncio.Event
    _end: str
    _end_s: float
    _began_s: float
    _synced_s: list[float]
    _leading_s: float
    _drain_s: float
    _flushed_s: float
    _stopped_s: float
    _unfinished: int
    _writes: str
    _waits_for_slot: bool
    _batches: Iterator[bool]

    def _now_s(self) -> float:
        return self._clock.monotonic_s() - self._began_s

    def _note(self, what: str) -> None:
        self._events.append((what, self._now_s()))

    async def _lasts(self, what: str) -> None:
        """Runs for ever, and notes its begin and its end."""
        self._note(f"{what} begins")
        try:
            await asyncio.wait_for(self._bug.wait() if what == "writer" else _never(), None)
        finally:
            self._note(f"{what} ends")
        raise InvariantViolation("a bug")

    def _informer(self, number: int) -> Any:
        listed = asyncio.Event()

        async def run() -> None:
            asyncio.get_running_loop().call_later(self._synced_s[number], listed.set)
            await self._lasts(f"informer {number}")

        return SimpleNamespace(
            run=run, wait_until_synced=listed.wait, has_synced=False, last_error=None
        )

    def _elector(self) -> Any:
        async def lead() -> None:
            self._note("candidate")
            await asyncio.sleep(self._leading_s)

        async def keep() -> None:
            self._note("keep begins")
            try:
                ends = self._end in ("term", "lost")
                await asyncio.sleep(self._end_s if ends else NEVER_S)
            finally:
                self._note("keep ends")
            if self._end == "lost":
                raise LeaseLost("lost")
            elector.is_term_over = True

        async def release() -> None:
            self._note("release")

        elector = SimpleNamespace(
            wait_until_leading=lead, keep=keep, release=release, is_term_over=False, failed_at_s=7.5
        )
        return elector

    def _left(self, who: str) -> int:
        """Returns how much there is to be written."""
        is_left = self._now_s() < self._stopped_s + self._drain_s + self._flushed_s - 1e-9
        return int(self._writes == who and self._stopped_s < math.inf and is_left)

    def _part(self, name: str, *, is_run: bool = True) -> Any:
        part: Any = Sized(lambda: self._left(name))
        part.cancel = lambda: self._note(f"{name} cancelled")
        if is_run:
            part.run = lambda: self._lasts(name)
        return part

    def _bindings(self) -> Any:
        async def drain(seconds: float) -> int:
            if seconds != DRAIN_S:
                self.problems.append(f"drains for {seconds} s")
            self._note("drain")
            await asyncio.sleep(self._drain_s)
            return self._unfinished

        async def wait_for_slot() -> None:
            self._waits_for_slot = True
            await asyncio.sleep(0.25)

        return SimpleNamespace(
            open=lambda group: self._note("bindings open"),
            drain=drain,
            cancel=lambda: self._note("bindings cancelled"),
            wait_for_slot=wait_for_slot,
        )

    async def _scheduled(self) -> bool:
        if not self._waits_for_slot:
            self.problems.append("schedules, and has not waited for a slot")
        self._waits_for_slot = False
        self._note("batch")
        return next(self._batches)

    async def _closed(self) -> None:
        self._note("extenders closed")


class ServiceRun(FakeParts):
    """One run.

    Attributes:
        problems: Differences.
    """

    def __init__(self, seed: int) -> None:
        self.problems: list[str] = []
        self._rng = rng = seeded_random(seed)
        self._clock = LoopClock(asyncio.get_running_loop())
        self._events: list[Event] = []
        self._began_s = self._clock.monotonic_s()
        self._has_elector = rng.random() < 0.7
        self._delays = self._has_elector and rng.random() < 0.3
        self._end = rng.choice(ENDS if self._has_elector else ("stop", "bug", "cancel"))
        #: A task finds a bug.
        self._bug = asyncio.Event()
        #: How long each part takes.
        self._synced_s = [rng.uniform(0.0, 8.0) for _ in range(3)]
        self._leading_s, self._fresh_s = rng.uniform(0.0, 9.0), rng.uniform(0.0, 9.0)
        self._drain_s = rng.uniform(0.0, 5.0)
        self._unfinished = rng.choice((0, 0, 2))
        self._flushed_s = rng.choice((0.0, 0.5, 1.0, 30.0))
        self._end_s = rng.uniform(0.0, 60.0)
        self._has_extenders = rng.random() < 0.5
        #: What is left to be written once the scheduler stops: by whom, from then on for a while.
        self._writes = rng.choice(("writer", "claims", "events"))
        self._stopped_s = math.inf
        self._batches = itertools.cycle([rng.random() < 0.5 for _ in range(7)])
        self._flush_at_s = rng.choice((0.0, 20.0, math.inf))

    # -- the parts --------------------------------------------------------------------------------

    def _service(self) -> Any:
        service: Any = object.__new__(Service)
        informers = [self._informer(number) for number in range(len(self._synced_s))]
        service._all_informers = lambda: informers
        service._elector = self._elector() if self._has_elector else None
        service._delays_cache = self._delays
        service._synced, service._stopping = asyncio.Event(), asyncio.Event()
        service._ready = asyncio.Event()
        service._clock, service._sleep = self._clock, asyncio.sleep
        service._client = "client"
        service._config = SimpleNamespace(extenders=["one"] if self._has_extenders else [])
        service.extenders = SimpleNamespace(close=self._closed)
        service.bindings = self._bindings()
        service.preemption_executor = SimpleNamespace(
            open=lambda group: self._note("preemptions open"),
            cancel=lambda: self._note("preemptions cancelled"),
        )
        service.handle = SimpleNamespace(claim_writer=self._part("claims", is_run=False))
        service.writer = self._part("writer")
        service.recorders = {"default-scheduler": self._part("events")}
        service.bind_verifier = SimpleNamespace(run=lambda: self._lasts("verifier"))
        plugin = SimpleNamespace(name="Slow", background=lambda: self._lasts("plugin"))
        profile = SimpleNamespace(background=lambda: [plugin])
        framework = SimpleNamespace(profile=profile)
        service.profiles = {"default-scheduler": framework, "second": framework}
        service.scheduler = SimpleNamespace(schedule_batch=self._scheduled)
        service.queue = SimpleNamespace(
            next_flush_at_s=lambda: self._flush_at_s, flush=lambda: self._note("flush")
        )
        service.cache = SimpleNamespace(nodes=[])
        return service

    # -- a run ------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Runs the service until its end, and compares what has happened."""
        self._waits_for_slot = False
        service = self._service()
        replaced = {
            "record_leader": self._record,
            "wait_until_fresh": self._wait_until_fresh,
            "InformerHealth": lambda *_, **__: SimpleNamespace(run=lambda: self._lasts("health")),
        }
        before = {name: vars(service_module)[name] for name in replaced}
        vars(service_module).update(replaced)
        try:
            error = await self._run(service)
        finally:
            vars(service_module).update(before)
        self._compare(error)
        self._check_state(service)

    async def _record(self, client: Any, elector: Any, *, component: str, clock: Any) -> None:
        del elector
        if (client, component, clock) != ("client", "default-scheduler", self._clock):
            self.problems.append(f"records the leader as {client} {component}")
        self._note("recorded")

    async def _wait_until_fresh(self, informers: Any, since_s: float) -> None:
        if len(informers) != len(self._synced_s) or since_s != 7.5:
            self.problems.append(f"waits for fresh objects of {len(informers)} since {since_s}")
        self._note("fresh?")
        await asyncio.sleep(self._fresh_s)

    async def _run(self, service: Any) -> BaseException | None:
        running = asyncio.create_task(service.run())
        if self._end in ("stop", "cancel", "bug"):
            await asyncio.sleep(self._end_s)
            if self._end == "stop":
                self._stopped_s = self._now_s()
                service.stop()
            elif self._end == "cancel":
                running.cancel()
            else:
                # A task of the service finds a bug.
                self._bug.set()
                if not service.has_synced:
                    running.cancel()
                    self._end = "cancel"
        else:
            started_s = self._led_s()
            self._stopped_s = started_s + self._end_s if self._end == "term" else math.inf
        await asyncio.wait({running})
        return asyncio.CancelledError() if running.cancelled() else running.exception()

    def _led_s(self) -> float:
        """Returns when it leads."""
        return self._leading_s + (0.0 if self._delays else max(self._synced_s))

    def _compare(self, error: BaseException | None) -> None:
        expected_error: Any = {"term": LeaseLost, "lost": LeaseLost, "bug": InvariantViolation}
        expected_type = expected_error.get(self._end, type(None))
        if self._end == "cancel":
            expected_type = asyncio.CancelledError
        if type(error) is not expected_type:
            self.problems.append(f"{self._end}: run ends with {error!r}")
        if self._end == "term" and str(error) != "another candidate is to lead":
            self.problems.append(f"a term ends with {error!r}")
        expected = self._expected()
        real = [it for it in self._events if it[0] not in ("batch", "flush")]
        wrong = sorted(it[0] for it in real) != sorted(it[0] for it in expected)
        # The end of the last wait is met by its last poll, or by the one after it.
        most_s = ROUNDING_S + (POLL_S if self._flushed_s > FLUSHED_S_MAX else 0.0)
        late = any(
            abs(happened[1] - due[1]) > most_s
            for happened, due in zip(sorted(real), sorted(expected), strict=False)
        )
        if wrong or late:
            self.problems.append(f"{self._end} {self._end_s:.3f}: {real}, not {expected}")
        self._check_scheduling()

    def _check_scheduling(self) -> None:
        """Checks when pods are scheduled: from its begin on, and not once it stops."""
        begun_s, end_s = self._scheduling_s(), self._ends_s()
        at_s = [it_s for what, it_s in self._events if what in ("batch", "flush")]
        if any(it_s < begun_s - ROUNDING_S or it_s > end_s + ROUNDING_S for it_s in at_s):
            self.problems.append(f"schedules at {at_s}, not from {begun_s} to {end_s}")
        if end_s > begun_s + 1.0 and self._end != "bug" and not at_s:
            self.problems.append("schedules nothing")
        # One at the moment of the end may come before it or not.
        before_s = end_s - ROUNDING_S
        flushes = [it_s for what, it_s in self._events if what == "flush" and it_s < before_s]
        first = max(begun_s, self._flush_at_s - self._began_s)
        start = FLUSH_EVERY_S * (math.floor(begun_s / FLUSH_EVERY_S) + 1)
        expected = [
            start + n * FLUSH_EVERY_S
            for n in range(200)
            if first <= start + n * FLUSH_EVERY_S < before_s
        ]
        if self._flush_at_s < math.inf and [round(it_s, 3) for it_s in flushes] != expected:
            self.problems.append(f"flushes at {flushes}, not {expected}")

    def _scheduling_s(self) -> float:
        if not self._has_elector:
            return max(self._synced_s)
        return self._led_s() + (max(self._synced_s) if self._delays else self._fresh_s)

    def _ends_s(self) -> float:
        """Returns when it stops: no attempt begins from then on."""
        return self._end_s + (self._led_s() if self._end in ("term", "lost") else 0.0)

    def _expected(self) -> list[Event]:
        end_s, listed_s, led_s = self._ends_s(), max(self._synced_s), self._led_s()
        is_clean = self._end in ("stop", "term")
        drained_s = end_s + (self._drain_s if is_clean else 0.0)
        over_s = drained_s
        if is_clean:
            # The last writes are looked for again and again.
            polls = math.ceil(self._flushed_s / POLL_S - 1e-6)
            over_s += min(polls, round(FLUSHED_S_MAX / POLL_S)) * POLL_S
        events: list[Event] = [("bindings open", 0.0), ("preemptions open", 0.0)]

        def lasts(what: str, begin_s: float, until_s: float = over_s) -> None:
            if begin_s < end_s:
                events.extend([(f"{what} begins", begin_s), (f"{what} ends", until_s)])

        def happens(what: str, at_s: float) -> None:
            if at_s < end_s:
                events.append((what, at_s))

        informed_s = led_s if self._delays else 0.0
        for name in ("health", *(f"informer {n}" for n in range(len(self._synced_s)))):
            lasts(name, informed_s)
        if self._has_elector:
            happens("candidate", 0.0 if self._delays else listed_s)
            lasts("keep", led_s, end_s if self._end in ("term", "lost") else over_s)
            happens("recorded", led_s)
            if not self._delays:
                happens("fresh?", led_s)
        for name in ("events", "writer", "verifier", "plugin"):
            lasts(name, self._scheduling_s())
        if is_clean:
            events.append(("drain", end_s))
            events += [("bindings cancelled", drained_s), ("preemptions cancelled", drained_s)]
            events.append(("claims cancelled", over_s))
            if self._has_elector and not self._unfinished:
                events.append(("release", over_s))
        if self._has_extenders:
            events.append(("extenders closed", over_s))
        return events

    # -- its state --------------------------------------------------------------------------------

    def _check_state(self, service: Any) -> None:
        """Compares what the service says about itself."""
        rng = self._rng
        counts = {name: rng.choice((0, 0, 0, 1)) for name in QueueName}
        lengths = [rng.choice((0, 0, 0, 1)) for _ in range(6)]
        n_bindings, n_preemptions, n_assumed, n_writes, n_claims, n_events = lengths
        listed = [rng.random() < 0.7 for _ in range(3)]
        service.queue = SimpleNamespace(counts=lambda: counts)
        service.bindings = range(n_bindings)
        service.preemption_executor = range(n_preemptions)
        service.cache = SimpleNamespace(assumed_count=lambda: n_assumed)
        service.writer = range(n_writes)
        service.handle = SimpleNamespace(claim_writer=range(n_claims))
        service.recorders = {"a": range(0), "b": range(n_events), "c": range(0)}
        service._all_informers = lambda: [SimpleNamespace(has_synced=it) for it in listed]
        busy = QueueName.ACTIVE, QueueName.BACKOFF, QueueName.IN_FLIGHT
        is_idle = not any(lengths)
        is_settled = is_idle and not any(counts[name] for name in busy)
        real = service.is_idle, service.is_settled, service.has_listed
        if real != (is_idle, is_settled, all(listed)):
            self.problems.append(
                f"idle, settled, listed is {real} with {lengths} {counts} {listed}"
            )


async def _never() -> None:
    await asyncio.sleep(NEVER_S)


def run_service(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: a part begins or ends at another time than it should.
    """

    async def run() -> list[str]:
        service = ServiceRun(seed)
        with suppress(LeaseLost):
            await service.run()
        return service.problems

    problems = run_virtually(run(), seeded_random(seed + 1_000_000))
    assert not problems, problems[0]
