"""Effects of events of nodes and other kinds, and the buffer of events.

The rules are those of kube-scheduler v1.36.3, pkg/scheduler/eventhandlers.go.
"""

from __future__ import annotations

import pytest

from mooring.client import ObjectChange
from mooring.cluster_event import ActionType, EventResource, QueueingHint
from mooring.objects import ObjectMeta
from mooring.objects.codec.decode import convert
from mooring.objects.storage import PersistentVolume
from mooring.queue import QueueName
from mooring.queue.watched_kinds import RESOURCES
from mooring.state.audit import audit
from mooring.state.listers import Listers
from mooring.testing import make_node, make_pod
from tests.helpers.devices import make_device, make_slice
from tests.helpers.event_fixture import EventFixture, accepts_event, event, newer
from tests.helpers.queues import Refuser, on

# ---- nodes ----


def test_a_new_node_wakes_and_a_deleted_one_goes() -> None:
    added, gone = (event(EventResource.NODE, each) for each in (ActionType.ADD, ActionType.DELETE))
    desk = EventFixture(accepts_event(added, gone))
    desk.add_unschedulable(make_pod("web"))
    desk.node(None, make_node("a"))
    assert desk.woken == [("web", "NodeAdd")]
    assert len(desk.cache.nodes) == 1
    desk.add_unschedulable(make_pod("next"))
    desk.node(make_node("a"), None)
    assert ("next", "NodeDelete") in desk.woken
    assert len(desk.cache.nodes) == 0


def test_a_deleted_node_with_pods_stays_as_a_ghost_until_they_go() -> None:
    desk = EventFixture()
    desk.node(None, make_node("a"))
    there = make_pod("there", node="a")
    desk.pod(None, there)
    desk.node(make_node("a"), None)
    assert audit(desk.cache) == []
    assert len(desk.cache.nodes) == 0
    desk.pod(there, None, there)
    assert audit(desk.cache) == []


def test_each_change_of_a_node_is_an_event_and_no_change_is_none() -> None:
    desk = EventFixture(accepts_event(event(EventResource.NODE, ActionType.UPDATE)))
    before = make_node("a")
    desk.node(None, before)
    desk.add_unschedulable(make_pod("web"))
    desk.node(before, make_node("a"))
    assert desk.woken == []
    desk.node(before, make_node("a", labels={"x": "y"}, allocatable={"cpu": "9"}))
    # The first of them is enough.
    assert desk.woken == [("web", "NodeUpdateNodeAllocatable")]


# ---- other kinds ----


def test_other_kinds_are_news_for_those_who_wait_for_them() -> None:
    resource = EventResource.PERSISTENT_VOLUME
    volume = PersistentVolume(metadata=ObjectMeta(name="v"))
    for old, new, label in (
        (None, volume, "PersistentVolumeAdd"),
        (volume, volume, "PersistentVolumeUpdate"),
        (volume, None, "PersistentVolumeDelete"),
    ):
        desk = EventFixture(accepts_event(event(resource, ActionType.ALL)))
        desk.add_unschedulable(make_pod("web"))
        desk.handlers.on_change("PersistentVolume", ObjectChange(old, new))
        assert desk.woken == [("web", label)]
        assert desk.heard[-1] == ("PersistentVolume", "v")


def test_every_kind_that_events_are_about_can_be_followed() -> None:
    assert RESOURCES["StorageClass"] is EventResource.STORAGE_CLASS
    assert "Pod" not in RESOURCES
    assert "Node" not in RESOURCES
    assert EventResource.ANY not in RESOURCES.values()


# ---- the inbox ----


def test_an_open_inbox_keeps_everything_and_hands_it_over_in_order() -> None:
    desk = EventFixture()
    with desk.handlers.buffer_events():
        desk.node(None, make_node("a"))
        desk.pod(None, make_pod("web"))
        assert len(desk.cache.nodes) == 0
        assert desk.queue.pods() == []
        assert desk.heard == []
    assert len(desk.cache.nodes) == 1
    assert desk.queue_name("web") is QueueName.ACTIVE
    assert desk.heard == [("Node", "a"), ("Pod", "default/web")]


def test_several_changes_of_an_object_become_one() -> None:
    desk = EventFixture(accepts_event(event(EventResource.NODE, ActionType.UPDATE)))
    first = make_node("a")
    desk.node(None, first)
    desk.add_unschedulable(make_pod("web"))
    second = make_node("a", labels={"x": "y"})
    third = make_node("a", labels={"x": "y"}, allocatable={"cpu": "9"})
    with desk.handlers.buffer_events():
        desk.node(first, second)
        desk.node(second, third)
    # Both labels and amounts are in the one change: amounts are asked about first.
    assert desk.woken == [("web", "NodeUpdateNodeAllocatable")]
    assert len(desk.heard) == 3


def test_what_comes_and_goes_in_the_meantime_is_nothing() -> None:
    desk = EventFixture()
    pod = make_pod("web")
    with desk.handlers.buffer_events():
        desk.pod(None, pod)
        desk.pod(pod, None, pod)
    assert desk.heard == []
    assert desk.queue.pods() == []


def test_a_pod_made_anew_in_the_meantime_is_two() -> None:
    desk = EventFixture()
    old, new = make_pod("web", uid="old"), make_pod("web", uid="new")
    desk.pod(None, old)
    with desk.handlers.buffer_events():
        desk.pod(old, None, old)
        desk.pod(None, new)
    assert [entry.uid for entry in desk.queue.pods()] == ["new"]


def test_a_placed_pod_that_is_replaced_under_its_name_frees_its_node() -> None:
    desk = EventFixture()
    desk.node(None, make_node("a"))
    old, new = make_pod("web", uid="old", node="a"), make_pod("web", uid="new")
    desk.pod(None, old)
    desk.heard.clear()

    with desk.handlers.buffer_events() as buffered:
        desk.pod(old, None, old)
        desk.pod(None, new)
        assert desk.handlers.buffered is buffered

    assert list(buffered.items()) == [
        (("Pod", "old"), ObjectChange(old, None, old)),
        (("Pod", "new"), ObjectChange(None, new)),
    ]
    assert desk.heard == [("Pod", "default/web")] * 2
    assert desk.cache.pods.get("old") is None
    assert [entry.uid for entry in desk.queue.pods()] == ["new"]
    assert desk.handlers.buffered == {}


def test_a_node_that_is_replaced_under_its_name_is_a_new_one() -> None:
    desk = EventFixture(accepts_event(event(EventResource.NODE, ActionType.ALL)))
    old, new = (make_node("a", metadata={"uid": uid}) for uid in ("old", "new"))
    desk.node(None, old)
    for name in ("one", "two"):
        desk.add_unschedulable(make_pod(name))

    with desk.handlers.buffer_events():
        desk.node(old, None)
        desk.node(None, new)

    assert desk.heard[-2:] == [("Node", "a")] * 2
    assert {why for _, why in desk.woken} == {"NodeDelete"}
    assert len(desk.cache.nodes) == 1


def test_objects_of_two_kinds_or_names_without_a_uid_are_two() -> None:
    desk = EventFixture()
    objects = [
        ("PersistentVolume", PersistentVolume(metadata=ObjectMeta(name="v"))),
        ("PersistentVolume", PersistentVolume(metadata=ObjectMeta(name="w"))),
        ("CSINode", convert({"metadata": {"name": "v"}}, "CSINode")),
    ]
    with desk.handlers.buffer_events() as buffered:
        for kind, obj in objects:
            desk.handlers.on_change(kind, ObjectChange(None, obj))
    assert list(buffered) == [(kind, obj.metadata.name) for kind, obj in objects]
    assert desk.heard == list(buffered)


def test_an_update_and_a_deletion_are_one_deletion_of_the_last_version() -> None:
    desk = EventFixture(accepts_event(event(EventResource.ASSIGNED_POD, ActionType.DELETE)))
    desk.node(None, make_node("a"))
    first = make_pod("old", node="a")
    second, last = newer(first, phase="Running"), newer(first, phase="Failed")
    desk.pod(None, first)
    desk.add_unschedulable(make_pod("web"))

    with desk.handlers.buffer_events() as buffered:
        desk.pod(first, second)
        desk.pod(second, None, last)

    (change,) = buffered.values()
    assert (change.old, change.new, change.last) == (first, None, last)
    assert desk.woken == [("web", "AssignedPodDelete")]


def test_changes_come_out_of_the_inbox_in_the_order_of_the_last_ones() -> None:
    desk = EventFixture()
    first, second = make_pod("first"), make_pod("second")
    with desk.handlers.buffer_events():
        desk.pod(None, first)
        desk.pod(None, second)
        desk.pod(first, newer(first, nominated_node_name=""))
    assert desk.heard == [("Pod", "default/second"), ("Pod", "default/first")]


def test_the_inbox_is_emptied_also_after_an_error_and_cannot_be_opened_twice() -> None:
    desk = EventFixture()

    def fail() -> None:
        with desk.handlers.buffer_events():
            desk.node(None, make_node("a"))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert len(desk.cache.nodes) == 1
    with (
        pytest.raises(AssertionError),
        desk.handlers.buffer_events(),
        desk.handlers.buffer_events(),
    ):
        pass


def test_a_handler_is_that_of_its_kind() -> None:
    desk = EventFixture()
    desk.handlers.handler("Node")(ObjectChange(None, make_node("a")))
    assert len(desk.cache.nodes) == 1


def test_a_hint_may_say_that_an_event_does_not_help() -> None:
    wanted = on(event(EventResource.NODE, ActionType.ADD), QueueingHint.SKIP)
    desk = EventFixture(Refuser("Refuser", wanted))
    desk.add_unschedulable(make_pod("web"))
    desk.node(None, make_node("a"))
    assert desk.queue_name("web") is QueueName.UNSCHEDULABLE


@pytest.mark.parametrize("is_deleted", [False, True])
def test_a_device_taint_rule_requeues_pods_that_wait_for_slices(is_deleted: bool) -> None:
    slice_update = event(EventResource.RESOURCE_SLICE, ActionType.UPDATE)
    desk = EventFixture(accepts_event(slice_update), device_gates={"DRADeviceTaintRules": True})
    rule = convert({"metadata": {"name": "r"}, "spec": {"taint": {"key": "k"}}}, "DeviceTaintRule")
    desk.handlers.on_change(
        "ResourceSlice", ObjectChange(None, make_slice("s", [make_device("d")]))
    )
    change = ObjectChange(None, rule)
    if is_deleted:
        desk.handlers.on_change("DeviceTaintRule", change)
        change = ObjectChange(rule, None)
    desk.add_unschedulable(make_pod("web"))

    desk.handlers.on_change("DeviceTaintRule", change)
    assert desk.woken == [("web", slice_update.label)]
    assert audit(desk.cache) == []


def test_objects_that_plugins_list_are_followed_before_the_cache() -> None:
    listers = Listers()
    pods, nodes = listers.lister("Pod"), listers.lister("Node")
    desk = EventFixture(listers=listers)
    desk.node(None, make_node("a"))
    pod = make_pod("web", node="a")
    desk.pod(None, pod)
    assert [node.metadata.name for node in nodes] == ["a"]
    assert pods.get("web", "default") is pod
    with desk.handlers.buffer_events():
        desk.pod(pod, None, pod)
        assert len(pods) == 1  # an attempt sees one state of the cluster
    assert len(pods) == 0
