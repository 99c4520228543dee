"""Clusters made by chance: the same for the same seed, and full of the cases that matter."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.clock import seeded_random
from mooring.objects.codec.decode import encode
from mooring.objects.node import Node
from mooring.objects.pod import NodeAffinity, Pod
from mooring.state import PodInfo
from mooring.state.audit import audit
from mooring.testing import cluster
from mooring.testing.random_cluster import EXTENDED, random_node, random_objects, random_pod

MANY = 300


def many_pods() -> list[PodInfo]:
    rng = seeded_random(1)
    return [PodInfo(random_pod(rng, f"pod-{number}")) for number in range(MANY)]


def many_nodes() -> list[Node]:
    rng = seeded_random(1)
    return [random_node(rng, f"node-{number}") for number in range(MANY)]


def node_affinity(pod: PodInfo) -> NodeAffinity:
    affinity = pod.spec.affinity
    found = affinity.node_affinity if affinity is not None else None
    return found or NodeAffinity()


@given(st.integers(0, 2**32))
def test_equal_seeds_make_equal_clusters(seed: int) -> None:
    first, second = random_objects(seeded_random(seed)), random_objects(seeded_random(seed))

    assert [encode(found) for found in first] == [encode(found) for found in second]


def test_other_seeds_make_other_clusters() -> None:
    made = {
        b"".join(encode(found) for found in random_objects(seeded_random(n))) for n in range(20)
    }
    assert len(made) == 20


@given(st.integers(0, 2**32), st.integers(0, 9), st.integers(0, 12))
def test_a_cluster_has_as_many_as_asked_for_and_can_be_held(
    seed: int, nodes: int, pods: int
) -> None:
    made = random_objects(seeded_random(seed), nodes=nodes, pods=pods)

    names = [found.metadata.name for found in made if isinstance(found, Node)]
    placed = [found for found in made if isinstance(found, Pod)]
    assert len(names) == nodes
    assert len(placed) == (pods if nodes else 0)  # without nodes there is nowhere to be
    assert {pod.spec.node_name for pod in placed} <= set(names)
    assert len({found.metadata.uid for found in made}) == len(made)
    assert audit(cluster(*made)) == []


def test_a_pod_is_where_and_as_important_as_asked_for() -> None:
    rng = seeded_random(0)

    assert random_pod(rng, "p", node="n").spec.node_name == "n"
    assert {random_pod(rng, "p", priority=4).spec.priority for _ in range(9)} == {4}
    assert {random_pod(rng, "p").spec.priority for _ in range(99)} == {None, 0, 10, -5}


@pytest.mark.parametrize(
    ("what", "holds"),
    [
        ("no cpu at all", lambda node: node.status.allocatable["cpu"] == "0"),
        ("no room for pods", lambda node: node.status.allocatable["pods"] == "0"),
        ("an extended resource", lambda node: EXTENDED in node.status.allocatable),
        ("a cordon", lambda node: node.spec.unschedulable),
        ("two taints", lambda node: len(node.spec.taints) == 2),
        ("images", lambda node: node.status.images),
        ("an empty label value", lambda node: "" in node.metadata.labels.values()),
        ("a zone", lambda node: "topology.kubernetes.io/zone" in node.metadata.labels),
    ],
)
def test_some_nodes_have_it_and_some_do_not(what: str, holds: Callable[[Node], object]) -> None:
    have = sum(bool(holds(node)) for node in many_nodes())
    assert MANY // 50 < have < MANY


@pytest.mark.parametrize(
    ("what", "holds"),
    [
        ("no requests", lambda pod: not pod.requests),
        ("the extended resource", lambda pod: pod.requests.get(EXTENDED)),
        ("an overhead", lambda pod: pod.spec.overhead),
        ("two containers", lambda pod: len(pod.spec.containers) == 2),
        ("a host port", lambda pod: pod.host_ports),
        ("a node selector", lambda pod: pod.spec.node_selector),
        ("tolerations", lambda pod: pod.spec.tolerations),
        (
            "a required node affinity",
            lambda pod: node_affinity(pod).required_during_scheduling_ignored_during_execution,
        ),
        (
            "a preferred one",
            lambda pod: node_affinity(pod).preferred_during_scheduling_ignored_during_execution,
        ),
    ],
)
def test_some_pods_have_it_and_some_do_not(what: str, holds: Callable[[PodInfo], object]) -> None:
    have = sum(bool(holds(pod)) for pod in many_pods())
    assert MANY // 50 < have < MANY


def test_every_operator_of_a_node_affinity_occurs_also_on_fields() -> None:
    operators: set[str] = set()
    fields: set[str] = set()
    for pod in many_pods():
        required = node_affinity(pod).required_during_scheduling_ignored_during_execution
        for term in required.node_selector_terms if required is not None else ():
            operators.update(found.operator for found in term.match_expressions)
            fields.update(found.operator for found in term.match_fields)

    assert operators == {"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"}
    assert fields == {"In", "NotIn"}
