"""Tests the summary of a replay: where pods go, and why the first one goes elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.decision import SCHEDULED, UNSCHEDULABLE, Decision, Rejection
from mooring.recordings.moves import ComparedStep, Moves, why

FIT = Rejection("NodeResourcesFit", "Unschedulable", ("Insufficient cpu",))


def decision(node: str | None, **more: Any) -> Decision:
    result = SCHEDULED if node else UNSCHEDULABLE
    fields: dict[str, Any] = {"tied": (node,) if node else (), "rejected": {}} | more
    return Decision(
        result=result, node=node, unschedulable_plugins=(), pending_plugins=(), **fields
    )


def scored(node: str, scores: dict[str, dict[str, int]], total: dict[str, int]) -> Decision:
    return decision(node, scores=scores, raw=scores, total=total)


def step(recorded: Decision, decided: Decision, **more: Any) -> ComparedStep:
    fields: dict[str, Any] = {"number": 0, "pod": "default/web", "weights": {}} | more
    fields.setdefault("recorded_weights", fields["weights"])
    return ComparedStep(recorded=recorded, decided=decided, **fields)


def test_pods_are_counted_by_what_changes() -> None:
    moves = Moves()
    pairs = [("a", "b"), ("c", "d"), ("a", "b"), ("a", "a"), (None, "b"), ("a", None), (None, None)]
    for index, (before, after) in enumerate(pairs):
        moves.add(step(decision(before), decision(after), number=index, pod=f"ns/p{index}"))

    lines = list(moves.lines())

    assert lines[:5] == [
        "3 of 7 pods on another node, 1 newly placed, 1 newly refused",
        "  a -> b: 2 pods",
        "  c -> d: 1 pod",
        "  newly placed: ns/p4",
        "  newly refused: ns/p5",
    ]
    assert lines[5].startswith("First: step 0, pod ns/p0: b, recorded a")
    document = moves.as_dict()
    assert document["routes"][0] == {"before": "a", "after": "b", "pods": 2}
    assert (document["newly_placed"], document["newly_refused"]) == (["ns/p4"], ["ns/p5"])
    assert document["first"]["step"] == 0


def test_a_pod_with_two_attempts_counts_with_the_last() -> None:
    moves = Moves()
    moves.add(step(decision(None), decision("a"), number=0))
    moves.add(step(decision("a"), decision("a"), number=1))
    assert next(moves.lines()) == "0 of 1 pod on another node, 0 newly placed, 0 newly refused"


def test_without_a_change_there_is_one_line() -> None:
    moves = Moves()
    moves.add(step(decision("a"), decision("a")))
    assert len(list(moves.lines())) == 1
    assert moves.as_dict()["first"] is None


def test_many_routes_and_pods_are_cut() -> None:
    moves = Moves()
    for index in range(7):
        moves.add(step(decision(f"n{index}"), decision("z"), number=index, pod=f"ns/p{index}"))
        moves.add(step(decision(None), decision("z"), number=index, pod=f"ns/q{index}"))
    lines = list(moves.lines())
    assert "  ... and 2 more, between 2 other pairs" in lines
    assert "  newly placed: ns/q0, ns/q1, ns/q2 and 4 more" in lines


@pytest.mark.parametrize(
    ("recorded", "decided", "text"),
    [
        (
            decision("a"),
            decision("b", rejected={"a": FIT}),
            "b, recorded a: NodeResourcesFit (Insufficient cpu) now rejects a",
        ),
        (
            decision("a", rejected={"b": FIT}),
            decision("b"),
            "b, recorded a: NodeResourcesFit (Insufficient cpu) had rejected b",
        ),
        (
            decision("a"),
            decision(None, rejected={"a": FIT}),
            "no node, recorded a: NodeResourcesFit (Insufficient cpu) now rejects a",
        ),
        (
            decision(None, rejected={"a": FIT}),
            decision("a"),
            "a, recorded no node: NodeResourcesFit (Insufficient cpu) had rejected a",
        ),
        (
            decision("a", prefilter=FIT),
            decision("b"),
            "b, recorded a: NodeResourcesFit (Insufficient cpu) had rejected b",
        ),
        (
            scored("a", {"F": {"a": 1, "b": 1}}, {"a": 1, "b": 1}),
            scored("b", {"F": {"a": 1, "b": 1}}, {"a": 1, "b": 1}),
            "b, recorded a: both have the total score 1 now; the first one in order is taken",
        ),
        (
            scored("a", {"F": {"a": 1, "b": 1}}, {"a": 1, "b": 1}),
            decision("b"),
            "b, recorded a: nodes are not scored now; the first feasible one is taken",
        ),
    ],
)
def test_the_reason_is_a_rejection_or_a_score(
    recorded: Decision, decided: Decision, text: str
) -> None:
    assert why(step(recorded, decided)) == text


def test_the_plugin_that_turned_the_order_is_named_with_its_weight() -> None:
    # Image still prefers a, by more points than Fit prefers b; Fit's weight decides.
    recorded = scored(
        "a", {"Fit": {"a": 50, "b": 50}, "Image": {"a": 60, "b": 0}}, {"a": 110, "b": 50}
    )
    decided = scored(
        "b", {"Fit": {"a": 10, "b": 50}, "Image": {"a": 60, "b": 0}}, {"a": 90, "b": 150}
    )
    moved = step(recorded, decided, weights={"Fit": 3}, recorded_weights={})
    assert (
        why(moved) == "b, recorded a: Fit scores b 50 and a 10 (weight 3); recorded b 50 and a 50"
    )


def test_a_weight_alone_can_turn_the_order() -> None:
    scores = {"Fit": {"a": 40, "b": 60}, "Image": {"a": 50, "b": 0}}
    recorded = scored("a", scores, {"a": 90, "b": 60})
    decided = scored("b", scores, {"a": 250, "b": 300})
    moved = step(recorded, decided, weights={"Fit": 5}, recorded_weights={"Fit": 1})
    assert (
        why(moved) == "b, recorded a: Fit scores b 60 and a 40 (weight 5); recorded b 60 and a 40"
    )


def test_a_step_recorded_without_scores_is_explained_by_those_of_today() -> None:
    recorded = decision("a")
    scores = {"Fit": {"a": 10, "b": 40}, "Other": {"a": 5, "b": 0}}
    assert why(step(recorded, scored("b", scores, {"a": 15, "b": 40})), "bound to") == (
        "b, bound to a: the total scores are b 40 and a 15; Fit makes most of it: b 40 and a 10"
    )
    # Every score plugin may skip a pod; then all nodes have 0.
    assert why(step(recorded, scored("b", {}, {"a": 0, "b": 0}))) == (
        "b, recorded a: both have the total score 0 now; the first one in order is taken"
    )
    assert why(step(recorded, scored("b", {}, {"b": 0}))) == (
        "b, recorded a: nodes were not scored when it was recorded"
    )
