"""The audit of a running scheduler's cache: what it finds, repairs and leaves alone."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mooring.clock import VirtualClock
from mooring.objects import Node, Pod
from mooring.objects.meta import key
from mooring.queue import QueueName
from mooring.scheduler.debugger import CacheAudit
from mooring.scheduler.debugger.audit import CONFIRM_S, NODES_PER_PASS, OBJECTS_PER_CHECK
from mooring.state.audit import audit
from mooring.testing import make_node, make_pod
from tests.helpers.event_fixture import EventFixture, deleting


class Audited:
    """A scheduler's cache, and the objects that its informers have."""

    def __init__(self, *objects: Node | Pod) -> None:
        self.desk = EventFixture()
        self.objects: dict[str, dict[str, Any]] = {"Node": {}, "Pod": {}}
        self.slept_s: list[float] = []
        #: Called when the audit waits to confirm what it suspects.
        self.meanwhile: list[Any] = []
        for obj in objects:
            self.add(obj)
        self.audit = CacheAudit(
            self.desk.cache,
            self.desk.queue,
            self.desk.handlers,
            self.objects.__getitem__,
            self.desk.profiles,
            clock=self.desk.clock,
            sleep=self.sleep,
        )

    async def sleep(self, seconds: float) -> None:
        self.slept_s.append(seconds)
        if seconds == CONFIRM_S:
            for action in self.meanwhile:
                action()

    def add(self, obj: Node | Pod, *, is_missed: bool = False) -> None:
        """Adds an object; the scheduler gets no event of one that is missed."""
        self.objects[type(obj).__name__][key(obj)] = obj
        if not is_missed:
            self.deliver(obj)

    def deliver(self, obj: Node | Pod) -> None:
        """Delivers the event of a new object."""
        if isinstance(obj, Node):
            self.desk.node(None, obj)
        else:
            self.desk.pod(None, obj)

    def run(self) -> dict[str, int]:
        """Runs one pass; returns the differences found."""
        before = self.audit.statistics()
        asyncio.run(self.audit.run_once())
        return {
            name: count - before[name]
            for name, count in self.audit.statistics().items()
            if count > before[name]
        }


def usual() -> Audited:
    desk = Audited(make_node("a"), make_node("b"), make_pod("placed", node="a"))
    desk.desk.assume(make_pod("assumed"))
    desk.objects["Pod"]["default/assumed"] = make_pod("assumed")
    desk.add(make_pod("waits"))
    other = make_pod("other", spec={"schedulerName": "other"})
    desk.add(other)
    desk.add(make_pod("done", node="a", status={"phase": "Succeeded"}))
    return desk


def test_an_intact_cache_is_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    desk = usual()
    assert desk.run() == {}
    assert CONFIRM_S not in desk.slept_s
    assert (desk.audit.passes, caplog.records) == (1, [])


def test_a_missed_node_is_added_and_helps_pods(caplog: pytest.LogCaptureFixture) -> None:
    desk = usual()
    desk.add(make_node("c"), is_missed=True)
    assert desk.run() == {"node": 1}
    assert desk.desk.cache.nodes.live_row("c") >= 0
    (record,) = map(vars, caplog.records)
    assert (record["levelname"], record["object"]) == ("ERROR", "c")
    assert record["problem"] == "missing in the cache"
    assert desk.run() == {}


def test_a_deleted_node_is_removed() -> None:
    desk = usual()
    del desk.objects["Node"]["b"]
    assert desk.run() == {"node": 1}
    assert desk.desk.cache.nodes.live_row("b") < 0
    assert desk.run() == {}


@pytest.mark.parametrize("node_name", ["", "a"])
def test_a_missed_pod_is_added(node_name: str) -> None:
    desk = usual()
    desk.add(make_pod("new", node=node_name), is_missed=True)
    assert desk.run() == {"pod": 1}
    uid = "pod-default-new"
    is_queued = desk.desk.queue.queue_of(uid) is QueueName.ACTIVE
    assert (is_queued, desk.desk.cache.pods.get(uid) is not None) == (
        not node_name,
        bool(node_name),
    )
    assert desk.run() == {}


@pytest.mark.parametrize("name", ["placed", "waits"])
def test_a_deleted_pod_is_removed(name: str) -> None:
    desk = usual()
    del desk.objects["Pod"][f"default/{name}"]
    assert desk.run() == {"pod": 1}
    assert desk.desk.cache.pods.get(f"pod-default-{name}") is None
    assert desk.desk.queue_name(name) is QueueName.NONE
    assert audit(desk.desk.cache) == []


def test_an_event_that_arrives_later_is_no_difference() -> None:
    desk = usual()
    pod = make_pod("new")
    desk.add(pod, is_missed=True)
    desk.meanwhile.append(lambda: desk.desk.pod(None, pod))
    assert desk.run() == {}
    assert CONFIRM_S in desk.slept_s


def test_changes_that_are_buffered_are_no_difference() -> None:
    desk = usual()
    with desk.desk.handlers.buffer_events():
        desk.add(make_node("c"))
        assert desk.run() == {}
    assert desk.run() == {}


def test_a_pod_in_flight_is_no_difference() -> None:
    desk = usual()
    entry = desk.desk.queue.pop()
    assert entry is not None
    with desk.desk.queue.in_flight(entry):
        assert desk.run() == {}
        desk.desk.queue.add_unschedulable(entry, entry.pod, refused_by=["Refuser"])


def test_wrong_usage_is_summed_up_again(caplog: pytest.LogCaptureFixture) -> None:
    desk = usual()
    desk.add(make_pod("big", node="b", requests={"cpu": "2", "memory": "1Gi"}))
    row = desk.desk.cache.nodes.row("b")
    desk.desk.cache.nodes._requested[:, row] += 7
    desk.desk.cache.nodes._pod_count[row] = 5
    assert desk.run() == {"usage": 1}
    assert audit(desk.desk.cache) == []
    (record,) = map(vars, caplog.records)
    assert "requested cpu is 2007, should be 2000" in record["problems"]
    assert "repaired" in record["message"]


def test_what_cannot_be_repaired_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    desk = usual()
    desk.desk.cache.nodes._unschedulable[desk.desk.cache.nodes.row("a")] = True
    assert desk.run() == {"other": 1}
    (record,) = map(vars, caplog.records)
    assert "restart the scheduler" in record["message"]
    assert "unschedulable is True, should be False" in record["problems"]


def test_a_pass_audits_some_nodes_and_the_next_one_goes_on() -> None:
    desk = Audited(*(make_node(f"n{number}") for number in range(NODES_PER_PASS + 10)))
    nodes = desk.desk.cache.nodes
    wrong = [0, NODES_PER_PASS - 1, NODES_PER_PASS, NODES_PER_PASS + 9]
    for row in wrong:
        nodes._pod_count[row] = 1
    assert desk.run() == {"usage": 2}
    assert desk.run() == {"usage": 2}
    assert audit(desk.desk.cache) == []


class _SlowClock(VirtualClock):
    """A clock on which every reading takes 2 ms."""

    def monotonic_s(self) -> float:
        self.advance(0.002)
        return super().monotonic_s()


def test_a_pass_gives_way_between_slices_and_events_meanwhile_are_no_difference() -> None:
    desk = Audited(*(make_pod(f"p{number}") for number in range(3 * OBJECTS_PER_CHECK)))
    desk.add(make_pod("missed"), is_missed=True)
    turns: list[int] = []

    async def sleep(seconds: float) -> None:
        desk.slept_s.append(seconds)
        turns.append(len(turns))
        if len(turns) == 2:
            desk.add(make_pod("newcomer"))
            del desk.objects["Pod"]["default/p1"]
            desk.desk.pod(make_pod("p1"), None)

    desk.audit = CacheAudit(
        desk.desk.cache,
        desk.desk.queue,
        desk.desk.handlers,
        desk.objects.__getitem__,
        desk.desk.profiles,
        clock=_SlowClock(),
        sleep=sleep,
    )

    assert desk.run() == {"pod": 1}
    assert len(turns) >= 6
    assert desk.run() == {}


def test_a_pod_created_again_under_its_name_is_another_pod() -> None:
    desk = usual()
    again = make_pod("placed", uid="another", node="b")
    desk.objects["Pod"]["default/placed"] = again

    assert desk.run()["pod"] >= 1

    assert desk.desk.cache.pods.get("pod-default-placed") is None
    assert desk.desk.cache.pods.get("another") is not None
    assert audit(desk.desk.cache) == []


def test_a_deleted_pod_that_an_attempt_has_skipped_is_no_difference() -> None:
    desk = usual()
    desk.objects["Pod"]["default/ending"] = deleting(make_pod("ending"))
    assert desk.run() == {}
    desk.objects["Pod"]["default/placed-too"] = deleting(make_pod("placed-too", node="a"))
    assert desk.run() == {"pod": 1}
