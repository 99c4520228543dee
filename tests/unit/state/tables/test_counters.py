"""Counts of matching pods per node: correct after every change, and bounded."""

from __future__ import annotations

import gc
import tracemalloc
from typing import Any

import pytest
from msgspec.structs import replace

from mooring.objects.pod import Pod
from mooring.objects.selectors import NOTHING, Selector, requirement, selector_of
from mooring.state import PodInfo, audit
from mooring.state.cache import Cache
from mooring.state.tables import counters as module
from mooring.state.tables.counters import COUNTERS_MIN, CounterKey, PodCounters
from mooring.testing import cluster, make_node, make_pod

#: More nodes than the first columns have rows.
COLUMN_ROWS = 640
DELETED = "2026-01-01T00:00:00Z"
DEFAULT = frozenset({"default"})
WEB = selector_of([requirement("app", "In", ("web",))])
NOT_DB = selector_of([requirement("app", "NotIn", ("db",))])


def key(
    selector: Selector = WEB, namespaces: frozenset[str] | None = DEFAULT, *, dying: bool = False
) -> CounterKey:
    return CounterKey(namespaces, selector, with_terminating=dying)


def pod(name: str, node: str, app: str = "web", **more: Any) -> Pod:
    return make_pod(name, node=node, labels={"app": app}, **more)


def counts(cache: Cache, asked: CounterKey | None = None) -> dict[str, int]:
    """Returns node -> its count, zeros left out."""
    found = cache.counters.counter(asked or key()).counts
    return {cache.nodes.names[row]: int(found[row]) for row in found.nonzero()[0].tolist()}


def some() -> Cache:
    return cluster(
        make_node("a"),
        make_node("b"),
        pod("a-1", "a"),
        pod("a-2", "a"),
        pod("b-1", "b"),
        pod("b-2", "b", "db"),
        pod("b-3", "b", namespace="other"),
        pod("b-4", "b", metadata={"deletionTimestamp": DELETED}),
    )


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (key(), {"a": 2, "b": 1}),
        (key(dying=True), {"a": 2, "b": 2}),
        (key(namespaces=frozenset({"other"})), {"b": 1}),
        (key(namespaces=frozenset({"default", "other"})), {"a": 2, "b": 2}),
        (key(namespaces=None), {"a": 2, "b": 2}),
        (key(namespaces=frozenset()), {}),
        (key(NOT_DB), {"a": 2, "b": 1}),
        (key(Selector()), {"a": 2, "b": 2}),
        (key(NOTHING), {}),
    ],
    ids=[
        *("living", "dying too", "elsewhere", "two namespaces", "all namespaces"),
        *("no namespace", "not db", "everything", "nothing"),
    ],
)
def test_it_counts_what_matches(asked: CounterKey, expected: dict[str, int]) -> None:
    cache = some()

    assert counts(cache, asked) == expected


@pytest.mark.parametrize("is_asked_before", [True, False])
def test_pods_that_come_change_and_go_are_followed(is_asked_before: bool) -> None:
    cache = some()
    if is_asked_before:
        counts(cache)

    cache.put_pod(pod("new", "a"))  # comes
    cache.put_pod(pod("a-1", "a", "db"))  # is another app's
    cache.put_pod(pod("b-2", "b"))  # is this app's
    cache.put_pod(pod("b-1", "b", metadata={"deletionTimestamp": DELETED}))  # will go
    cache.remove_pod("pod-default-a-2")

    assert counts(cache) == {"a": 1, "b": 1}
    assert audit(cache) == []


TWO_CONDITIONS = selector_of(
    [requirement("app", "In", ("web",)), requirement("tier", "In", ("front",))]
)
#: More conditions than are evaluated one label class at a time.
MANY_CONDITIONS = selector_of(
    [requirement("app", "In", ("web", "db")), *[requirement("tier", "Exists")] * 20]
)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (key(), {"a": 2, "b": 1}),
        (key(dying=True), {"a": 3, "b": 1}),
        (key(namespaces=frozenset({"other"})), {"b": 1}),
        (key(namespaces=frozenset({"default", "other"})), {"a": 2, "b": 2}),
        (key(namespaces=None), {"a": 2, "b": 2}),
        (key(NOT_DB), {"a": 2, "b": 2}),
        (key(TWO_CONDITIONS), {"a": 1}),
        (key(TWO_CONDITIONS, namespaces=None), {"a": 1, "b": 1}),
        (key(TWO_CONDITIONS, dying=True), {"a": 2}),
        (key(MANY_CONDITIONS), {"a": 1, "b": 1}),
        (key(MANY_CONDITIONS, dying=True), {"a": 2, "b": 1}),
        (key(MANY_CONDITIONS, namespaces=None), {"a": 1, "b": 2}),
        (key(Selector()), {"a": 2, "b": 3}),
        (key(NOTHING), {}),
    ],
)
@pytest.mark.parametrize("is_asked_before", [True, False])
def test_pods_with_new_labels_are_counted_by_what_matches_them(
    asked: CounterKey, expected: dict[str, int], is_asked_before: bool
) -> None:
    cache = cluster(make_node("a"), make_node("b"))
    if is_asked_before:
        assert counts(cache, asked) == {}
    front, back, dying = {"tier": "front"}, {"tier": "back"}, {"deletionTimestamp": DELETED}

    for name, node, labels, more in (
        ("1", "a", {"app": "web"} | front, {}),
        ("2", "a", {"app": "web"} | front, {"metadata": dying}),
        ("3", "a", {"app": "web"}, {}),
        ("4", "b", {"app": "web"} | back, {}),
        ("5", "b", {"app": "web"} | front, {"namespace": "other"}),
        ("6", "b", {"app": "db"}, {}),
        ("7", "b", {}, {}),
    ):
        cache.put_pod(make_pod(name, node=node, labels=labels, **more))

    assert counts(cache, asked) == expected
    assert audit(cache) == []


def test_a_key_of_no_namespace_counts_no_pod() -> None:
    info = PodInfo(pod("a", "n"))

    assert key().counts(info)
    assert key(namespaces=None).counts(info)
    assert not key(namespaces=frozenset()).counts(info)


def test_assumed_pods_count_until_they_are_forgotten() -> None:
    cache = some()
    info = PodInfo(make_pod("new", labels={"app": "web"}))

    with cache.assume(info.on_node("a"), "a"):
        assert counts(cache) == {"a": 3, "b": 1}
    assert counts(cache) == {"a": 2, "b": 1}


def test_pods_on_nodes_that_nobody_told_of_count_when_the_node_comes() -> None:
    cache = some()
    counts(cache)

    cache.put_pod(pod("early", "late"))

    assert counts(cache) == {"a": 2, "b": 1, "late": 1}


def test_columns_grow_with_the_nodes() -> None:
    cache = some()
    counts(cache)

    for number in range(200):
        cache.put_node(make_node(f"n-{number}"))
    cache.put_pod(pod("far", "n-199"))

    assert counts(cache) == {"a": 2, "b": 1, "n-199": 1}
    assert audit(cache) == []


def test_the_face_of_a_counter_cannot_be_written() -> None:
    counter = some().counters.counter(key())

    with pytest.raises(ValueError, match="read-only"):
        counter.counts[0] = 1


def test_no_more_counters_are_kept_than_the_limit_and_the_oldest_goes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MEMORY_LIMIT_BYTES", 0)
    cache = some()
    asked = [
        key(selector_of([requirement("app", "In", (f"app-{number}",))]))
        for number in range(COUNTERS_MIN)
    ]
    first = cache.counters.counter(key())
    for each in asked:
        cache.counters.counter(each)
        assert cache.counters.counter(key()) is first  # in use: it stays

    assert len(cache.counters) == COUNTERS_MIN
    assert asked[0] not in dict(cache.counters.items())
    cache.put_pod(pod("new", "a", "app-0"))
    assert counts(cache, asked[0]) == {"a": 1}  # made anew when asked for again
    assert audit(cache) == []


def test_fewer_counters_are_kept_when_columns_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = some()
    bytes_of_one = module.OBJECT_BYTES + 4 * 64
    monkeypatch.setattr(module, "MEMORY_LIMIT_BYTES", bytes_of_one * (COUNTERS_MIN + 10))
    for number in range(COUNTERS_MIN + 10):
        cache.counters.counter(key(selector_of([requirement("app", "In", (f"{number}",))])))
    assert len(cache.counters) == COUNTERS_MIN + 10

    for number in range(COLUMN_ROWS):
        cache.put_node(make_node(f"n-{number}"))

    assert len(cache.counters) == COUNTERS_MIN
    assert audit(cache) == []


@pytest.mark.parametrize("node_count", [2, 1000])
def test_counters_take_no_more_memory_than_the_limit(
    node_count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pods that are spread by a label of their own make one counter each."""
    limit = 4 << 20
    monkeypatch.setattr(module, "MEMORY_LIMIT_BYTES", limit)
    cache = cluster(*(make_node(f"n-{number}") for number in range(node_count)))
    for number in range(100):
        cache.put_pod(pod(f"p-{number}", "n-0", f"{number % 10}"))
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for number in range(4 * limit // module.OBJECT_BYTES):
            own = selector_of([requirement("app", "In", (f"{number}",))])
            cache.counters.counter(key(own))
        gc.collect()
        used = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert used < 1.25 * limit
    assert len(cache.counters) > COUNTERS_MIN


def test_kinds_of_pods_live_as_long_as_their_pods() -> None:
    cache = some()
    before = cache.counters.label_class_count
    counts(cache)

    for number in range(20):
        cache.put_pod(
            make_pod(
                "once", uid=f"once-{number}", node="a", labels={"app": "web", "n": f"{number}"}
            )
        )

    assert cache.counters.label_class_count == before + 1
    assert counts(cache) == {"a": 3, "b": 1}


def test_counters_that_are_not_what_the_pods_say_are_reported_by_the_audit() -> None:
    cache = some()
    counter = cache.counters.counter(key())
    assert audit(cache) == []

    counter.change(0, 1)
    assert any("should have" in problem for problem in audit(cache))
    counter.change(0, -1)
    placed = cache.pods.get("pod-default-a-1")
    assert placed is not None
    info = placed.info
    renamed = replace(info.pod, metadata=replace(info.pod.metadata, labels={"app": "db"}))
    placed.info = PodInfo(renamed)  # behind the counters' back
    assert any("counts as" in problem for problem in audit(cache))


def test_counters_of_no_pods_are_empty() -> None:
    cache = Cache()

    assert counts(cache) == {}
    assert isinstance(cache.counters, PodCounters)
    assert len(cache.counters) == 1


def test_pods_are_weighed_by_their_kind() -> None:
    cache = Cache()
    for number, (app, node) in enumerate([("web", "a"), ("web", "a"), ("db", "a"), ("web", "b")]):
        cache.put_pod(make_pod(f"pod-{number}", labels={"app": app}, node=node))
    weights = {
        index: 10 if ("app", "web") in kind.labels else -3
        for index, kind in cache.counters.label_classes()
    }
    assert len(weights) == 2

    found = cache.counters.weighted_sums(weights)

    rows = [cache.nodes.row(name) for name in ("a", "b")]
    assert [int(found[row]) for row in rows] == [17, 10]
    assert int(found.sum()) == 27
    assert not cache.counters.weighted_sums({}).any()
