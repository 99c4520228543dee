"""The harness: one plugin's answers, and whole decisions, on a small cluster."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mooring.errors import PluginError
from mooring.framework import (
    SKIP,
    Cycle,
    Diagnosis,
    NodeInfo,
    NodeView,
    Placement,
    PreFilterResult,
    Reject,
    Status,
    default_normalize,
    per_node,
)
from mooring.testing import FakeClock, Harness, cluster, make_node, make_pod, one_node_form

NODES = [make_node("a"), make_node("b", labels={"rack": "1"}), make_node("c")]


class OnRacks:
    name = "OnRacks"

    @per_node
    def filter(self, pod: Any, node: NodeInfo) -> Status | None:
        return None if "rack" in node.labels else Reject("is on no rack", "stands alone")


class Letters:
    """Raw scores by name: a = 5, b = 10, c = 20; the highest becomes 100."""

    name = "Letters"

    @per_node
    def score(self, pod: Any, node: NodeInfo) -> int:
        return {"a": 5, "b": 10, "c": 20}.get(node.name, 0)

    def normalize(self, cycle: Cycle, scores: Any, nodes: NodeView) -> Any:
        return default_normalize(scores)


class Noted:
    """Prepared results of pre_filter and pre_score; the filter uses the stored state."""

    name = "Noted"

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def pre_filter(self, cycle: Cycle) -> Any:
        cycle[self] = "a"
        return self.answer

    @per_node
    def filter(self, pod: Any, node: NodeInfo) -> Status | None:
        return Reject("is a") if node.name == "a" else None

    def pre_score(self, cycle: Cycle, nodes: NodeView) -> Any:
        return self.answer

    @per_node
    def score(self, pod: Any, node: NodeInfo) -> int:
        return 1


# ---------------------------------------------------------------- cluster


def test_a_cluster_holds_nodes_pods_and_nominations() -> None:
    cache = cluster(
        make_node("a"),
        make_pod("p", node="a"),
        make_pod("q", nominated_node="a"),
        make_pod("r"),
    )

    assert len(cache.nodes) == 1
    assert [pod.info.metadata.name for pod in cache.pods] == ["p"]
    assert [pod.metadata.name for pod in cache.nominator.pods_on("a")] == ["q"]


# ---------------------------------------------------------------- one filter


def test_reasons_and_statuses_are_those_of_the_first_plugin() -> None:
    harness = Harness(NODES, [OnRacks(), Letters()])

    assert harness.reasons(make_pod()) == {
        "a": ("is on no rack", "stands alone"),
        "b": (),
        "c": ("is on no rack", "stands alone"),
    }
    assert harness.statuses(make_pod())["b"] is None
    assert harness.statuses(make_pod())["a"] == Reject("is on no rack", "stands alone")


def test_another_plugin_may_be_asked() -> None:
    noted = Noted(None)
    harness = Harness(NODES, [OnRacks(), noted])

    assert harness.reasons(make_pod(), noted) == {"a": ("is a",), "b": (), "c": ()}


def test_nodes_are_reported_in_visiting_order() -> None:
    zones = [make_node("a", zone="x"), make_node("b", zone="x"), make_node("c", zone="y")]
    assert list(Harness(zones, [OnRacks()]).reasons(make_pod())) == ["a", "c", "b"]


def test_a_plugin_that_skips_in_pre_filter_refuses_no_node() -> None:
    assert Harness(NODES, [Noted(SKIP)]).reasons(make_pod()) == {"a": (), "b": (), "c": ()}


def test_a_pod_that_pre_filter_refuses_is_refused_by_every_node() -> None:
    refusal = Reject("has no claim", resolvable=False)
    harness = Harness(NODES, [Noted(refusal)])

    assert harness.statuses(make_pod()) == dict.fromkeys("abc", refusal.named("Noted"))
    attempt = harness.begin(make_pod())
    assert attempt.refusal == refusal.named("Noted")
    assert not attempt.takes_part(harness.plugins[0])


def test_narrowing_leaves_the_filters_answer_as_it_is() -> None:
    harness = Harness(NODES, [Noted(PreFilterResult(frozenset({"a"})))])
    assert harness.reasons(make_pod()) == {"a": ("is a",), "b": (), "c": ()}


def test_an_error_comes_through_with_the_plugins_name() -> None:
    class Breaks:
        name = "Breaks"

        @per_node
        def filter(self, pod: Any, node: NodeInfo) -> Any:
            raise ValueError("no")

    with pytest.raises(PluginError, match='running "Breaks" filter plugin: ValueError: no'):
        Harness(NODES, [Breaks()]).reasons(make_pod())


# ---------------------------------------------------------------- one score


def test_scores_are_raw_and_normalized() -> None:
    harness = Harness(NODES, [Letters()])

    assert harness.raw_scores(make_pod()) == {"a": 5, "b": 10, "c": 20}
    assert harness.scores(make_pod()) == {"a": 25, "b": 50, "c": 100}


def test_a_plugin_that_skips_in_pre_score_has_no_scores() -> None:
    harness = Harness(NODES, [Noted(SKIP)])

    assert harness.raw_scores(make_pod()) is None
    assert harness.scores(make_pod()) is None


def test_without_nodes_there_are_no_scores() -> None:
    harness = Harness([], [Letters()])

    assert harness.raw_scores(make_pod()) == {}
    assert harness.scores(make_pod()) == {}
    assert harness.reasons(make_pod(), OnRacks()) == {}


def test_a_cycle_goes_on_after_its_scores_were_asked_for() -> None:
    noted = Noted(None)
    harness = Harness(NODES, [noted])
    cycle, view = harness.open(make_pod())
    last = view.subset(np.array([2], dtype=np.intp))

    assert cycle[noted] == "a"
    assert harness.raw_scores_in(cycle, last, noted) == {"c": 1}


# ---------------------------------------------------------------- decisions


def test_a_decision_names_the_node_and_what_was_seen() -> None:
    decided = Harness(NODES, [Letters()]).decide(make_pod())

    assert (decided.node, decided.message) == ("c", "")
    assert decided.decision.result == "scheduled"
    assert decided.decision.total == {"a": 25, "b": 50, "c": 100}
    assert decided.decision.raw == {"Letters": {"a": 5, "b": 10, "c": 20}}


def test_a_pod_that_fits_nowhere_gets_the_message() -> None:
    class Never(OnRacks):
        @per_node
        def filter(self, pod: Any, node: NodeInfo) -> Status | None:
            return Reject("never")

    harness = Harness(NODES, [Never()])
    decided = harness.decide(make_pod())

    assert decided.node is None
    assert decided.message == "0/3 nodes are available: 3 never."
    assert decided.decision.unschedulable_plugins == ("OnRacks",)
    found = harness.diagnose(make_pod())
    assert isinstance(found, Diagnosis)
    assert found.status_of("b") == Reject("never").named("OnRacks")


def test_diagnose_gives_the_placement_of_a_pod_that_fits() -> None:
    found = Harness(NODES, [OnRacks()]).diagnose(make_pod())

    assert isinstance(found, Placement)
    assert (found.node_name, found.feasible_count, found.evaluated_count) == ("b", 1, 3)


def test_weights_count_in_the_total() -> None:
    class Reverse(Letters):
        name = "Reverse"

        def normalize(self, cycle: Cycle, scores: Any, nodes: NodeView) -> Any:
            return default_normalize(scores, reverse=True)

    plugins = [Letters(), Reverse()]

    assert Harness(NODES, plugins, weights={"Letters": 3}).decide(make_pod()).node == "c"
    reverse = Harness(NODES, plugins, weights={"Reverse": 3}).decide(make_pod())
    assert reverse.node == "a"
    assert reverse.decision.total == {"a": 25 + 3 * 75, "b": 50 + 3 * 50, "c": 100}


def test_a_sample_begins_where_it_is_told_to() -> None:
    nodes = [make_node(f"n{number:03}") for number in range(150)]
    harness = Harness(nodes, [Letters()], percentage_of_nodes_to_score=1)

    decided = harness.decide(make_pod(), start_index=30)

    assert decided.decision.total is not None
    assert min(decided.decision.total) == "n030"
    assert len(decided.decision.total) == 100


def test_plugins_are_timed_with_the_clock_that_is_given() -> None:
    clock = FakeClock()

    class Slow(OnRacks):
        def pre_filter(self, cycle: Cycle) -> None:
            clock.advance(0.25)

    harness = Harness(NODES, [Slow()], clock=clock)
    harness.decide(make_pod())

    assert harness.framework.timings.statistics()["OnRacks", "PreFilter"].seconds == 0.25


# ---------------------------------------------------------------- scalar twins


def test_the_one_node_form_is_the_undecorated_method() -> None:
    view = Harness(NODES, [OnRacks()]).open(make_pod())[1]
    plain = one_node_form(OnRacks.filter)

    assert [plain(OnRacks(), make_pod(), node) for node in view] == [
        Reject("is on no rack", "stands alone"),
        None,
        Reject("is on no rack", "stands alone"),
    ]
    assert one_node_form(Letters().score)(Letters(), make_pod(), view.info(1)) == 10


def test_a_method_that_was_not_lifted_has_no_twin() -> None:
    with pytest.raises(TypeError, match="was not made with @per_node"):
        one_node_form(Letters.normalize)
