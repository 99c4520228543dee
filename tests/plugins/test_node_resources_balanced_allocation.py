"""NodeResourcesBalancedAllocation: does the pod even out the use of a node's resources."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.clock import seeded_random
from mooring.config.types import NodeResourcesBalancedAllocationArgs, ResourceSpec
from mooring.errors import PluginError
from mooring.objects.node import Node
from mooring.objects.pod import Pod
from mooring.plugins import NodeResourcesBalancedAllocation
from mooring.plugins.node_resources import scoring as columns
from mooring.plugins.node_resources import scoring_one_node as one
from mooring.testing import Harness, check_conformance, make_node, make_pod
from mooring.testing.random_cluster import random_objects, random_pod
from tests.plugins.reference_plugins import SEED_BLOCKS, assert_same
from tests.plugins.resource_clusters import GPU, balanced_args, clusters, pods
from tests.plugins.resource_twins import NodeResourcesBalancedAllocationTwin

Amounts = dict[str, str | int]

#: A node on which percentages are easy to read.
HUNDREDS: Amounts = {"cpu": "100m", "memory": "100", "ephemeral-storage": "100", GPU: 100}


def args_of(*names: str) -> NodeResourcesBalancedAllocationArgs:
    return NodeResourcesBalancedAllocationArgs(
        resources=tuple(ResourceSpec(name=name) for name in names)
    )


TWO, THREE = args_of("cpu", "memory"), args_of("cpu", "memory", "ephemeral-storage")


def score(
    asked: Amounts | Pod,
    placed: Amounts | Pod | None = None,
    has: Amounts | None = None,
    args: NodeResourcesBalancedAllocationArgs = TWO,
) -> int | None:
    """Returns the score of one node; None if the plugin skips the pod. The twin has to agree."""
    objects: list[Node | Pod] = [make_node("n", allocatable=HUNDREDS if has is None else has)]
    if isinstance(placed, Pod):
        objects.append(placed)
    elif placed is not None:
        objects.append(make_pod("there", node="n", requests=placed))
    pod = asked if isinstance(asked, Pod) else make_pod(requests=asked)
    plugin, twin = NodeResourcesBalancedAllocation, NodeResourcesBalancedAllocationTwin
    assert_same(plugin(args), twin(args), objects, pod)
    found = Harness(objects, [plugin(args)]).scores(pod)
    return None if found is None else found["n"]


@pytest.mark.parametrize(
    ("asked", "placed", "expected"),
    [
        # Balanced before and after: no difference.
        ({"cpu": "20m", "memory": "20"}, {}, 75),
        ({"cpu": "20m", "memory": "20"}, {"cpu": "30m", "memory": "30"}, 75),
        # From even to |0.5 - 0| / 2 = 0.25: 75 against 100; 50 + (50 - 25) / 2 = 62.
        ({"cpu": "50m"}, {}, 62),
        ({"cpu": "100m"}, {}, 50),
        # The other way round the pod fills the gap.
        ({"memory": "50"}, {"cpu": "50m"}, 87),
        ({"memory": "100"}, {"cpu": "100m"}, 100),
        # An odd difference is cut toward zero: from 100 to 99 is (50 - 1) / 2 = 24.
        ({"cpu": "2m"}, {}, 74),
        ({"memory": "2"}, {"cpu": "2m"}, 75),
        # More than all counts as all.
        ({"cpu": "100m"}, {"cpu": "100m"}, 75),
        ({"memory": "300"}, {"cpu": "300m"}, 100),
    ],
)
def test_two_resources(asked: Amounts, placed: Amounts, expected: int) -> None:
    assert score(asked, placed) == expected


@pytest.mark.parametrize(
    ("asked", "placed", "expected"),
    [
        ({"cpu": "30m", "memory": "30", "ephemeral-storage": "30"}, {}, 75),
        # 0.3, 0, 0: mean 0.1, deviation sqrt((0.04 + 0.01 + 0.01) / 3) = 0.1414: 85.
        ({"cpu": "30m"}, {}, 67),
        # 0.9, 0, 0: deviation 0.424: 57 against 100.
        ({"cpu": "90m"}, {}, 53),
        ({"memory": "30", "ephemeral-storage": "30"}, {"cpu": "30m"}, 82),
    ],
)
def test_three_resources(asked: Amounts, placed: Amounts, expected: int) -> None:
    assert score(asked, placed, args=THREE) == expected


@pytest.mark.parametrize(
    ("has", "expected"),
    [
        ({**HUNDREDS, "ephemeral-storage": "0"}, 62),  # two are left: half their difference
        ({**HUNDREDS, "ephemeral-storage": "0", "memory": "0"}, 75),  # one is always balanced
        ({"cpu": "0", "memory": "0"}, 75),
    ],
)
def test_resources_that_a_node_lacks_do_not_count(has: Amounts, expected: int) -> None:
    assert score({"cpu": "50m"}, {}, has, THREE) == expected


def test_nodes_that_lack_different_resources_are_scored_side_by_side() -> None:
    nodes = [
        make_node("all", allocatable=HUNDREDS),
        make_node("no-storage", allocatable={**HUNDREDS, "ephemeral-storage": "0"}),
        make_node("no-cpu", allocatable={**HUNDREDS, "cpu": "0"}),
        make_node("storage", allocatable={**HUNDREDS, "cpu": "0", "memory": "0"}),
    ]
    pod = make_pod(requests={"cpu": "90m"})
    harness = Harness(nodes, [NodeResourcesBalancedAllocation(THREE)])
    assert harness.scores(pod) == {"all": 53, "no-storage": 52, "no-cpu": 75, "storage": 75}


def test_an_extended_resource_counts_only_for_pods_that_ask_for_it() -> None:
    args = args_of("cpu", "memory", GPU)
    assert score({"cpu": "50m"}, {GPU: 90}, args=args) == 62
    assert score({"cpu": "50m", "memory": "50", GPU: 50}, {}, args=args) == 75


@pytest.mark.parametrize(
    ("asked", "args", "is_skipped"),
    [
        ({}, TWO, True),
        ({"cpu": "0", "memory": "0"}, TWO, True),
        ({GPU: 1}, TWO, True),
        ({GPU: 1}, args_of("cpu", GPU), False),
        ({"memory": "1"}, TWO, False),
    ],
)
def test_a_pod_that_asks_for_none_of_the_resources_is_skipped(
    asked: Amounts, args: NodeResourcesBalancedAllocationArgs, is_skipped: bool
) -> None:
    assert (score(asked, args=args) is None) is is_skipped


def test_nobody_is_taken_to_need_what_he_does_not_ask_for() -> None:
    assert score({"cpu": "50m"}, make_pod("there", node="n")) == 62


def test_requests_of_the_pod_itself_count() -> None:
    spec: dict[str, Any] = {"resources": {"requests": {"cpu": "50m"}}}
    assert score(make_pod(spec=spec)) == 62
    assert score({"memory": "50"}, make_pod("there", node="n", spec=spec)) == 87


def test_a_resize_counts_on_both_sides() -> None:
    granted = {"requests": {"cpu": "50m"}}
    status = {"containerStatuses": [{"name": "container-0", "resources": granted}]}
    assert score(make_pod(requests={"cpu": "1m"}, status=status)) == 62
    there = make_pod("there", node="n", requests={"cpu": "1m"}, status=status)
    assert score({"memory": "50"}, there) == 87


# ---------------------------------------------------------------- floats


def arrays_of(shares: list[tuple[int, int, int]]) -> list[npt.NDArray[np.int64]]:
    """Returns allocatable, allocated and requested of one node, each of shape (resources, 1)."""
    return [np.array(each, dtype=np.int64).reshape(-1, 1) for each in zip(*shares, strict=True)]


def balance_of(percents: list[int], of: int) -> tuple[int, int]:
    """Columns and one-node form of the balance after ``percents`` come to an empty node."""
    single = [(1, of, 0, used) for used in percents]
    arrays = arrays_of([(of, 0, used) for used in percents])
    return columns.balance(*arrays).item(), one.balance(single)


@pytest.mark.parametrize(
    ("used", "of", "evenness"),
    [
        # With a compensated sum, as Python's own since 3.12, each of these would be 64.
        ([1, 0, 4, 9], 10, 65),
        ([4, 0, 1, 9], 10, 65),
        ([37, 36, 0, 18, 14], 40, 65),
        ([5, 2, 1, 10], 10, 65),
    ],
)
def test_fractions_are_added_one_after_another(used: list[int], of: int, evenness: int) -> None:
    expected = 50 + (50 + evenness - 100) // 2
    assert balance_of(used, of) == (expected, expected)


def test_requests_that_leave_an_int64_wrap_around_on_both_ways() -> None:
    """What 9E there and 9E more come to is below zero; upstream calls the score invalid too."""
    objects: list[Node | Pod] = [make_node("n")]
    objects.append(make_pod("there", node="n", requests={"memory": "9E"}))
    pod = make_pod(requests={"memory": "9E"})
    plugin, twin = NodeResourcesBalancedAllocation(), NodeResourcesBalancedAllocationTwin()
    assert_same(plugin, twin, objects, pod)
    with pytest.raises(PluginError, match="returns an invalid score -"):
        Harness(objects, [plugin]).scores(pod)


@given(
    st.lists(
        st.tuples(st.integers(0, 2**62), st.integers(0, 2**62), st.integers(1, 2**62)),
        max_size=6,
    )
)
def test_both_forms_agree_on_any_numbers(found: list[tuple[int, int, int]]) -> None:
    single = [(1, has, before, after) for before, after, has in found]
    arrays = arrays_of([(has, before, after) for before, after, has in found])
    if found:
        assert columns.balance(*arrays).tolist() == [one.balance(single)]
    else:
        assert one.balance(single) == 75


# ---------------------------------------------------------------- the twin


@given(clusters(), pods(), balanced_args())
def test_it_equals_its_twin(
    objects: list[Node | Pod], pod: Pod, args: NodeResourcesBalancedAllocationArgs
) -> None:
    plugin = NodeResourcesBalancedAllocation(args)
    assert_same(plugin, NodeResourcesBalancedAllocationTwin(args), objects, pod)


@given(st.integers(0, 2**32), balanced_args())
def test_so_it_does_on_ordinary_clusters(
    seed: int, args: NodeResourcesBalancedAllocationArgs
) -> None:
    rng = seeded_random(seed)
    objects = random_objects(rng, nodes=rng.choice((1, 6)))
    plugin = NodeResourcesBalancedAllocation(args)
    twin = NodeResourcesBalancedAllocationTwin(args)
    assert_same(plugin, twin, objects, random_pod(rng, "x"))


@pytest.mark.parametrize("seeds", SEED_BLOCKS, ids=str)
def test_it_keeps_the_contract(seeds: range) -> None:
    twin = NodeResourcesBalancedAllocationTwin()
    check_conformance(NodeResourcesBalancedAllocation(), reference=twin, seeds=seeds)
