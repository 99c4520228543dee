from __future__ import annotations

import pytest

from mooring.apiserver.resources import RESOURCES, resource_named
from mooring.apiserver.storage.history import HISTORY_BYTES_MAX, Dropped, History, StoreEvent
from mooring.apiserver.storage.store import SnapshotError, Store
from mooring.apiserver.types import Object

PODS = resource_named("", "pods")
NODES = resource_named("", "nodes")


def named(name: str, namespace: str = "", **spec: object) -> Object:
    metadata: Object = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    return {"metadata": metadata, "spec": spec}


def test_versions_go_up_over_all_resources() -> None:
    store = Store()
    first = store.collection(PODS).create("a/x", named("x", "a"))
    second = store.collection(NODES).create("n", named("n"))
    third = store.collection(PODS).replace("a/x", named("x", "a", nodeName="n"))
    last = store.collection(NODES).remove("n")
    assert [first.version, second.version, third.version, last.version] == [1, 2, 3, 4]
    assert store.version == 4


def test_a_change_that_changes_nothing_is_no_write() -> None:
    store = Store()
    pods = store.collection(PODS)
    first = pods.create("a/x", named("x", "a", b=1, c=2))
    assert pods.replace("a/x", named("x", "a", c=2, b=1)) is first
    assert store.version == 1
    assert pods.history.end == 1


def test_keys_are_in_the_order_of_etcd() -> None:
    pods = Store().collection(PODS)
    for key in ("a/y", "a-b/x", "b/x", "a/x"):
        namespace, _, name = key.partition("/")
        pods.create(key, named(name, namespace))
    # "-" comes before "/": sorting by namespace first would give another order.
    assert [stored.key for stored in pods.in_order()] == ["a-b/x", "a/x", "a/y", "b/x"]
    assert [stored.key for stored in pods.in_order("a")] == ["a/x", "a/y"]
    assert [stored.key for stored in pods.in_order("a", after="a/x\0")] == ["a/y"]


def test_what_is_there_cannot_be_created_and_what_is_not_cannot_be_changed() -> None:
    pods = Store().collection(PODS)
    pods.create("a/x", named("x", "a"))
    with pytest.raises(KeyError):
        pods.create("a/x", named("x", "a"))
    with pytest.raises(KeyError):
        pods.replace("a/y", named("y", "a"))
    with pytest.raises(KeyError):
        pods.remove("a/y")
    assert pods.history.end == 1


def test_both_kinds_of_events_are_one_collection() -> None:
    store = Store()
    core, new = resource_named("", "events"), resource_named("events.k8s.io", "events")
    assert store.collection(core) is store.collection(new)


def test_every_stored_resource_has_a_collection() -> None:
    store = Store()
    assert all(store.collection(each) is not None for each in RESOURCES if each.is_stored)
    assert store.statistics() == {}


def test_old_states_can_be_listed_as_long_as_the_history_reaches() -> None:
    store = Store(changes_max=4)
    pods = store.collection(PODS)
    pods.create("a/x", named("x", "a"))
    pods.create("a/y", named("y", "a"))
    pods.remove("a/x")
    pods.replace("a/y", named("y", "a", nodeName="n"))
    assert [(s.key, s.version) for s in pods.at_version(2)] == [("a/x", 1), ("a/y", 2)]
    assert [(s.key, s.version) for s in pods.at_version(3)] == [("a/y", 2)]
    for number in range(6):
        pods.create(f"a/z{number}", named(f"z{number}", "a"))
    with pytest.raises(Dropped):
        pods.at_version(2)


def test_a_snapshot_brings_everything_back_but_the_history() -> None:
    store = Store()
    store.collection(NODES).create("n", named("n"))
    store.collection(PODS).create("a/x", named("x", "a", nodeName="n"))
    store.collection(PODS).create("a/y", named("y", "a"))
    store.collection(PODS).remove("a/y")
    other = Store()
    other.load(store.snapshot())
    assert other.version == 4
    assert other.statistics() == {"nodes": 1, "pods": 1}
    pods = other.collection(PODS)
    obj = pods.get("a/x")
    assert obj is not None
    assert obj.version == 2
    assert [stored.key for stored in pods.on_node("n")] == ["a/x"]
    with pytest.raises(Dropped):
        pods.history.position_after(3)
    assert pods.create("a/z", named("z", "a")).version == 5


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b'{"format":"other","version":1,"objects":{}}',
        b'{"format":"mooring-apiserver-1","version":1,"objects":{"foos":[{}]}}',
        b'{"format":"mooring-apiserver-1","version":1,"objects":{"pods":[{"metadata":{}}]}}',
        b'{"format":"mooring-apiserver-1","version":"x","objects":{}}',
    ],
)
def test_what_is_no_snapshot_changes_nothing(data: bytes) -> None:
    store = Store()
    store.collection(NODES).create("n", named("n"))
    before = store.snapshot()
    with pytest.raises(SnapshotError):
        store.load(data)
    assert store.snapshot() == before


def changes(store: Store, count: int) -> list[StoreEvent]:
    nodes = store.collection(NODES)
    for number in range(count):
        nodes.create(f"n{number}", named(f"n{number}"))
    return list(nodes.history.since(0))


def test_history_reads_from_a_position_in_portions() -> None:
    history = History()
    for change in changes(Store(), 5):
        history.append(change)
    position = history.position_after(2)
    assert [each.version for each in history.read(position, 2)] == [3, 4]
    assert [each.version for each in history.read(position + 2, 2)] == [5]
    assert history.read(history.end, 2) == []


def test_history_wakes_listeners_until_they_leave() -> None:
    history = History()
    woken: list[str] = []
    history.listen("me", lambda: woken.append("me"))
    result = changes(Store(), 2)
    history.append(result[0])
    history.unlisten("me")
    history.append(result[1])
    assert woken == ["me"]
    assert history.listeners == 0


def test_dropped_changes_are_noticed() -> None:
    history = History(changes_max=4)
    for change in changes(Store(), 7):
        history.append(change)
    assert history.compacted == 2
    with pytest.raises(Dropped):
        history.read(0, 1)
    with pytest.raises(Dropped):
        history.position_after(1)
    assert [each.version for each in history.since(2)] == [3, 4, 5, 6, 7]


def test_changes_of_large_objects_are_dropped_earlier() -> None:
    store = Store()
    nodes = store.collection(NODES)
    large = {"metadata": {"name": "a", "annotations": {"text": "x" * (HISTORY_BYTES_MAX // 10)}}}
    nodes.create("a", large)
    for number in range(30):
        nodes.replace("a", {**large, "status": {"number": number}})
    history = nodes.history
    assert 7 <= len(list(history.since(history.compacted))) <= 10
    assert history.latest == store.version
    with pytest.raises(Dropped):
        history.position_after(1)


def test_the_last_change_stays_whatever_its_size_is() -> None:
    nodes = Store().collection(NODES)
    nodes.create("a", {"metadata": {"name": "a", "annotations": {"text": "x" * HISTORY_BYTES_MAX}}})
    assert [change.version for change in nodes.history.since(0)] == [1]
