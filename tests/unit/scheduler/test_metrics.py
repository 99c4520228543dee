"""The metrics of a running scheduler: queues, attempts, events, hints and preemptions."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from mooring.client.transport.transport import Request
from mooring.clock import VirtualClock
from mooring.errors import Forbidden
from mooring.framework import Reject, Wait
from mooring.metrics.registry import Metrics
from mooring.metrics.series import Numbers
from mooring.queue import QueueName, QueueOptions
from mooring.scheduler.metrics import Totals
from mooring.testing import make_node, make_pod
from tests.helpers.configurations import FEW_PLUGINS
from tests.helpers.exposition import parse, value
from tests.helpers.preemption_fixture import deletions, pod, preempting, small
from tests.helpers.running_scheduler import Life, on, run_scheduler, virtually
from tests.helpers.scripted_plugins import Permits

PROFILE = "default-scheduler"


class Watched:
    """A running scheduler's metrics."""

    def __init__(self) -> None:
        self.metrics: Metrics = None  # type: ignore[assignment]

    def get(self, name: str, **labels: str) -> float | None:
        return value(self.metrics.expose()[0], name, **labels)

    def pending(self) -> dict[str, float | None]:
        body = self.metrics.expose()[0]
        queues = ("active", "backoff", "unschedulable", "gated")
        found = {queue: value(body, "scheduler_pending_pods", queue=queue) for queue in queues}
        return {queue: number for queue, number in found.items() if number}

    def incoming(self) -> dict[tuple[str, str], float]:
        family = parse(self.metrics.expose()[0])["scheduler_queue_incoming_pods_total"]
        return {
            (dict(labels)["queue"], dict(labels)["event"]): number
            for (_, labels), number in family.values.items()
        }

    def attempts(self, result: str) -> float | None:
        labels = {"result": result, "profile": PROFILE}
        return self.get("scheduler_schedule_attempts_total", **labels)

    def rejected(self, plugin: str) -> float | None:
        return self.get("scheduler_unschedulable_pods", plugin=plugin, profile=PROFILE)


def watched(clock: Any = None) -> tuple[Watched, Metrics]:
    found = Watched()
    found.metrics = Metrics(clock=clock or VirtualClock())
    return found, found.metrics


async def refuse(life: Life, name: str, **more: Any) -> None:
    """Creates a pod, and waits until its attempt has failed."""
    await life.create(make_pod(name, **more))
    await life.until_seen("failed", name)


@virtually
async def test_a_bound_pod_is_counted_once_everywhere() -> None:
    seen, metrics = watched()
    async with run_scheduler(make_node("a"), make_pod("web"), metrics=metrics) as life:
        await life.settle()
        assert seen.attempts("scheduled") == 1
        assert seen.attempts("unschedulable") is None
        assert seen.get("scheduler_pod_scheduling_attempts_count") == 1
        sli = "scheduler_pod_scheduling_sli_duration_seconds_count"
        assert seen.get(sli, attempts="1") == 1
        assert seen.incoming() == {("active", "UnschedulablePodAdd"): 1}
        assert seen.get("scheduler_cache_size", type="nodes") == 1
        assert seen.get("scheduler_cache_size", type="pods") == 1
        assert seen.get("scheduler_cache_size", type="assumed_pods") == 0
        assert seen.get("scheduler_goroutines", operation="binding") == 0
        handled = "scheduler_event_handling_duration_seconds_count"
        assert seen.get(handled, event="NodeAdd") == 1
        assert seen.get(handled, event="UnschedulablePodAdd") == 1
        assert seen.get(handled, event="AssignedPodAdd") == 1
        assert seen.get(handled, event="UnschedulablePodDelete") == 1
        points = ("PreEnqueue", "Sign", "PreFilter", "Filter", "Reserve", "Permit")
        # PreBind counts, though no plugin has anything to do there.
        for point in (*points, "PreBind", "Bind", "PostBind"):
            name = "scheduler_framework_extension_point_duration_seconds_count"
            labels = {"profile": PROFILE, "status": "Success", "extension_point": point}
            assert seen.get(name, **labels) == 1, point
        assert b"kube_pod_resource" not in metrics.expose()[0]
        assert metrics.expose_resources()[0] == b""  # it requests nothing


@virtually
async def test_pending_pods_are_counted_by_queue() -> None:
    seen, metrics = watched()
    async with run_scheduler(make_node("a"), metrics=metrics) as life:
        await refuse(life, "big", requests={"cpu": "999"})
        await life.create(make_pod("gated", gates=["example.com/wait"]))
        await life.settle()
        assert seen.pending() == {"unschedulable": 1, "gated": 1}
        assert seen.attempts("unschedulable") == 1
        assert seen.incoming() == {
            ("active", "UnschedulablePodAdd"): 1,
            # A gated pod has come into the queue of the unschedulable ones, as upstream.
            ("unschedulable", "UnschedulablePodAdd"): 1,
            ("unschedulable", "ScheduleAttemptFailure"): 1,
        }
        assert (seen.rejected("NodeResourcesFit"), seen.rejected("SchedulingGates")) == (1, 1)
        await life.client.patch(
            "Pod", "gated", {"spec": {"schedulingGates": None}}, namespace="default"
        )
        await life.until_seen("bound", "gated")
        assert seen.pending() == {"unschedulable": 1}
        assert seen.rejected("SchedulingGates") == 0
        event = "UnschedulablePodUpdatePodSchedulingGatesEliminated"
        assert seen.incoming()["active", event] == 1
        hints = "scheduler_queueing_hint_execution_duration_seconds_count"
        labels = {"plugin": "SchedulingGates", "event": event, "hint": "Queue"}
        assert seen.get(hints, **labels) == 1


@virtually
async def test_a_pod_deleted_from_any_queue_is_rejected_no_more() -> None:
    # kube-scheduler keeps counting pods that are deleted from activeQ and backoffQ.
    seen, metrics = watched()
    queue = QueueOptions(pop_from_backoff=False)
    async with run_scheduler(make_node("a"), metrics=metrics, queue=queue) as life:
        names = [f"big-{number}" for number in range(5)]
        for name in names:
            await refuse(life, name, requests={"cpu": "999"})
        assert seen.rejected("NodeResourcesFit") == 5
        # The new node requeues all of them: they are deleted while they back off.
        await life.create(make_node("b", allocatable={"cpu": "1000", "pods": "10"}))
        await life.until(lambda: life.service.queue.counts()[QueueName.BACKOFF] == 5)
        for name in names:
            await life.delete(name)
        await life.until(lambda: not life.service.queue.pods())
        await life.settle()
        assert seen.rejected("NodeResourcesFit") == 0
        assert seen.pending() == {}


@virtually
async def test_a_pod_bound_after_the_timeout_is_counted() -> None:
    seen, metrics = watched()
    queue = QueueOptions(max_unschedulable_s=10.0, unschedulable_flush_interval_s=5.0)
    plugin = RefusesOnce()
    async with run_scheduler(
        make_node("a"), make_pod("web"), plugins=[plugin], metrics=metrics, queue=queue
    ) as life:
        await life.until_seen("bound", "web")
        assert seen.get("scheduler_pod_scheduled_after_flush_total") == 1
        assert seen.incoming()["active", "UnschedulableTimeout"] == 1
        sli = "scheduler_pod_scheduling_sli_duration_seconds_count"
        assert seen.get(sli, attempts="2") == 1


class RefusesOnce:
    """Rejects the first attempt, and registers for no event."""

    name = "RefusesOnce"

    def __init__(self) -> None:
        self._has_refused = False

    def events(self) -> list[Any]:
        return []

    def pre_filter(self, cycle: Any) -> Any:

        was, self._has_refused = self._has_refused, True
        return None if was else Reject("not yet", resolvable=False)


@virtually
async def test_an_error_is_no_rejection() -> None:
    seen, metrics = watched()
    async with run_scheduler(
        make_node("a"), make_pod("web"), plugins=[FailsOnce()], metrics=metrics
    ) as life:
        await life.until_seen("bound", "web")
        assert (seen.attempts("error"), seen.attempts("scheduled")) == (1, 1)
        assert seen.attempts("unschedulable") is None
        assert seen.get("scheduler_scheduling_algorithm_duration_seconds_count") == 2
        labels = {"plugin": "FailsOnce", "extension_point": "PreFilter"}
        assert seen.get("scheduler_plugin_errors_total", **labels) == 1


class FailsOnce:
    """Raises in the first attempt."""

    name = "FailsOnce"

    def __init__(self) -> None:
        self._has_failed = False

    def pre_filter(self, cycle: Any) -> Any:
        if not self._has_failed:
            self._has_failed = True
            raise RuntimeError("broken")


@virtually
async def test_victims_and_the_end_of_the_evictions_are_recorded() -> None:
    seen, metrics = watched()
    async with preempting(metrics=metrics, instant_deletion=True) as life:
        await life.create(*(pod(f"low-{number}", "low", "500m") for number in range(2)))
        await life.settle()
        await life.create(pod("high", "high"))
        await life.until_seen("bound", "high")
        assert seen.get("scheduler_preemption_victims_sum") == 2
        assert seen.get("scheduler_preemption_victims_count") == 1
        assert seen.get("scheduler_preemption_attempts_total") == 1
        name = "scheduler_preemption_goroutines_execution_total"
        assert seen.get(name, result="success") == 1


@virtually
async def test_a_victim_that_was_deleted_already_is_no_failure_of_the_evictions() -> None:
    seen, metrics = watched()
    async with preempting(metrics=metrics) as life:
        await life.create(pod("old"))
        await life.settle()

        async def delete(request: Request) -> None:
            await life.delete("old")

        life.wire.before.append(on("DELETE", "/pods/old")(delete))
        await life.create(pod("new", "high"))
        await life.until_seen("bound", "new")
        await life.until(lambda: not len(life.service.preemption_executor))
        name = "scheduler_preemption_goroutines_execution_total"
        assert (seen.get(name, result="success"), seen.get(name, result="error")) == (1, None)


@pytest.mark.parametrize("fails", [False, True])
@virtually
async def test_a_nomination_that_could_not_be_cleared_is_a_failure_of_the_evictions(
    fails: bool,
) -> None:
    seen, metrics = watched()
    async with preempting(small(cpu="2"), metrics=metrics) as life:
        await life.create(pod("one", "low"), pod("two", "high"))
        await life.settle()
        await life.create(pod("mid"))
        await life.until(lambda: deletions(life) == ["one"])
        await life.settle()
        metrics.reset()

        async def refuse_to_clear(request: Request) -> None:
            if fails and json.loads(request.body)["status"] == {"nominatedNodeName": None}:
                raise Forbidden("no", status=403)

        life.wire.before.append(on("PATCH", "/pods/mid/status", times=9)(refuse_to_clear))
        await life.create(pod("top", "top", cpu="2"))
        await life.until(lambda: deletions(life) == ["one", "two"])
        await life.until(lambda: not len(life.service.preemption_executor))
        name = "scheduler_preemption_goroutines_execution_total"
        for result, count in (("error", 1 if fails else None), ("success", None if fails else 1)):
            assert seen.get(name, result=result) == count
        # It is retried after its backoff, or waits for the deletion of its victims.
        attempts = len([it for it in life.observer.names("attempted") if it == "top"])
        await asyncio.sleep(15.0)
        more = len([it for it in life.observer.names("attempted") if it == "top"]) - attempts
        assert (more > 0) == fails
        for victim in ("one", "two"):
            await life.delete(victim)
        await life.until_seen("bound", "top")


@virtually
async def test_only_pods_that_wait_in_permit_are_observed() -> None:
    seen, metrics = watched()
    async with run_scheduler(
        make_node("a"), config=FEW_PLUGINS, plugins=[Permits(Wait(60.0))], metrics=metrics
    ) as life:
        await life.create(make_pod("web"))
        await life.until_seen("waits", "web")
        assert "scheduler_permit_wait_duration_seconds" not in parse(metrics.expose()[0])
        point = "scheduler_framework_extension_point_duration_seconds_count"
        labels = {"profile": PROFILE, "extension_point": "Permit"}
        assert seen.get(point, status="Wait", **labels) == 1
        assert seen.get("scheduler_goroutines", operation="binding") == 1
        assert seen.get("scheduler_inflight_events", event="PodPopped") == 1
        [waiting] = list(life.service.handle.waiting)
        waiting.allow("Permits")
        await life.until_seen("bound", "web")
        assert seen.get("scheduler_permit_wait_duration_seconds_count", result="Success") == 1
        await life.settle()
        assert seen.get("scheduler_inflight_events", event="PodPopped") == 0


@virtually
async def test_a_reset_counts_from_now_on() -> None:
    seen, metrics = watched()
    async with run_scheduler(make_node("a"), make_pod("web"), metrics=metrics) as life:
        await refuse(life, "big", requests={"cpu": "999"})
        await life.settle()
        metrics.reset()
        assert "scheduler_queue_incoming_pods_total" not in parse(metrics.expose()[0])
        # What is, is shown again.
        assert seen.pending() == {"unschedulable": 1}
        assert seen.rejected("NodeResourcesFit") == 1
        await life.create(make_pod("web-2"))
        await life.settle()
        assert seen.incoming() == {("active", "UnschedulablePodAdd"): 1}
        assert seen.attempts("scheduled") == 1


def test_a_total_is_shown_since_the_last_reset() -> None:
    numbers: Numbers = Metrics(clock=VirtualClock()).numbers("scheduler_queue_incoming_pods_total")
    totals = Totals(numbers)
    totals.set(3, "active", "NodeAdd")
    numbers.clear()
    totals.reset()
    totals.set(3, "active", "NodeAdd")
    assert numbers.children == {}
    totals.set(5, "active", "NodeAdd")
    totals.set(1, "backoff", "NodeAdd")
    assert {labels: number.value for labels, number in numbers.children.items()} == {
        ("active", "NodeAdd"): 2,
        ("backoff", "NodeAdd"): 1,
    }


@pytest.mark.parametrize("result", ["hit", "miss"])
@virtually
async def test_lookups_in_the_result_cache_are_counted(result: str) -> None:
    seen, metrics = watched()
    async with run_scheduler(make_node("a"), metrics=metrics) as life:
        for number in range(3):
            await life.create(make_pod(f"web-{number}"))
        await life.settle()
        name = "mooring_result_cache_lookups_total"
        expected = {"hit": 2, "miss": 1}[result]
        assert seen.get(name, profile=PROFILE, result=result) == expected
