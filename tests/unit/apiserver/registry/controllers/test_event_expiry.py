"""Events are removed an hour after their last write, and the oldest if there are too many."""

from __future__ import annotations

import pytest

from mooring.apiserver.registry.controllers import event_expiry
from mooring.apiserver.registry.controllers.event_expiry import EventExpiry
from mooring.apiserver.resources import resource_named
from tests.helpers.api import MERGE, Api, Object

EVENTS = "/api/v1/namespaces/default/events"
HOUR_S = 3600


def event(name: str) -> Object:
    involved = {"kind": "Pod", "namespace": "default", "name": "web"}
    return {"metadata": {"name": name}, "involvedObject": involved, "reason": "Scheduled"}


def test_an_event_is_removed_an_hour_after_its_last_write() -> None:
    api = Api()
    api.post(EVENTS, event("old"))
    api.post(EVENTS, event("counted"))
    api.clock.advance(HOUR_S - 1)
    api.ask("PATCH", f"{EVENTS}/counted", {"count": 2}, content_type=MERGE)
    assert api.names(EVENTS) == ["counted", "old"]
    api.clock.advance(1)
    assert api.names(EVENTS) == ["counted"]
    api.clock.advance(HOUR_S)
    assert api.names(EVENTS) == []


def test_an_event_that_was_deleted_and_created_again_is_a_new_one() -> None:
    api = Api()
    api.post(EVENTS, event("a"))
    api.clock.advance(HOUR_S / 2)
    api.delete(f"{EVENTS}/a")
    api.post(EVENTS, event("a"))
    api.clock.advance(HOUR_S / 2)
    assert api.names(EVENTS) == ["a"]


def test_a_watch_gets_the_deletion() -> None:
    api = Api()
    version = int(api.post(EVENTS, event("a"))["metadata"]["resourceVersion"])
    api.clock.advance(HOUR_S)
    assert api.server.tick() == 1
    (change,) = api.server.store.collection(resource_named("", "events")).history.since(version)
    assert (change.key, change.new) == ("default/a", None)


def test_events_of_a_snapshot_are_removed_an_hour_after_it_was_loaded() -> None:
    api = Api()
    api.post(EVENTS, event("a"))
    other = Api()
    other.clock.advance(HOUR_S)
    other.server.load(api.server.snapshot())
    other.server.tick()
    other.clock.advance(HOUR_S - 1)
    assert other.names(EVENTS) == ["a"]
    other.clock.advance(1)
    assert other.names(EVENTS) == []


def test_the_oldest_go_if_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_expiry, "REMOVALS_MAX", 2)
    api = Api()
    expiry = EventExpiry(api.server.registry, api.server.deleter, events_max=3)
    assert expiry.run() == 0
    for name in ("e", "d", "c", "b", "a", "f"):
        api.post(EVENTS, event(name))
    api.ask("PATCH", f"{EVENTS}/e", {"count": 2}, content_type=MERGE)
    assert [expiry.run() for _ in range(3)] == [2, 1, 0]  # a few at a time
    assert api.names(EVENTS) == ["a", "e", "f"]  # the last written ones


def test_the_time_is_a_parameter() -> None:
    api = Api(event_ttl_s=5.0)
    api.post(EVENTS, event("a"))
    api.clock.advance(4.9)
    assert api.names(EVENTS) == ["a"]
    api.clock.advance(0.1)
    assert api.names(EVENTS) == []
