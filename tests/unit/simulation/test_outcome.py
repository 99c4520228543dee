"""Outcomes of attempts: texts, counts and records."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.errors import InvariantViolation
from mooring.framework import (
    Cycle,
    Diagnosis,
    NodeInfo,
    Pending,
    PreFilterResult,
    Reject,
    Status,
    per_node,
)
from mooring.simulation.outcome import Outcome
from mooring.state import PodInfo
from mooring.testing import make_node, make_pod
from tests.helpers.configurations import NO_VICTIMS, in_vain
from tests.helpers.drivers import driver

INFO = PodInfo(make_pod("p"))


class Narrows:
    name = "Narrows"

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def pre_filter(self, cycle: Cycle) -> Any:
        return self.answer


class Refuses:
    name = "Refuses"

    @per_node
    def filter(self, pod: Any, node: NodeInfo) -> Status | None:
        return Reject("too hot", "too loud")


def test_a_pod_that_is_placed_has_nothing_to_explain() -> None:
    outcome = driver([make_node("a")]).attempt(make_pod("p"))

    assert (outcome.result, outcome.node, outcome.nominated) == ("scheduled", "a", None)
    assert (outcome.message, outcome.reasons) == ("", {})
    assert outcome.pod is outcome.info.pod
    assert outcome.decision().node == "a"


def test_several_reasons_of_a_node_are_counted_one_by_one() -> None:
    outcome = driver([make_node("a"), make_node("b")], Refuses()).attempt(make_pod())

    assert outcome.reasons == {"too hot": 2, "too loud": 2}
    told = "0/2 nodes are available: 2 too hot, 2 too loud. " + in_vain(2, NO_VICTIMS)
    assert outcome.message == told


def test_a_pod_refused_as_a_whole_is_refused_by_every_node() -> None:
    refusal = Reject("has no claim", resolvable=False)
    outcome = driver([make_node("a"), make_node("b")], Narrows(refusal)).attempt(make_pod())

    assert outcome.reasons == {"has no claim": 2}
    assert outcome.message == "0/2 nodes are available: has no claim. " + in_vain(2)


def test_nodes_that_pre_filter_left_out_count_beside_those_that_were_asked() -> None:
    narrows = Narrows(PreFilterResult(frozenset({"a"})))
    nodes = [make_node(name) for name in "abc"]

    outcome = driver(nodes, narrows, Refuses()).attempt(make_pod())

    assert outcome.reasons == {
        "too hot": 1,
        "too loud": 1,
        "node(s) didn't satisfy plugin(s) [Narrows]": 2,
    }


def test_a_cluster_without_nodes_is_the_reason_itself() -> None:
    outcome = Outcome.refused(INFO, Diagnosis(0), None)
    assert outcome.reasons == {"no nodes available to schedule pods": 1}


def test_a_gated_pod_waits_for_its_gate_and_not_for_events_of_nodes() -> None:
    outcome = Outcome.gated(INFO, Pending("waits for a driver").named("Gate"))

    assert (outcome.result, outcome.message) == ("gated", "waits for a driver")
    decision = outcome.decision()
    assert decision.unschedulable_plugins == ("Gate",)
    assert decision.pending_plugins == ("Gate",)
    assert decision.reason is None


def test_an_error_without_an_attempt_has_a_record_too() -> None:
    outcome = Outcome.failed(INFO, "no profile")

    decision = outcome.decision()

    assert (decision.result, decision.reason) == ("error", "SchedulerError")
    assert (decision.message, decision.rejected, decision.tied) == ("no profile", {}, ())
    assert outcome.reasons == {"no profile": 1}
    assert outcome.nominated is None


def test_an_error_in_the_middle_keeps_what_had_been_seen_by_then() -> None:
    class BreaksInScore(Refuses):
        name = "BreaksInScore"

        @per_node
        def filter(self, pod: Any, node: NodeInfo) -> Status | None:
            return Reject("is c") if node.name == "c" else None

        @per_node
        def score(self, pod: Any, node: NodeInfo) -> int:
            raise ValueError("no scale")

    outcome = driver([make_node(name) for name in "abc"], BreaksInScore()).attempt(make_pod())
    decision = outcome.decision()

    assert (decision.message or "").startswith(
        'running Score plugin "BreaksInScore": ValueError: no scale (' + __file__
    )
    assert (decision.result, decision.reason) == ("error", "SchedulerError")
    assert set(decision.rejected) == {"c"}
    assert decision.node is None


def test_a_refusal_on_the_way_to_the_node_is_that_of_one_node() -> None:
    diagnosis = Diagnosis(1, statuses={"a": Reject("taken").named("R")})
    diagnosis.note_plugin(Reject("taken").named("R"))
    outcome = Outcome.refused(INFO, diagnosis, None, nominated="")

    decision = outcome.decision()

    assert decision.rejected["a"].reasons == ("taken",)
    assert decision.unschedulable_plugins == ("R",)
    assert decision.reason == "Unschedulable"


def test_a_pod_turned_back_before_its_node_names_no_plugin() -> None:
    outcome = Outcome.rejected_in_binding(INFO, "volume is gone")

    decision = outcome.decision()

    assert (outcome.result, outcome.nominated, outcome.node) == ("unschedulable", "", None)
    assert (decision.message, decision.reason) == ("volume is gone", "Unschedulable")
    assert (decision.unschedulable_plugins, decision.rejected) == ((), {})


def test_the_first_record_stays_whatever_happens_to_the_cluster() -> None:
    found = driver([make_node("a"), make_node("b")])
    outcome = found.attempt(make_pod("p"))
    first = outcome.decision()

    found.update(make_node("c"))

    assert outcome.decision() is first
    late = found.attempt(make_pod("q"))
    found.update(make_node("d"))
    with pytest.raises(InvariantViolation):
        late.decision()
