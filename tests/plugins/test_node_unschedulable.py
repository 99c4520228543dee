"""NodeUnschedulable: cordoned nodes take only pods that tolerate it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.clock import seeded_random
from mooring.cluster_event import ActionType, QueueingHint
from mooring.framework import Code
from mooring.plugins import NodeUnschedulable
from mooring.state import PodInfo
from mooring.testing import Harness, check_conformance, make_node, make_pod
from mooring.testing.random_cluster import random_objects, random_pod
from tests.plugins.reference_plugins import SEED_BLOCKS, NodeUnschedulableTwin, assert_same, hints

CORDON = "node.kubernetes.io/unschedulable"
NODES = [make_node("open"), make_node("cordoned", unschedulable=True)]
NODE_EVENT = ("Node", ActionType.ADD | ActionType.UPDATE_NODE_TAINT)
TOLERATION_EVENT = ("Pod", ActionType.UPDATE_POD_TOLERATION)

TOLERATING: list[dict[str, Any]] = [
    {"operator": "Exists"},
    {"key": CORDON, "operator": "Exists"},
    {"key": CORDON, "operator": "Exists", "effect": "NoSchedule"},
    {"key": CORDON, "operator": "Equal", "value": ""},
    {"key": CORDON, "effect": "NoSchedule"},
]
NOT_TOLERATING: list[dict[str, Any]] = [
    {"key": CORDON, "operator": "Exists", "effect": "NoExecute"},
    {"key": CORDON, "operator": "Exists", "effect": "PreferNoSchedule"},
    {"key": CORDON, "operator": "Equal", "value": "true"},
    {"key": "node.kubernetes.io/unreachable", "operator": "Exists"},
    {"key": CORDON, "operator": "Gt", "value": "0"},
]


def test_a_cordoned_node_is_refused_for_good() -> None:
    statuses = Harness(NODES, [NodeUnschedulable()]).statuses(make_pod())
    assert statuses["open"] is None
    refusal = statuses["cordoned"]
    assert refusal is not None
    assert refusal.reasons == ("node(s) were unschedulable",)
    assert refusal.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE


@pytest.mark.parametrize("toleration", TOLERATING, ids=str)
def test_tolerating_the_cordon_is_enough(toleration: dict[str, Any]) -> None:
    pod = make_pod(tolerations=[toleration])
    assert Harness(NODES, [NodeUnschedulable()]).reasons(pod)["cordoned"] == ()


@pytest.mark.parametrize("toleration", NOT_TOLERATING, ids=str)
def test_tolerating_something_else_is_not(toleration: dict[str, Any]) -> None:
    pod = make_pod(tolerations=[toleration])
    assert Harness(NODES, [NodeUnschedulable()]).reasons(pod)["cordoned"]


def test_the_taint_alone_is_left_to_taint_toleration() -> None:
    tainted = make_node("tainted", taints=[f"{CORDON}:NoSchedule"])
    assert Harness([tainted], [NodeUnschedulable()]).reasons(make_pod()) == {"tainted": ()}


def test_it_registers_for_nodes_and_for_its_own_tolerations() -> None:
    assert list(hints(NodeUnschedulable())) == [NODE_EVENT, TOLERATION_EVENT]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (None, False, QueueingHint.QUEUE),
        (None, True, QueueingHint.SKIP),
        (True, False, QueueingHint.QUEUE),
        (False, False, QueueingHint.SKIP),
        (False, True, QueueingHint.SKIP),
        (True, True, QueueingHint.SKIP),
    ],
)
def test_a_node_helps_when_it_takes_pods_and_did_not_before(
    before: bool | None, after: bool, expected: QueueingHint
) -> None:
    hint = hints(NodeUnschedulable())[NODE_EVENT]
    old = None if before is None else make_node("n", unschedulable=before)
    assert hint(PodInfo(make_pod()), old, make_node("n", unschedulable=after)) is expected


@pytest.mark.parametrize(
    ("uid", "toleration", "expected"),
    [
        ("mine", TOLERATING[1], QueueingHint.QUEUE),
        ("mine", NOT_TOLERATING[0], QueueingHint.SKIP),
        ("other", TOLERATING[1], QueueingHint.SKIP),
    ],
)
def test_a_new_toleration_helps_if_it_is_its_own_and_the_right_one(
    uid: str, toleration: dict[str, Any], expected: QueueingHint
) -> None:
    hint = hints(NodeUnschedulable())[TOLERATION_EVENT]
    old = make_pod(uid=uid)
    new = make_pod(uid=uid, tolerations=[toleration])
    assert hint(PodInfo(make_pod(uid="mine")), old, new) is expected


@given(st.integers(0, 2**32), st.sampled_from([*TOLERATING, *NOT_TOLERATING]))
def test_it_equals_its_twin(seed: int, toleration: dict[str, Any]) -> None:
    rng = seeded_random(seed)
    objects = random_objects(rng, pods=0)
    assert_same(NodeUnschedulable(), NodeUnschedulableTwin(), objects, random_pod(rng, "x"))
    pod = make_pod(tolerations=[toleration])
    assert_same(NodeUnschedulable(), NodeUnschedulableTwin(), objects, pod)


@pytest.mark.parametrize("seeds", SEED_BLOCKS, ids=str)
def test_it_keeps_the_contract(seeds: range) -> None:
    check_conformance(NodeUnschedulable(), reference=NodeUnschedulableTwin(), seeds=seeds)
