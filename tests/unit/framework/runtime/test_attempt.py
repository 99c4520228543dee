"""The record of an attempt: rejections, scores, ties, nodes that were not evaluated."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mooring.decision import Rejection
from mooring.errors import InvariantViolation
from mooring.framework import (
    Attempt,
    Code,
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


@pytest.mark.parametrize(
    ("scores", "best_two"),
    [
        ({"a": "7", "b": "9", "c": "2"}, (9, "a", 7)),
        ({"a": "7", "b": "7", "c": "7"}, (7, "b", 7)),
        ({"a": "0", "b": "5", "c": "4"}, (5, "c", 4)),
        ({"a": "3", "b": "5"}, (5, "a", 3)),
    ],
)
@pytest.mark.parametrize("is_partial", [True, False])
def test_the_next_best_node_is_named_with_both_scores(
    scores: dict[str, str], best_two: tuple[int, str, int], is_partial: bool
) -> None:
    nodes = [node(name, score=score) for name, score in scores.items()]
    if is_partial:
        nodes.insert(0, node("x", no="x", score="90"))
    _, attempt, placement = run(nodes, ByLabel())
    assert isinstance(placement, Placement)

    assert attempt.best_two(placement.row) == best_two
    assert attempt.total is not None
    assert int(attempt.total.max()) == best_two[0]


def test_a_single_feasible_node_has_no_next_best() -> None:
    _, attempt, placement = run([node("a", score="7"), node("b", no="x")], ByLabel())
    assert isinstance(placement, Placement)

    assert attempt.best_two(placement.row) is None
    attempt.total, attempt.rows = np.array([7]), np.array([placement.row])
    assert attempt.best_two(placement.row) is None


def started_at(start: int, *nodes: Any, plugins: tuple[Any, ...] = (), **options: Any) -> Attempt:
    """Returns an attempt that began at this index."""
    harness = Harness(nodes, plugins or [ByLabel()], **options)
    snapshot = harness.cache.snapshot()
    attempt = Attempt(snapshot, start)
    cycle = harness.framework.new_cycle(PodInfo(make_pod(nominated_node="n0")), snapshot)
    schedule_pod(harness.framework, cycle, attempt)
    return attempt


def test_the_next_attempt_begins_after_the_nodes_that_this_one_visited() -> None:
    plain = [node(f"n{number}") for number in range(1, 5)]
    refusing = [node("n1", no="x"), node("n2"), node("n3", no="x"), node("n4", no="x")]

    assert started_at(3, *plain).next_start_index(0) == 3
    assert started_at(7, *plain).next_start_index(0) == 3
    assert started_at(1, *refusing).next_start_index(0) == 1
    # The nominated node was filtered before the others, and is visited again.
    assert started_at(2, node("n0", no="x"), *plain).next_start_index(0) == 2
    only_two = (Narrows("n1", "n2"), ByLabel())
    assert started_at(1, *refusing, plugins=only_two).next_start_index(9) == 3
    beside = started_at(1, node("n0", no="x"), *plain, plugins=only_two)
    assert beside.next_start_index(9) == (1 + 2 + 1) % 5


def test_after_a_sample_the_next_attempt_begins_where_it_ended() -> None:
    nodes = [node(f"m{number:03}") for number in range(130)]
    attempt = started_at(50, *nodes, percentage_of_nodes_to_score=1)
    assert attempt.sampled == 100

    assert attempt.next_start_index(0) == 20


def test_without_any_visited_node_the_next_attempt_begins_where_the_caller_says() -> None:
    harness = Harness([node("a")], [ByLabel()])
    assert Attempt(harness.cache.snapshot(), 3).next_start_index(7) == 7
    empty = Harness([], [ByLabel()]).cache.snapshot()
    assert Attempt(empty, 3).next_start_index(7) == 7


def test_statuses_are_looked_up_by_node_and_by_code() -> None:
    nodes = [node("a", no="x"), node("b", pending="x"), node("c", no="x"), node("left-out")]
    harness, _, diagnosis = run(nodes, Narrows("a", "b", "c"), ByLabel())
    assert isinstance(diagnosis, Diagnosis)
    table = harness.cache.nodes

    def rows_of(code: Code) -> list[str]:
        return [table.names[row] for row in diagnosis.rows_of(code, table).tolist()]

    assert rows_of(Code.UNSCHEDULABLE_AND_UNRESOLVABLE) == ["a", "c"]
    assert rows_of(Code.PENDING) == ["b"]
    assert rows_of(Code.ERROR) == []
    assert diagnosis.status_of("b") == Pending("comes soon").named("ByLabel")
    assert diagnosis.status_of("left-out") == diagnosis.absent
    assert diagnosis.statuses.get("unknown") is None
    assert diagnosis.statuses.get("left-out", "default") == "default"
    with pytest.raises(KeyError, match="left-out"):
        diagnosis.statuses["left-out"]


def test_a_status_of_a_filter_comes_before_those_of_extenders_and_of_the_nominated_node() -> None:
    harness, attempt, _ = run([node("a"), node("b", no="x")], ByLabel())
    rows = {name: harness.cache.nodes.row(name) for name in "ab"}
    earlier, later = Reject("earlier").named("Earlier"), Reject("later").named("Extender")
    for row in rows.values():
        attempt.extra[row] = earlier
    diagnosis = attempt.diagnosis()
    assert diagnosis.status_of("a") == earlier
    assert diagnosis.status_of("b") == Reject("z last", "a first", resolvable=False).named(
        "ByLabel"
    )

    attempt.by_extenders[rows["a"]] = later
    assert attempt.diagnosis().status_of("a") == later
    table = harness.cache.nodes
    found = attempt.diagnosis().rows_of(Code.UNSCHEDULABLE, table).tolist()
    assert found == [rows["a"]]
