"""Hypothesis strategies for nodes, pods and arguments that try the arithmetic of resources."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from mooring.config.types import (
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    RequestedToCapacityRatio,
    ResourceSpec,
    ScoringStrategy,
    UtilizationShapePoint,
)
from mooring.objects.node import Node
from mooring.objects.pod import Pod
from mooring.testing import make_node, make_pod

GPU, OTHER = "example.com/gpu", "example.org/fpga"
PAGES, STORAGE = "hugepages-2Mi", "ephemeral-storage"
RESOURCES = ("cpu", "memory", STORAGE, GPU, OTHER, PAGES)

#: Small numbers for ties and exact fits, odd ones for rounding, and what nearly leaves an int64:
#: times 100 it does.
AMOUNTS = st.one_of(
    st.integers(0, 5),
    st.integers(0, 10_000),
    st.integers(0, 2**40),
    st.sampled_from([2**53 + 1, 2**56 - 1, 2**56, 2**57 + 3, 2**60]),
)
#: cpu is written in millicores, so that it stays within an int64 of them.
MILLI = st.one_of(st.integers(0, 5), st.integers(0, 96_000))


@st.composite
def amounts(draw: st.DrawFn) -> dict[str, str]:
    """Returns some resources and how much of each, as a manifest writes them."""
    names = draw(st.lists(st.sampled_from(RESOURCES), unique=True))
    return {name: f"{draw(MILLI)}m" if name == "cpu" else str(draw(AMOUNTS)) for name in names}


@st.composite
def nodes(draw: st.DrawFn, *, most: int = 4) -> list[Node]:
    """Nodes that lack some resources, have none of others, and take few pods."""
    found = []
    for number in range(draw(st.integers(1, most))):
        allocatable = {"cpu": "0", "memory": "0"} | draw(amounts())
        allocatable["pods"] = draw(st.sampled_from(["0", "1", "3", "110"]))
        found.append(make_node(f"node-{number}", allocatable=allocatable))
    return found


@st.composite
def pods(draw: st.DrawFn, name: str = "incoming", node: str = "") -> Pod:
    """Returns a pod with two containers, perhaps pod-level requests, init container, resize."""
    containers = [_container(f"c{number}", draw(amounts())) for number in range(2)]
    spec: dict[str, Any] = {"containers": containers}
    if draw(st.booleans()):
        spec["initContainers"] = [_container("i", draw(amounts()))]
    if draw(st.integers(0, 3)) == 0:
        spec["overhead"] = draw(amounts())
    if draw(st.integers(0, 3)) == 0:
        own = draw(amounts())
        spec["resources"] = {"requests": {k: own[k] for k in own if k in ("cpu", "memory")}}
    status: dict[str, Any] = {}
    if draw(st.integers(0, 3)) == 0:
        granted = draw(amounts())
        resized = {"name": "c0", "allocatedResources": granted, "resources": {"requests": granted}}
        status["containerStatuses"] = [resized]
    return make_pod(name, node=node, spec=spec, status=status)


def _container(name: str, requests: dict[str, str]) -> dict[str, Any]:
    return {"name": name, "image": "i", "resources": {"requests": requests}}


@st.composite
def clusters(draw: st.DrawFn) -> list[Node | Pod]:
    """Nodes with pods on them, overcommitted or not."""
    found: list[Node | Pod] = list(draw(nodes()))
    count = len(found)
    for number in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, count - 1))
        found.append(draw(pods(name=f"placed-{number}", node=f"node-{at}")))
    return found


@st.composite
def resource_specs(draw: st.DrawFn) -> tuple[ResourceSpec, ...]:
    """Returns one to six resources with weights."""
    names = draw(st.lists(st.sampled_from(RESOURCES), unique=True, min_size=1))
    weights = st.integers(1, 100)
    return tuple(ResourceSpec(name=name, weight=draw(weights)) for name in names)


@st.composite
def shapes(draw: st.DrawFn) -> tuple[UtilizationShapePoint, ...]:
    """Returns a scoring curve that rises, falls or zigzags."""
    percents = sorted(draw(st.sets(st.integers(0, 100), min_size=1, max_size=5)))
    scores = st.integers(0, 10)
    return tuple(UtilizationShapePoint(utilization=at, score=draw(scores)) for at in percents)


@st.composite
def fit_args(draw: st.DrawFn) -> NodeResourcesFitArgs:
    """Returns random valid arguments of NodeResourcesFit."""
    kind = draw(st.sampled_from(["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"]))
    ratio = None
    if kind == "RequestedToCapacityRatio":
        ratio = RequestedToCapacityRatio(shape=draw(shapes()))
    return NodeResourcesFitArgs(
        ignored_resources=draw(st.sampled_from([(), (GPU,), ("cpu",)])),
        ignored_resource_groups=draw(st.sampled_from([(), ("example.org",), ("example.com",)])),
        scoring_strategy=ScoringStrategy(
            type=kind, resources=draw(resource_specs()), requested_to_capacity_ratio=ratio
        ),
    )


@st.composite
def balanced_args(draw: st.DrawFn) -> NodeResourcesBalancedAllocationArgs:
    """Returns random valid arguments of NodeResourcesBalancedAllocation, which ignores weights."""
    return NodeResourcesBalancedAllocationArgs(resources=draw(resource_specs()))
