"""The reference check of affinity and spreading, on clusters small enough to see the answer."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.objects.codec.decode import convert
from mooring.objects.node import Node
from mooring.objects.pod import Pod
from tests.faults.harness.reference_topology import World

RED: dict[str, Any] = {"matchLabels": {"group": "red"}}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def node(name: str, zone: str = "") -> Node:
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    labels = {"host": name, **({"zone": zone} if zone else {})}
    made: Node = convert(
        {"metadata": {"name": name, "labels": labels}, "status": {"allocatable": amounts}}, "Node"
    )
    return made


def pod(name: str, group: str = "red", **spec: Any) -> Pod:
    metadata = {"name": name, "namespace": "default", "labels": {"group": group}}
    if spec.pop("is_terminating", False):
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    made: Pod = convert(
        {"metadata": metadata, "spec": {"containers": [{"name": "c"}], **spec}}, "Pod"
    )
    return made


def affine(kind: str, key: str = "zone") -> dict[str, Any]:
    return {"affinity": {kind: {REQUIRED: [{"labelSelector": RED, "topologyKey": key}]}}}


def spread(skew: int = 1, key: str = "zone") -> dict[str, Any]:
    constraint = {
        "maxSkew": skew,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": RED,
    }
    return {"topologySpreadConstraints": [constraint]}


NODES = {"a1": node("a1", "a"), "a2": node("a2", "a"), "b1": node("b1", "b"), "bare": node("bare")}


@pytest.mark.parametrize(
    ("new", "placed", "fits"),
    [
        (pod("p", **affine("podAntiAffinity")), [(pod("x"), "a1")], {"b1", "bare"}),
        (pod("p", **affine("podAntiAffinity", "host")), [(pod("x"), "a1")], {"a2", "b1", "bare"}),
        (pod("p"), [(pod("x", "blue", **affine("podAntiAffinity")), "a1")], {"b1", "bare"}),
        (pod("p", **affine("podAffinity")), [(pod("x"), "a1")], {"a1", "a2"}),
        (pod("p", **affine("podAffinity")), [], {"a1", "a2", "b1"}),
        (pod("p", "blue", **affine("podAffinity")), [], set()),
        (pod("p", **affine("podAffinity")), [(pod("x"), "bare")], {"a1", "a2", "b1"}),
        (pod("p", **spread()), [(pod("x"), "a1")], {"b1"}),
        (pod("p", **spread(2)), [(pod("x"), "a1")], {"a1", "a2", "b1"}),
        (pod("p", **spread()), [(pod("x", is_terminating=True), "a1")], {"a1", "a2", "b1"}),
        (pod("p", nodeSelector={"zone": "a"}, **spread()), [(pod("x"), "a1")], {"a1", "a2"}),
    ],
)
def test_a_pod_fits_just_these_nodes(
    new: Pod, placed: list[tuple[Pod, str]], fits: set[str]
) -> None:
    world = World(NODES, placed)

    assert {name for name in NODES if not world.fit_error(new, name)} == fits


def test_a_pod_on_a_node_that_is_gone_repels_nobody() -> None:
    world = World(NODES, [(pod("x"), "gone")])

    assert world.fit_error(pod("p", **affine("podAntiAffinity")), "a1") == ""
