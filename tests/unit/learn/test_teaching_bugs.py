"""The thirteen bugs of the teaching schedulers (reference: systems, section 1.5), done right here.

Each test has the bug's number and name. Where a bug belongs to a part that comes late, the test is
about the steps that have the part.
"""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from mooring.learn.steps.step_3 import last_digit
from mooring.queue import QueueName
from mooring.state import PodInfo
from mooring.testing import make_pod
from tests.helpers.lesson_fixture import STEPS, Lab, in_lab, lab, virtually, working

WITH_PERMIT, WITH_QUEUE, WITH_EVENTS = (5, 6, 7, 8), (6, 7, 8), (7, 8)


@pytest.mark.parametrize("step", WITH_EVENTS)
@pytest.mark.parametrize("a_node_comes", [True, False])
def test_bug_1_an_event_in_the_middle_of_an_attempt_is_not_lost(
    step: int, a_node_comes: bool
) -> None:
    async def play(found: Lab) -> QueueName:
        await found.runner.nodes([9])
        await found.runner.pods("pod1")
        await found.runner.until("pod1", "waiting")
        if a_node_comes:
            await found.runner.nodes([8])
        uid = (await found.pod("pod1")).metadata.uid
        found.scheduler.handle.waiting_pod(uid).reject("NodeNumber", "no")
        await asyncio.sleep(0.1)
        queue_name: QueueName = found.scheduler.queue.queue_of(uid)
        return queue_name

    expected = QueueName.BACKOFF if a_node_comes else QueueName.UNSCHEDULABLE
    assert in_lab(step, play) is expected


def test_bug_2_who_was_flushed_is_tried_though_nothing_else_happens() -> None:
    async def play(found: Lab) -> None:
        await found.runner.nodes(range(3), cordoned=True)
        await found.runner.pods("pod1")
        await asyncio.sleep(299.0)
        assert found.words("pod1", "popped") == ["popped"]

        await asyncio.sleep(4.0)
        moved, popped = found.lines("pod1", "active", "popped")[-2:]
        assert (moved.what, moved.detail) == ("active", "UnschedulableTimeout")
        assert (popped.what, popped.detail) == ("popped", "attempt 2")
        assert popped.time_s == moved.time_s

    in_lab(8, play)


def test_bug_3_a_long_backoff_holds_up_no_short_one() -> None:
    async def play(found: Lab) -> None:
        queue = found.scheduler.queue
        for name, attempts in (("long", 4), ("short", 1)):
            queue.add(PodInfo(make_pod(name, uid=name)))
            for _ in range(attempts):
                entry = queue.pop()
                queue.add_unschedulable(entry, entry.pod)  # an error: 1 s, 2 s, 4 s, 8 s
                assert queue.queue_of(name) is QueueName.BACKOFF
                if entry.attempts < attempts:
                    queue.activate([name])
        await asyncio.sleep(1.5)
        queue.flush()
        assert queue.queue_of("short") is QueueName.ACTIVE
        assert queue.queue_of("long") is QueueName.BACKOFF

    async def work() -> None:
        # Not at work: what is in its queue is no pod of the server's.
        await play(Lab(8, 0, lambda _method, _path: None))

    virtually(work)


def test_bug_4_attempts_are_counted_and_backoff_doubles() -> None:
    def refuses_bindings(method: str, path: str) -> Any:
        return (403, {}, b"{}") if path.endswith("/binding") else None

    async def play(found: Lab) -> None:
        await found.runner.nodes([10])
        await found.runner.pods("pod1")
        await asyncio.sleep(40.0)
        popped = found.lines("pod1", "popped")
        assert [line.detail for line in popped] == [f"attempt {n}" for n in range(1, 7)]
        waits = [after.time_s - before.time_s for before, after in pairwise(popped)]
        for wait_s, backoff_s in zip(waits, (1, 2, 4, 8, 10), strict=True):
            assert backoff_s <= wait_s <= backoff_s + 1.01  # it is looked at once a second

    in_lab(8, play, fault=refuses_bindings)


@pytest.mark.parametrize("step", STEPS)
def test_bug_5_a_scheduler_that_is_stopped_ends_and_another_one_takes_over(step: int) -> None:
    async def work() -> None:
        tasks_before = len(asyncio.all_tasks())
        async with lab(step) as found:
            await found.runner.nodes([10])
            await found.runner.pods("pod1")
            await found.runner.until_bound("pod1")
        assert len(asyncio.all_tasks()) == tasks_before

        for name in ("pod2", "pod3"):
            found.runner.scheduler = found.new_scheduler()
            async with working(found.runner.scheduler):
                await found.runner.pods(name)
                await found.runner.until_bound(name)
            assert len(asyncio.all_tasks()) == tasks_before
        assert found.runner.failures == []

    virtually(work)


@pytest.mark.parametrize("step", WITH_PERMIT)
def test_bug_6_plugins_belong_to_one_scheduler(step: int) -> None:
    async def work() -> None:
        async with lab(step) as found:
            await found.runner.nodes([3])
            await found.runner.pods("pod1")
            await found.runner.until("pod1", "waiting")
        # Stopped while pod1 waits: the next one waits anew, with a plugin and a timer of its own.
        await asyncio.sleep(1.0)
        async with working(found.new_scheduler()):
            await found.runner.until_bound("pod1")
        first, second = found.lines("pod1", "waiting")
        (bound,) = found.lines("pod1", "bound")
        assert bound.time_s - second.time_s == pytest.approx(3.0, abs=0.1)
        assert first.time_s < second.time_s

    virtually(work)


@pytest.mark.parametrize("step", WITH_PERMIT)
def test_bug_7_many_pods_wait_at_the_same_time(step: int) -> None:
    async def play(found: Lab) -> None:
        await found.runner.nodes(range(1, 10))
        names = [f"pod{number}" for number in range(100)]
        await found.runner.pods(*names)
        await found.runner.until_bound(*names)
        assert found.runner.failures == []
        for name in names:
            (waiting,), (bound,) = found.lines(name, "waiting"), found.lines(name, "bound")
            expected_s = int(bound.node[-1])
            assert bound.time_s - waiting.time_s == pytest.approx(expected_s, abs=0.2)
        assert not list(found.scheduler.handle.waiting_pods())

    in_lab(step, play)


@pytest.mark.parametrize("step", WITH_PERMIT)
def test_bug_8_no_wait_at_all_and_a_pod_that_has_left_its_wait(step: int) -> None:
    async def play(found: Lab) -> None:
        await found.runner.nodes([10])
        await found.runner.pods("pod1")
        await found.runner.until_bound("pod1")
        assert "waiting" not in found.words("pod1")

        await found.client.delete("Node", "node10")
        await found.runner.nodes([2])
        await found.runner.pods("gone", "pod2")
        await found.runner.until("gone", "waiting")
        await found.delete("gone")
        await found.runner.until_bound("pod2")
        assert "bound" not in found.words("gone")

    in_lab(step, play)


def is_forgotten(found: Lab, uid: str) -> bool:
    """Returns whether nothing of a pod is left in queue, Permit or cache."""
    scheduler = found.scheduler
    return (
        scheduler.queue.queue_of(uid) is QueueName.NONE
        and scheduler.handle.waiting_pod(uid) is None
        and scheduler.cache.pods.get(uid) is None
    )


@pytest.mark.parametrize("step", WITH_QUEUE)
@pytest.mark.parametrize("queue_name", ["unschedulable", "backoff", "waiting"])
def test_bug_9_a_deleted_pod_is_never_tried_again(step: int, queue_name: str) -> None:
    if queue_name == "backoff" and step == 6:
        return  # no pod is requeued there

    async def play(found: Lab) -> None:
        if queue_name == "waiting":
            await found.runner.nodes([9])
        else:
            await found.runner.nodes([0], cordoned=True)
        await found.runner.pods("pod1")
        await found.runner.until(
            "pod1", *({"waiting"} if queue_name == "waiting" else {"unschedulable", "failed"})
        )
        if queue_name == "backoff":
            await found.runner.nodes([5])
            await found.runner.until("pod1", "backoff")
        uid = (await found.pod("pod1")).metadata.uid

        await found.delete("pod1")
        await asyncio.sleep(30.0)
        await found.runner.nodes([1])
        await asyncio.sleep(330.0)
        assert found.words("pod1", "popped") == ["popped"]
        assert "bound" not in found.words("pod1")
        assert is_forgotten(found, uid)

    in_lab(step, play)


@pytest.mark.parametrize("step", STEPS)
def test_bug_9_a_pod_that_another_scheduler_has_bound_is_ignored(step: int) -> None:
    async def play(found: Lab) -> None:
        await found.runner.nodes([0], cordoned=True)
        if step == 1:
            await found.client.delete("Node", "node0")
            await asyncio.sleep(0.1)
        await found.runner.pods("pod1")
        await found.runner.until("pod1", "unschedulable", "failed")
        await found.client.bind(await found.pod("pod1"), "node0")
        await asyncio.sleep(0.1)
        pod_lines = len(found.lines("pod1"))
        await found.runner.nodes([10])
        await asyncio.sleep(330.0)
        assert len(found.lines("pod1")) == pod_lines

    in_lab(step, play)


@pytest.mark.parametrize("step", WITH_EVENTS)
def test_bug_10_a_pod_made_anew_under_its_name_is_another_pod(step: int) -> None:
    async def play(found: Lab) -> None:
        await found.runner.nodes([0], cordoned=True)
        await found.runner.pods("pod1")
        await found.runner.until("pod1", "unschedulable", "failed")
        old = (await found.pod("pod1")).metadata.uid
        await found.delete("pod1")
        await found.runner.pods("pod1")
        await asyncio.sleep(0.1)
        new = (await found.pod("pod1")).metadata.uid

        assert new != old
        assert found.scheduler.queue.queue_of(old) is QueueName.NONE
        assert found.scheduler.queue.get(new).attempts == 1
        await asyncio.sleep(3.0)
        await found.runner.nodes([10])
        await found.runner.until_bound("pod1")
        assert found.words("pod1", "bound") == ["bound"]

    in_lab(step, play)


@pytest.mark.parametrize("step", WITH_EVENTS)
def test_bug_10_what_is_changed_of_a_waiting_pod_counts(step: int) -> None:
    async def play(found: Lab) -> None:
        await found.runner.nodes([0], cordoned=True)
        await found.runner.pods("pod1")
        await found.runner.until("pod1", "unschedulable", "failed")
        await asyncio.sleep(3.0)
        key = "node.kubernetes.io/unschedulable"
        tolerations = [{"key": key, "operator": "Exists", "effect": "NoSchedule"}]
        patch = {"spec": {"tolerations": tolerations}}
        await found.client.patch("Pod", "pod1", patch, namespace="default")
        await found.runner.until_bound("pod1")
        assert found.runner.failures == []
        assert found.lines("pod1", "active")[-1].detail == "UnschedulablePodUpdatePodToleration"

    in_lab(step, play)


def test_bug_11_a_pod_counts_on_its_node_before_it_is_bound() -> None:
    async def play(found: Lab) -> None:
        cache = found.scheduler.cache
        await found.runner.nodes([4])
        await found.runner.pods("pod1", "pod2")
        await found.runner.until("pod2", "waiting")
        uid = (await found.pod("pod1")).metadata.uid
        assert cache.assumed_count() == 2
        assert int(cache.nodes.pod_count[cache.nodes.row("node4")]) == 2

        found.scheduler.handle.waiting_pod(uid).reject("NodeNumber", "no")
        await asyncio.sleep(0.1)
        assert cache.assumed_count() == 1
        await found.runner.until_bound("pod2")
        await asyncio.sleep(0.1)
        assert cache.assumed_count() == 0
        assert int(cache.nodes.pod_count[cache.nodes.row("node4")]) == 1

    in_lab(8, play)


def test_bug_12_owners_are_reported_by_events_and_a_condition() -> None:
    async def play(found: Lab) -> None:
        await found.runner.nodes([0], cordoned=True)
        await found.runner.pods("pod1")
        await found.runner.until("pod1", "unschedulable", "failed")
        await asyncio.sleep(3.0)
        condition = next(
            each
            for each in (await found.pod("pod1")).status.conditions
            if each.type == "PodScheduled"
        )
        assert (condition.status, condition.reason) == ("False", "Unschedulable")
        assert condition.message == "0/1 nodes are available: 1 node(s) were unschedulable."

        await found.runner.nodes([10])
        await found.runner.until_bound("pod1")
        await asyncio.sleep(1.0)
        events = (await found.client.list("Event", "default")).items
        pod_lines = {(event.reason, event.type, event.note) for event in events}
        assert pod_lines == {
            ("FailedScheduling", "Warning", condition.message),
            ("Scheduled", "Normal", "Successfully assigned default/pod1 to node10"),
        }

    in_lab(8, play)


@pytest.mark.parametrize("step", STEPS)
def test_bug_12_pods_of_other_schedulers_are_left_alone(step: int) -> None:
    async def play(found: Lab) -> None:
        await found.runner.nodes([10])
        pod = make_pod("theirs", scheduler_name="another")
        await found.client.create(pod)
        await found.runner.pods("pod1")
        await found.runner.until_bound("pod1")
        await asyncio.sleep(20.0)
        assert found.lines("theirs") == []
        assert (await found.pod("theirs")).spec.node_name == ""

    in_lab(step, play)


@pytest.mark.parametrize("step", STEPS)
def test_bug_13_without_any_node_a_pod_waits_for_one(step: int) -> None:
    async def play(found: Lab) -> None:
        await found.runner.pods("pod1")
        await found.runner.until("pod1", "unschedulable", "backoff", "failed")
        failed = found.lines("pod1", "failed")[0]
        assert failed.detail == "no nodes available to schedule pods"
        await asyncio.sleep(3.0)
        await found.runner.nodes([10])
        await asyncio.sleep(3.0)
        # In step 6 nothing wakes a pod yet; in all others it is bound.
        assert ("bound" in found.words("pod1")) is (step not in (6, 7))

    in_lab(step, play)


@pytest.mark.parametrize(
    ("name", "digit"), [("", ""), ("7", "7"), ("pod", ""), ("pod10", "0"), ("a1b", "")]
)
def test_bug_13_a_name_may_be_empty_or_have_no_number(name: str, digit: str) -> None:
    assert last_digit(name) == digit


@pytest.mark.parametrize("step", STEPS)
def test_a_pod_without_a_number_is_scheduled(step: int) -> None:
    """Step 4 of the original fails on it: a plugin that notes nothing finds nothing."""

    async def play(found: Lab) -> None:
        await found.runner.nodes([10, 20])
        await found.runner.pods("web")
        await found.runner.until_bound("web")
        assert found.runner.failures == []
        scores = {line.node: line.detail for line in found.lines("web", "scored")}
        assert scores == ({} if step < 3 else {"node10": "0", "node20": "0"})

    in_lab(step, play)
