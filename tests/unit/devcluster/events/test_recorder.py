"""Events as the embedded API server has them afterwards."""

from __future__ import annotations

from typing import Any

from mooring.apiserver import ApiServer
from mooring.apiserver.registry.own_events import OwnEvents
from mooring.apiserver.registry.registry import Target
from mooring.apiserver.resources import resource_named
from mooring.clock import VirtualClock, seeded_random
from mooring.devcluster.events.correlation import Reference
from mooring.devcluster.events.recorder import NORMAL, EventRecorder

EVENTS = resource_named("", "events")
WEB = Reference("v1", "Pod", "default", "web", "u1", "12", "spec.containers{c}")


class World:
    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.api = ApiServer(self.clock, seeded_random(0))
        self.recorder = EventRecorder(OwnEvents(self.api.registry), self.clock)

    def record(self, message: str, regarding: Reference = WEB) -> None:
        self.recorder.record("kubelet", regarding, NORMAL, "Started", message, host="n1")

    def events(self) -> list[dict[str, Any]]:
        return [stored.object() for stored in self.api.store.collection(EVENTS).in_order()]


def test_an_event_has_the_fields_of_an_upstream_event() -> None:
    world = World()
    world.record("Container started")
    (event,) = world.events()
    metadata = event.pop("metadata")
    assert metadata["namespace"] == "default"
    assert metadata["name"].startswith("web.")
    assert metadata["uid"]
    now = metadata["creationTimestamp"]
    assert event == {
        "kind": "Event",
        "apiVersion": "v1",
        "involvedObject": {
            "kind": "Pod",
            "namespace": "default",
            "name": "web",
            "uid": "u1",
            "apiVersion": "v1",
            "resourceVersion": "12",
            "fieldPath": "spec.containers{c}",
        },
        "reason": "Started",
        "message": "Container started",
        "source": {"component": "kubelet", "host": "n1"},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
        "type": "Normal",
        "eventTime": None,
        "reportingComponent": "kubelet",
        "reportingInstance": "n1",
    }


def test_a_repeated_event_is_counted_in_the_stored_object() -> None:
    world = World()
    world.record("Container started")
    world.clock.advance(60)
    world.record("Container started")
    (event,) = world.events()
    assert event["count"] == 2
    assert event["firstTimestamp"] < event["lastTimestamp"]


def test_a_counted_event_that_was_removed_is_written_again() -> None:
    world = World()
    world.record("Container started")
    world.api.store.collection(EVENTS).remove(f"default/{world.events()[0]['metadata']['name']}")
    world.record("Container started")
    (event,) = world.events()
    assert event["count"] == 2


def test_events_of_the_same_instant_have_different_names() -> None:
    world = World()
    for number in range(5):
        world.record(f"message {number}")
    assert len({event["metadata"]["name"] for event in world.events()}) == 5


def test_an_event_about_a_long_name_has_another_name() -> None:
    world = World()
    world.record("x", WEB._replace(name="a" * 250))
    (event,) = world.events()
    assert event["metadata"]["name"].startswith("event.")


def test_an_event_about_a_node_is_in_the_default_namespace() -> None:
    world = World()
    world.record("x", Reference("v1", "Node", "", "n1"))
    (event,) = world.events()
    assert event["metadata"]["namespace"] == "default"
    assert event["involvedObject"] == {"kind": "Node", "name": "n1", "apiVersion": "v1"}


def test_no_event_is_written_to_a_namespace_that_does_not_exist() -> None:
    world = World()
    world.record("x", WEB._replace(namespace="gone"))
    assert world.events() == []


def test_recording_takes_no_number_of_the_servers_generator() -> None:
    first, second = World(), World()
    first.record("x")
    assert first.api.registry.new_uid() == second.api.registry.new_uid()


def test_recorded_events_expire() -> None:
    world = World()
    world.record("x")
    world.api.tick()
    world.clock.advance(3601)
    world.api.tick()
    assert world.events() == []
    target = Target(EVENTS, "default")
    assert world.api.registry.collection(target.resource).count() == 0
