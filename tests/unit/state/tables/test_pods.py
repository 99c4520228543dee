"""The pods on nodes as columns, and the order in which kube-scheduler would have them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.clock import seeded_random
from mooring.state import audit
from mooring.state.cache import Cache
from mooring.state.tables.pods import NOT_STARTED, PodInfo, PodTable
from mooring.testing import make_node, make_pod


def names(cache: Cache) -> list[str]:
    return [placed.info.metadata.name for placed in cache.pods.on_row(0)]


def cache_of(*pods: str) -> Cache:
    cache = Cache()
    cache.put_node(make_node("a"))
    for name in pods:
        cache.put_pod(make_pod(name, node="a"))
    return cache


def test_the_last_pod_of_a_node_takes_the_place_of_one_that_goes() -> None:
    cache = cache_of("one", "two", "three", "four")

    cache.remove_pod("pod-default-one")
    assert names(cache) == ["four", "two", "three"]
    cache.remove_pod("pod-default-three")
    assert names(cache) == ["four", "two"]


def test_a_pod_that_changes_goes_and_comes_again() -> None:
    cache = cache_of("one", "two", "three")

    cache.put_pod(make_pod("one", node="a", labels={"changed": "yes"}))
    assert names(cache) == ["three", "two", "one"]
    cache.put_pod(make_pod("two", node="a", requests={"cpu": "1"}))
    assert names(cache) == ["three", "one", "two"]


class Model:
    """kube-scheduler's slice of a node's pods (framework/types.go, removeFromSlice)."""

    def __init__(self) -> None:
        self.pods: list[str] = []

    def remove(self, name: str) -> None:
        at = self.pods.index(name)
        self.pods[at] = self.pods[-1]
        self.pods.pop()


@given(st.integers(0, 2**32))
def test_whatever_happens_the_order_is_that_of_the_model(seed: int) -> None:
    rng, cache, model = seeded_random(seed), cache_of(), Model()

    for step in range(30):
        what = rng.random()
        if what < 0.5 or not model.pods:
            model.pods.append(f"pod-{step}")
            cache.put_pod(make_pod(f"pod-{step}", node="a"))
            continue
        name = rng.choice(model.pods)
        model.remove(name)
        if what < 0.8:
            cache.remove_pod(f"pod-default-{name}")
        else:
            model.pods.append(name)
            cache.put_pod(make_pod(name, node="a", labels={"step": str(step)}))
        assert names(cache) == model.pods
        assert audit(cache) == []


def test_slots_are_found_for_many_rows_at_once() -> None:
    cache = cache_of("one", "two")
    cache.put_node(make_node("b"))
    cache.put_node(make_node("c"))
    cache.put_pod(make_pod("three", node="c"))

    slots, counts = cache.pods.slots_on(np.array([2, 1, 0], dtype=np.intp))

    assert [cache.pods.at(slot).metadata.name for slot in slots.tolist()] == ["three", "one", "two"]
    assert counts.tolist() == [1, 0, 2]
    nothing, none = PodTable().slots_on(np.array([], dtype=np.intp))
    assert (len(nothing), len(none)) == (0, 0)


def test_columns_have_what_the_pod_asks_for_and_when_it_started() -> None:
    cache = cache_of()
    requests = {"cpu": "1500m", "memory": "1Gi", "ephemeral-storage": "3", "x.com/gpu": "1"}
    status = {"startTime": "2026-01-01T00:00:01Z"}
    cache.put_pod(make_pod("web", node="a", requests=requests, priority=-7, status=status))
    (placed,) = cache.pods

    assert cache.pods.usage[:, placed.slot].tolist() == [1500, 1 << 30, 3]
    assert int(cache.pods.start_s[placed.slot]) == 1767225601
    assert int(cache.pods.priority[placed.slot]) == -7
    cache.put_pod(make_pod("web", node="a", status={"startTime": "2026-01-01T01:00:00+01:00"}))
    assert int(cache.pods.start_s[placed.slot]) == 1767225600
    cache.pods.usage[0, placed.slot] = 1
    assert any("columns" in problem for problem in audit(cache))


@pytest.mark.parametrize("text", [None, "", "yesterday", "2026-01-01T00:00:00", "2026-13-01"])
def test_a_pod_without_a_time_that_can_be_read_has_not_started(text: str | None) -> None:
    assert PodInfo(make_pod("p", status={"startTime": text})).start_s == NOT_STARTED


def test_more_pods_than_there_were_places_for() -> None:
    table_size = len(Cache().pods.node_row)
    cache = cache_of()
    for number in range(table_size + 3):
        requests = {"cpu": "1", "memory": "2", "ephemeral-storage": "3"} if number < 3 else {}
        started = {"startTime": f"2026-01-01T00:00:0{number}Z"} if number < 3 else {}
        cache.put_pod(
            make_pod(
                f"pod-{number}", node="a", priority=number % 7, requests=requests, status=started
            )
        )

    assert len(cache.pods.node_row) == len(cache.pods.start_s) == cache.pods.usage.shape[1]
    assert audit(cache) == []


def test_a_free_slot_is_no_pod_of_lower_priority() -> None:
    cache = Cache()
    cache.put_node(make_node("a"))
    for name, priority in (("five", 5), ("seven", 7), ("zero", 0)):
        cache.put_pod(make_pod(name, node="a", priority=priority))
    assert cache.pods.has_lower_priority(1)

    cache.remove_pod("pod-default-zero")
    limits = (-1, 5, 6)
    assert [cache.pods.has_lower_priority(limit) for limit in limits] == [False, False, True]


@pytest.mark.parametrize("before", [None, "2026-01-01T00:00:00Z"])
@pytest.mark.parametrize("start", ["", "2026-02-02T00:00:00Z"])
def test_a_pod_on_a_node_has_its_start_and_no_nomination(before: str | None, start: str) -> None:
    waiting = PodInfo(
        make_pod("p", nominated_node="b", requests={"cpu": "1"}, host_ports=[80])
        if before is None
        else make_pod("p", nominated_node="b", status={"startTime": before})
    )
    amounts = waiting.requests, waiting.usage, waiting.nonzero_usage, waiting.host_ports

    placed = waiting.on_node("a", start_time=start) if start else waiting.on_node("a")

    assert (placed.node_name, placed.status.nominated_node_name) == ("a", "")
    assert placed.status.start_time == (start or before)
    assert (placed.requests, placed.usage, placed.nonzero_usage, placed.host_ports) == amounts
    assert placed.requests is amounts[0]
    assert (waiting.node_name, waiting.status.start_time) == ("", before)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T00:00:01.9Z", 1),
        ("1969-12-31T23:59:58.5Z", -2),
        ("1970-01-01T01:00:00+01:00", 0),
    ],
)
def test_starts_are_whole_seconds_rounded_down(text: str, seconds: int) -> None:
    assert PodInfo(make_pod("p", status={"startTime": text})).start_s == seconds
