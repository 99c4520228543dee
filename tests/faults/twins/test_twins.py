"""Each model reports a wrong call of its part, and nothing about a right one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from mooring.client.write_queue import Retry, WriteQueue
from mooring.queue import QueueOptions
from mooring.queue.scheduling_queue import SchedulingQueue
from tests.faults.planted import PlantedBug
from tests.faults.twins.attached_queue import AttachedQueue
from tests.faults.twins.attached_writes import AttachedWrites
from tests.faults.twins.queue_twin import QueueTwin
from tests.helpers.queues import NODE_ADD, PV_ADD, Bench, Refuser, on, pod
from tests.helpers.virtual_loop import run_virtually


def attached(*, pop_from_backoff: bool = True) -> tuple[Bench, list[str]]:
    """Returns a queue with two plugins, and the differences to its model."""
    plugins = Refuser("Fit", on(NODE_ADD)), Refuser("Volume", on(PV_ADD))
    it = Bench(*plugins, pop_from_backoff=pop_from_backoff)
    differences: list[str] = []
    twin = QueueTwin(
        {"default-scheduler": it.framework},
        it.clock,
        QueueOptions(pop_from_backoff=pop_from_backoff),
    )
    AttachedQueue(it.queue, twin, differences.append)
    return it, differences


def refuse_two(it: Bench) -> None:
    """Refuses two pods, by one plugin each, while an event happens."""
    it.add("a")
    it.add("b", priority=1)
    entries = [it.queue.pop(), it.queue.pop()]
    it.queue.move(NODE_ADD, None, None)
    for entry, plugin in zip(entries, ("Fit", "Volume"), strict=True):
        assert entry is not None
        with it.queue.in_flight(entry):
            it.queue.add_unschedulable(entry, entry.pod, refused_by=[plugin])
    it.queue.move(PV_ADD, None, None)
    for _ in range(20):
        it.clock.advance(1.0)
        if it.queue.next_flush_at_s() <= it.clock.monotonic_s():
            it.queue.flush()


@pytest.mark.parametrize("pop_from_backoff", [True, False])
def test_a_right_queue_does_what_its_model_does(pop_from_backoff: bool) -> None:
    it, differences = attached(pop_from_backoff=pop_from_backoff)

    refuse_two(it)

    assert it.pops() == ["b", "a"]
    assert differences == []


def test_an_event_that_is_not_recorded_for_a_pod_in_flight_is_a_difference(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    PlantedBug(
        "", "", SchedulingQueue, "move", "self._in_flight.record(event, old, new)", "pass"
    ).plant(monkeypatch)
    it, differences = attached()

    refuse_two(it)

    assert len(differences) == 1
    assert "move(NodeAdd" in differences[0]


def test_a_pod_that_another_caller_changes_is_a_difference_at_its_next_call() -> None:
    it, differences = attached()
    it.unschedulable("a", "Fit")
    entry = it.queue.get("a")
    assert entry is not None

    entry.unschedulable_count = 5
    it.queue.update(entry.pod, pod("a", labels={"new": ""}))

    assert "refusals 5 is 1 in the model" in differences[0]


@pytest.mark.parametrize("is_tried", [False, True])
def test_a_flush_is_overdue_only_if_a_pod_has_been_waiting_all_the_time(is_tried: bool) -> None:
    it = Bench(Refuser("Fit", on(NODE_ADD)))
    twin = QueueTwin({"default-scheduler": it.framework}, it.clock, QueueOptions())
    model = AttachedQueue(it.queue, twin, lambda _: None)
    it.unschedulable("a", "Fit")
    it.clock.advance(40.0)
    late = [model.overdue(it.clock.monotonic_s()) for _ in range(3)]
    if is_tried:
        it.queue.activate(["a"])
        it.refuse(it.pop(), "Fit")

    late.append(model.overdue(it.clock.monotonic_s()))

    assert late == ["", "", "", "" if is_tried else "no flush for 3 s"]


def written(
    work: Callable[[WriteQueue[str]], None], *, patch: Callable[[Any], None] = lambda _: None
) -> list[str]:
    """Returns the problems of a queue whose first write is refused for 5 s."""

    async def write(value: str, tries: int) -> Retry | None:
        del value
        return Retry(5.0, is_requested=True) if tries == 1 else None

    async def run() -> list[str]:
        problems: list[str] = []
        writes: WriteQueue[str] = WriteQueue(write, sleep=asyncio.sleep)
        patch(writes)
        model = AttachedWrites(writes, "status", problems.append)
        running = asyncio.create_task(writes.run())
        work(writes)
        for _ in range(12):
            await asyncio.sleep(1.0)
            model.on_tick()
        running.cancel()
        return problems

    return run_virtually(run())


def test_a_right_queue_of_writes_does_what_its_model_does() -> None:
    def work(writes: WriteQueue[str]) -> None:
        writes.put("a", "default", "first")
        writes.put("a", "default", "second")
        writes.put("b", "default", "third")
        writes.remove("b")

    assert written(work) == []


def test_a_value_that_is_dropped_after_a_refusal_is_reported() -> None:
    def drop(writes: Any) -> None:
        real = writes._after
        writes._after = lambda key, item, retry: real(key, item, None)  # as if it were written

    def work(writes: WriteQueue[str]) -> None:
        writes.put("a", "default", "first")

    assert "was not written" in written(work, patch=drop)[0]
