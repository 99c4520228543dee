"""What is counted while a scheduler lives."""

from __future__ import annotations

from typing import Any

from mooring.devcluster.observer import LATEST, Tracker
from mooring.errors import SchedulerError
from mooring.framework import Reject
from mooring.simulation.utilization import PODS, Fill
from mooring.testing import make_node, make_pod
from tests.helpers.configurations import NO_POST_FILTER
from tests.helpers.running_scheduler import Life, living, virtually


class Fails:
    """Fails for pods called poison, and refuses to bind pods called refused."""

    name = "Fails"

    def pre_filter(self, cycle: Any) -> None:
        if cycle.pod.metadata.name == "poison":
            raise ValueError("no")

    async def pre_bind(self, cycle: Any, node_name: str) -> Any:
        return Reject("not here") if cycle.pod.metadata.name == "refused" else None


def tracked(life: Life) -> Tracker:
    """A tracker that hears what the test's own observer hears."""
    tracker = Tracker(Fill([make_node("a")]), life.clock)
    for name in ("moved", "attempted", "bound", "failed"):
        both(life.seen, tracker, name)
    # The queue was given the method as it was.
    life.service.queue._queues.on_move = life.seen.moved
    return tracker


def both(seen: Any, tracker: Tracker, name: str) -> None:
    first, second = getattr(seen, name), getattr(tracker, name)

    def tell(*arguments: Any) -> None:
        first(*arguments)
        second(*arguments)

    setattr(seen, name, tell)


@virtually
async def test_outcomes_are_counted_as_simulate_counts_them() -> None:
    config = NO_POST_FILTER
    async with living(make_node("a"), plugins=[Fails()], config=config, at_rest=False) as life:
        tracker = tracked(life)
        await life.create(
            make_pod("web"),
            make_pod("big", requests={"cpu": "40"}),
            make_pod("gated", gates=["g"]),
            make_pod("poison"),
            make_pod("refused"),
        )
        await life.until_seen("failed", "refused")
        await life.until_seen("failed", "poison")
        tally = tracker.tally()
        assert tally.pods == 5
        results = sorted(each.result for each in tracker.refusals.values())
        assert results == ["error", "gated", "unschedulable", "unschedulable"]
        assert {each.message for each in tracker.refusals.values()} == {
            "held back by SchedulingGates",
            "0/1 nodes are available: 1 Insufficient cpu.",
            'running PreFilter plugin "Fails": ValueError: no',
            "not here",
        }
        assert tracker.fill.nodes["a"].requested[PODS] == 1
        assert tracker.decisions >= 3


@virtually
async def test_a_pod_that_is_bound_in_the_end_counts_once() -> None:
    async with living() as life:
        tracker = tracked(life)
        await life.create(make_pod("web"))
        await life.until_seen("failed", "web")
        assert len(tracker.refusals) == 1
        await life.create(make_node("a"))
        await life.until_seen("bound", "web")
        assert tracker.refusals == {}
        assert len(tracker.bound_uids) == 1
        assert tracker.tally().pods == 1


@virtually
async def test_a_pod_that_is_gone_is_not_counted() -> None:
    async with living(make_node("a")) as life:
        tracker = tracked(life)
        await life.create(make_pod("gated", gates=["g"]))
        await life.settle()
        assert len(tracker.refusals) == 1
        await life.delete("gated")
        await life.settle()
        assert tracker.refusals == {}


@virtually
async def test_the_newest_decisions_are_remembered_and_when_the_last_one_was() -> None:
    async with living(make_node("a")) as life:
        tracker = tracked(life)
        await life.create(*(make_pod(f"p{number}") for number in range(LATEST + 3)))
        await life.settle()
        assert [each.pod for each in tracker.latest] == [
            f"default/p{number}" for number in range(3, LATEST + 3)
        ]
        assert all(each.is_bound for each in tracker.latest)
        assert tracker.latest[-1].text == "bound to a"
        assert tracker.last_s == tracker.latest[-1].time_s


@virtually
async def test_an_error_is_told_with_its_plugin() -> None:
    async with living(make_node("a")) as life:
        tracker = Tracker(Fill(), life.clock)
        await life.create(make_pod("web"))
        await life.settle()
        from mooring.queue import QueuedPod

        entry = QueuedPod(next(iter(life.service.cache.pods)).info, 0.0)
        error = SchedulerError("refused")
        error.add_note('running Bind plugin "B"')
        tracker.failed(entry, error)
        (refusal,) = tracker.refusals.values()
        assert refusal.message == 'running Bind plugin "B": refused'
