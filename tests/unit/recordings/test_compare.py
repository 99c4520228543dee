"""Differences between decisions, case by case; the rule is in test_compare_reference."""

from __future__ import annotations

import random
from collections.abc import Collection
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mooring.config import DEFAULT_FILTER_ORDER
from mooring.decision import Decision, Preemption, PreemptionCandidate, Rejection
from mooring.recordings.compare import differences, fully_owned
from mooring.recordings.difference import Difference, histogram_part
from mooring.recordings.format import read_recording
from tests.helpers.paths import PARITY_DATA

DATA = PARITY_DATA
ORDER = ("A", "B", "C", "D")
WEIGHTS = {"A": 3, "B": 2, "C": 1, "D": 5}


def found(recorded: Decision, decided: Decision, only: Collection[str] | None) -> list[Difference]:
    return differences(0, recorded, decided, only=only, weights=WEIGHTS, filter_order=ORDER)


def test_a_plugin_that_ran_before_the_foreign_refusal_must_have_passed_the_node() -> None:
    foreign = placed(rejected={"n2": no("C")})
    assert found(foreign, placed(rejected={"n2": no("D")}), {"A", "D"}) == []
    report = found(foreign, placed(rejected={"n2": no("A")}), {"A", "D"})
    assert [(item.plugin, item.node) for item in report] == [("A", "n2")]


def test_a_node_left_out_by_a_foreign_prefilter_says_nothing_about_our_filters() -> None:
    left_out = Rejection("C", "Unresolvable", ("node(s) didn't satisfy plugin(s) [C]",))
    assert found(placed(rejected={"n2": left_out}), placed(rejected={"n2": no("A")}), {"A"}) == []
    # The other way round it does: a filter saw the node, so no PreFilter had left it out.
    ours = Rejection("A", "Unresolvable", ("node(s) didn't satisfy plugin(s) [A]",))
    report = found(placed(rejected={"n2": no("C")}), placed(rejected={"n2": ours}), {"A"})
    assert [(item.plugin, item.node) for item in report] == [("A", "n2")]


def test_a_constant_foreign_score_leaves_the_outcome_comparable() -> None:
    recorded = scored({"A": {"n1": 10, "n2": 20}, "D": {"n1": 0, "n2": 0}})
    decided = scored({"A": {"n1": 10, "n2": 20}})
    assert fully_owned(recorded, {"A"})
    assert found(recorded, decided, {"A"}) == []
    worse = msgspec.structs.replace(decided, node="n1", tied=("n1", "n2"))
    assert {item.field for item in found(recorded, worse, {"A"})} == {"node", "tied"}


def test_a_foreign_score_that_tells_nodes_apart_hides_the_choice_but_not_the_total() -> None:
    recorded = scored({"A": {"n1": 10, "n2": 20}, "D": {"n1": 9, "n2": 0}})
    decided = scored({"A": {"n1": 10, "n2": 20}})
    assert recorded.node != decided.node
    assert found(recorded, decided, {"A"}) == []
    slip = msgspec.structs.replace(decided, total={"n1": 30, "n2": 61})
    report = found(recorded, slip, {"A"})
    assert report == [Difference(0, "", "total", None, "n2", 60, 61)]


def test_a_missing_weight_is_our_caller_s_mistake() -> None:
    recorded = scored({"A": {"n1": 10, "n2": 20}, "D": {"n1": 0, "n2": 0}})
    with pytest.raises(ValueError, match="no weight for A"):
        differences(0, recorded, recorded, only={"A"})


def test_a_message_is_compared_up_to_the_words_of_postfilter() -> None:
    histogram = "0/3 nodes are available: 3 node(s) had taint {a.b: c. d}."
    for tail in (
        " preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.",
        " no new claims to deallocate, preemption: not eligible due to preemptionPolicy=Never..",
        " still not schedulable, preemption: x",
        " deallocation of ResourceClaim completed, preemption: x",
        " not found",
        "",
    ):
        assert histogram_part(histogram + tail) == histogram
    assert histogram_part(None) is None


@pytest.mark.parametrize("family", ["resources", "dra", "preemption", "gates-priority", "mixed"])
def test_the_histogram_of_a_recorded_failure_names_every_reason_and_no_postfilter(
    family: str,
) -> None:
    for step in read_recording(DATA / f"{family}-1.json.gz").steps:
        decision = step.decision
        if decision.result != "unschedulable" or decision.prefilter:
            continue
        counts: dict[str, int] = {}
        for refusal in decision.rejected.values():
            for reason in refusal.reasons:
                counts[reason] = counts.get(reason, 0) + 1
        parts = ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))
        total = len(decision.rejected)
        assert histogram_part(decision.message) == f"0/{total} nodes are available: {parts}."


@pytest.mark.parametrize("family", ["resources", "taints", "nodeaffinity", "ports-images"])
def test_the_first_eleven_plugins_decide_these_families_alone(family: str) -> None:
    """Without this, no difference in them could mean that nothing was compared."""
    only = {
        *DEFAULT_FILTER_ORDER[:6],
        "SchedulingGates",
        "NodeResourcesBalancedAllocation",
        "ImageLocality",
    }
    for path in DATA.glob(f"{family}-*.json.gz"):
        for step in read_recording(path).steps:
            assert fully_owned(step.decision, only)
    others = read_recording(DATA / "podaffinity-1.json.gz").steps
    assert not all(fully_owned(step.decision, only) for step in others)


def test_messages_are_whole_when_everything_is_compared() -> None:
    recorded = failed("0/1 nodes are available: 1 no. preemption: a")
    decided = failed("0/1 nodes are available: 1 no. preemption: b")
    assert [item.field for item in found(recorded, decided, None)] == ["message"]
    assert found(recorded, decided, {"A"}) == []
    assert found(recorded, decided, {"A", "DefaultPreemption"}) == []
    both = {"A", "DefaultPreemption", "DynamicResources"}
    assert [item.field for item in found(recorded, decided, both)] == ["message"]


def test_an_unordered_choice_may_be_any_of_the_tied() -> None:
    recorded = placed(tied=("n0", "n1"), choice="unordered")
    assert found(recorded, msgspec.structs.replace(recorded, node="n0"), None) == []
    ordered = placed(tied=("n0", "n1"))
    other = msgspec.structs.replace(ordered, node="n0")
    assert [item.field for item in found(ordered, other, None)] == ["node"]


def preempted(nominated: str | None, victims: tuple[str, ...], after: str) -> Decision:
    candidates = {
        "n0": PreemptionCandidate(("a/x",), 0),
        "n1": PreemptionCandidate(("a/y", "a/z"), 0),
        "n2": PreemptionCandidate(("a/w",), 1),
    }
    preemption = Preemption(nominated, victims, candidates, ("n0", "n1"))
    decision = failed("0/3 nodes are available: 3 no.")
    return msgspec.structs.replace(decision, preemption=preemption, nominated_node_after=after)


def test_any_acceptable_nomination_will_do_with_its_own_victims() -> None:
    recorded = preempted("n0", ("a/x",), "n0")
    assert found(recorded, preempted("n1", ("a/z", "a/y"), "n1"), None) == []
    wrong = found(recorded, preempted("n1", ("a/x",), "n1"), None)
    assert [item.field for item in wrong] == ["preemption.victims"]
    outside = found(recorded, preempted("n2", ("a/w",), "n2"), None)
    assert {item.field for item in outside} == {"preemption.nominated", "nominated_node_after"}
    assert found(recorded, preempted(None, (), ""), {"A"}) == []


@pytest.mark.parametrize("path", sorted(DATA.glob("*-7.json.gz")), ids=lambda p: p.name[:12])
def test_a_recording_does_not_differ_from_itself_whoever_owns_what(path: Path) -> None:
    rng = random.Random(path.name)
    recording = read_recording(path)
    weights = dict.fromkeys([*DEFAULT_FILTER_ORDER, "ImageLocality"], 1)
    weights["NodeResourcesBalancedAllocation"] = 1
    only = set(rng.sample(sorted(weights), 7))
    for index, step in enumerate(recording.steps):
        assert differences(index, step.decision, step.decision) == []
        again = differences(index, step.decision, step.decision, only=only, weights=weights)
        assert again == []


def test_a_difference_is_reported_in_one_line() -> None:
    recorded = placed(rejected={"n2": no("A")})
    report = differences(4, recorded, placed(), pod="default/a")
    assert [str(item) for item in report] == [
        "step 4, pod default/a: rejected of A on node n2: "
        "recorded A Unschedulable (A says no), decided nothing"
    ]
    assert str(differences(4, recorded, recorded)) == "[]"


# ---- walks that end early, and what no foreign plugin can excuse ----


def test_a_nominated_node_that_only_a_foreign_plugin_refuses_hides_the_walk() -> None:
    recorded = placed(rejected={"n0": no("C"), "n2": no("A"), "n3": no("A")})
    decided = placed(choice="nominated", tied=("n0", "n1"))
    decided = msgspec.structs.replace(decided, node="n0", tied=("n0",))
    assert found(recorded, decided, {"A"}) == []
    # If all the plugins are ours, nothing excuses the missing refusals.
    whole = found(recorded, decided, None)
    assert {item.field for item in whole} >= {"node", "choice", "rejected"}


def test_an_error_of_a_foreign_plugin_hides_the_nodes_behind_it() -> None:
    text = 'running "D" filter plugin: boom'
    recorded = Decision("error", None, (), {"n0": no("A")}, (), (), message=text)
    decided = placed(rejected={"n0": no("A"), "n2": no("A")})
    assert found(recorded, decided, {"A"}) == []
    missing = found(recorded, placed(), {"A"})
    assert [(item.field, item.node) for item in missing] == [("rejected", "n0")]


def test_an_error_of_our_own_plugin_must_come_again() -> None:
    text = 'running "A" filter plugin: boom'
    recorded = Decision("error", None, (), {}, (), (), message=text)
    assert "result" in {item.field for item in found(recorded, placed(), {"A"})}


def test_an_error_that_only_we_make_is_a_difference_whatever_foreign_plugins_did() -> None:
    recorded = placed(rejected={"n2": no("C")})
    text = 'running "A" filter plugin: boom'
    decided = Decision("error", None, (), {}, (), (), message=text)
    report = found(recorded, decided, {"A"})
    assert [(item.field, item.recorded, item.decided) for item in report] == [
        ("result", "scheduled", "error")
    ]


def test_a_pod_that_only_we_hold_back_is_a_difference() -> None:
    recorded = placed(rejected={"n2": no("C")})
    decided = Decision("gated", None, (), {}, ("A",), (), message="gate")
    assert "result" in {item.field for item in found(recorded, decided, {"A"})}


def test_a_pod_that_only_we_refuse_as_a_whole_is_a_difference() -> None:
    recorded = placed(rejected={"n2": no("C")})
    decided = Decision("unschedulable", None, (), {}, ("A",), (), prefilter=no("A"))
    assert "prefilter" in {item.field for item in found(recorded, decided, {"A"})}


def test_a_pod_that_a_foreign_plugin_holds_back_or_refuses_as_a_whole_says_nothing() -> None:
    decided = placed(rejected={"n0": no("A")})
    gated = Decision("gated", None, (), {}, ("D",), (), message="gate")
    refused = Decision("unschedulable", None, (), {}, ("D",), (), prefilter=no("D"))
    assert found(gated, decided, {"A"}) == []
    assert found(refused, decided, {"A"}) == []
    assert found(gated, decided, None) != []
    assert found(refused, decided, None) != []


def test_a_pod_held_back_by_our_plugin_is_compared_with_its_text() -> None:
    recorded = Decision("gated", None, (), {}, ("A",), (), message="waiting: [x y]")
    decided = Decision("gated", None, (), {}, ("A",), (), message="waiting: [y x]")
    assert [item.field for item in found(recorded, decided, {"A"})] == ["message"]


def test_a_walk_that_stops_at_the_second_node_may_be_shorter_without_foreign_refusals() -> None:
    recorded = placed(choice="first", rejected={"n0": no("C"), "n2": no("A")})
    decided = placed(choice="first", rejected={})
    assert found(recorded, decided, {"A"}) == []
    ours = placed(choice="first", rejected={"n2": no("A")})
    assert [item.field for item in found(ours, decided, {"A"})] == ["rejected"]


def test_a_walk_that_ends_early_because_all_scoring_plugins_are_missing_says_little() -> None:
    recorded = placed(tied=("n0", "n1"), rejected={"n2": no("A"), "n3": no("B")})
    decided = placed(tied=("n1",), choice="first", rejected={"n2": no("A")})
    assert found(recorded, decided, {"A", "B"}) == []
    other = placed(tied=("n1",), choice="first", rejected={"n2": no("B")})
    assert [item.field for item in found(recorded, other, {"A", "B"})] == ["rejected"]
    assert {item.field for item in found(recorded, decided, None)} >= {"choice", "tied"}


def test_pods_taken_away_may_turn_a_spread_constraint_from_yes_to_no() -> None:
    order = ("PodTopologySpread", "InterPodAffinity", "D")
    recorded = placed(rejected={"n2": no("D")})
    decided = placed(rejected={"n2": no("PodTopologySpread")})
    only = {"PodTopologySpread"}
    assert differences(0, recorded, decided, only=only, filter_order=order) == []


def test_raw_scores_that_depend_on_all_nodes_are_compared_on_equal_nodes_only() -> None:
    scores = {"PodTopologySpread": {"n0": 1, "n1": 2, "n2": 3}}
    recorded = scored({"PodTopologySpread": {"n1": 7, "n2": 9}}, rejected={"n0": no("C")})
    only = {"PodTopologySpread"}
    assert found(recorded, scored(scores), only) == []
    changed = scored({"PodTopologySpread": {"n1": 7, "n2": 8}}, rejected={"n0": no("C")})
    again = differences(0, recorded, changed, only=only, weights={"PodTopologySpread": 2})
    assert {item.field for item in again} == {"raw", "scores", "total"}


def test_a_plugin_that_skips_itself_must_skip_again() -> None:
    recorded = scored({"A": {"n1": 10, "n2": 20}})
    decided = scored({"A": {"n1": 10, "n2": 20}, "B": {"n1": 0, "n2": 0}})
    report = found(recorded, decided, {"A", "B"})
    assert [(item.field, item.plugin, item.decided) for item in report] == [
        ("raw", "B", "present"),
        ("scores", "B", "present"),
    ]
    assert found(recorded, decided, {"A"}) == []


def test_a_pod_that_every_score_plugin_skips_has_no_scores_in_either_way_of_writing() -> None:
    recorded = placed(total={"n0": 0, "n1": 0})
    decided = placed(total={"n0": 0, "n1": 0}, raw={}, scores={})

    assert found(recorded, decided, None) == []
    assert found(decided, recorded, None) == []


def test_scores_where_nothing_was_scored_are_a_difference() -> None:
    recorded = placed(tied=("n1",))
    decided = scored({"A": {"n1": 20, "n2": 10}})
    assert {item.field for item in found(recorded, decided, None)} == {"raw", "scores", "total"}


def test_differences_come_in_the_same_order_every_time() -> None:
    recorded = scored({"A": {"n1": 1, "n2": 2}, "B": {"n1": 3, "n2": 4}})
    decided = scored({"B": {"n2": 0, "n1": 0}, "A": {"n2": 0, "n1": 0}})
    report = [(item.field, item.plugin, item.node) for item in found(recorded, decided, None)]
    fields = ("raw", "scores")
    each = [(field, plugin, node) for field in fields for plugin in "AB" for node in ("n1", "n2")]
    assert [item for item in report if item[0] in fields] == each


def no(plugin: str) -> Rejection:
    return Rejection(plugin, "Unschedulable", (f"{plugin} says no",))


def placed(**changes: Any) -> Decision:
    fields: dict[str, Any] = {"tied": ("n1",), "rejected": {}, **changes}
    return Decision("scheduled", "n1", unschedulable_plugins=(), pending_plugins=(), **fields)


def failed(message: str) -> Decision:
    return Decision("unschedulable", None, (), {"n0": no("A")}, ("A",), (), message=message)


def scored(
    scores: dict[str, dict[str, int]], rejected: dict[str, Rejection] | None = None
) -> Decision:
    nodes = next(iter(scores.values()))
    total = {
        node: sum(scores[name][node] * WEIGHTS.get(name, 2) for name in scores) for node in nodes
    }
    tied = tuple(sorted(node for node in total if total[node] == max(total.values())))
    return Decision(
        "scheduled", tied[0], tied, rejected or {}, (), (), scores=scores, raw=scores, total=total
    )
