"""The record of an attempt: rejections, scores, ties, nodes that were not evaluated."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.decision import Rejection
from mooring.errors import InvariantViolation
from mooring.framework import (
    Attempt,
    Cycle,
    Diagnosis,
    Framework,
    NodeInfo,
    Pending,
    Placement,
    PreFilterResult,
    Reject,
    Status,
    per_node,
    schedule_pod,
)
from mooring.state import PodInfo
from mooring.testing import Harness, make_node, make_pod


class ByLabel:
    """Refuses a node by the name of its label; scores it by the number in it."""

    name = "ByLabel"

    @per_node
    def filter(self, pod: Any, node: NodeInfo) -> Status | None:
        if "pending" in node.labels:
            return Pending("comes soon")
        return Reject("z last", "a first", resolvable=False) if "no" in node.labels else None

    @per_node
    def score(self, pod: Any, node: NodeInfo) -> int:
        return int(node.labels.get("score", "0"))


class Narrows:
    name = "Narrows"

    def __init__(self, *names: str) -> None:
        self.names = frozenset(names)

    def pre_filter(self, cycle: Cycle) -> PreFilterResult:
        return PreFilterResult(self.names)


def node(name: str, **labels: str) -> Any:
    return make_node(name, labels=labels)


def run(
    nodes: list[Any], *plugins: Any, nominated_node: str = ""
) -> tuple[Harness, Attempt, Placement | Diagnosis]:
    harness = Harness(nodes, plugins)
    snapshot = harness.cache.snapshot()
    attempt = Attempt(snapshot)
    cycle = harness.framework.new_cycle(PodInfo(make_pod(nominated_node=nominated_node)), snapshot)
    return harness, attempt, schedule_pod(harness.framework, cycle, attempt)


NO = Rejection("ByLabel", "UnschedulableAndUnresolvable", ("a first", "z last"))


def test_refusals_are_reported_by_node_with_reasons_in_order() -> None:
    _, attempt, _ = run([node("b", no="x"), node("a", no="x"), node("c")], ByLabel())

    assert attempt.rejected() == {"a": NO, "b": NO}
    assert list(attempt.rejected()) == ["a", "b"]
    assert attempt.refused_count() == 2


def test_scores_and_ties_are_reported_by_node() -> None:
    nodes = [node("a", score="7"), node("b", score="9"), node("c", score="9")]
    _, attempt, found = run(nodes, ByLabel())
    assert isinstance(found, Placement)

    decision = attempt.decision("scheduled", node=found.node_name, diagnosis=None)

    assert decision.node == found.node_name == "b"
    assert decision.tied == ("b", "c")
    assert decision.total == {"a": 7, "b": 9, "c": 9}
    assert decision.scores == decision.raw == {"ByLabel": {"a": 7, "b": 9, "c": 9}}
    assert (decision.reason, decision.message) == (None, None)


def test_a_single_node_has_no_scores_and_is_tied_with_itself() -> None:
    _, attempt, _ = run([node("a"), node("b", no="x")], ByLabel())

    decision = attempt.decision("scheduled", node="a", diagnosis=None)

    assert (decision.scores, decision.raw, decision.total) == (None, None, None)
    assert decision.tied == ("a",)
    assert decision.rejected == {"b": NO}


def test_an_unschedulable_pod_has_reason_message_and_plugins() -> None:
    _, attempt, found = run([node("a", no="x"), node("b", pending="x")], ByLabel())
    assert isinstance(found, Diagnosis)

    decision = attempt.decision("unschedulable", node=None, diagnosis=found)

    assert (decision.node, decision.tied) == (None, ())
    assert decision.reason == "Unschedulable"
    assert decision.message == ("0/2 nodes are available: 1 a first, 1 comes soon, 1 z last.")
    assert decision.unschedulable_plugins == ("ByLabel",)
    assert decision.pending_plugins == ("ByLabel",)
    assert decision.rejected["b"].code == "Pending"


def test_nodes_that_pre_filter_left_out_are_reported_with_its_name() -> None:
    nodes = [node("a"), node("b"), node("c", no="x")]
    _, attempt, _ = run(nodes, Narrows("a", "c"), ByLabel())

    rejected = attempt.rejected()

    assert rejected["b"] == Rejection(
        "Narrows",
        "UnschedulableAndUnresolvable",
        ("node(s) didn't satisfy plugin(s) [Narrows]",),
    )
    assert rejected["c"] == NO
    assert attempt.refused_count() == 1  # those left out were not looked at


def test_a_pod_refused_as_a_whole_has_one_refusal_and_no_list() -> None:
    _, attempt, found = run([node("a"), node("b")], Narrows(), ByLabel())
    assert isinstance(found, Diagnosis)

    decision = attempt.decision("unschedulable", node=None, diagnosis=found)

    assert decision.rejected == {}
    assert decision.prefilter is not None
    assert decision.prefilter.reasons == ("node(s) didn't satisfy plugin Narrows",)


def test_the_nominated_node_that_was_refused_first_is_on_the_list_once() -> None:
    nodes = [node("a", no="x"), node("b")]
    _, attempt, _ = run(nodes, ByLabel(), nominated_node="a")

    assert attempt.rejected() == {"a": NO}
    assert attempt.refused_count() == 1


def test_a_nominated_node_outside_of_the_walk_counts_beside_it() -> None:
    nodes = [node("a", no="x"), node("b"), node("c", no="x")]
    _, attempt, _ = run(nodes, Narrows("b", "c"), ByLabel(), nominated_node="a")

    assert attempt.rejected()["a"] == NO  # not "left out": it was looked at
    assert attempt.refused_count() == 2


def test_an_attempt_that_looked_at_nothing_refused_nothing() -> None:
    harness = Harness([node("a")], [ByLabel()])
    attempt = Attempt(harness.cache.snapshot())

    assert (attempt.rejected(), attempt.refused_count()) == ({}, 0)


@pytest.mark.parametrize("change", ["node", "pod", "removal"])
def test_no_record_is_made_of_a_state_that_has_moved_on(change: str) -> None:
    harness, attempt, _ = run([node("a"), node("b")], ByLabel())

    if change == "node":
        harness.cache.put_node(node("c"))
    elif change == "pod":
        harness.cache.put_pod(make_pod("q", node="a"))
    else:
        harness.cache.remove_node("b")

    with pytest.raises(InvariantViolation, match="before the cluster state changes"):
        attempt.decision("scheduled", node="a", diagnosis=None)


def test_a_change_that_changes_nothing_leaves_the_record_possible() -> None:
    harness, attempt, _ = run([node("a"), node("b")], ByLabel())

    harness.cache.put_node(node("a"))

    assert attempt.decision("scheduled", node="a", diagnosis=None).result == "scheduled"


def test_the_record_keeps_how_far_a_sample_went() -> None:
    nodes = [node(f"n{number:03}") for number in range(130)]
    harness = Harness(nodes, [ByLabel()], percentage_of_nodes_to_score=1)
    framework: Framework = harness.framework
    snapshot = harness.cache.snapshot()
    attempt = Attempt(snapshot)
    schedule_pod(framework, framework.new_cycle(PodInfo(make_pod()), snapshot), attempt)

    decision = attempt.decision("scheduled", node="n000", diagnosis=None)

    assert decision.sampled == 100
    assert decision.total is not None
    assert len(decision.total) == 100
    assert decision.rejected == {}
