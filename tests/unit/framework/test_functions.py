"""Plain functions as plugins: predicates reject, priorities score."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from mooring.framework import NodeInfo
from mooring.framework.functions import predicate, priority
from mooring.state import PodInfo
from mooring.testing import Harness, make_node, make_pod

NODES = [make_node("a", labels={"disk": "ssd"}), make_node("b"), make_node("c")]
POD = make_pod("p", labels={"wants": "ssd"})


def has_disk(node: NodeInfo, pod: PodInfo) -> bool:
    return node.labels.get("disk") == pod.metadata.labels.get("wants")


def is_first(node: NodeInfo, pod: PodInfo) -> int:
    return 70 if node.name == "a" and pod.metadata.name == "p" else 20


@pytest.mark.parametrize(
    ("options", "name", "reason"),
    [
        ({}, "has_disk", "node(s) didn't pass has_disk"),
        ({"name": "Disk"}, "Disk", "node(s) didn't pass Disk"),
        ({"reason": "no disk"}, "has_disk", "no disk"),
        ({"name": "Disk", "reason": "{}: no disk"}, "Disk", "Disk: no disk"),
    ],
)
def test_a_predicate_rejects_the_nodes_for_which_it_returns_false(
    options: dict[str, str], name: str, reason: str
) -> None:
    plugin = predicate(has_disk, **options)

    assert plugin.name == name
    assert Harness(NODES, [plugin]).reasons(POD) == {"a": (), "b": (reason,), "c": (reason,)}


@pytest.mark.parametrize(("options", "name"), [({}, "is_first"), ({"name": "First"}, "First")])
def test_a_priority_scores_the_nodes(options: dict[str, str], name: str) -> None:
    plugin = priority(is_first, **options)

    assert plugin.name == name
    assert Harness(NODES, [plugin]).scores(POD) == {"a": 70, "b": 20, "c": 20}


@pytest.mark.parametrize("make", [predicate, priority])
@pytest.mark.parametrize("function", [lambda *_: True, functools.partial(has_disk)])
def test_a_function_without_a_name_needs_one(make: Any, function: Any) -> None:
    with pytest.raises(ValueError, match="has no name: pass name="):
        make(function)

    assert make(function, name="Named").name == "Named"
