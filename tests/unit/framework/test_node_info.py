"""A node as a plain object, as it is and as it would be with other pods on it."""

from __future__ import annotations

import pytest

from mooring.errors import InvariantViolation
from mooring.framework import NodeInfo, NodeView
from mooring.state import PodInfo
from mooring.state.cache import Cache
from mooring.testing import cluster, make_node, make_pod

GIBIBYTE = 1 << 30
MEBIBYTE = 1 << 20

NODE = make_node(
    "a",
    allocatable={"cpu": "2", "memory": "4Gi", "pods": 9, "example.com/gpu": 4},
    labels={"rack": "1"},
    annotations={"note": "x"},
    taints=["gpu=yes:NoSchedule"],
    unschedulable=True,
    images={"web:1": 7},
)
HERE = [
    make_pod("p", node="a", requests={"cpu": "500m", "memory": "1Gi"}, host_ports=[80]),
    make_pod("q", node="a", requests={"example.com/gpu": 3}),
]
GUEST = PodInfo(make_pod("guest", requests={"cpu": "250m"}, host_ports=[443]))


def cache() -> Cache:
    return cluster(NODE, make_node("b"), *HERE)


def info(
    found: Cache | None = None,
    added: tuple[PodInfo, ...] = (),
    removed: tuple[PodInfo, ...] = (),
) -> NodeInfo:
    found = found or cache()
    return NodeInfo(found.snapshot(), found.nodes.row("a"), added, removed)


def test_it_reads_like_the_node() -> None:
    node = info()

    assert (node.name, node.unschedulable, node.allowed_pods) == ("a", True, 9)
    assert node.labels == {"kubernetes.io/hostname": "a", "rack": "1"}
    assert node.annotations == {"note": "x"}
    assert [taint.key for taint in node.taints] == ["gpu"]
    assert node.node is NODE
    assert node.node_count == 2


def test_amounts_are_whole_numbers_in_the_scheduler_s_units() -> None:
    node = info()

    assert (node.allocatable("cpu"), node.requested("cpu"), node.free("cpu")) == (2000, 500, 1500)
    assert node.allocatable("memory") == 4 * GIBIBYTE
    assert node.free("memory") == 3 * GIBIBYTE
    assert (node.allocatable("example.com/gpu"), node.free("example.com/gpu")) == (4, 1)


def test_a_resource_that_nobody_has_is_0() -> None:
    node = info()
    unknown = "example.com/nobody"
    assert (node.allocatable(unknown), node.requested(unknown), node.free(unknown)) == (0, 0, 0)


def test_pods_that_ask_for_nothing_count_with_their_defaults_for_scores() -> None:
    # p asks for both; q asks for neither: 100m and 200Mi.
    assert info().nonzero_requested() == (600, GIBIBYTE + 200 * MEBIBYTE)


def test_pods_are_those_on_the_node_in_order_of_arrival() -> None:
    node = info()

    assert [pod.metadata.name for pod in node.pods] == ["p", "q"]
    assert node.pod_count == 2
    assert node.used_ports() == {("0.0.0.0", "TCP", 80)}


def test_images_come_with_their_spread() -> None:
    found = cache()
    found.put_node(make_node("b", images={"web:1": 99, "db:2": 5}))

    assert info(found).images() == {"web:1": (7, 2)}


def test_added_pods_count_everywhere() -> None:
    node = info(added=(GUEST,))

    assert node.pod_count == 3
    assert [pod.metadata.name for pod in node.pods] == ["p", "q", "guest"]
    assert node.requested("cpu") == 750
    assert node.nonzero_requested() == (850, GIBIBYTE + 400 * MEBIBYTE)
    assert node.used_ports() == {("0.0.0.0", "TCP", 80), ("0.0.0.0", "TCP", 443)}


def test_removed_pods_count_nowhere() -> None:
    node = info(removed=(PodInfo(HERE[0]),))

    assert node.pod_count == 1
    assert [pod.metadata.name for pod in node.pods] == ["q"]
    assert (node.requested("cpu"), node.free("cpu")) == (0, 2000)
    assert node.nonzero_requested() == (100, 200 * MEBIBYTE)
    assert node.used_ports() == set()


def test_a_pod_added_and_removed_leaves_nothing() -> None:
    found = cache()
    node, plain = info(found, added=(GUEST,), removed=(GUEST,)), info(found)

    assert node.pods == plain.pods
    assert node.pod_count == plain.pod_count
    assert node.nonzero_requested() == plain.nonzero_requested()
    assert node.used_ports() == plain.used_ports()


def test_the_same_in_two_worlds_is_not_mixed_up() -> None:
    found = cache()
    fuller, plain = info(found, added=(GUEST,)), info(found)

    assert (fuller.requested("cpu"), plain.requested("cpu")) == (750, 500)
    assert len(fuller.pods) == len(plain.pods) + 1


def test_a_row_without_a_node_has_no_object() -> None:
    found = cache()
    found.remove_node("a")

    with pytest.raises(InvariantViolation, match="row 0 has no node"):
        info(found)


def test_amounts_beyond_int64_wrap_as_in_the_columns() -> None:
    pods = [make_pod(f"p{number}", node="n", requests={"memory": "7E"}) for number in range(2)]
    cache = cluster(make_node("n"), *pods)
    view = NodeView.all_nodes(cache.snapshot())
    one, two = (PodInfo(pod) for pod in pods)
    extra = PodInfo(make_pod("extra", requests={"memory": "7E"}))

    for hypothetical in (
        view,
        view.without([(one,)]),
        view.without([(one, two)]),
        view.plus([(extra,)]),
        view.plus([(extra,)]).without([(one,)]),
    ):
        (info,) = hypothetical
        expected = hypothetical.requested("memory").tolist()
        assert [info.requested("memory")] == expected
        assert -(2**63) <= info.requested("memory") < 2**63
