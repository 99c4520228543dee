"""A running scheduler for tests of preemption, with PriorityClasses and a small node."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from mooring.objects.node import Node
from mooring.objects.pod import Pod
from mooring.testing import make_node, make_pod
from tests.helpers.running_scheduler import Life, run_scheduler

CLASSES = {"low": -10, "high": 1000, "top": 9000, "polite": 1000}
PATH = "/apis/scheduling.k8s.io/v1/priorityclasses"


def small(name: str = "a", cpu: str = "1") -> Node:
    return make_node(name, allocatable={"cpu": cpu})


def pod(name: str, rank: str = "", cpu: str = "1", **more: Any) -> Pod:
    """Returns a pod of a PriorityClass; without one its priority is 0."""
    spec = {**more.pop("spec", {}), **({"priorityClassName": rank} if rank else {})}
    return make_pod(name, requests={"cpu": cpu}, spec=spec, **more)


@asynccontextmanager
async def preempting(*nodes: Node, **options: Any) -> AsyncIterator[Life]:
    """Runs a scheduler; pods are deleted with a grace period, unless ``options`` says otherwise."""
    options.setdefault("instant_deletion", False)
    async with run_scheduler(*(nodes or (small(),)), **options) as life:
        for name, value in CLASSES.items():
            document = {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": name},
                "value": value,
                "preemptionPolicy": "Never" if name == "polite" else "PreemptLowerPriority",
            }
            await life.client.write("POST", PATH, msgspec.json.encode(document))
        yield life


async def is_leaving(life: Life, name: str) -> bool:
    return "deletionTimestamp" in (await life.raw(name))["metadata"]


async def disruption(life: Life, name: str) -> Any:
    """Returns the pod's DisruptionTarget condition; None if it has none."""
    return await life.condition(name, "DisruptionTarget")


def deletions(life: Life) -> list[str]:
    """Returns the names of the pods that the scheduler deleted, in order."""
    requests = [request for request in life.wire.requests if request.method == "DELETE"]
    return [request.path.rpartition("/")[2] for request in requests]


def gated(life: Life, name: str) -> bool:
    """Returns whether PreEnqueue rejects the pod now."""
    for entry in life.service.queue.pods():
        if entry.pod.metadata.name == name:
            return bool(entry.gating_plugin)
    return False
