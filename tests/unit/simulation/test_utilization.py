"""Utilization of a cluster, compared with sums computed by hand."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.objects.meta import ObjectMeta, ResourceRequirements
from mooring.objects.node import Node, NodeStatus
from mooring.objects.pod import Container, Pod, PodSpec
from mooring.simulation.utilization import Utilization, amount_text, amounts_text, group_name

GIB = 1 << 30


def node(name: str, cpu: str = "4", memory: str = "8Gi", **labels: str) -> Node:
    allocatable: dict[str, str | int | float] = {"cpu": cpu, "memory": memory, "pods": "110"}
    return Node(
        metadata=ObjectMeta(name=name, labels=labels), status=NodeStatus(allocatable=allocatable)
    )


def pod(name: str, cpu: str = "1", memory: str = "1Gi", on: str = "") -> Pod:
    resources = ResourceRequirements(requests={"cpu": cpu, "memory": memory})
    spec = PodSpec(containers=(Container(resources=resources),), node_name=on)
    return Pod(metadata=ObjectMeta(name=name, namespace="a"), spec=spec)


def test_pods_that_are_there_count_from_the_start() -> None:
    utilization = Utilization([pod("x", "1500m", on="n1"), node("n1"), node("n2")])
    assert utilization.nodes["n1"].requested == {"cpu": 1500, "memory": GIB, "pods": 1}
    assert utilization.nodes["n2"].requested == {}
    assert utilization.allocatable == {"cpu": 8000, "memory": 16 * GIB, "pods": 220}
    assert utilization.requested == {"cpu": 1500, "memory": GIB, "pods": 1}


def test_what_is_free_can_be_less_than_nothing() -> None:
    utilization = Utilization([node("n1", cpu="1"), pod("x", cpu="3", on="n1")])
    assert utilization.nodes["n1"].free("cpu") == -2000
    assert utilization.nodes["n1"].free("example.com/gpu") == 0


def test_the_share_of_a_node_is_the_mean_over_its_resources() -> None:
    utilization = Utilization([node("n1"), pod("x", cpu="1", memory="6Gi", on="n1")])
    assert utilization.nodes["n1"].share() == pytest.approx((0.25 + 0.75) / 2)
    assert Utilization([node("n2", cpu="0", memory="0")]).nodes["n2"].share() == 0.0


def test_a_pod_on_a_node_that_is_gone_counts_nowhere() -> None:
    utilization = Utilization([node("n1"), pod("x", on="gone")])
    assert not any(utilization.requested.values())
    utilization.remove("a/x")
    assert not any(utilization.requested.values())


def test_a_pod_that_is_added_again_has_moved() -> None:
    utilization = Utilization([node("n1"), node("n2")])
    utilization.add(pod("x"), "n1")
    utilization.add(pod("x", cpu="2"), "n2")
    assert utilization.nodes["n1"].requested["cpu"] == 0
    assert utilization.nodes["n2"].requested["cpu"] == 2000
    assert utilization.requested["cpu"] == 2000


@given(seed=st.integers(0, 2**32))
def test_totals_are_those_of_the_pods_that_are_there(seed: int) -> None:
    rng = random.Random(seed)
    names = ["n0", "n1", "n2"]
    utilization = Utilization([node(name) for name in names])
    there: dict[str, tuple[str, int]] = {}
    for _ in range(30):
        name = f"p{rng.randrange(6)}"
        if rng.random() < 0.4:
            utilization.remove(f"a/{name}")
            there.pop(name, None)
            continue
        cpu_milli, where = rng.randrange(1, 2000), rng.choice(names)
        utilization.add(pod(name, cpu=f"{cpu_milli}m"), where)
        there[name] = where, cpu_milli
    for name in names:
        expected = sum(cpu_milli for where, cpu_milli in there.values() if where == name)
        assert utilization.nodes[name].requested.get("cpu", 0) == expected
        count = sum(where == name for where, _ in there.values())
        assert utilization.nodes[name].requested.get("pods", 0) == count
    assert utilization.requested.get("cpu", 0) == sum(cpu_milli for _, cpu_milli in there.values())


def test_requests_of_a_shared_spec_are_computed_once_and_of_equal_ones_alike() -> None:
    utilization = Utilization()
    first = pod("x", cpu="1500m")
    second = Pod(metadata=ObjectMeta(name="y"), spec=first.spec)
    assert utilization.requests(first) is utilization.requests(second)
    assert utilization.requests(pod("z", cpu="1500m")) == utilization.requests(first)


def test_a_request_of_zero_is_not_told() -> None:
    assert Utilization().requests(pod("x", memory="0")) == {"cpu": 1000, "pods": 1}


def test_like_nodes_are_a_group_and_the_largest_group_comes_first() -> None:
    label = "node.kubernetes.io/instance-type"
    nodes = [node("a", cpu="2"), node("b"), node("c"), node("d", **{label: "m5.large"})]
    groups = Utilization(nodes).groups()
    assert {name: [n.name for n in members] for name, members in groups.items()} == {
        "4 cpu, 8Gi memory": ["b", "c"],
        "2 cpu, 8Gi memory": ["a"],
        "m5.large, 4 cpu, 8Gi memory": ["d"],
    }
    assert next(iter(groups)) == "4 cpu, 8Gi memory"


def test_a_node_without_anything_has_a_group_as_well() -> None:
    assert group_name(Node(), {}) == "no resources"


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        ("cpu", 96_000, "96"),
        ("cpu", 1_930, "1.93"),
        ("cpu", -250, "-0.25"),
        ("cpu", 0, "0"),
        ("memory", 384 * GIB, "384Gi"),
        ("memory", 3 * GIB // 2, "1.5Gi"),
        ("memory", 5 << 40, "5Ti"),
        ("memory", 1 << 40, "1024Gi"),
        ("memory", 200 << 20, "200Mi"),
        ("memory", 512, "512"),
        ("hugepages-2Mi", 2 << 20, "2Mi"),
        ("ephemeral-storage", 10 * GIB, "10Gi"),
        ("example.com/gpu", 7, "7"),
    ],
)
def test_amounts_read_as_people_write_them(resource: str, amount: int, text: str) -> None:
    assert amount_text(resource, amount) == text


def test_several_amounts_are_a_list_without_the_number_of_pods() -> None:
    assert amounts_text({"cpu": 500, "example.com/gpu": 1, "pods": 1}) == "0.5 cpu, 1 gpu"
    assert amounts_text({"pods": 1}) == "nothing"
