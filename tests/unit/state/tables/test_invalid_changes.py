"""Invalid changes of tables: each is an InvariantViolation before anything is changed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mooring.errors import InvariantViolation
from mooring.state import PodInfo, audit
from mooring.state.cache import Cache
from mooring.state.tables.pods import PlacedPod, PodTable
from mooring.testing import cluster, make_node, make_pod


def pod(name: str, node: str = "") -> PodInfo:
    return PodInfo(make_pod(name, node=node, requests={"cpu": "1"}))


def healthy() -> Cache:
    return cluster(make_node("a"), make_node("b"), pod("p", "a").pod)


@pytest.mark.parametrize(
    ("action", "told"),
    [
        (lambda c: c.confirm("nobody"), "cannot confirm pod nobody: it is not assumed"),
        (
            lambda c: c.confirm("pod-default-p"),
            "cannot confirm pod pod-default-p: it is not assumed",
        ),
        (lambda c: c.forget("pod-default-p"), "cannot forget pod pod-default-p: it is confirmed"),
        (lambda c: c.assume(pod("p"), "b"), r"pod default/p \(pod-default-p\) is in the cache"),
        (lambda c: c.put_pod(pod("q").pod), "pod default/q is not on a node"),
        (lambda c: c.put_pod(pod("p", "b").pod), "pod default/p moved from a to b"),
        (lambda c: c.nodes.remove("z"), "cannot remove node z: no such node"),
        (lambda c: c.pods.remove("nobody"), "pod with UID nobody is not placed"),
    ],
)
def test_what_cannot_be_is_refused_and_leaves_no_trace(
    action: Callable[[Cache], object], told: str
) -> None:
    cache = healthy()
    with pytest.raises(InvariantViolation, match=told):
        action(cache)

    assert audit(cache) == []
    assert [placed.info.key for placed in cache.pods] == ["default/p"]


def test_forgetting_somebody_unknown_is_fine() -> None:
    cache = healthy()
    cache.forget("nobody")
    assert audit(cache) == []


# ---------------------------------------------------------------- PodTable


def placed(name: str, row: int = 0) -> PlacedPod:
    return PlacedPod(pod(name), row)


def test_a_pod_is_placed_once() -> None:
    table = PodTable()
    table.add(placed("p"))

    with pytest.raises(InvariantViolation, match=r"default/p .* is placed twice"):
        table.add(placed("p", row=3))

    assert [found.row for found in table] == [0]


def test_slots_are_used_again_and_the_table_grows() -> None:
    table = PodTable(capacity=2)
    for number in range(5):
        table.add(placed(f"p{number}", row=number))
    assert len(table.node_row) >= 5

    gone = table.remove("pod-default-p1")
    table.add(placed("late", row=9))

    late = table.get("pod-default-late")
    assert late is not None
    assert late.slot == gone.slot
    assert table.node_row[:5].tolist() == [0, 9, 2, 3, 4]
    assert [found.info.metadata.name for found in table.on_row(9)] == ["late"]
    assert table.on_row(1) == []


# ---------------------------------------------------------------- PodInfo


def test_a_pod_tells_who_and_where_it_is() -> None:
    assert repr(pod("p", "a")) == "PodInfo(default/p, uid='pod-default-p', node='a')"


def test_a_pod_on_a_node_keeps_what_was_computed_and_loses_its_nomination() -> None:
    pending = PodInfo(make_pod("p", requests={"cpu": "1"}, nominated_node="z", host_ports=[80]))
    requests, ports = pending.requests, pending.host_ports

    bound = pending.on_node("a")

    assert (bound.node_name, bound.status.nominated_node_name) == ("a", "")
    assert bound.requests is requests
    assert bound.host_ports is ports
    assert bound.usage == {"cpu": 1000}
    assert (pending.node_name, pending.status.nominated_node_name) == ("", "z")


# ---------------------------------------------------------------- many resources


def test_the_resource_columns_grow_with_nodes_and_with_pods() -> None:
    names = [f"example.com/r{number}" for number in range(20)]
    cache = cluster(make_node("a", allocatable=dict.fromkeys(names[:10], 5)))

    cache.put_pod(make_pod("p", node="a", requests=dict.fromkeys(names[10:], 2)))

    row = cache.nodes.row("a")
    ids = [cache.nodes.resource_id(name) for name in names]
    assert [int(cache.nodes.allocatable[found, row]) for found in ids] == [5] * 10 + [0] * 10
    assert [int(cache.nodes.requested[found, row]) for found in ids] == [0] * 10 + [2] * 10
    assert audit(cache) == []
    cache.remove_pod("pod-default-p")
    assert cache.nodes.resource_id(names[15]) == -1
    assert audit(cache) == []
