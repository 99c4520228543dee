"""NodeResourcesFit, filter: is there room for the pod, and if not, could there ever be."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.clock import seeded_random
from mooring.config.types import NodeResourcesFitArgs, ScoringStrategy
from mooring.errors import ConfigError
from mooring.objects.node import Node
from mooring.objects.pod import Pod
from mooring.plugins import NodeResourcesFit
from mooring.testing import Harness, check_conformance, make_node, make_pod
from mooring.testing.random_cluster import random_objects, random_pod
from tests.plugins.reference_plugins import SEED_BLOCKS, assert_same
from tests.plugins.resource_clusters import GPU, OTHER, PAGES, clusters, fit_args, pods
from tests.plugins.resource_twins import NodeResourcesFitTwin

NOW, NEVER = "Unschedulable", "UnschedulableAndUnresolvable"

Amounts = dict[str, str | int]


def refusal(
    asked: Amounts | Pod,
    has: Amounts,
    *placed: Amounts | Pod,
    args: NodeResourcesFitArgs | None = None,
) -> tuple[str, tuple[str, ...]] | None:
    """Returns (code, reasons) of the one node, None if the pod fits; the reference must agree."""
    objects: list[Node | Pod] = [make_node("n", allocatable=has)]
    for number, pod in enumerate(placed):
        if not isinstance(pod, Pod):
            pod = make_pod(f"placed-{number}", node="n", requests=pod)
        objects.append(pod)
    pod = asked if isinstance(asked, Pod) else make_pod(requests=asked)
    assert_same(NodeResourcesFit(args), NodeResourcesFitTwin(args), objects, pod)
    status = Harness(objects, [NodeResourcesFit(args)]).statuses(pod)["n"]
    return None if status is None else (status.code.value, status.reasons)


# ---------------------------------------------------------------- room

NO_CPU, NO_MEMORY = "Insufficient cpu", "Insufficient memory"

#: (asked, allocatable over the defaults, asked by the pod already there, refusal)
CASES: list[tuple[Amounts, Amounts, Amounts, tuple[str, tuple[str, ...]] | None]] = [
    ({"cpu": "4"}, {}, {}, None),
    ({"cpu": "4001m"}, {}, {}, (NEVER, (NO_CPU,))),
    ({"cpu": "2"}, {}, {"cpu": "2"}, None),
    ({"cpu": "2001m"}, {}, {"cpu": "2"}, (NOW, (NO_CPU,))),
    # cpu is rounded up to millicores on both sides, all else to whole units.
    ({"cpu": "100500u"}, {"cpu": "100m"}, {}, (NEVER, (NO_CPU,))),
    ({"cpu": "100500u"}, {"cpu": "101m"}, {}, None),
    ({"memory": "1500m"}, {"memory": "2"}, {}, None),
    ({"memory": "1500m"}, {"memory": "1"}, {}, (NEVER, (NO_MEMORY,))),
    ({"memory": "32Gi"}, {}, {"memory": "1"}, (NOW, (NO_MEMORY,))),
    # No default for pods that ask for nothing: they fit as long as their number does.
    ({}, {"cpu": "0", "memory": "0"}, {"cpu": "1"}, None),
    ({"cpu": "0", "memory": "0"}, {"cpu": "0", "memory": "0"}, {}, None),
    # The limit on pods never makes a node hopeless, even a limit of 0.
    ({}, {"pods": "1"}, {}, (NOW, ("Too many pods",))),
    ({"cpu": "1"}, {"pods": "0"}, {}, (NOW, ("Too many pods",))),
    ({"cpu": "5"}, {"pods": "0"}, {}, (NEVER, ("Too many pods", NO_CPU))),
    # One hopeless reason makes the whole hopeless.
    ({"cpu": "3", "memory": "64Gi"}, {}, {"cpu": "2"}, (NEVER, (NO_CPU, NO_MEMORY))),
    ({"cpu": "3", "memory": "31Gi"}, {}, {"cpu": "2"}, (NOW, (NO_CPU,))),
    # An overcommitted node still takes pods that ask for nothing of what is short.
    ({"memory": "1Gi"}, {}, {"cpu": "6"}, None),
    ({"cpu": "1m"}, {}, {"cpu": "6"}, (NOW, (NO_CPU,))),
    # Ephemeral storage, extended resources, huge pages.
    ({"ephemeral-storage": "1"}, {}, {}, (NEVER, ("Insufficient ephemeral-storage",))),
    ({"ephemeral-storage": "1Gi"}, {"ephemeral-storage": "1Gi"}, {}, None),
    ({GPU: 1}, {}, {}, (NEVER, (f"Insufficient {GPU}",))),
    ({GPU: 0}, {}, {}, None),
    ({GPU: 2}, {GPU: 4}, {GPU: 3}, (NOW, (f"Insufficient {GPU}",))),
    ({GPU: 1}, {GPU: 4}, {GPU: 3}, None),
    ({PAGES: "4Mi"}, {PAGES: "2Mi"}, {}, (NEVER, (f"Insufficient {PAGES}",))),
    # A resource that no scheduler counts.
    ({"storage": "1Gi"}, {}, {}, None),
    # Numbers near the end of an int64.
    ({"memory": "8Ei"}, {}, {}, (NEVER, (NO_MEMORY,))),
    ({"memory": str(2**62)}, {"memory": str(2**62)}, {}, None),
    ({"memory": str(2**62)}, {"memory": str(2**62)}, {"memory": "1"}, (NOW, (NO_MEMORY,))),
]


@pytest.mark.parametrize(("asked", "has", "placed", "expected"), CASES, ids=str)
def test_room_for_one_more(
    asked: Amounts, has: Amounts, placed: Amounts, expected: tuple[str, tuple[str, ...]] | None
) -> None:
    assert refusal(asked, has, placed) == expected


def test_all_reasons_are_reported_in_a_fixed_order() -> None:
    asked: Amounts = {OTHER: 1, GPU: 1, "ephemeral-storage": 1, "memory": "64Gi", "cpu": "8"}
    names = ("cpu", "memory", "ephemeral-storage", GPU, OTHER)
    reasons = ("Too many pods", *(f"Insufficient {name}" for name in names))
    assert refusal(asked, {"pods": "0"}) == (NEVER, reasons)


def test_each_reason_is_counted_by_itself_in_the_message() -> None:
    nodes = [make_node("a", allocatable={"cpu": "1"}), make_node("b", allocatable={"memory": "1"})]
    pod = make_pod(requests={"cpu": "2", "memory": "1Gi"})
    found = Harness(nodes, [NodeResourcesFit()]).decide(pod)
    text = "0/2 nodes are available: 1 Insufficient cpu, 1 Insufficient memory."
    assert found.message == text


def test_a_pod_may_lack_more_kinds_of_resources_than_an_integer_has_bits() -> None:
    names = [f"example.com/r{number:02}" for number in range(80)]
    everything: Amounts = dict.fromkeys(names, 1)
    nodes = [
        make_node("none"),
        make_node("all", allocatable=everything),
        make_node("most", allocatable=dict.fromkeys(names[:70], 1)),
    ]
    pod = make_pod(requests=everything)
    found = Harness(nodes, [NodeResourcesFit()]).reasons(pod)
    assert found["all"] == ()
    assert found["most"] == tuple(f"Insufficient {name}" for name in names[70:])
    assert len(found["none"]) == 80
    assert_same(NodeResourcesFit(), NodeResourcesFitTwin(), nodes, pod)


# ---------------------------------------------------------------- what counts as asked for


def test_the_start_of_a_pod_may_need_more_than_its_run() -> None:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    init = {"name": "i", "image": "i", "resources": {"requests": {"cpu": "3"}}}
    ordinary = make_pod(spec={"containers": [container], "initContainers": [init]})
    sidecar = make_pod(
        spec={"containers": [container], "initContainers": [init | {"restartPolicy": "Always"}]}
    )
    assert refusal(ordinary, {"cpu": "3"}) is None
    assert refusal(ordinary, {"cpu": "2999m"}) == (NEVER, (NO_CPU,))
    assert refusal(sidecar, {"cpu": "3999m"}) == (NEVER, (NO_CPU,))
    assert refusal(sidecar, {"cpu": "4"}) is None


def test_overhead_is_added() -> None:
    pod = make_pod(requests={"cpu": "1"}, spec={"overhead": {"cpu": "250m", "memory": "1Gi"}})
    assert refusal(pod, {"cpu": "1250m"}) is None
    assert refusal(pod, {"cpu": "1249m", "memory": "1"}) == (NEVER, (NO_CPU, NO_MEMORY))


@pytest.mark.parametrize(("own", "fits"), [("500m", True), ("2", False)])
def test_requests_of_the_pod_itself_replace_those_of_its_containers(own: str, fits: bool) -> None:
    pod = make_pod(requests={"cpu": "1"}, spec={"resources": {"requests": {"cpu": own}}})
    assert (refusal(pod, {"cpu": "900m"}) is None) is fits


def resized(spec_cpu: str, granted_cpu: str, *, node: str, infeasible: bool = False) -> Pod:
    """Returns a pod whose container asks for one amount, and was granted another one."""
    granted = {"cpu": granted_cpu}
    status: dict[str, Any] = {
        "containerStatuses": [
            {
                "name": "container-0",
                "allocatedResources": granted,
                "resources": {"requests": granted},
            }
        ]
    }
    if infeasible:
        condition = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
        status["conditions"] = [condition]
    return make_pod("resized", requests={"cpu": spec_cpu}, node=node, status=status)


@pytest.mark.parametrize(
    ("spec_cpu", "granted_cpu", "infeasible", "left_milli"),
    [
        ("1", "3", False, 1000),  # shrinking: what it has still counts
        ("3", "1", False, 1000),  # growing: what it wants counts already
        ("8", "1", True, 3000),  # can never be done: what it wants does not count
        ("1", "3", True, 1000),
    ],
)
def test_a_pod_in_resize_holds_the_most_of_what_it_wants_and_has(
    spec_cpu: str, granted_cpu: str, infeasible: bool, left_milli: int
) -> None:
    there = resized(spec_cpu, granted_cpu, node="n", infeasible=infeasible)
    assert refusal({"cpu": f"{left_milli}m"}, {}, there) is None
    assert refusal({"cpu": f"{left_milli + 1}m"}, {}, there) == (NOW, (NO_CPU,))


def test_the_status_of_the_pod_to_be_placed_does_not_count() -> None:
    assert refusal(resized("1", "8", node=""), {}) is None


# ---------------------------------------------------------------- ignored resources


@pytest.mark.parametrize(
    ("ignored", "groups", "asked", "fits"),
    [
        ((GPU,), (), GPU, True),
        ((GPU,), (), OTHER, False),
        ((), ("example.com",), GPU, True),
        ((), ("example.com",), OTHER, False),
        ((), ("example",), GPU, False),
        # Only extended resources can be ignored.
        (("cpu",), (), "cpu", False),
        ((PAGES,), (PAGES,), PAGES, False),
        (("kubernetes.io/batteries",), ("kubernetes.io",), "kubernetes.io/batteries", False),
    ],
)
def test_ignored_extended_resources_are_not_looked_at(
    ignored: tuple[str, ...], groups: tuple[str, ...], asked: str, fits: bool
) -> None:
    args = NodeResourcesFitArgs(ignored_resources=ignored, ignored_resource_groups=groups)
    assert (refusal({asked: 1}, {"cpu": "0"}, args=args) is None) is fits


def test_the_rest_of_a_pod_with_ignored_resources_has_to_fit() -> None:
    args = NodeResourcesFitArgs(ignored_resources=(GPU,))
    assert refusal({GPU: 1, "cpu": "5"}, {}, args=args) == (NEVER, (NO_CPU,))


# ---------------------------------------------------------------- arguments, twin


@pytest.mark.parametrize(
    ("strategy", "path"),
    [
        (ScoringStrategy(type="Best"), "scoringStrategy.type"),
        (
            ScoringStrategy(type="RequestedToCapacityRatio"),
            "scoringStrategy.requestedToCapacityRatio.shape",
        ),
    ],
)
def test_arguments_that_cannot_work_are_refused(strategy: ScoringStrategy, path: str) -> None:
    with pytest.raises(ConfigError) as caught:
        NodeResourcesFit(NodeResourcesFitArgs(scoring_strategy=strategy))
    assert caught.value.path == path


@given(clusters(), pods(), fit_args())
def test_filter_and_scores_equal_the_twin(
    objects: list[Node | Pod], pod: Pod, args: NodeResourcesFitArgs
) -> None:
    assert_same(NodeResourcesFit(args), NodeResourcesFitTwin(args), objects, pod)


@given(st.integers(0, 2**32), fit_args())
def test_so_they_do_on_ordinary_clusters(seed: int, args: NodeResourcesFitArgs) -> None:
    rng = seeded_random(seed)
    objects = random_objects(rng, nodes=rng.choice((1, 6)))
    assert_same(NodeResourcesFit(args), NodeResourcesFitTwin(args), objects, random_pod(rng, "x"))


@pytest.mark.parametrize("seeds", SEED_BLOCKS, ids=str)
def test_it_keeps_the_contract(seeds: range) -> None:
    check_conformance(NodeResourcesFit(), reference=NodeResourcesFitTwin(), seeds=seeds)
