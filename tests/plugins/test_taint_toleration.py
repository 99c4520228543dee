"""TaintToleration: hard taints keep pods away, soft ones make a node less wanted."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.clock import seeded_random
from mooring.cluster_event import ActionType, QueueingHint
from mooring.framework import Code
from mooring.objects.node import Node
from mooring.plugins import TaintToleration
from mooring.state import PodInfo
from mooring.testing import Harness, check_conformance, make_node, make_pod
from mooring.testing.random_cluster import random_objects, random_pod
from tests.plugins.reference_plugins import SEED_BLOCKS, TaintTolerationTwin, assert_same, hints

REASON = "node(s) had untolerated taint(s)"
NODE_EVENT = ("Node", ActionType.ADD | ActionType.UPDATE_NODE_TAINT)
TOLERATION_EVENT = ("Pod", ActionType.UPDATE_POD_TOLERATION)

#: (taint, toleration or None, is the pod let in)
FILTER_CASES: list[tuple[str, dict[str, Any] | None, bool]] = [
    ("gpu=yes:NoSchedule", None, False),
    ("gpu=yes:NoExecute", None, False),
    ("gpu=yes:PreferNoSchedule", None, True),
    # Equal, written out or left out, compares key and value.
    ("gpu=yes:NoSchedule", {"key": "gpu", "operator": "Equal", "value": "yes"}, True),
    ("gpu=yes:NoSchedule", {"key": "gpu", "value": "yes"}, True),
    ("gpu=yes:NoSchedule", {"key": "gpu", "value": "no"}, False),
    ("gpu=yes:NoSchedule", {"key": "gpu"}, False),
    ("gpu:NoSchedule", {"key": "gpu"}, True),
    ("gpu=yes:NoSchedule", {"key": "GPU", "value": "yes"}, False),
    # Exists looks at the key alone, and without a key at nothing.
    ("gpu=yes:NoSchedule", {"key": "gpu", "operator": "Exists"}, True),
    ("gpu=yes:NoSchedule", {"key": "disk", "operator": "Exists"}, False),
    ("gpu=yes:NoSchedule", {"operator": "Exists"}, True),
    ("gpu=yes:NoSchedule", {"operator": "Equal", "value": "yes"}, True),
    # The effect has to agree, unless the toleration leaves it out.
    ("gpu=yes:NoExecute", {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}, False),
    ("gpu=yes:NoExecute", {"key": "gpu", "operator": "Exists", "effect": "NoExecute"}, True),
    ("gpu=yes:NoExecute", {"operator": "Exists", "effect": "NoExecute"}, True),
    # How long it tolerates NoExecute does not matter yet.
    (
        "gpu=yes:NoExecute",
        {"key": "gpu", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0},
        True,
    ),
    # Comparisons are behind a gate that is off: they cover nothing.
    ("gpu=4:NoSchedule", {"key": "gpu", "operator": "Gt", "value": "2"}, False),
    ("gpu=4:NoSchedule", {"key": "gpu", "operator": "Lt", "value": "8"}, False),
    ("gpu=4:NoSchedule", {"key": "gpu", "operator": "exists"}, False),
]


@pytest.mark.parametrize(("taint", "toleration", "is_let_in"), FILTER_CASES, ids=str)
def test_hard_taints_refuse_pods_that_do_not_tolerate_them(
    taint: str, toleration: dict[str, Any] | None, is_let_in: bool
) -> None:
    nodes = [make_node("tainted", taints=[taint]), make_node("plain")]
    pod = make_pod(tolerations=[toleration] if toleration else [])
    found = Harness(nodes, [TaintToleration()]).reasons(pod)
    assert found == {"tainted": () if is_let_in else (REASON,), "plain": ()}
    assert_same(TaintToleration(), TaintTolerationTwin(), nodes, pod)


COMPARES = {"TaintTolerationComparisonOperators": True}

#: (value of the taint, operator, value of the toleration, whether it tolerates the taint)
COMPARISON_CASES = [
    ("800", "Gt", "950", False),
    ("950", "Gt", "750", True),
    ("950", "Gt", "950", False),
    ("950", "Lt", "800", False),
    ("800", "Lt", "950", True),
    ("-5", "Lt", "0", True),
    ("high", "Gt", "950", False),
    ("950", "Gt", "low", False),
    ("0950", "Gt", "750", False),
    ("+950", "Gt", "750", False),
    ("-0", "Gt", "-1", False),
    ("", "Lt", "950", False),
    ("9223372036854775808", "Gt", "1", False),
    ("9223372036854775807", "Gt", "1", True),
]


@pytest.mark.parametrize(("taint", "operator", "limit", "is_tolerated"), COMPARISON_CASES)
def test_with_the_gate_lt_and_gt_compare_integers(
    taint: str, operator: str, limit: str, *, is_tolerated: bool
) -> None:
    nodes = [make_node("a", taints=[f"sla={taint}:NoSchedule"])]
    toleration = {"key": "sla", "operator": operator, "value": limit, "effect": "NoSchedule"}
    pod = make_pod(tolerations=[toleration])
    on = Harness(nodes, [TaintToleration(COMPARES)]).reasons(pod)
    assert on == {"a": () if is_tolerated else (REASON,)}
    assert Harness(nodes, [TaintToleration()]).reasons(pod) == {"a": (REASON,)}


@pytest.mark.parametrize(("operator", "limit"), [("Gt", "850"), ("Lt", "850")])
def test_with_the_gate_comparisons_count_in_scores(operator: str, limit: str) -> None:
    values = {"low": "700", "high": "999"}
    nodes = [
        make_node(name, taints=[f"sla={value}:PreferNoSchedule"]) for name, value in values.items()
    ]
    pod = make_pod(tolerations=[{"key": "sla", "operator": operator, "value": limit}])
    best = "high" if operator == "Gt" else "low"
    scores = Harness(nodes, [TaintToleration(COMPARES)]).scores(pod)
    assert scores == {name: 100 if name == best else 0 for name in values}


def test_every_hard_taint_has_to_be_tolerated() -> None:
    nodes = [make_node("n", taints=["a:NoSchedule", "b:NoExecute", "c:PreferNoSchedule"])]
    harness = Harness(nodes, [TaintToleration()])
    assert harness.reasons(make_pod(tolerations=["a:NoSchedule"])) == {"n": (REASON,)}
    assert harness.reasons(make_pod(tolerations=["a", "b"])) == {"n": ()}


def test_a_refusal_is_for_good_and_told_once_per_node() -> None:
    nodes = [make_node("n", taints=["a:NoSchedule", "b:NoSchedule"])]
    harness = Harness(nodes, [TaintToleration()])
    status = harness.statuses(make_pod())["n"]
    assert status is not None
    assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert harness.decide(make_pod()).message == f"0/1 nodes are available: 1 {REASON}."


def test_the_score_counts_soft_taints_that_are_not_tolerated() -> None:
    nodes = [
        make_node("none"),
        make_node("one", taints=["a:PreferNoSchedule"]),
        make_node("three", taints=[f"{key}:PreferNoSchedule" for key in "abc"]),
        make_node("hard", taints=["x:NoSchedule", "y:NoExecute"]),
    ]
    harness = Harness(nodes, [TaintToleration()])
    assert harness.raw_scores(make_pod()) == {"none": 0, "one": 1, "three": 3, "hard": 0}
    assert harness.scores(make_pod()) == {"none": 100, "one": 67, "three": 0, "hard": 100}
    tolerant = make_pod(tolerations=["a", "b:PreferNoSchedule", "c:NoSchedule"])
    assert harness.raw_scores(tolerant) == {"none": 0, "one": 0, "three": 1, "hard": 0}


def test_without_soft_taints_every_node_has_100() -> None:
    harness = Harness([make_node("a"), make_node("b")], [TaintToleration()])
    assert harness.scores(make_pod()) == {"a": 100, "b": 100}


def test_tolerations_for_hard_effects_do_not_count_for_the_score() -> None:
    nodes = [make_node("soft", taints=["a:PreferNoSchedule"]), make_node("plain")]
    pod = make_pod(tolerations=["a:NoSchedule", "a:NoExecute"])
    assert Harness(nodes, [TaintToleration()]).raw_scores(pod) == {"soft": 1, "plain": 0}


def test_the_same_taint_twice_counts_twice() -> None:
    taints = ["a=1:PreferNoSchedule", "a=2:PreferNoSchedule"]
    nodes = [make_node("n", taints=taints), make_node("plain")]
    assert Harness(nodes, [TaintToleration()]).raw_scores(make_pod()) == {"n": 2, "plain": 0}


def test_a_few_changed_nodes_among_many_taint_sets_are_judged_alone() -> None:
    nodes = [make_node(f"n{i}", taints=[f"k{i}:NoSchedule"]) for i in range(20)]
    harness = Harness(nodes, [TaintToleration()])
    pod = make_pod(tolerations=["k3", "k7"])
    assert harness.decide(pod).decision.tied == ("n3", "n7")
    harness.cache.put_node(make_node("n9"))
    harness.cache.put_node(make_node("n3", taints=["other:NoSchedule"]))
    assert harness.decide(pod).decision.tied == ("n7", "n9")


def test_it_registers_for_nodes_and_for_its_own_tolerations() -> None:
    assert list(hints(TaintToleration())) == [NODE_EVENT, TOLERATION_EVENT]


BAD, GOOD, SOFT = (
    make_node("n", taints=["a:NoSchedule"]),
    make_node("n", taints=["b:NoExecute"]),
    make_node("n", taints=["a:PreferNoSchedule"]),
)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, GOOD, QueueingHint.QUEUE),
        (None, SOFT, QueueingHint.QUEUE),
        (None, BAD, QueueingHint.SKIP),
        (BAD, GOOD, QueueingHint.QUEUE),
        (BAD, SOFT, QueueingHint.QUEUE),
        (BAD, BAD, QueueingHint.SKIP),
        (GOOD, SOFT, QueueingHint.SKIP),
        (GOOD, BAD, QueueingHint.SKIP),
    ],
)
def test_a_node_helps_when_its_hard_taints_become_tolerable(
    old: Node | None, new: Node, expected: QueueingHint
) -> None:
    pod = PodInfo(make_pod(tolerations=["b"]))
    assert hints(TaintToleration())[NODE_EVENT](pod, old, new) is expected


@pytest.mark.parametrize(
    ("uid", "expected"), [("mine", QueueingHint.QUEUE), ("other", QueueingHint.SKIP)]
)
def test_any_new_toleration_of_its_own_helps(uid: str, expected: QueueingHint) -> None:
    hint = hints(TaintToleration())[TOLERATION_EVENT]
    new = make_pod(uid=uid, tolerations=["unrelated"])
    assert hint(PodInfo(make_pod(uid="mine")), make_pod(uid=uid), new) is expected


@given(st.integers(0, 2**32))
def test_it_equals_its_twin(seed: int) -> None:
    rng = seeded_random(seed)
    objects = random_objects(rng, nodes=rng.choice((1, 4, 12)), pods=0)
    assert_same(TaintToleration(), TaintTolerationTwin(), objects, random_pod(rng, "x"))


@pytest.mark.parametrize("seeds", SEED_BLOCKS, ids=str)
def test_it_keeps_the_contract(seeds: range) -> None:
    check_conformance(TaintToleration(), reference=TaintTolerationTwin(), seeds=seeds)
