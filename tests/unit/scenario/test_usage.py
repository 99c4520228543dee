"""Allocated, demanded and stranded amounts against a plain count over all objects."""

from __future__ import annotations

import random

import pytest
from msgspec.structs import replace

from mooring.client import ObjectChange
from mooring.objects.node import Node
from mooring.objects.pod import Pod
from mooring.scenario.usage import SHAPES_MAX, ClusterUsage, Fragmentation
from mooring.testing import make_node, make_pod

RESOURCES = ("cpu", "memory", "example.com/gpu")
GI = 1 << 30


@pytest.mark.parametrize("seed", range(15))
def test_equals_a_count_over_all_objects(seed: int) -> None:
    rng = random.Random(seed)
    usage = ClusterUsage(RESOURCES)
    nodes: dict[str, Node] = {}
    pods: dict[str, Pod] = {}
    came: dict[str, Pod] = {}
    for number in range(250):
        change(rng, usage, nodes, pods, number)
        came |= pods
        stranded = usage.stranded()  # also when nothing is compared: it keeps state
        if number % 5 == 0:
            check(usage, stranded, nodes, pods)
            expected = useless([*came.values()], nodes, pods)
            assert usage.fragmented() == pytest.approx(expected)


def change(
    rng: random.Random,
    usage: ClusterUsage,
    nodes: dict[str, Node],
    pods: dict[str, Pod],
    number: int,
) -> None:
    """Makes one random change."""
    what = rng.random()
    if what < 0.15 or not nodes:
        sizes = {"cpu": str(rng.randint(1, 8)), "memory": f"{rng.randint(1, 16)}Gi", "pods": "5"}
        if rng.random() < 0.5:
            sizes["example.com/gpu"] = str(rng.randint(1, 4))
        name = rng.choice([f"node-{number}", *nodes])
        old, nodes[name] = nodes.get(name), make_node(name, allocatable=sizes)
        usage.on_change("Node", ObjectChange(old, nodes[name]))
    elif what < 0.2:
        name = rng.choice([*nodes])
        usage.on_change("Node", ObjectChange(nodes.pop(name), None))
    elif what < 0.55 or not pods:
        requests = {"cpu": f"{rng.randint(1, 40)}00m", "memory": f"{rng.randint(0, 4)}Gi"}
        if rng.random() < 0.3:
            requests["example.com/gpu"] = "1"
        node = rng.choice([*nodes, "", ""])
        pod = make_pod(f"pod-{number}", requests=requests, node=node)
        pods[pod.metadata.name] = pod
        usage.on_change("Pod", ObjectChange(None, pod))
    elif what < 0.75:
        name = rng.choice([*pods])
        old_pod = pods[name]
        if not old_pod.spec.node_name:
            spec = replace(old_pod.spec, node_name=rng.choice([*nodes]))
            pods[name] = replace(old_pod, spec=spec)
            usage.on_change("Pod", ObjectChange(old_pod, pods[name]))
    else:
        name = rng.choice([*pods])
        usage.on_change("Pod", ObjectChange(pods.pop(name), None))


def check(
    usage: ClusterUsage, stranded: list[int], nodes: dict[str, Node], pods: dict[str, Pod]
) -> None:
    """Compares with sums over the objects."""
    free = {name: [*units(node.status.allocatable), 5] for name, node in nodes.items()}
    allocatable = [sum(own[i] for own in free.values()) for i in range(3)]
    allocated, waiting, shapes = [0, 0, 0], [0, 0, 0], []
    for pod in pods.values():
        asked = units(pod.spec.containers[0].resources.requests)
        if pod.spec.node_name:
            allocated = [a + b for a, b in zip(allocated, asked, strict=True)]
            if pod.spec.node_name in free:
                own = free[pod.spec.node_name]
                free[pod.spec.node_name] = [a - b for a, b in zip(own, [*asked, 1], strict=True)]
        else:
            waiting = [a + b for a, b in zip(waiting, asked, strict=True)]
            shapes.append([*asked, 1])
    expected = [0, 0, 0]
    for own in free.values():
        fits = any(all(a <= b for a, b in zip(shape, own, strict=True)) for shape in shapes)
        if shapes and not fits:
            expected = [a + max(0, b) for a, b in zip(expected, own, strict=False)]
    assert usage.allocatable == allocatable
    assert usage.allocated == allocated
    assert usage.waiting == waiting
    assert stranded == expected
    bound = sum(bool(pod.spec.node_name) for pod in pods.values())
    assert (usage.n_nodes, usage.n_bound, usage.n_waiting) == (len(nodes), bound, len(pods) - bound)


def useless(came: list[Pod], nodes: dict[str, Node], pods: dict[str, Pod]) -> list[float]:
    """Returns what a pod that came cannot use: the mean over them, pod by pod and node by node."""
    free = free_of(nodes, pods)
    total = [0.0, 0.0, 0.0]
    for pod in came:
        asked = [*units(pod.spec.containers[0].resources.requests), 1]
        for own in free.values():
            fits = all(a <= b for a, b in zip(asked, own, strict=True))
            of_no_use = [max(0, a) * (not fits or not b) for a, b in zip(own, asked, strict=True)]
            total = [a + b for a, b in zip(total, of_no_use, strict=False)]
    return [amount / max(1, len(came)) for amount in total]


def free_of(nodes: dict[str, Node], pods: dict[str, Pod]) -> dict[str, list[int]]:
    """Returns node -> what is free there."""
    free = {name: [*units(node.status.allocatable), 5] for name, node in nodes.items()}
    for pod in pods.values():
        if pod.spec.node_name in free:
            asked = [*units(pod.spec.containers[0].resources.requests), 1]
            own = free[pod.spec.node_name]
            free[pod.spec.node_name] = [a - b for a, b in zip(own, asked, strict=True)]
    return free


def test_pods_with_more_different_requests_than_the_limit_are_not_counted() -> None:
    fragmentation = Fragmentation(1)
    fragmentation.move(0, [500, 10])
    for amount in range(1, SHAPES_MAX + 1):
        fragmentation.count((amount, 1))
    before = fragmentation.amounts()
    fragmentation.count((501, 1))
    assert fragmentation.amounts() == before == [0.0]


def units(quantities: object) -> list[int]:
    """Returns millicores, bytes and devices of quantities as this test writes them."""
    assert isinstance(quantities, dict)
    cpu, memory = str(quantities.get("cpu", "0")), str(quantities.get("memory", "0Gi"))
    milli = int(cpu[:-1]) if cpu.endswith("m") else int(cpu) * 1000
    return [milli, int(memory.removesuffix("Gi")) * GI, int(quantities.get("example.com/gpu", 0))]
