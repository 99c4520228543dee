"""The Filter stage: what PreFilter may say, first refusals, errors in visiting order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mooring.decision import Decision
from mooring.errors import PluginError
from mooring.framework import (
    SKIP,
    Attempt,
    Cycle,
    Diagnosis,
    FilterStatuses,
    NodeError,
    NodeView,
    PreFilterResult,
    Reject,
    schedule_pod,
)
from mooring.state import PodInfo
from mooring.testing import Harness, make_node, make_pod

POD = make_pod("p")
NODES = [make_node(name) for name in ("a", "b", "c", "d")]


class Before:
    """A pre-filter with a fixed answer, that notes when it is called."""

    def __init__(self, name: str, answer: Any, called: list[str]) -> None:
        self.name = name
        self.answer = answer
        self.called = called

    def pre_filter(self, cycle: Cycle) -> Any:
        self.called.append(self.name)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class Refuses:
    """A filter that refuses some nodes, and notes which ones it was asked about."""

    def __init__(self, name: str, refused: dict[str, Any]) -> None:
        self.name = name
        self.refused = refused
        self.asked: list[str] = []

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        self.asked += nodes.names
        return FilterStatuses.of(self.refused.get(name) for name in nodes.names)


class Flat:
    name = "Flat"

    def score(self, cycle: Cycle, nodes: NodeView) -> Any:
        return np.zeros(len(nodes), dtype=np.int64)


def nodes_after_pre_filter(*names: str) -> PreFilterResult:
    return PreFilterResult(frozenset(names))


def decided(*plugins: Any, pod: Any = POD, start: int = 0, **options: Any) -> Decision:
    return Harness(NODES, plugins, **options).decide(pod, start_index=start).decision


def reasons(decision: Decision) -> dict[str, tuple[str, ...]]:
    return {name: found.reasons for name, found in decision.rejected.items()}


# ---------------------------------------------------------------- pre_filter


def test_a_plugin_that_skips_does_not_filter_this_pod() -> None:
    class Skips(Refuses):
        def pre_filter(self, cycle: Cycle) -> Any:
            return SKIP

    plugin = Skips("Skips", dict.fromkeys("abcd", Reject("no")))

    assert decided(plugin, Flat()).result == "scheduled"
    assert plugin.asked == []


def test_narrowing_leaves_the_named_nodes_and_says_so_of_the_others() -> None:
    filters = Refuses("F", {"b": Reject("no b")})

    decision = decided(Before("N", nodes_after_pre_filter("b", "zzz"), []), filters, Flat())

    assert filters.asked == ["b"]
    assert decision.message == (
        "0/4 nodes are available: 1 no b, 3 node(s) didn't satisfy plugin(s) [N]."
    )
    assert decision.rejected["a"].code == "UnschedulableAndUnresolvable"
    assert decision.rejected["a"].plugin == "N"
    assert decision.unschedulable_plugins == ("F", "N")


def test_one_narrowed_node_needs_no_scores() -> None:
    decision = decided(Before("N", nodes_after_pre_filter("c"), []), Flat())

    assert (decision.node, decision.tied, decision.total) == ("c", ("c",), None)
    assert decision.choice is None


def test_two_narrowed_nodes_are_walked_in_chance_order_upstream() -> None:
    decision = decided(Before("N", nodes_after_pre_filter("c", "b"), []), Flat())

    assert decision.choice == "unordered"
    assert decision.tied == ("b", "c")


def test_two_plugins_that_narrow_leave_what_both_name() -> None:
    called: list[str] = []
    plugins = [
        Before("N", nodes_after_pre_filter("a", "b"), called),
        Before("M", nodes_after_pre_filter("b", "c"), called),
    ]

    decision = decided(*plugins, Flat())

    assert decision.node == "b"
    assert called == ["N", "M"]
    assert reasons(decision)["d"] == ("node(s) didn't satisfy plugin(s) [M N]",)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([()], "node(s) didn't satisfy plugin N0"),
        ([("a",), ("b",)], "node(s) didn't satisfy plugin(s) [N0 N1] simultaneously"),
        ([("a", "b"), ()], "node(s) didn't satisfy plugin(s) [N0 N1] simultaneously"),
    ],
)
def test_narrowing_to_nothing_refuses_the_pod_and_stops_there(
    names: list[tuple[str, ...]], message: str
) -> None:
    called: list[str] = []
    plugins = [
        Before(f"N{at}", nodes_after_pre_filter(*found), called) for at, found in enumerate(names)
    ]

    decision = decided(*plugins, Before("Late", None, called), Flat())

    assert decision.message == f"0/4 nodes are available: {message}."
    assert decision.prefilter is not None
    assert decision.prefilter.plugin == ""
    assert decision.prefilter.code == "UnschedulableAndUnresolvable"
    assert decision.unschedulable_plugins == tuple(f"N{at}" for at in range(len(names)))
    assert "Late" not in called


def test_narrowing_to_nodes_that_do_not_exist_leaves_all_absent() -> None:
    decision = decided(Before("N", nodes_after_pre_filter("x", "y"), []), Refuses("F", {}), Flat())

    assert decision.message == ("0/4 nodes are available: 4 node(s) didn't satisfy plugin(s) [N].")


def test_a_refusal_that_eviction_cannot_help_ends_pre_filter() -> None:
    called: list[str] = []
    refusal = Reject("no claim", resolvable=False)

    decision = decided(
        Before("N", nodes_after_pre_filter("a"), called),
        Before("R", refusal, called),
        Before("L", None, called),
    )

    assert called == ["N", "R"]
    assert decision.message == "0/4 nodes are available: no claim."
    assert decision.unschedulable_plugins == ("R",)
    assert decision.rejected == {}


def test_after_a_resolvable_refusal_the_others_still_note_what_preemption_needs() -> None:
    called: list[str] = []
    filters = Refuses("F", {})

    decision = decided(
        Before("R", Reject("one"), called),
        Before("S", Reject("two"), called),
        Before("N", nodes_after_pre_filter("a"), called),
        filters,
    )

    assert called == ["R", "S", "N"]
    assert filters.asked == []
    assert decision.message == "0/4 nodes are available: two."  # the last one counts
    assert decision.unschedulable_plugins == ("N", "S")


def test_an_exception_in_pre_filter_names_plugin_point_and_error() -> None:
    with pytest.raises(PluginError) as caught:
        decided(Before("Bad", ValueError("seven"), []))

    assert str(caught.value) == 'running PreFilter plugin "Bad": ValueError: seven'


NO_NAMES: list[Any] = ["abcd", b"a", None, 5]


@pytest.mark.parametrize(
    "answer", ["no", True, {"a"}, *(PreFilterResult(names) for names in NO_NAMES)]
)
def test_an_answer_that_means_nothing_is_an_error(answer: Any) -> None:
    with pytest.raises(PluginError, match=r'PreFilter plugin "Bad": returned'):
        decided(Before("Bad", answer, []))


# ---------------------------------------------------------------- first refusal


def test_the_first_refusal_counts_and_later_filters_do_not_see_the_node() -> None:
    first = Refuses("First", {"a": Reject("one"), "b": Reject("one", "two")})
    second = Refuses("Second", dict.fromkeys("abcd", Reject("second")))

    decision = decided(first, second, Flat())

    assert second.asked == ["c", "d"]
    assert decision.message == "0/4 nodes are available: 1 two, 2 one, 2 second."
    assert decision.unschedulable_plugins == ("First", "Second")
    assert {name: found.plugin for name, found in decision.rejected.items()} == {
        "a": "First",
        "b": "First",
        "c": "Second",
        "d": "Second",
    }


def test_a_filter_is_not_called_when_no_node_is_left() -> None:
    first, second = Refuses("A", dict.fromkeys("abcd", Reject("x"))), Refuses("B", {})

    decided(first, second)

    assert second.asked == []


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (None, "returned None, not FilterStatuses"),
        (
            FilterStatuses.feasible(3),
            "codes are uint16 of shape (3,), should be uint16 of shape (4,)",
        ),
        (
            FilterStatuses(np.ones(4, dtype=np.uint16), []),
            "a code points past the end of the table",
        ),
        (
            FilterStatuses(np.ones(4, dtype=np.int64), [Reject("x")]),
            "codes are int64 of shape (4,), should be uint16 of shape (4,)",
        ),
        (FilterStatuses([0], []), "codes are [0], should be an array"),  # type: ignore[arg-type]
        (
            FilterStatuses.of([None, "no", Reject("x"), None]),  # type: ignore[list-item]
            "returned 'no' for a node, not None or Reject",
        ),
    ],
)
def test_an_answer_that_is_no_status_of_these_nodes_is_an_error(answer: Any, told: str) -> None:
    class Bad:
        name = "Bad"

        def filter(self, cycle: Cycle, nodes: NodeView) -> Any:
            return answer

    with pytest.raises(PluginError) as caught:
        decided(Bad())

    assert str(caught.value) == f'running "Bad" filter plugin: {told}'


def test_a_cluster_without_nodes_calls_nobody() -> None:
    called: list[str] = []

    found = Harness([], [Before("N", None, called)]).diagnose(POD)

    assert isinstance(found, Diagnosis)
    assert found.message == "no nodes available to schedule pods"
    assert called == []


def test_a_diagnosis_knows_each_nodes_status() -> None:
    filters = Refuses("F", {"b": Reject("no b")})
    found = Harness(NODES, [Before("N", nodes_after_pre_filter("b"), []), filters]).diagnose(POD)

    assert isinstance(found, Diagnosis)
    assert found.status_of("b") == Reject("no b").named("F")
    assert found.status_of("a") == found.absent
    assert found.statuses.get("nobody", "unknown") == "unknown"


# ---------------------------------------------------------------- errors of single nodes


def test_an_error_at_a_node_that_is_visited_fails_the_attempt() -> None:
    errors = Refuses("F", {"b": NodeError("disk on fire"), "a": Reject("x")})

    with pytest.raises(PluginError) as caught:
        decided(errors, Flat())

    assert str(caught.value) == 'running "F" filter plugin: disk on fire'


def test_the_first_error_in_visiting_order_is_the_one_that_is_reported() -> None:
    errors = {"b": NodeError("b burns"), "d": NodeError("d burns")}

    for start, told in ((0, "b burns"), (1, "b burns"), (2, "d burns"), (3, "d burns")):
        with pytest.raises(PluginError, match=told):
            decided(Refuses("F", errors), Flat(), start=start)


def test_an_error_behind_the_end_of_the_walk_does_not_matter() -> None:
    errors = Refuses("F", {"c": NodeError("burns")})

    decision = decided(errors)  # no score plugin: the walk ends at b, the second one that passes

    assert (decision.node, decision.choice, decision.sampled) == ("a", "first", 1)


def test_nodes_after_an_error_were_not_looked_at() -> None:
    plugin = Refuses("F", {"a": Reject("x"), "b": NodeError("burns"), "c": Reject("y")})
    harness = Harness(NODES, [plugin, Flat()])
    snapshot = harness.cache.snapshot()
    attempt = Attempt(snapshot)

    with pytest.raises(PluginError):
        schedule_pod(
            harness.framework, harness.framework.new_cycle(PodInfo(POD), snapshot), attempt
        )

    assert set(attempt.rejected()) == {"a"}


def test_an_error_where_an_earlier_filter_refused_is_never_seen() -> None:
    first = Refuses("A", {"b": Reject("x")})
    second = Refuses("B", {"b": NodeError("burns")})

    decision = decided(first, second, Flat())

    assert decision.result == "scheduled"
    assert decision.sampled is None


def test_narrowed_nodes_are_in_no_order_also_if_nothing_is_scored() -> None:
    narrows = Before("Narrows", nodes_after_pre_filter("a", "b"), [])
    decision = decided(narrows, Refuses("R", {}))
    assert (decision.node, decision.choice) == ("a", "unordered")
    assert decided(Refuses("R", {})).choice == "first"


@pytest.mark.parametrize(("plugins", "choice"), [((), "first"), ((Flat(),), None)])
def test_a_pod_that_pre_filter_rejects_has_the_choice_of_its_profile(
    plugins: tuple[Any, ...], choice: str | None
) -> None:
    before = Before("B", Reject("never", resolvable=False), [])

    assert decided(before, *plugins).choice == choice
