"""VolumeBinding scores the utilization of storage with the gate StorageCapacityScoring."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.config.types import UtilizationShapePoint, VolumeBindingArgs
from mooring.framework.runtime.evaluate import score_nodes
from mooring.plugins import VolumeBinding
from mooring.plugins.volume_binding.capacity_score import CapacityScore
from mooring.testing import Harness, make_node
from tests.helpers.volume_objects import (
    DRIVER,
    capacity,
    claim,
    csi_driver,
    put,
    storage_class,
    user,
    volume,
)

GATES = {"StorageCapacityScoring": True}
RISING = (
    UtilizationShapePoint(utilization=0, score=0),
    UtilizationShapePoint(utilization=100, score=10),
)
FALLING = (
    UtilizationShapePoint(utilization=0, score=10),
    UtilizationShapePoint(utilization=100, score=0),
)
SIZES = {"a": "100Gi", "b": "50Gi", "c": "10Gi"}


def scores(
    *claims: Any, objects: tuple[Any, ...] = (), shape: Any = RISING, gates: Any = GATES
) -> dict[str, int] | None:
    """Returns the scores of nodes that have local disks of SIZES, for a pod with these claims."""
    nodes = [make_node(name, labels={"host": name}) for name in SIZES]
    plugin = VolumeBinding(VolumeBindingArgs(shape=shape), None, gates)
    harness = Harness(nodes, [plugin])
    made = storage_class("made", provisioner=DRIVER)
    put(harness.cache, storage_class("local"), made, csi_driver(), *claims, *objects)
    for name, size in SIZES.items():
        near = {"matchLabels": {"host": name}}
        put(harness.cache, capacity(f"capacity-{name}", near=near, capacity=size))
    return harness.scores(user("pod", *(obj.metadata.name for obj in claims)))


def test_a_new_volume_counts_with_the_capacity_of_its_node() -> None:
    wanted = claim("x", storage_class="made", size="10Gi")
    assert scores(wanted) == {"a": 10, "b": 20, "c": 100}
    assert scores(wanted, shape=FALLING) == {"a": 90, "b": 80, "c": 0}


def test_nodes_are_scored_in_any_order() -> None:
    nodes = [make_node(name, labels={"host": name}) for name in SIZES]
    harness = Harness(nodes, [VolumeBinding(VolumeBindingArgs(shape=RISING), None, GATES)])
    put(harness.cache, storage_class("local"), claim("x", size="10Gi"))
    for name, size in SIZES.items():
        put(harness.cache, volume(f"v-{name}", size=size, near={"host": name}))

    for order in (["c", "a", "b"], ["b", "c", "a"]):
        scores_of = score_nodes(harness.framework, harness.open(user("pod", "x"))[0], order)
        assert scores_of == {"a": 10, "b": 20, "c": 100}


def test_claims_of_one_class_share_the_capacity() -> None:
    pair = [claim(name, storage_class="made", size="10Gi") for name in ("x", "y")]
    assert scores(*pair) == {"a": 20, "b": 40, "c": 100}


def test_existing_volumes_count_alone() -> None:
    claims = [claim("x", storage_class="made", size="10Gi"), claim("y", size="50Gi")]
    volumes = [volume(f"v-{name}", size="100Gi", near={"host": name}) for name in SIZES]
    assert scores(*claims, objects=tuple(volumes)) == {"a": 50, "b": 50, "c": 50}


def test_classes_have_equal_weights_and_the_mean_is_rounded() -> None:
    other = storage_class("other")
    claims = [claim("x", size="30Gi"), claim("y", storage_class="other", size="15Gi")]
    volumes = [volume(f"v-{name}", size="100Gi", near={"host": name}) for name in SIZES]
    volumes += [
        volume(f"w-{name}", size="100Gi", near={"host": name}, storage_class="other")
        for name in SIZES
    ]
    # (30 + 15) / 2 = 22.5
    assert scores(*claims, objects=(other, *volumes)) == {"a": 23, "b": 23, "c": 23}


@pytest.mark.parametrize("gates", [{}, {"StorageCapacityScoring": False}])
def test_without_the_gate_nothing_is_scored(gates: dict[str, bool]) -> None:
    wanted = claim("x", storage_class="made", size="10Gi")
    assert scores(wanted, gates=gates) is None


def test_a_pod_without_unbound_claims_is_not_scored() -> None:
    bound = claim("x", volume_name="v")
    assert scores(bound, objects=(volume("v", claim="default/x", phase="Bound"),)) is None


def points(*pairs: tuple[int, int]) -> CapacityScore:
    return CapacityScore(
        [UtilizationShapePoint(utilization=at, score=score) for at, score in pairs]
    )


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ([(0, 0), (100, 10)], {0: 0, 1: 1, 50: 50, 99: 99, 100: 100}),
        ([(0, 10), (100, 0)], {0: 100, 1: 99, 33: 67, 100: 0}),
        # Outside of the points the scores are those of the first and of the last.
        ([(20, 1), (40, 3)], {0: 10, 20: 10, 21: 11, 30: 20, 40: 30, 41: 30, 100: 30}),
        ([(0, 0), (30, 10), (100, 5)], {15: 50, 29: 96, 30: 100, 31: 100, 32: 99, 65: 75, 100: 50}),
        ([(50, 7)], {0: 70, 50: 70, 100: 70}),
    ],
)
def test_a_shape_is_a_broken_line(shape: list[tuple[int, int]], expected: dict[int, int]) -> None:
    score = points(*shape)

    assert {percent: score._at(percent) for percent in expected} == expected


@pytest.mark.parametrize(
    ("by_class", "expected"),
    [
        ({}, 0),
        ({"a": (50, 100)}, 50),
        ({"a": (1, 3)}, 33),
        ({"a": (3, 2)}, 100),
        ({"a": (0, 0)}, 100),
        ({"a": (0, 7)}, 0),
        ({"a": (50, 100), "b": (51, 100)}, 51),
        ({"a": (50, 100), "b": (50, 100), "c": (51, 100)}, 50),
        ({"a": (50, 100), "b": (51, 100), "c": (51, 100)}, 51),
    ],
)
def test_the_score_is_the_rounded_mean_of_the_classes(
    by_class: dict[str, tuple[int, int]], expected: int
) -> None:
    assert points((0, 0), (100, 10))._score(by_class) == expected


def test_a_node_without_a_reported_capacity_or_a_driver_that_reports_none_scores_zero() -> None:
    wanted = claim("x", storage_class="made", size="10Gi")
    assert scores(wanted, objects=(csi_driver(has_capacity=False),)) == dict.fromkeys(SIZES, 0)
    assert scores(wanted, objects=(csi_driver(has_capacity=None),)) == dict.fromkeys(SIZES, 0)


def test_volumes_of_one_class_and_their_capacities_are_added_up() -> None:
    claims = [claim("x", size="30Gi"), claim("y", size="15Gi")]
    volumes = [
        volume(f"{name}-{number}", size=size, near={"host": name})
        for name in SIZES
        for number, size in enumerate(("40Gi", "20Gi"))
    ]
    # (30 + 15) of (40 + 20)
    assert scores(*claims, objects=tuple(volumes)) == {"a": 75, "b": 75, "c": 75}
