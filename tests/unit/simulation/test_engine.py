"""The engine of a simulation ends when one pod is tried without end, and else never for that."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mooring.errors import SchedulerError
from mooring.queue import QueuedPod
from mooring.simulation.engine.engine import ATTEMPTS_MAX, PHASE_NODES, Engine
from mooring.state import PodInfo
from mooring.testing import make_pod
from mooring.virtual_loop import VirtualLoop, run_virtually


class Scheduler:
    """A scheduler whose queue has the pods of an iterator, one after another."""

    has_tasks = False

    def __init__(self, entries: Iterator[QueuedPod]) -> None:
        self._entries = entries
        self.queue: Any = self
        self.scheduler: Any = self
        self.attempts = 0
        self.on_attempt: Callable[[int], None] = lambda _: None

    def pop(self) -> QueuedPod | None:
        return next(self._entries, None)

    def schedule_one(self, entry: QueuedPod) -> None:
        del entry
        self.attempts += 1
        self.on_attempt(self.attempts)

    def pods(self) -> list[QueuedPod]:
        return []

    def next_flush_at_s(self) -> float:
        return math.inf


def entry_of(name: str = "web") -> QueuedPod:
    return QueuedPod(PodInfo(make_pod(name)), 0.0)


def again(entry: QueuedPod, count: int) -> Iterator[QueuedPod]:
    return iter([entry] * count)


def run(scheduler: Scheduler, on_attempt: Callable[[Engine, int], None] | None = None) -> None:
    async def work() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        engine = Engine(loop, scheduler)
        if on_attempt is not None:
            scheduler.on_attempt = lambda number: on_attempt(engine, number)
        await engine.run()

    run_virtually(work())


def test_a_pod_that_is_tried_without_end_is_an_error_with_pod_and_plugin() -> None:
    entry = entry_of()
    entry.unschedulable_plugins = frozenset({"Activates"})
    scheduler = Scheduler(again(entry, ATTEMPTS_MAX + 10))

    with pytest.raises(SchedulerError, match=r"^pod default/web is retried for ever: .*Activates"):
        run(scheduler)
    assert scheduler.attempts == ATTEMPTS_MAX


def test_as_many_attempts_at_different_pods_are_none() -> None:
    count = ATTEMPTS_MAX * 3
    scheduler = Scheduler(entry_of(f"web-{number}") for number in range(count))

    run(scheduler)

    assert scheduler.attempts == count


def test_as_many_attempts_after_changes_of_the_cluster_are_none() -> None:
    def progress(engine: Engine, number: int) -> None:
        if number % ATTEMPTS_MAX == 0:
            engine.note_progress()

    def act(engine: Engine, number: int) -> None:
        if number % ATTEMPTS_MAX == 0:
            engine.call_at(0.0, PHASE_NODES, lambda: None)

    for on_attempt in (progress, act):
        scheduler = Scheduler(again(entry_of(), ATTEMPTS_MAX * 3))
        run(scheduler, on_attempt)
        assert scheduler.attempts == ATTEMPTS_MAX * 3
