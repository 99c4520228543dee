"""A recorder without writers of its own, which writes all that waits when it is called.

A limit of series may be small: then the oldest one ends with the next new one. Names of objects may
be too long for an event, or no names at all; such an event has a name without them.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from random import Random
from typing import Any, Final

import pytest
from msgspec.structs import replace

from mooring.client import Client, Request, event_recorder
from mooring.client.event_recorder import Recorder
from mooring.client.transport.transport import Response, Stream
from mooring.errors import Unreachable
from mooring.testing import make_pod
from mooring.virtual_loop import LoopClock
from tests.faults.twins import attached_recorder
from tests.faults.twins.attached_recorder import AttachedRecorder

STEPS: Final = 30
LIMITS: Final = (1, 2, 3, 10_000)
PAUSES_S: Final = (0.0, 0.0, 1.0, 100.0, 361.0, 800.0, 1801.0)
#: An event has the name of its object and 16 digits, if that has at most 253 characters.
LONGEST: Final = 253 - 17
NAMES: Final = (
    *("web", "a.b-c", "x" * LONGEST, "y" * (LONGEST + 1)),
    *("Web", "web:1", "-web", "web.", "web..1", "", "w_eb"),
)
GOOD: Final = 4
FAILING: Final = 0.2
#: Of the calls so many are made while the server is down: each event is tried so often.
DOWN: Final = 0.1
TRIES_MAX: Final = 12


class Stored:
    """Stores events, and fails at times.

    Attributes:
        counts: Name -> of how many events the stored one is.
        notes: Name -> the note of its first event.
        is_down: Whether all requests fail.
        failed: Name -> how many of its requests in sequence have failed.
    """

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self.counts: Counter[str] = Counter()
        self.notes: dict[str, str] = {}
        self.is_down = False
        self.failed: Counter[str] = Counter()

    def stream(self, request: Request, *, idle_s: float) -> AbstractAsyncContextManager[Stream]:
        """Is not called."""
        raise AssertionError(f"{request.path} is no stream, idle {idle_s}")

    async def close(self) -> None:
        """Has nothing to close."""

    async def request(self, request: Request) -> Response:
        """Stores an event."""
        body = json.loads(request.body)
        name = request.path.rpartition("/")[2]
        if request.method == "POST":
            name = body["metadata"]["name"]
        if self._rng.random() < FAILING or self.is_down:
            self.failed[name] += 1
            raise Unreachable("connection refused")
        self.failed[name] = 0
        if request.method == "POST":
            self.notes[name], self.counts[name] = body["note"], 1
        if body.get("series"):
            self.counts[name] = body["series"]["count"]
        return Response(200 if name in self.counts else 404, {}, b"{}")


async def end_problems(rng: Random) -> list[str]:
    """Returns what is written wrongly, with a drawn limit of series."""
    with pytest.MonkeyPatch.context() as patch:
        limit = rng.choice(LIMITS)
        patch.setattr(event_recorder, "SERIES_MAX", limit)
        patch.setattr(attached_recorder, "SERIES_MAX", limit)
        return await _problems(rng)


async def _problems(rng: Random) -> list[str]:
    loop, problems, stored = asyncio.get_running_loop(), list[str](), Stored(rng)
    recorder = Recorder(
        Client(stored, rng=rng), controller="c", instance="i", clock=LoopClock(loop), rng=rng
    )
    model = AttachedRecorder(recorder, loop.time, problems.append)
    names: dict[str, str] = {}
    for number in range(STEPS):
        await asyncio.sleep(rng.choice(PAUSES_S))
        if rng.random() < 0.7:
            name, pod = rng.choice(NAMES), make_pod("web")
            pod = replace(pod, metadata=replace(pod.metadata, name=name))
            names[f"number {number}"] = name
            recorder.record(pod, type="Normal", reason="R", action="A", note=f"number {number}")
            continue
        stored.is_down = rng.random() < DOWN
        stored.failed.clear()
        await recorder.write_waiting()
        # Twice as often if the series ends, so that it is written once more.
        if stored.is_down and set(stored.failed.values()) - {TRIES_MAX, 2 * TRIES_MAX}:
            problems.append(f"events that cannot be written are tried so often: {stored.failed}")
        if len(recorder):
            problems.append(f"{len(recorder)} series wait to be written after all were")
        problems += _name_problems(stored.notes, names)
        series = {name: {"series": count > 1} for name, count in stored.counts.items()}
        if (unwritten := model.unwritten(series)) and not recorder.statistics().failed:
            problems.append(unwritten)
    stored.is_down = False
    await asyncio.sleep(2 * max(PAUSES_S))
    await recorder.write_waiting()
    total, written = len(names), stored.counts.total()
    # A series that ends since there are too many does not write its last count.
    is_complete = len(NAMES) < event_recorder.SERIES_MAX and not recorder.statistics().failed
    if written != total and is_complete:
        problems.append(f"{total} events were recorded, and {written} are stored")
    return problems


def _name_problems(notes: dict[str, str], names: dict[str, str]) -> Iterator[str]:
    for event, note in notes.items():
        name: Any = names[note]
        is_part = name in NAMES[: GOOD - 1]
        pattern = f"{re.escape(name)}\\.[0-9a-f]{{16}}" if is_part else r"event\.[0-9a-f]{32}"
        if not re.fullmatch(pattern, event):
            yield f"the event of {name!r} has the name {event!r}"
