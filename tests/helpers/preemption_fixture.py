"""A living scheduler for tests of preemption: classes of priority, a small node, who says what."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from mooring.objects.node import Node
from mooring.objects.pod import Pod
from mooring.testing import make_node, make_pod
from tests.helpers.running_scheduler import Life, living

CLASSES = {"low": -10, "high": 1000, "top": 9000, "polite": 1000}
PATH = "/apis/scheduling.k8s.io/v1/priorityclasses"


def small(name: str = "a", cpu: str = "1") -> Node:
    return make_node(name, allocatable={"cpu": cpu})


def pod(name: str, rank: str = "", cpu: str = "1", **more: Any) -> Pod:
    """A pod of one of the classes; without any its priority is 0."""
    spec = {**more.pop("spec", {}), **({"priorityClassName": rank} if rank else {})}
    return make_pod(name, requests={"cpu": cpu}, spec=spec, **more)


@asynccontextmanager
async def preempting(*nodes: Node, **options: Any) -> AsyncIterator[Life]:
    """Pods leave with a grace period, unless told otherwise."""
    options.setdefault("instant_deletion", False)
    async with living(*(nodes or (small(),)), **options) as life:
        for name, value in CLASSES.items():
            found = {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": name},
                "value": value,
                "preemptionPolicy": "Never" if name == "polite" else "PreemptLowerPriority",
            }
            await life.client.write("POST", PATH, msgspec.json.encode(found))
        yield life


async def is_leaving(life: Life, name: str) -> bool:
    return "deletionTimestamp" in (await life.raw(name))["metadata"]


async def disruption(life: Life, name: str) -> Any:
    """The pod's DisruptionTarget condition; None if it has none."""
    found = (await life.raw(name))["status"].get("conditions", [])
    return next((each for each in found if each["type"] == "DisruptionTarget"), None)


def deletions(life: Life) -> list[str]:
    """The pods that the scheduler deleted, in order."""
    found = [each.path for each in life.wire.requests if each.method == "DELETE"]
    return [path.rpartition("/")[2] for path in found]


def gated(life: Life, name: str) -> bool:
    """Whether the pod is held back at this moment."""
    for entry in life.service.queue.pods():
        if entry.pod.metadata.name == name:
            return bool(entry.gating_plugin)
    return False
