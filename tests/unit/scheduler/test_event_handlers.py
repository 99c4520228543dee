"""Effects of pod events on cache and queue.

The rules are those of kube-scheduler v1.36.3, pkg/scheduler/eventhandlers.go.
"""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from mooring.cluster_event import ActionType, EventResource
from mooring.framework.waiting_pods import WaitingPod
from mooring.metrics.recorders import SchedulerRecorder
from mooring.plugins import NodeResourcesFit
from mooring.queue import QueueName
from mooring.state import PodInfo
from mooring.state.audit import audit
from mooring.testing import make_node, make_pod
from tests.helpers.event_fixture import ALL, EventFixture, accepts_event, deleting, event, newer


class CountingRecorder(SchedulerRecorder):
    """Records the labels of the events that were handled."""

    def __init__(self) -> None:
        super().__init__()
        self.handled: list[str] = []

    def event_handled(self, event: str, started_s: float) -> None:
        del started_s
        self.handled.append(event)


# ---- pods to be scheduled ----


def test_a_new_pod_of_ours_is_queued_and_everybody_is_told_last() -> None:
    desk = EventFixture()
    desk.pod(None, make_pod("web"))
    assert desk.queue_name("web") is QueueName.ACTIVE
    assert desk.heard == [("Pod", "default/web")]


def test_a_new_pod_of_another_scheduler_is_not() -> None:
    desk = EventFixture()
    theirs = make_pod("web", scheduler_name="other")
    desk.pod(None, theirs)
    desk.pod(theirs, newer(theirs, nominated_node_name=""))
    desk.pod(theirs, None, theirs)
    assert desk.queue.pods() == []


def test_a_pod_without_a_scheduler_name_is_the_default_schedulers() -> None:
    desk = EventFixture()
    desk.pod(None, make_pod("web", scheduler_name=""))
    assert desk.queue_name("web") is QueueName.ACTIVE


def test_a_nomination_that_a_pod_brings_along_counts() -> None:
    desk = EventFixture()
    desk.pod(None, make_pod("web", nominated_node="a"))
    assert desk.cache.nominator.node_of("pod-default-web") == "a"


def test_an_update_replaces_the_queued_version_and_its_nomination() -> None:
    desk = EventFixture()
    old = make_pod("web", nominated_node="a")
    new = newer(
        replace(old, metadata=replace(old.metadata, labels={"x": "y"})), nominated_node_name="b"
    )
    desk.pod(None, old)
    desk.pod(old, new)
    (entry,) = desk.queue.pods()
    assert entry.pod.metadata.labels == {"x": "y"}
    assert desk.cache.nominator.node_of("pod-default-web") == "b"


def test_a_deleted_pod_leaves_queue_and_nominator() -> None:
    desk = EventFixture()
    pod = make_pod("web", nominated_node="a")
    desk.pod(None, pod)
    desk.pod(pod, None, pod)
    assert desk.queue_name("web") is QueueName.NONE
    assert len(desk.cache.nominator) == 0


# ---- pods on nodes ----


def test_a_pod_on_a_node_counts_whosever_it_is() -> None:
    desk = EventFixture()
    desk.node(None, make_node("a"))
    desk.pod(None, make_pod("there", node="a", scheduler_name="other"))
    assert len(desk.cache.pods) == 1
    assert desk.queue.pods() == []
    assert audit(desk.cache) == []


def test_a_pod_may_come_before_its_node() -> None:
    desk = EventFixture()
    desk.pod(None, make_pod("there", node="a", requests={"cpu": "1"}))
    assert audit(desk.cache) == []
    desk.node(None, make_node("a"))
    assert audit(desk.cache) == []
    assert int(desk.cache.nodes.pod_count[desk.cache.nodes.live_row("a")]) == 1


def test_a_pod_that_another_scheduler_binds_leaves_the_queue() -> None:
    desk = EventFixture(accepts_event())
    desk.node(None, make_node("a"))
    pod = make_pod("web")
    desk.add_unschedulable(pod)
    desk.pod(pod, make_pod("web", node="a"))
    assert desk.queue_name("web") is QueueName.NONE
    assert len(desk.cache.pods) == 1


@pytest.mark.parametrize("is_stored", [False, True])
def test_a_pod_that_is_bound_to_another_node_than_its_nominated_one_wakes_its_equals(
    *, is_stored: bool
) -> None:
    desk = EventFixture(accepts_event(event(EventResource.ASSIGNED_POD, ActionType.DELETE)))
    desk.node(None, make_node("a"))
    desk.node(None, make_node("b"))
    pod = make_pod("nominated", priority=10, nominated_node="a" if is_stored else "")
    desk.pod(None, pod)
    assert desk.queue.pop() is not None
    desk.queue.done(pod.metadata.uid)
    if not is_stored:
        desk.cache.nominator.nominate(PodInfo(pod), "a")
    desk.add_unschedulable(make_pod("equal", priority=10))
    desk.add_unschedulable(make_pod("higher", priority=11))
    desk.pod(pod, make_pod("nominated", priority=10, node="b"))
    assert desk.woken == [("equal", "AssignedPodDelete")]


@pytest.mark.parametrize("end", ["deleted", "bound", "nominated"])
def test_the_hints_see_a_nomination_that_was_not_written_yet(end: str) -> None:
    desk = EventFixture(NodeResourcesFit())
    desk.node(None, make_node("a"))
    desk.node(None, make_node("b"))
    pod = make_pod("nominated", requests={"cpu": "1"})
    desk.pod(None, pod)
    assert desk.queue.pop() is not None
    desk.queue.done(pod.metadata.uid)
    desk.cache.nominator.nominate(PodInfo(pod), "a")
    desk.add_unschedulable(make_pod("waiting", requests={"cpu": "1"}), by="NodeResourcesFit")
    new = {
        "deleted": None,
        "bound": make_pod("nominated", requests={"cpu": "1"}, node="b"),
        "nominated": newer(pod, nominated_node_name="b"),
    }[end]
    desk.pod(pod, new, last=pod if new is None else None)
    assert ("waiting", "AssignedPodDelete") in desk.woken


def test_a_pod_that_is_bound_to_its_nominated_node_wakes_no_other() -> None:
    desk = EventFixture(accepts_event(event(EventResource.ASSIGNED_POD, ActionType.DELETE)))
    desk.node(None, make_node("a"))
    pod = make_pod("nominated", nominated_node="a")
    desk.pod(None, pod)
    assert desk.queue.pop() is not None
    desk.queue.done(pod.metadata.uid)
    desk.add_unschedulable(make_pod("equal"))
    desk.pod(pod, make_pod("nominated", node="a"))
    assert desk.woken == []


def test_the_news_that_a_pod_is_where_we_assumed_it_confirms_it() -> None:
    desk = EventFixture()
    desk.node(None, make_node("a"))
    pod = make_pod("web")
    desk.assume(pod)
    assert desk.cache.assumed_count() == 1
    desk.pod(pod, make_pod("web", node="a"))
    assert desk.cache.assumed_count() == 0
    assert len(desk.cache.pods) == 1


def test_the_news_that_a_pod_is_elsewhere_moves_it_and_ends_its_wait() -> None:
    desk = EventFixture()
    desk.node(None, make_node("a"))
    desk.node(None, make_node("b"))
    pod = make_pod("web")
    desk.assume(pod)
    waiting = WaitingPod(PodInfo(pod), "a", {"P": 60.0}, 1000.0)
    desk.waiting.add(waiting)
    desk.pod(pod, make_pod("web", node="b"))
    placed = desk.cache.pods.get("pod-default-web")
    assert placed is not None
    assert placed.info.node_name == "b"
    assert desk.cache.assumed_count() == 0
    assert "assigned to node b by another scheduler" in str(waiting.status)
    assert audit(desk.cache) == []


def test_labels_that_changed_at_the_binding_are_taken_in() -> None:
    desk = EventFixture()
    desk.node(None, make_node("a"))
    pod = make_pod("web")
    desk.assume(pod)
    desk.pod(pod, make_pod("web", node="a", labels={"x": "y"}))
    placed = desk.cache.pods.get("pod-default-web")
    assert placed is not None
    assert placed.info.metadata.labels == {"x": "y"}
    assert audit(desk.cache) == []


def test_a_pod_made_anew_on_a_node_takes_the_place_of_the_old_one() -> None:
    desk = EventFixture()
    desk.node(None, make_node("a"))
    old = make_pod("web", uid="old", node="a")
    desk.pod(None, old)
    desk.pod(old, None)
    desk.pod(None, make_pod("web", uid="new", node="a"))
    assert [placed.info.uid for placed in desk.cache.pods] == ["new"]
    assert audit(desk.cache) == []


def test_a_pod_that_is_gone_from_its_node_wakes_those_that_want_its_room() -> None:
    desk = EventFixture(accepts_event(event(EventResource.ASSIGNED_POD, ActionType.DELETE)))
    desk.node(None, make_node("a"))
    there = make_pod("there", node="a")
    desk.pod(None, there)
    desk.add_unschedulable(make_pod("web"))
    desk.pod(there, None, there)
    assert desk.woken == [("web", "AssignedPodDelete")]
    assert len(desk.cache.pods) == 0


def test_a_pod_whose_binding_and_end_were_both_missed_wakes_them_too() -> None:
    desk = EventFixture(accepts_event(event(EventResource.ASSIGNED_POD, ActionType.DELETE)))
    desk.node(None, make_node("a"))
    pod = make_pod("gone", uid="gone")
    desk.pod(None, pod)
    assert desk.queue.pop() is not None
    desk.queue.done("gone")
    desk.add_unschedulable(make_pod("web"))
    # We had it as pending; its last state is on a node.
    desk.pod(pod, None, make_pod("gone", uid="gone", node="a"))
    assert desk.woken == [("web", "AssignedPodDelete")]


@pytest.mark.parametrize(
    ("change", "label"),
    [
        ({"labels": {"x": "y"}}, "AssignedPodUpdatePodLabel"),
        ({"requests": {"cpu": "1"}}, "AssignedPodUpdatePodScaleDown"),
        ({"tolerations": ["a:NoSchedule"]}, "AssignedPodUpdatePodToleration"),
    ],
)
def test_what_changed_of_a_pod_on_a_node_is_what_wakes(change: Any, label: str) -> None:
    desk = EventFixture(accepts_event(event(EventResource.POD, ActionType.UPDATE)))
    desk.node(None, make_node("a"))
    before = make_pod("there", node="a", requests={"cpu": "2"})
    after = make_pod("there", node="a", **{"requests": {"cpu": "2"}, **change})
    desk.pod(None, before)
    desk.add_unschedulable(make_pod("web"))
    desk.pod(before, after)
    assert desk.woken == [("web", label)]
    assert audit(desk.cache) == []


def test_the_second_of_two_changes_of_a_pod_on_a_node_wakes_too() -> None:
    action = ActionType.UPDATE_POD_SCALE_DOWN
    desk = EventFixture(accepts_event(event(EventResource.ASSIGNED_POD, action)))
    desk.node(None, make_node("a"))
    before = make_pod("there", node="a", requests={"cpu": "2"})
    desk.pod(None, before)
    desk.add_unschedulable(make_pod("web"))
    desk.pod(before, make_pod("there", node="a", requests={"cpu": "1"}, labels={"x": "y"}))
    assert desk.woken == [("web", "AssignedPodUpdatePodScaleDown")]


def test_the_second_of_two_changes_of_a_node_wakes_too() -> None:
    action = ActionType.UPDATE_NODE_TAINT
    desk = EventFixture(accepts_event(event(EventResource.NODE, action)))
    before = make_node("a", taints=["a:NoSchedule"])
    desk.node(None, before)
    desk.add_unschedulable(make_pod("web"))
    desk.node(before, make_node("a", labels={"x": "y"}))
    assert desk.woken == [("web", "NodeUpdateNodeTaint")]


# ---- assumed pods ----


def test_news_of_a_pod_on_its_way_is_none() -> None:
    desk = EventFixture(accepts_event(ALL))
    desk.node(None, make_node("a"))
    pod = make_pod("web")
    desk.assume(pod)
    desk.pod(pod, newer(pod, nominated_node_name="a"))
    assert desk.queue_name("web") is QueueName.NONE
    assert len(desk.cache.nominator) == 0
    assert desk.cache.assumed_count() == 1


def test_an_assumed_pod_that_is_bound_to_another_node_frees_its_room_at_once() -> None:
    desk = EventFixture(NodeResourcesFit())
    desk.node(None, make_node("a"))
    desk.node(None, make_node("b"))
    pod = make_pod("web", requests={"cpu": "1"})
    desk.assume(pod, "a")
    desk.add_unschedulable(make_pod("waiting", requests={"cpu": "1"}), by="NodeResourcesFit")
    desk.pod(pod, make_pod("web", requests={"cpu": "1"}, node="b"))
    assert desk.woken == [("waiting", "AssignedPodDelete")]
    assert audit(desk.cache) == []


def test_the_changes_of_an_assumed_pod_are_counted_like_those_of_any_pending_pod() -> None:
    recorder = CountingRecorder()
    desk = EventFixture(recorder=recorder)
    desk.node(None, make_node("a"))
    pod = make_pod("web")
    desk.assume(pod)
    recorder.handled.clear()
    labels = replace(pod.metadata, labels={"tier": "gold"}, resource_version="2")
    desk.pod(pod, replace(pod, metadata=labels))
    assert sorted(recorder.handled) == [
        "UnschedulablePodUpdate",
        "UnschedulablePodUpdatePodLabel",
    ]


@pytest.mark.parametrize("is_gone", [False, True])
def test_a_pod_that_is_deleted_on_its_way_gives_its_room_back(is_gone: bool) -> None:
    desk = EventFixture(accepts_event(event(EventResource.ASSIGNED_POD, ActionType.DELETE)))
    desk.node(None, make_node("a"))
    pod = make_pod("web")
    desk.assume(pod)
    desk.add_unschedulable(make_pod("next"))
    if is_gone:
        desk.pod(pod, None, pod)
    else:
        desk.pod(pod, deleting(pod))
    assert desk.cache.assumed_count() == 0
    assert len(desk.cache.pods) == 0
    assert desk.woken == [("next", "AssignedPodDelete")]
    if not is_gone:
        desk.pod(deleting(pod), None, deleting(pod))
    assert audit(desk.cache) == []


def test_a_pod_that_is_deleted_while_permit_holds_it_is_rejected_and_keeps_its_room() -> None:
    desk = EventFixture(accepts_event(event(EventResource.ASSIGNED_POD, ActionType.DELETE)))
    desk.node(None, make_node("a"))
    pod = make_pod("web")
    desk.assume(pod)
    waiting = WaitingPod(PodInfo(pod), "a", {"P": 60.0}, 1000.0)
    desk.waiting.add(waiting)
    desk.pod(pod, deleting(pod))
    # The binding cycle releases it, once.
    assert "removed" in str(waiting.status)
    assert desk.cache.assumed_count() == 1


def test_a_pod_that_is_deleted_after_permit_has_allowed_it_is_released_at_once() -> None:
    desk = EventFixture(accepts_event(event(EventResource.ASSIGNED_POD, ActionType.DELETE)))
    desk.node(None, make_node("a"))
    pod = make_pod("web")
    desk.assume(pod)
    waiting = WaitingPod(PodInfo(pod), "a", {"P": 60.0}, 1000.0)
    desk.waiting.add(waiting)
    waiting.allow("P")  # its binding cycle has not come to the wait yet
    desk.pod(pod, None, pod)
    assert desk.cache.assumed_count() == 0
    assert audit(desk.cache) == []


# ---- nominations that end ----


@pytest.mark.parametrize("is_gone", [False, True])
def test_the_end_of_a_nomination_wakes_pods_of_no_more_importance(is_gone: bool) -> None:
    desk = EventFixture(accepts_event(event(EventResource.ASSIGNED_POD, ActionType.DELETE)))
    for name, priority in (("higher", 9), ("equal", 5), ("lower", 1)):
        desk.add_unschedulable(make_pod(name, priority=priority))
    holder = make_pod("holder", priority=5, nominated_node="a")
    desk.pod(None, holder)
    desk.woken.clear()
    if is_gone:
        desk.pod(holder, None, holder)
    else:
        desk.pod(holder, newer(holder, nominated_node_name=""))
    woken = [name for name, why in desk.woken if why == "AssignedPodDelete"]
    assert woken == ["equal", "lower"]


def test_a_nomination_in_memory_alone_counts_when_its_pod_goes() -> None:
    desk = EventFixture(accepts_event(event(EventResource.ASSIGNED_POD, ActionType.DELETE)))
    desk.add_unschedulable(make_pod("web"))
    holder = make_pod("holder")
    desk.pod(None, holder)
    desk.cache.nominator.nominate(PodInfo(holder), "a")
    desk.woken.clear()
    desk.pod(holder, None, holder)
    assert ("web", "AssignedPodDelete") in desk.woken


def test_a_server_that_has_gone_back_in_time_unbinds_a_pod() -> None:
    """As after etcd was restored from a backup: what was bound since is pending again."""
    desk = EventFixture(accepts_event(event(EventResource.ASSIGNED_POD, ActionType.DELETE)))
    desk.node(None, make_node("a"))
    there = make_pod("there", node="a")
    desk.pod(None, there)
    desk.add_unschedulable(make_pod("web"))
    desk.pod(there, make_pod("there"))
    assert desk.queue_name("there") is QueueName.ACTIVE
    assert len(desk.cache.pods) == 0
    assert ("web", "AssignedPodDelete") in desk.woken
    assert audit(desk.cache) == []


def test_a_pod_of_another_scheduler_that_has_lost_its_binding_frees_its_room() -> None:
    """It may be bound to another node then: a pod that counts on two would end the process."""
    desk = EventFixture(accepts_event(event(EventResource.ASSIGNED_POD, ActionType.DELETE)))
    desk.node(None, make_node("a"))
    desk.node(None, make_node("b"))
    bound = make_pod("there", node="a", scheduler_name="other")
    pending = make_pod("there", scheduler_name="other")
    desk.pod(None, bound)
    desk.add_unschedulable(make_pod("web"))
    desk.pod(bound, pending)
    assert len(desk.cache.pods) == 0
    assert ("web", "AssignedPodDelete") in desk.woken
    desk.pod(pending, make_pod("there", node="b", scheduler_name="other"))
    assert audit(desk.cache) == []


def test_an_update_of_a_pod_whose_addition_was_missed_is_its_addition_too() -> None:
    desk = EventFixture(accepts_event(event(EventResource.ASSIGNED_POD, ActionType.ADD)))
    desk.node(None, make_node("a"))
    desk.add_unschedulable(make_pod("web"))
    before, after = make_pod("there", node="a"), make_pod("there", node="a", labels={"x": "y"})
    desk.pod(before, after)
    assert desk.woken == [("web", "AssignedPodAdd")]
    assert len(desk.cache.pods) == 1


def test_an_update_of_a_pod_whose_addition_was_missed_wakes_as_any_update() -> None:
    desk = EventFixture(accepts_event(event(EventResource.POD, ActionType.UPDATE_POD_LABEL)))
    desk.node(None, make_node("a"))
    desk.add_unschedulable(make_pod("web"))
    before, after = make_pod("there", node="a"), make_pod("there", node="a", labels={"x": "y"})
    desk.pod(before, after)
    assert desk.woken == [("web", "AssignedPodUpdatePodLabel")]


def test_an_update_of_a_pod_whose_binding_was_missed_takes_it_out_of_the_queue() -> None:
    desk = EventFixture()
    desk.node(None, make_node("a"))
    desk.pod(None, make_pod("web"))
    bound = make_pod("web", node="a")
    desk.pod(bound, newer(bound, phase="Running"))
    assert desk.queue_name("web") is QueueName.NONE
    assert len(desk.cache.pods) == 1
