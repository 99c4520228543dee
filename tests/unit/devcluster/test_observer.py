"""The counters of a running scheduler."""

from __future__ import annotations

from typing import Any

from mooring.devcluster.observer import LATEST, ProgressObserver
from mooring.errors import SchedulerError
from mooring.framework import Reject
from mooring.simulation.utilization import PODS, Utilization
from mooring.testing import make_node, make_pod
from tests.helpers.configurations import NO_POST_FILTER
from tests.helpers.running_scheduler import Life, run_scheduler, virtually


class Fails:
    """Fails for pods called poison, and refuses to bind pods called refused."""

    name = "Fails"

    def pre_filter(self, cycle: Any) -> None:
        if cycle.pod.metadata.name == "poison":
            raise ValueError("no")

    async def pre_bind(self, cycle: Any, node_name: str) -> Any:
        return Reject("not here") if cycle.pod.metadata.name == "refused" else None


def tracked(life: Life) -> ProgressObserver:
    """Returns a tracker that hears what the test's own observer hears."""
    progress = ProgressObserver(Utilization([make_node("a")]), life.clock)
    for name in ("moved", "attempted", "bound", "failed"):
        both(life.observer, progress, name)
    # The queue was given the method as it was.
    life.service.queue._queues.on_move = life.observer.moved
    return progress


def both(seen: Any, progress: ProgressObserver, name: str) -> None:
    first, second = getattr(seen, name), getattr(progress, name)

    def tell(*arguments: Any) -> None:
        first(*arguments)
        second(*arguments)

    setattr(seen, name, tell)


@virtually
async def test_outcomes_are_counted_as_simulate_counts_them() -> None:
    config = NO_POST_FILTER
    async with run_scheduler(
        make_node("a"), plugins=[Fails()], config=config, at_rest=False
    ) as life:
        progress = tracked(life)
        await life.create(
            make_pod("web"),
            make_pod("big", requests={"cpu": "40"}),
            make_pod("gated", gates=["g"]),
            make_pod("poison"),
            make_pod("refused"),
        )
        await life.until_seen("failed", "refused")
        await life.until_seen("failed", "poison")
        outcome_counts = progress.outcome_counts()
        assert outcome_counts.pods == 5
        results = sorted(each.result for each in progress.refusals.values())
        assert results == ["error", "gated", "unschedulable", "unschedulable"]
        assert {each.message for each in progress.refusals.values()} == {
            "gated by SchedulingGates",
            "0/1 nodes are available: 1 Insufficient cpu.",
            'running PreFilter plugin "Fails": ValueError: no',
            "not here",
        }
        assert progress.utilization.nodes["a"].requested[PODS] == 1
        assert progress.decisions >= 3


@virtually
async def test_a_pod_that_is_bound_in_the_end_counts_once() -> None:
    async with run_scheduler() as life:
        progress = tracked(life)
        await life.create(make_pod("web"))
        await life.until_seen("failed", "web")
        assert len(progress.refusals) == 1
        await life.create(make_node("a"))
        await life.until_seen("bound", "web")
        assert progress.refusals == {}
        assert len(progress.bound_uids) == 1
        assert progress.outcome_counts().pods == 1


@virtually
async def test_a_pod_that_is_gone_is_not_counted() -> None:
    async with run_scheduler(make_node("a")) as life:
        progress = tracked(life)
        await life.create(make_pod("gated", gates=["g"]))
        await life.settle()
        assert len(progress.refusals) == 1
        await life.delete("gated")
        await life.settle()
        assert progress.refusals == {}


@virtually
async def test_the_newest_decisions_are_remembered_and_when_the_last_one_was() -> None:
    async with run_scheduler(make_node("a")) as life:
        progress = tracked(life)
        await life.create(*(make_pod(f"p{number}") for number in range(LATEST + 3)))
        await life.settle()
        assert [each.pod for each in progress.latest] == [
            f"default/p{number}" for number in range(3, LATEST + 3)
        ]
        assert all(each.is_bound for each in progress.latest)
        assert progress.latest[-1].text == "bound to a"
        assert progress.last_s == progress.latest[-1].time_s


@virtually
async def test_an_error_is_reported_with_its_plugin() -> None:
    async with run_scheduler(make_node("a")) as life:
        progress = ProgressObserver(Utilization(), life.clock)
        await life.create(make_pod("web"))
        await life.settle()
        from mooring.queue import QueuedPod

        entry = QueuedPod(next(iter(life.service.cache.pods)).info, 0.0)
        error = SchedulerError("refused")
        error.add_note('running Bind plugin "B"')
        progress.failed(entry, error)
        (refusal,) = progress.refusals.values()
        assert refusal.message == 'running Bind plugin "B": refused'
