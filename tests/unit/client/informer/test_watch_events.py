"""Decoding of watch lines, including invalid ones."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mooring.client.informer.watch_events import EventReader, ObjectIdentity, identity
from mooring.client.transport.transport import StreamBroken
from mooring.errors import Gone, ServerError
from mooring.objects.kinds import KINDS, kind_named

POD = kind_named("Pod")


def pod(**metadata: Any) -> dict[str, Any]:
    base = {"name": "web", "namespace": "shop", "uid": "u1", "resourceVersion": "7"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {**base, **metadata}}


def line(kind: str, obj: Any) -> bytes:
    return json.dumps({"type": kind, "object": obj}).encode()


@pytest.mark.parametrize("change", ["ADDED", "MODIFIED", "DELETED"])
def test_a_change_says_what_and_which(change: str) -> None:
    event = EventReader(POD).read(line(change, pod()))
    assert event[:4] == (change, "shop/web", "u1", "7")
    assert event.obj.metadata.name == "web"
    assert event.problem is None


def test_the_object_may_come_before_the_type() -> None:
    text = json.dumps({"object": pod(), "type": "ADDED"}).encode()
    assert EventReader(POD).read(text).key == "shop/web"


def test_an_object_without_a_namespace_goes_by_its_name() -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
    assert EventReader(kind_named("Node")).read(line("ADDED", node)).key == "n1"


def test_nulls_are_read_as_go_reads_them() -> None:
    event = EventReader(POD).read(line("ADDED", {**pod(labels=None), "spec": None}))
    assert event.obj.metadata.labels == {}
    assert event.problem is None


@pytest.mark.parametrize(
    ("annotations", "ends_list"),
    [
        ({}, False),
        (None, False),
        ("odd", False),
        ({"k8s.io/initial-events-end": "true"}, True),
        ({"k8s.io/initial-events-end": "false"}, False),
    ],
)
def test_a_bookmark_has_only_a_position(annotations: Any, ends_list: bool) -> None:
    obj = {"kind": "Pod", "apiVersion": "v1"}
    obj["metadata"] = {"resourceVersion": "12", "annotations": annotations}  # type: ignore[assignment]
    event = EventReader(POD).read(line("BOOKMARK", obj))
    assert (event.type, event.key, event.version, event.obj) == ("BOOKMARK", "", "12", None)
    assert event.ends_list is ends_list


def test_every_kind_can_be_read() -> None:
    for kind in KINDS.values():
        obj = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": {"name": "a"}}
        event = EventReader(kind).read(line("ADDED", obj))
        assert isinstance(event.obj, kind.struct)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"kind": "Status", "code": 410, "reason": "Expired", "status": "Failure"}, Gone),
        ({"kind": "Status", "code": 500, "status": "Failure"}, ServerError),
        ({}, ServerError),
        (None, ServerError),
    ],
)
def test_an_error_is_raised(status: Any, expected: type[Exception]) -> None:
    with pytest.raises(expected):
        EventReader(POD).read(line("ERROR", status))


@pytest.mark.parametrize(
    "obj",
    [
        {**pod(), "spec": {"priority": "high"}},
        {**pod(), "kind": "Node"},
        {**pod(), "apiVersion": "v2"},
        {**pod(), "spec": [[]]},
        {**pod(), "spec": {"overhead": {"cpu": "some"}}},
        {**pod(), "spec": {"containers": [{"resources": {"requests": {"cpu": "1x"}}}]}},
    ],
)
def test_an_object_that_cannot_be_read_says_who_it_is(obj: dict[str, Any]) -> None:
    event = EventReader(POD).read(line("MODIFIED", obj))
    assert event[:4] == ("MODIFIED", "shop/web", "u1", "7")
    assert event.obj is None
    assert event.problem is not None


@pytest.mark.parametrize("obj", [None, 7, [], {}, {"metadata": 3}, {"metadata": {"name": 5}}])
def test_an_object_that_is_nothing_is_nobody(obj: Any) -> None:
    event = EventReader(POD).read(line("ADDED", obj))
    assert event[:4] == ("ADDED", "", "", "")
    assert event.problem is not None


@pytest.mark.parametrize(
    "text", [b"<html>", b"{", b"7", b"[]", b'{"type": 7}', b"\xff", b"[" * 9999]
)
def test_a_line_that_is_no_event_breaks_the_stream(text: bytes) -> None:
    with pytest.raises(StreamBroken, match="not an event"):
        EventReader(POD).read(text)


def test_a_type_that_is_newer_than_we_are_is_passed_on() -> None:
    assert EventReader(POD).read(line("TOUCHED", pod())).type == "TOUCHED"


def test_bytes_that_are_not_utf_8_lose_only_themselves() -> None:
    text = line("ADDED", pod(labels={"a": "MARK"})).replace(b"MARK", b"\xff")
    assert EventReader(POD).read(text).obj.metadata.labels == {"a": "\ufffd"}


def test_a_name_that_is_not_utf_8_is_the_key() -> None:
    text = line("ADDED", pod(name="w*b")).replace(b"*", b"\xff")
    event = EventReader(POD).read(text)
    assert event[:4] == ("ADDED", "shop/w\ufffdb", "u1", "7")
    assert event.obj.metadata.name == "w\ufffdb"


def test_who_it_is_can_be_read_of_what_cannot() -> None:
    bad = json.dumps({**pod(name="bad", uid="u2"), "spec": 7}).encode()
    assert identity(bad) == ObjectIdentity("shop/bad", "u2", "7")
    assert identity(b"null") == identity(b"{") == ObjectIdentity("", "", "")
