"""NodeName: a pod that names its node goes there or nowhere."""

from __future__ import annotations

import pytest

from mooring.cluster_event import ActionType
from mooring.framework import Code
from mooring.plugins import NodeName
from mooring.testing import Harness, check_conformance, make_node, make_pod
from tests.plugins.reference_plugins import SEED_BLOCKS, NodeNameTwin, assert_same, hints

REASON = "node(s) didn't match the requested node name"
NODES = [make_node("a"), make_node("b"), make_node("ab")]


@pytest.mark.parametrize(
    ("wanted", "refused"),
    [("", ""), ("b", "a ab"), ("ab", "a b"), ("B", "a b ab"), ("gone", "a b ab")],
)
def test_only_the_named_node_will_do(wanted: str, refused: str) -> None:
    pod = make_pod(node=wanted)
    reasons = Harness(NODES, [NodeName()]).reasons(pod)
    assert [name for name, why in reasons.items() if why] == refused.split()
    assert {why for why in reasons.values() if why} <= {(REASON,)}
    assert_same(NodeName(), NodeNameTwin(), NODES, pod)


def test_eviction_would_not_help() -> None:
    status = Harness(NODES, [NodeName()]).statuses(make_pod(node="b"))["a"]
    assert status is not None
    assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE


def test_no_node_of_that_name_is_reported_for_every_node() -> None:
    found = Harness(NODES, [NodeName()]).decide(make_pod(node="gone"))
    assert found.message == f"0/3 nodes are available: 3 {REASON}."


def test_any_new_node_wakes_the_pod() -> None:
    assert hints(NodeName()) == {("Node", ActionType.ADD): None}


@pytest.mark.parametrize("seeds", SEED_BLOCKS, ids=str)
def test_it_keeps_the_contract(seeds: range) -> None:
    named = make_pod("named", node="node-1")
    check_conformance(
        NodeName(), reference=NodeNameTwin(), seeds=seeds, objects=NODES, pods=[named]
    )
