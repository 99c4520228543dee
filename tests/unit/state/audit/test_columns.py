"""The audit: damage in each kind of column is reported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mooring.state.audit import audit, audit_row
from mooring.state.cache import Cache
from mooring.testing import cluster, make_node, make_pod

UID = "pod-default-p"


def healthy() -> Cache:
    cache = cluster(
        make_node("a", zone="x", labels={"rack": "1"}, taints=["gpu:NoSchedule"], images={"i": 7}),
        make_node("b", zone="x"),
        make_node("c", zone="y", images={"i": 7}),
        make_pod("p", node="a", requests={"cpu": "1", "example.com/gpu": 2}, host_ports=[80]),
        make_pod("q", node="a", priority=3),
    )
    cache.nodes.label("rack")
    return cache


def test_what_is_right_has_no_problems() -> None:
    assert audit(healthy()) == []
    assert audit(Cache()) == []


def row_of(cache: Cache, name: str) -> int:
    return cache.nodes.row(name)


def dead(cache: Cache) -> None:
    cache.nodes._alive[0] = False


def allocatable(cache: Cache) -> None:
    cache.nodes._allocatable[cache.nodes.resource_id("memory"), 1] = 5


def requested(cache: Cache) -> None:
    cache.nodes._requested[cache.nodes.resource_id("example.com/gpu"), 0] -= 1


def nonzero_cpu(cache: Cache) -> None:
    cache.nodes._nonzero[0, 0] += 1


def nonzero_memory(cache: Cache) -> None:
    cache.nodes._nonzero[1, 2] += 1


def pod_count(cache: Cache) -> None:
    cache.nodes._pod_count[0] = 1


def allowed_pods(cache: Cache) -> None:
    cache.nodes._allowed_pods[2] = 1


def cordon(cache: Cache) -> None:
    cache.nodes._unschedulable[1] = True


def taints(cache: Cache) -> None:
    cache.nodes._taint_ids[1] = cache.nodes._taint_ids[0]


def label(cache: Cache) -> None:
    cache.nodes.label("rack").put(1, "1")


def ports(cache: Cache) -> None:
    cache.nodes.ports.add(1, (("0.0.0.0", "TCP", 443),))


def order_lacks_a_row(cache: Cache) -> None:
    cache.nodes.order.remove(1)


def order_takes_no_turns(cache: Cache) -> None:
    cache.nodes.order._rows = [0, 1, 2]


def images(cache: Cache) -> None:
    cache.nodes.images.put(2, ())


def pod_row(cache: Cache) -> None:
    placed = cache.pods.get(UID)
    assert placed is not None
    cache.pods.node_row[placed.slot] = 2


def pod_priority(cache: Cache) -> None:
    placed = cache.pods.get("pod-default-q")
    assert placed is not None
    cache.pods.priority[placed.slot] = 0


def pod_slot(cache: Cache) -> None:
    cache.pods.node_row[9] = 0


def pod_index(cache: Cache) -> None:
    cache.pods._on_row[0] = [pod for pod in cache.pods._on_row[0] if pod.info.uid != UID]


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (dead, "node a (row 0): alive is False, should be True"),
        (allocatable, "node b (row 1): allocatable memory is 5, should be 34359738368"),
        (requested, "node a (row 0): requested example.com/gpu is 1, should be 2"),
        (nonzero_cpu, "node a (row 0): nonzero cpu is 1101, should be 1100"),
        (nonzero_memory, "node c (row 2): nonzero memory is 1, should be 0"),
        (pod_count, "node a (row 0): pod_count is 1, should be 2"),
        (allowed_pods, "node c (row 2): allowed_pods is 1, should be 110"),
        (cordon, "node b (row 1): unschedulable is True, should be False"),
        (taints, "node b (row 1): taints is (Taint("),
        (label, "node b (row 1): label rack is 1, should be None"),
        (ports, "node b (row 1): host ports is {('0.0.0.0', 'TCP', 443): 1}, should be {}"),
        (order_lacks_a_row, "the visit order has rows [0, 2], the live rows are [0, 1, 2]"),
        (order_takes_no_turns, "the visit order does not take turns over zones: [0, 1, 0]"),
        (images, "image i is on rows [0], should be [0, 2]"),
        (pod_row, "pod default/p: columns (2, 0, "),
        (pod_priority, "pod default/q: columns (0, 0, "),
        (pod_slot, "3 pod slots are in use for 2 pods"),
        (pod_index, "row 0: the index by row does not list the pods of this row"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_damage_is_reported_with_its_place(damage: Callable[[Cache], None], told: str) -> None:
    cache = healthy()

    damage(cache)

    assert [problem for problem in audit(cache) if problem.startswith(told)], audit(cache)


@pytest.mark.parametrize("name", ["p", "q"])
def test_the_audit_of_a_row_compares_each_pod_on_it(name: str) -> None:
    cache = healthy()
    placed = cache.pods.get(f"pod-default-{name}")
    assert placed is not None
    assert [audit_row(cache, row) for row in range(3)] == [[], [], []]

    cache.pods.priority[placed.slot] += 1

    (problem,) = audit_row(cache, placed.row)
    assert problem.startswith(f"pod default/{name}: columns (0, ")
    assert audit_row(cache, 1) == []


def test_a_class_of_labels_that_no_pod_has_is_reported() -> None:
    cache = healthy()
    cache.counters._ids_by_namespace["other"] = {7: None}

    assert audit(cache) == ["2 label classes, should be 1"]


def test_a_resource_that_has_no_column_is_noticed() -> None:
    cache = healthy()
    cache.nodes.resources.release(cache.nodes.resource_id("example.com/gpu"))

    assert any("resources without a column" in problem for problem in audit(cache))


def test_an_image_that_nobody_knows_of_is_noticed() -> None:
    cache = healthy()
    for row in (0, 2):
        cache.nodes.images.put(row, ())

    assert audit(cache) == ["image i is on rows [], should be [0, 2]"]


def test_an_image_that_no_node_has_is_reported() -> None:
    cache = healthy()
    state = cache.nodes.images.get("i")
    assert state is not None
    cache.nodes.images._states["old"] = state

    assert audit(cache) == ["image old is on rows [0, 2], should be []"]


class Together:
    """All rows in one group."""

    def add_up(self, counts: Any) -> Any:
        return np.array([counts.sum()])

    def add(self, sums: Any, row: int, by: int) -> None:
        del row
        sums[0] += by


@pytest.mark.parametrize("weight", [1, 2])
def test_a_term_has_its_own_sums_for_each_weight(weight: int) -> None:
    term = {"labelSelector": {}, "topologyKey": "zone"}
    preferred = [{"weight": number, "podAffinityTerm": term} for number in (1, 2)]
    affinity = {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    cache = cluster(make_node("a"), make_pod("p", node="a", spec={"affinity": affinity}))
    of_weight = {shared.weight: shared for shared in cache.terms.preferred}
    sums = of_weight[weight].rows.sums_over(Together())
    assert audit(cache) == []

    sums[0] += 1

    assert len(audit(cache)) == 1


def test_ghosts_are_counted_too() -> None:
    cache = healthy()
    cache.remove_node("a")
    assert audit(cache) == []

    cache.nodes._pod_count[row_of(cache, "a")] = 0

    assert audit(cache) == ["node a (row 0): pod_count is 0, should be 2"]


@pytest.mark.parametrize("index", [-1, 99])
def test_ids_that_are_not_in_use_are_reported(index: int) -> None:
    cache = healthy()

    cache.nodes._taint_ids[1] = index

    assert audit(cache) == [f"node b (row 1): taints is <id {index} is not in use>, should be ()"]


def test_an_id_that_was_released_is_reported() -> None:
    cache = healthy()
    column = cache.nodes.label("rack")
    column.values._values[0] = None

    (problem,) = audit(cache)
    assert problem == "node a (row 0): label rack is <id 0 is not in use>, should be 1"


def test_labels_that_are_counted_wrongly_are_reported() -> None:
    cache = healthy()
    cache.nodes.labels._holders["rack"] += 1

    (problem,) = audit(cache)
    actual, expected = problem.removeprefix("labels are on ").split(", should be ")
    assert "'rack': 2" in actual
    assert "'rack': 1" in expected
