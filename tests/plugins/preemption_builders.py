"""Short words for the tests of DefaultPreemption: half a node each, and a pod that wants in."""

from __future__ import annotations

from typing import Any

from mooring.objects.node import Node
from mooring.objects.pod import Pod
from mooring.testing import make_node, make_pod

ROOM = {"cpu": "2", "pods": "9"}


def node(name: str, **more: Any) -> Node:
    return make_node(name, allocatable=ROOM, **more)


def placed(name: str, at: str, priority: int | None = 0, **more: Any) -> Pod:
    """Returns a pod that needs half of a node."""
    more.setdefault("requests", {"cpu": "1"})
    status = {"startTime": more.pop("start", "2026-01-01T00:00:00Z"), **more.pop("status", {})}
    return make_pod(name, node=at, priority=priority, status=status, **more)


def preemptor(priority: int = 10, cpu: str = "1", **more: Any) -> Pod:
    return make_pod("new", requests={"cpu": cpu}, priority=priority, **more)


def full(at: str, *priorities: int | None, **more: Any) -> list[Pod]:
    return [
        placed(f"{at}-{number}", at, priority, **more) for number, priority in enumerate(priorities)
    ]
