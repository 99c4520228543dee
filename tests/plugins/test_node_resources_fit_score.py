"""NodeResourcesFit, score: how much would be left, how full the node would be, or a curve."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.config.types import (
    NodeResourcesFitArgs,
    RequestedToCapacityRatio,
    ResourceSpec,
    ScoringStrategy,
    UtilizationShapePoint,
)
from mooring.errors import ConfigError, PluginError
from mooring.objects.node import Node
from mooring.objects.pod import Pod
from mooring.plugins import NodeResourcesFit
from mooring.plugins.node_resources import scoring as columns
from mooring.plugins.node_resources import scoring_one_node as one
from mooring.testing import Harness, check_conformance, make_node, make_pod
from tests.plugins.reference_plugins import assert_same
from tests.plugins.resource_clusters import GPU, shapes
from tests.plugins.resource_twins import NodeResourcesFitTwin, broken_line

Amounts = dict[str, str | int]
Shape = list[tuple[int, int]]

CPU_AND_MEMORY = {"cpu": 1, "memory": 1}


def args_of(
    kind: str, resources: dict[str, int] | None = None, shape: Shape | None = None
) -> NodeResourcesFitArgs:
    weights = resources if resources is not None else CPU_AND_MEMORY
    ratio = None
    if shape is not None:
        points = tuple(UtilizationShapePoint(utilization=at, score=score) for at, score in shape)
        ratio = RequestedToCapacityRatio(shape=points)
    return NodeResourcesFitArgs(
        scoring_strategy=ScoringStrategy(
            type=kind,
            resources=tuple(ResourceSpec(name=n, weight=w) for n, w in weights.items()),
            requested_to_capacity_ratio=ratio,
        )
    )


LEAST, MOST = args_of("LeastAllocated"), args_of("MostAllocated")


def score(
    args: NodeResourcesFitArgs,
    asked: Amounts | Pod,
    has: Amounts | None = None,
    *placed: Amounts | Pod,
) -> int:
    """Returns the score of a node, by default with 4 cpu and 32Gi; the reference must agree."""
    objects: list[Node | Pod] = [make_node("n", allocatable=has)]
    for number, pod in enumerate(placed):
        if not isinstance(pod, Pod):
            pod = make_pod(f"placed-{number}", node="n", requests=pod)
        objects.append(pod)
    pod = asked if isinstance(asked, Pod) else make_pod(requests=asked)
    assert_same(NodeResourcesFit(args), NodeResourcesFitTwin(args), objects, pod)
    found = Harness(objects, [NodeResourcesFit(args)]).scores(pod)
    assert found is not None
    return found["n"]


# ---------------------------------------------------------------- least and most


@pytest.mark.parametrize(
    ("asked", "placed", "least", "most"),
    [
        ({"cpu": "1", "memory": "8Gi"}, {"cpu": "0", "memory": "0"}, 75, 25),
        ({"cpu": "4", "memory": "32Gi"}, {"cpu": "0", "memory": "0"}, 0, 100),
        # 1333 of 4000 is 66.675 % free and 33.325 % used; each resource is cut, then their mean.
        ({"cpu": "1333m", "memory": "0"}, {"cpu": "0", "memory": "0"}, 83, 16),
        ({"cpu": "1", "memory": "0"}, {"cpu": "2", "memory": "16Gi"}, 37, 62),
        # Overcommitted in cpu: nothing free, all used.
        ({"cpu": "3", "memory": "0"}, {"cpu": "2", "memory": "0"}, 50, 50),
        # Who asks for nothing is taken to need 100m and 200Mi, on either side.
        ({}, {"cpu": "0", "memory": "0"}, 98, 1),  # 97 and 99; 2 and 0
        ({}, {}, 96, 3),  # 95 and 98; 5 and 1
        ({"cpu": "0", "memory": "0"}, {"cpu": "0", "memory": "0"}, 100, 0),
    ],
)
def test_least_and_most_allocated(asked: Amounts, placed: Amounts, least: int, most: int) -> None:
    assert score(LEAST, asked, {}, placed) == least
    assert score(MOST, asked, {}, placed) == most


def test_the_defaults_are_per_container() -> None:
    pod = make_pod(images=["a", "b", "c"])
    assert score(LEAST, pod) == 95  # 300m: 92; 600Mi: 98
    first_asks = make_pod(images=["a", "b"], requests={"cpu": "1"})
    assert score(LEAST, first_asks) == 85  # 1100m: 72; 400Mi: 98


def test_weights() -> None:
    asked: Amounts = {"cpu": "1", "memory": "0"}
    assert score(args_of("LeastAllocated", {"cpu": 1, "memory": 1}), asked) == 87
    assert score(args_of("LeastAllocated", {"cpu": 3, "memory": 1}), asked) == 81
    assert score(args_of("MostAllocated", {"cpu": 100, "memory": 1}), asked) == 24


def test_resources_that_a_node_lacks_do_not_count() -> None:
    asked: Amounts = {"cpu": "1", "memory": "1Gi"}
    assert score(LEAST, asked, {"memory": "0"}) == 75
    assert score(LEAST, asked, {"cpu": "0", "memory": "0"}) == 0
    assert score(MOST, asked, {"cpu": "0", "memory": "0"}) == 0


def test_extended_resources_count_only_for_pods_that_ask_for_them() -> None:
    args = args_of("MostAllocated", {"cpu": 1, GPU: 1})
    has: Amounts = {GPU: 4}
    busy: Amounts = {GPU: 1, "cpu": "0"}
    assert score(args, {"cpu": "2"}, has, busy) == 50
    assert score(args, {"cpu": "2", GPU: 2}, has, busy) == 62  # 50 and 75
    assert score(args, {"cpu": "2", GPU: 2}) == 50  # a node without any


def test_ephemeral_storage_counts_as_it_is_asked_for() -> None:
    args = args_of("LeastAllocated", {"ephemeral-storage": 1})
    assert score(args, {}, {"ephemeral-storage": "10"}, {"ephemeral-storage": "4"}) == 60
    assert score(args, {"ephemeral-storage": "3"}, {"ephemeral-storage": "10"}) == 70


def test_requests_of_the_pod_itself_count_on_nodes_but_not_for_the_pod_to_be_placed() -> None:
    """The gates of upstream's scorer are left off in NodeResourcesFit, those of nodes are on."""
    own: dict[str, Any] = {"resources": {"requests": {"cpu": "2"}}}
    assert score(LEAST, make_pod(spec=own)) == 98  # as 100m and 200Mi
    there = make_pod("there", node="n", spec=own)
    asked: Amounts = {"cpu": "0", "memory": "0"}
    assert score(LEAST, asked, {}, there) == 74  # 2000m: 50; 200Mi: 99


def test_a_resize_counts_on_nodes_but_not_for_the_pod_to_be_placed() -> None:
    granted = {"cpu": "3", "memory": "0"}
    status = {"containerStatuses": [{"name": "container-0", "resources": {"requests": granted}}]}
    small: Amounts = {"cpu": "1", "memory": "0"}
    assert score(LEAST, make_pod(requests=small, status=status)) == 87
    there = make_pod("there", node="n", requests=small, status=status)
    assert score(LEAST, {"cpu": "0", "memory": "0"}, {}, there) == 62


@pytest.mark.parametrize("memory_bytes", [2**56 - 1, 2**56, 92233720368547758, 92233720368547759])
def test_arithmetic_is_that_of_an_int64(memory_bytes: int) -> None:
    """The twin computes exactly and wraps around; from 92 233 720 368 547 759 bytes on it shows."""
    objects: list[Node | Pod] = [make_node("n", allocatable={"memory": str(memory_bytes)})]
    objects.append(make_pod("there", node="n", requests={"memory": str(2**54 + 1)}))
    pod = make_pod(requests={"memory": str(2**40 + 7)})
    for args in (LEAST, MOST, args_of("RequestedToCapacityRatio", shape=[(0, 0), (100, 10)])):
        assert_same(NodeResourcesFit(args), NodeResourcesFitTwin(args), objects, pod)
    free = memory_bytes - 2**54 - 2**40 - 8
    wraps = free * 100 >= 2**63
    raw = Harness(objects, [NodeResourcesFit(args_of("LeastAllocated", {"memory": 1}))])
    found = raw.raw_scores(pod)
    assert found is not None
    assert wraps or found["n"] == free * 100 // memory_bytes


def test_a_score_that_wrapped_around_below_zero_is_cut_toward_zero() -> None:
    """100 x 2**57 is -28 x 2**57 in an int64; (-28 x 5 + 66) / 6 is -12.33, and -13 if floored."""
    args = args_of("LeastAllocated", {"memory": 5, "cpu": 1})
    objects: list[Node | Pod] = [make_node("n", allocatable={"memory": str(2**57)})]
    pod = make_pod(requests={"cpu": "1333m", "memory": "0"})
    assert_same(NodeResourcesFit(args), NodeResourcesFitTwin(args), objects, pod)
    harness = Harness(objects, [NodeResourcesFit(args)])
    assert harness.raw_scores(pod) == {"n": -12}
    with pytest.raises(PluginError, match="returns an invalid score -12"):
        harness.scores(pod)


# ---------------------------------------------------------------- curves

RISING: Shape = [(0, 0), (100, 10)]
FALLING: Shape = [(0, 10), (100, 0)]


@pytest.mark.parametrize(
    ("shape", "cpu_milli", "expected"),
    [
        (RISING, 1000, 25),
        (RISING, 4000, 100),
        (FALLING, 1000, 75),
        (FALLING, 4000, 0),
        # Constant before the first point and after the last.
        ([(50, 2), (70, 8)], 400, 20),
        ([(50, 2), (70, 8)], 2400, 50),
        ([(50, 2), (70, 8)], 3600, 80),
        ([(40, 7)], 4000, 70),
        # Use is cut to whole percents: 1999m of 4000m is 49 %.
        (RISING, 1999, 49),
        # A slope is cut toward zero, also where it falls: 100 - 70 x 10 / 30 = 100 - 23.
        ([(0, 10), (30, 3)], 400, 77),
        ([(0, 3), (30, 10)], 400, 53),
        ([(0, 0), (30, 10), (60, 0), (100, 5)], 3200, 25),
    ],
)
def test_a_curve_is_read_at_the_used_percentage(
    shape: Shape, cpu_milli: int, expected: int
) -> None:
    args = args_of("RequestedToCapacityRatio", {"cpu": 1}, shape)
    assert score(args, {"cpu": f"{cpu_milli}m"}) == expected


def test_an_overcommitted_node_counts_as_full() -> None:
    falling = args_of("RequestedToCapacityRatio", {"cpu": 1}, [(0, 10), (100, 3)])
    assert score(falling, {"cpu": "3"}, {}, {"cpu": "2"}) == 30


def test_resources_with_a_score_of_0_do_not_count() -> None:
    args = args_of("RequestedToCapacityRatio", CPU_AND_MEMORY, RISING)
    assert score(args, {"cpu": "2", "memory": "0"}) == 50
    assert score(args, {"cpu": "0", "memory": "0"}) == 0


@pytest.mark.parametrize(
    ("cpu_milli", "memory_gibibytes", "expected"), [(1000, 16, 38), (1960, 16, 50), (960, 16, 37)]
)
def test_halves_round_up(cpu_milli: int, memory_gibibytes: int, expected: int) -> None:
    """37.5 -> 38 and 49.5 -> 50, where rounding half to even would agree, and 37.0."""
    args = args_of("RequestedToCapacityRatio", CPU_AND_MEMORY, RISING)
    asked: Amounts = {"cpu": f"{cpu_milli}m", "memory": f"{memory_gibibytes}Gi"}
    assert score(args, asked) == expected


def test_halves_round_up_where_half_to_even_would_go_down() -> None:
    args = args_of("RequestedToCapacityRatio", CPU_AND_MEMORY, RISING)
    assert score(args, {"cpu": "920m", "memory": "16Gi"}) == 37  # 23 and 50: 36.5


@given(shapes(), st.integers(0, 100))
def test_the_table_of_a_curve_equals_the_broken_line(
    shape: tuple[UtilizationShapePoint, ...], percent: int
) -> None:
    assert columns.curve_table(shape)[percent] == broken_line(shape)(percent)


# ---------------------------------------------------------------- one node


INT64 = st.integers(-(2**63), 2**63 - 1)  # below zero after a wrap-around


@given(INT64, st.integers(1, 2**63 - 1), INT64)
def test_the_one_node_form_of_a_share_equals_the_columns(
    requested: int, allocatable: int, allocated: int
) -> None:
    share = (1, allocatable, allocated, requested)
    arrays = [np.array([[value]], dtype=np.int64) for value in (allocatable, requested)]
    column = columns.Shares(np.array([1]), *arrays)
    assert columns.least_allocated(column).tolist() == [[one.least_allocated(share)]]
    assert columns.most_allocated(column).tolist() == [[one.most_allocated(share)]]
    points = tuple(UtilizationShapePoint(utilization=at, score=value) for at, value in FALLING)
    assert columns.capacity_ratio(points)(column).tolist() == [[one.capacity_ratio(points)(share)]]


@pytest.mark.parametrize("args", [MOST, args_of("RequestedToCapacityRatio", shape=FALLING)])
def test_it_keeps_the_contract_with_other_strategies(args: NodeResourcesFitArgs) -> None:
    check_conformance(NodeResourcesFit(args), reference=NodeResourcesFitTwin(args), seeds=range(60))


@pytest.mark.parametrize("shape", [None, []])
def test_a_ratio_without_points_is_an_error(shape: Shape | None) -> None:
    with pytest.raises(ConfigError) as caught:
        NodeResourcesFit(args_of("RequestedToCapacityRatio", shape=shape))

    assert str(caught.value) == (
        "scoringStrategy.requestedToCapacityRatio.shape: must have at least one point"
    )


def test_a_strategy_of_another_name_is_an_error() -> None:
    with pytest.raises(ConfigError) as caught:
        NodeResourcesFit(args_of("Balanced"))

    assert str(caught.value).startswith("scoringStrategy.type: ")
    assert "unknown strategy" in str(caught.value)
    assert "Balanced" in str(caught.value)
