"""NodeReady: only nodes that say that they are ready."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.cluster_event import ActionType, EventResource, QueueingHint
from mooring.objects.node import Node
from mooring.plugins.contrib.node_ready import REASON, NodeReady
from mooring.state import PodInfo
from mooring.testing import Harness, make_node, make_pod


def node(name: str, status: str | None) -> Node:
    """Returns a node with or without the condition Ready."""
    conditions: list[dict[str, Any]] = [{"type": "DiskPressure", "status": "True"}]
    if status is not None:
        conditions.append({"type": "Ready", "status": status})
    return make_node(name, status={"conditions": conditions})


def test_nodes_that_do_not_say_that_they_are_ready_are_refused() -> None:
    nodes = [node("yes", "True"), node("no", "False"), node("who", "Unknown"), node("none", None)]
    found = Harness(nodes, [NodeReady()]).reasons(make_pod())
    assert found == {"yes": (), "no": (REASON,), "who": (REASON,), "none": (REASON,)}


def test_a_node_that_becomes_ready_is_looked_at_again() -> None:
    harness = Harness([node("a", "False")], [NodeReady()])
    assert harness.decide(make_pod("one")).node is None
    harness.cache.put_node(node("a", "True"))
    assert harness.decide(make_pod("two")).node == "a"
    harness.cache.put_node(node("a", "Unknown"))
    assert harness.decide(make_pod("three")).node is None


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, "True", QueueingHint.QUEUE),
        (None, "False", QueueingHint.SKIP),
        ("False", "True", QueueingHint.QUEUE),
        ("True", "True", QueueingHint.SKIP),
        ("True", "False", QueueingHint.SKIP),
    ],
)
def test_what_wakes_a_pod(old: str | None, new: str, expected: QueueingHint) -> None:
    (registered,) = NodeReady().events()
    assert registered.event.resource is EventResource.NODE
    assert registered.event.action == ActionType.ADD | ActionType.UPDATE_NODE_CONDITION
    assert registered.hint is not None
    before = None if old is None else node("a", old)
    assert registered.hint(PodInfo(make_pod()), before, node("a", new)) is expected
