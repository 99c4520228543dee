"""Events of some objects, recorded once or again and again, and a server that refuses many writes.

However events are grouped into series, the counts of the stored ones add up to the number that was
recorded, some minutes after the last one. Which event counts in which series, and when one ends,
also while a write of it is under way, says ``tests/faults/twins/attached_recorder.py``.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from contextlib import AbstractAsyncContextManager
from random import Random
from typing import Any, Final

from mooring.client import Client, Request
from mooring.client.event_recorder import Recorder
from mooring.client.transport.transport import Response, Stream
from mooring.clock import Rng, seeded_random
from mooring.errors import OutcomeUnknown, Unreachable
from mooring.testing import make_pod
from mooring.virtual_loop import LoopClock, VirtualLoop
from tests.faults.parts.event_contents import EventContents, object_of
from tests.faults.parts.recorder_ends import end_problems
from tests.faults.twins.attached_recorder import AttachedRecorder
from tests.helpers.virtual_loop import run_virtually

#: Events in the first phase, in which writes fail; it lasts so long.
EVENTS: Final = 60
BUSY_S: Final = 900.0
#: Six minutes without an event end a series, which is looked for every six minutes; then its last
#: count is written.
COUNTED_S: Final = 2 * 360.0 + 60.0 + 120.0
#: One series goes on for so long, once a minute. It is written anew every half an hour.
ACTIVE_S: Final = 2.5 * 3600.0
REFRESHED_S: Final = 1800.0 + 60.0 + 30.0
#: A write that was accepted is not repeated in so many seconds.
REPEATED_S: Final = 60.0
#: The least and the longest wait between two tries; an event is written so often at most.
RETRY_S: Final = (10.0, 12.5)
TRIES_MAX: Final = 12
#: The second object of an event is a part of the key of its series.
RELATED: Final = (None, None, make_pod("other"), make_pod("third"))


class EventServer:
    """Stores events; refuses or loses a share of the writes.

    Attributes:
        refusing: The share of the writes that fail.
        objects: Name -> the stored event.
        written_at_s: Name -> when it was written last.
    """

    def __init__(self, rng: Rng) -> None:
        self.refusing = 0.0
        self.objects: dict[str, Any] = {}
        self.written_at_s: dict[str, float] = {}
        #: Name -> whether the server asked to wait when it refused the last write.
        self.has_asked: dict[str, bool] = {}
        #: Names of the events whose last write has failed.
        self.failing: set[str] = set()
        #: Name -> for how long.
        self.asked_s: dict[str, int] = {}
        #: Name -> the last write that was answered, and when.
        self._answered: dict[str, tuple[Any, float]] = {}
        self.problems: list[str] = []
        loop = asyncio.get_running_loop()
        self.contents = EventContents(LoopClock(loop).wall_s)
        self._rng = rng

    def stream(self, request: Request, *, idle_s: float) -> AbstractAsyncContextManager[Stream]:
        """Is not called."""
        raise AssertionError(f"{request.path} is no stream, idle {idle_s}")

    async def close(self) -> None:
        """Has nothing to close."""

    async def request(self, request: Request) -> Response:
        """Stores an event, or fails, or both."""
        rng = self._rng
        self._check_repeated(request)
        stored = self.objects.get(_name_of(request))
        self.problems += self.contents.problems(request, stored)
        await asyncio.sleep(rng.random())
        self.has_asked[_name_of(request)] = False
        if rng.random() >= self.refusing:
            self._answered[_name_of(request)] = _content_of(request), _now_s()
            self.failing.discard(_name_of(request))
            return self._store(request)
        self.failing.add(_name_of(request))
        fault = rng.choice(("lost", "unreachable", "429", "500", "500 stored"))
        if fault in ("lost", "500 stored"):
            self._store(request)
        if fault == "lost":
            raise OutcomeUnknown("no response")
        if fault == "unreachable":
            raise Unreachable("connection refused")
        if fault == "429":
            longest_s = rng.choice((20, 120))
            self.has_asked[_name_of(request)] = True
            self.asked_s[_name_of(request)] = asked_s = rng.randrange(1, longest_s)
            return _response(429, **{"retry-after": str(asked_s)})
        return _response(500)

    def _check_repeated(self, request: Request) -> None:
        """Checks that nothing is written again at once that the server has accepted."""
        content, at_s = self._answered.get(_name_of(request), (None, 0.0))
        if content == _content_of(request) and _now_s() - at_s < REPEATED_S:
            self.problems.append(f"{_name_of(request)} is written again, without a change")

    def _store(self, request: Request) -> Response:
        body = json.loads(request.body)
        now_s = _now_s()
        if request.method == "POST":
            name = body["metadata"]["name"]
            if name in self.objects:
                return _response(409, reason="AlreadyExists")
            self.objects[name] = body
        else:
            name = request.path.rpartition("/")[2]
            if name not in self.objects:
                return _response(404)
            before = _count(self.objects[name])
            self.objects[name] = {**self.objects[name], **body}
            if _count(self.objects[name]) < before:
                self.problems.append(f"{name} is counted down from {before}")
        self.written_at_s[name] = now_s
        return Response(200, {}, json.dumps(self.objects[name]).encode())

    def counts(self) -> Counter[str]:
        """Returns reason -> the number of events that the stored ones stand for."""
        counts: Counter[str] = Counter()
        for event in self.objects.values():
            counts[event["reason"]] += _count(event)
        return counts


def _now_s() -> float:
    return asyncio.get_running_loop().time()


def _name_of(request: Request) -> str:
    if request.method == "POST":
        return str(json.loads(request.body)["metadata"]["name"])
    return request.path.rpartition("/")[2]


def _content_of(request: Request) -> Any:
    """Returns what a write says of the series: the rest of an event does not change."""
    return json.loads(request.body).get("series") or "no series"


def _count(event: Any) -> int:
    return event["series"]["count"] if event.get("series") else 1


def _response(code: int, *, reason: str = "", **headers: str) -> Response:
    status = {"kind": "Status", "code": code, "reason": reason, "message": f"injected: {code}"}
    return Response(code, headers, json.dumps(status).encode())


class RecorderRun:
    """One run."""

    def __init__(self, seed: int) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self._rng = seeded_random(seed)
        self._server = EventServer(seeded_random(seed + 1_000_000))
        self._recorder = Recorder(
            Client(self._server, rng=self._rng),
            controller="default-scheduler",
            instance="one",
            clock=LoopClock(loop),
            rng=self._rng,
        )
        self._model = AttachedRecorder(self._recorder, loop.time, self._server.problems.append)
        queue: Any = self._recorder._writes
        self._write = queue._write_value
        queue._write_value = self._checked_write
        self._recorded: Counter[str] = Counter()
        self._n_reasons = self._rng.choice((2, 6, 15))

    async def run(self) -> list[str]:
        """Runs both phases; returns the problems."""
        rng = self._rng
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(self._recorder.run())
            self._server.refusing = rng.choice((0.0, 0.2, 0.5, 0.7))
            active = tasks.create_task(self._go_on())
            for _ in range(EVENTS):
                await asyncio.sleep(rng.choice((0.0, 0.1, 2 * BUSY_S / EVENTS)) * 1.5)
                self._record(f"Reason{rng.randrange(self._n_reasons)}")
            self._server.refusing = 0.0
            # The last retry of the first phase, and its wait.
            await asyncio.sleep(COUNTED_S + 180.0)
            self._compare(without="Active")
            await asyncio.sleep(ACTIVE_S)
            self._check_refreshed()
            active.cancel()
            await asyncio.sleep(COUNTED_S)
            self._compare(without="")
            running.cancel()
        return self._server.problems

    async def _checked_write(self, series: Any, tries: int) -> Any:
        """Writes, and checks the waits, and which count as those that the server has asked for."""
        retry = await self._write(series, tries)
        name = series.event.metadata.name
        waits = retry is not None and retry.wait_s > 0
        if waits is not (name in self._server.failing and tries < TRIES_MAX):
            self._server.problems.append(f"{name} is given up, or not, after {tries} tries")
        asked_s = self._server.asked_s.get(name, 0) * self._server.has_asked[name]
        least_s, most_s = max(RETRY_S[0], asked_s), max(RETRY_S[1], 1.1 * asked_s)
        if retry is not None and retry.wait_s and not least_s <= retry.wait_s <= most_s + 1e-6:
            wait = f"{retry.wait_s} s, not {least_s} to {most_s} s"
            self._server.problems.append(f"{name} waits for {wait}")
        if retry is not None and retry.is_requested != self._server.has_asked[name]:
            self._server.problems.append(f"the wait of {name}, {retry}, is not what was asked for")
        return retry

    def _record(self, reason: str) -> None:
        self._recorded[reason] += 1
        related = None if reason == "Active" else self._rng.choice(RELATED)
        note = f"number {self._recorded.total()}"
        self._server.contents.record(reason, related, note)
        self._recorder.record(
            object_of(reason),
            type="Normal",
            reason=reason,
            action="Test",
            note=note,
            related=related,
        )

    async def _go_on(self) -> None:
        while True:
            self._record("Active")
            if overdue := self._model.overdue():
                self._server.problems.append(overdue)
            await asyncio.sleep(60.0)
            is_idle = not len(self._recorder) and not self._recorder.statistics().failed
            if is_idle and (unwritten := self._model.unwritten(self._server.objects)):
                self._server.problems.append(unwritten)

    def _compare(self, *, without: str) -> None:
        if self._recorder.statistics().failed:
            return  # twelve tries have failed
        stored = self._server.counts()
        for reason, count in self._recorded.items():
            if reason != without and stored[reason] != count:
                problem = f"{reason} was recorded {count} times, but {stored[reason]} are stored"
                self._server.problems.append(problem)

    def _check_refreshed(self) -> None:
        now_s = asyncio.get_running_loop().time()
        written_s = [
            self._server.written_at_s[name]
            for name, event in self._server.objects.items()
            if event["reason"] == "Active"
        ]
        if now_s - max(written_s, default=0.0) > REFRESHED_S:
            self._server.problems.append("a series that goes on was not written again")
        if len(written_s) > 1:
            self._server.problems.append(f"a series that goes on has {len(written_s)} events")


def run_recorder(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: an event is lost, or counted twice.
    """

    async def run() -> list[str]:
        problems = await RecorderRun(seed).run()
        return problems + await end_problems(Random(f"{seed} ends"))

    problems = run_virtually(run(), seeded_random(seed + 2_000_000))
    assert not problems, problems[0]
