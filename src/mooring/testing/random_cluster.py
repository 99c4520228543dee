"""Random small clusters with many edge cases; the same seed gives the same cluster."""

from __future__ import annotations

from typing import Any

from mooring.clock import Rng
from mooring.objects.node import Node
from mooring.objects.pod import Pod
from mooring.testing.builders import make_node, make_pod

ZONES = (None, "a", "b", "c")
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
KEYS = ("disk", "rack", "gpu")
VALUES = ("1", "2", "3", "ssd", "")
IMAGES = ("web:1", "db:2", "registry.k8s.io/pause:3.10")
CPU = ("0", "1m", "100m", "250m", "1", "1500m", "3", "100500u")
MEMORY = ("0", "1", "1500m", "64Mi", "200Mi", "1Gi", "3G")
EXTENDED = "example.com/gpu"
MEBIBYTE = 1 << 20


def random_node(rng: Rng, name: str) -> Node:
    """Returns a node with random resources (some none), labels, taints, images, cordon."""
    allocatable = {
        "cpu": rng.choice(("0", "1", "2", "4", "3900m")),
        "memory": rng.choice(("0", "512Mi", "2Gi", "8G")),
        "pods": rng.choice(("0", "2", "3", "110")),
    }
    if rng.random() < 0.5:
        allocatable[EXTENDED] = rng.choice(("0", "1", "4"))
    taints = [
        f"{rng.choice(KEYS)}={rng.choice(VALUES)}:{rng.choice(EFFECTS)}"
        for _ in range(rng.choice((0, 0, 0, 1, 2)))
    ]
    return make_node(
        name,
        allocatable=allocatable,
        labels={key: rng.choice(VALUES) for key in KEYS if rng.random() < 0.6},
        zone=rng.choice(ZONES),
        taints=taints,
        unschedulable=rng.random() < 0.1,
        images={
            image: rng.choice((1, 30, 500, 1500)) * MEBIBYTE
            for image in IMAGES
            if rng.random() < 0.4
        },
    )


def random_pod(rng: Rng, name: str, *, node: str = "", priority: int | None = None) -> Pod:
    """Returns a pod with random requests, containers, tolerations, affinity, host ports."""
    requests: dict[str, str] = {}
    if rng.random() < 0.8:
        requests["cpu"] = rng.choice(CPU)
    if rng.random() < 0.8:
        requests["memory"] = rng.choice(MEMORY)
    if rng.random() < 0.2:
        requests[EXTENDED] = rng.choice(("0", "1", "2"))
    overhead: dict[str, Any] = {}
    if rng.random() < 0.2:
        overhead = {"spec": {"overhead": {"cpu": "10m", "memory": "1Mi"}}}
    return make_pod(
        name,
        requests=requests,
        node=node,
        priority=priority if priority is not None else rng.choice((None, 0, 10, -5)),
        images=[rng.choice(IMAGES) for _ in range(rng.choice((1, 1, 2)))],
        host_ports=[rng.choice((80, 443))] if rng.random() < 0.2 else (),
        tolerations=_tolerations(rng),
        node_selector={rng.choice(KEYS): rng.choice(VALUES)} if rng.random() < 0.15 else None,
        affinity=_affinity(rng) if rng.random() < 0.4 else None,
        **overhead,
    )


def random_objects(rng: Rng, *, nodes: int = 8, pods: int = 10) -> list[Node | Pod]:
    """Returns random nodes and pods placed on them; some nodes are overcommitted."""
    objects: list[Node | Pod] = [random_node(rng, f"node-{number}") for number in range(nodes)]
    for number in range(pods if nodes else 0):
        at = f"node-{rng.randrange(nodes)}"
        objects.append(random_pod(rng, f"placed-{number}", node=at))
    return objects


def _tolerations(rng: Rng) -> list[dict[str, str]]:
    tolerations = []
    for _ in range(rng.choice((0, 0, 1, 2))):
        toleration = {
            "key": rng.choice((*KEYS, "")),
            "operator": rng.choice(("Exists", "Equal", "")),
            "value": rng.choice(VALUES),
            "effect": rng.choice((*EFFECTS, "")),
        }
        tolerations.append(toleration)
    if rng.random() < 0.1:
        tolerations.append({"key": "node.kubernetes.io/unschedulable", "operator": "Exists"})
    return tolerations


def _affinity(rng: Rng) -> dict[str, Any]:
    required = [_term(rng) for _ in range(rng.choice((0, 1, 2)))]
    preferred = [
        {"weight": rng.choice((1, 10, 100)), "preference": _term(rng)}
        for _ in range(rng.choice((0, 1, 2)))
    ]
    node_affinity: dict[str, Any] = {"preferredDuringSchedulingIgnoredDuringExecution": preferred}
    if required:
        node_affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {
            "nodeSelectorTerms": required
        }
    return {"nodeAffinity": node_affinity}


def _term(rng: Rng) -> dict[str, Any]:
    term: dict[str, Any] = {
        "matchExpressions": [_expression(rng) for _ in range(rng.choice((1, 1, 2)))]
    }
    if rng.random() < 0.15:
        term["matchFields"] = [
            {"key": "metadata.name", "operator": rng.choice(("In", "NotIn")), "values": ["node-1"]}
        ]
    return term


def _expression(rng: Rng) -> dict[str, Any]:
    operator = rng.choice(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
    values: list[str] = []
    if operator in ("In", "NotIn"):
        values = rng.sample(VALUES, k=2)
    elif operator in ("Gt", "Lt"):
        values = [rng.choice(("0", "1", "2"))]
    return {"key": rng.choice(KEYS), "operator": operator, "values": values}
