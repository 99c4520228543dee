"""The conformance checks: hypothetical nodes, one-node methods, references, states."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

from mooring.framework import (
    SKIP,
    Cycle,
    FilterStatuses,
    NodeInfo,
    NodeView,
    Reject,
    Status,
    per_node,
)
from mooring.state import PodInfo
from mooring.testing import check_conformance
from tests.helpers.broken_plugins import FULL, Base, Scores, fault_of

# ---------------------------------------------------------------- hypothetical nodes


class OneOfAKind:
    """At most one pod of each priority on a node: counted in pre_filter, updated per node."""

    name = "OneOfAKind"

    def pre_filter(self, cycle: Cycle) -> None:
        like = [p.row for p in cycle.snapshot.pods if p.info.priority == cycle.pod.priority]
        counts = np.zeros(cycle.snapshot.nodes.capacity, dtype=np.int64)
        np.add.at(counts, like, 1)
        cycle[self] = (counts, np.zeros(0, dtype=np.int64))

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        counts, delta = cycle[self]
        here = counts[nodes.rows] + (delta if len(delta) else 0)
        return FilterStatuses.reject(here > 0, Reject("has one like it"))


class Shifts(OneOfAKind):
    name = "Shifts"

    def apply_deltas(self, cycle: Cycle, state: Any, nodes: NodeView) -> Any:
        like = cycle.pod.priority
        delta = [
            sum(pod.priority == like for pod in added)
            - sum(pod.priority == like for pod in removed)
            for added, removed in zip(nodes.added, nodes.removed, strict=True)
        ]
        return state[0], np.array(delta, dtype=np.int64)


class AddsAndRemoves(OneOfAKind):
    name = "AddsAndRemoves"

    def _counted(self, cycle: Cycle, state: Any, pod: PodInfo, node: NodeInfo, sign: int) -> Any:
        counts = state[0].copy()
        row = cycle.snapshot.nodes.row(node.name)
        counts[row] += sign * (pod.priority == cycle.pod.priority)
        return counts, state[1]

    def add_pod(self, cycle: Cycle, state: Any, pod: PodInfo, node: NodeInfo) -> Any:
        return self._counted(cycle, state, pod, node, 1)

    def remove_pod(self, cycle: Cycle, state: Any, pod: PodInfo, node: NodeInfo) -> Any:
        return self._counted(cycle, state, pod, node, -1)


@pytest.mark.parametrize("plugin", [Shifts(), AddsAndRemoves()])
def test_a_state_that_follows_the_worlds_passes(plugin: Any) -> None:
    check_conformance(plugin)


def test_a_state_that_stays_behind_is_caught_with_the_node() -> None:
    told = fault_of(OneOfAKind())

    assert "with a pod added to node-" in told or "with a pod removed from node-" in told
    assert "for the real one" in told
    assert "has one like it" in told


class AddsTwice(AddsAndRemoves):
    name = "AddsTwice"

    def remove_pod(self, cycle: Cycle, state: Any, pod: PodInfo, node: NodeInfo) -> Any:
        return self.add_pod(cycle, state, pod, node)


class ForgetsRemoved(AddsAndRemoves):
    name = "ForgetsRemoved"

    def remove_pod(self, cycle: Cycle, state: Any, pod: PodInfo, node: NodeInfo) -> Any:
        return state


@pytest.mark.parametrize("plugin", [AddsTwice(), ForgetsRemoved()])
def test_what_is_added_and_removed_again_leaves_nothing(plugin: Any) -> None:
    assert "adding and removing a pod changes the result of filter: of node-" in fault_of(plugin)


class BreaksInShift(Shifts):
    name = "BreaksInShift"

    def apply_deltas(self, cycle: Cycle, state: Any, nodes: NodeView) -> Any:
        raise ZeroDivisionError("no worlds")


def test_an_error_in_shift_is_reported_with_its_point() -> None:
    told = fault_of(BreaksInShift())
    assert 'running PreFilterExtension plugin "BreaksInShift": ZeroDivisionError' in told


class PeeksAtTheCluster(Base):
    """Counts pods in the snapshot instead of the view, so it ignores hypothetical pods."""

    name = "PeeksAtTheCluster"

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        count = cycle.snapshot.nodes.pod_count[nodes.rows]
        return FilterStatuses.reject(count >= 2, FULL)


def test_a_filter_that_looks_past_its_view_is_caught() -> None:
    assert "Too many pods" in fault_of(PeeksAtTheCluster())


class OneGuest(Base):
    """Refuses the whole pod while any other has its priority, as a ReadWriteOncePod claim would."""

    name = "OneGuest"

    def pre_filter(self, cycle: Cycle) -> Any:
        others = {placed.info.priority for placed in cycle.snapshot.pods}
        return Reject("is taken") if cycle.pod.priority in others else None


class SkipsWhereThereAreMany(Base):
    """Is skipped if the cluster has one more pod, which a hypothetical node does not show."""

    name = "SkipsWhereThereAreMany"

    def pre_filter(self, cycle: Cycle) -> Any:
        return SKIP if len(cycle.snapshot.pods) > 10 else None


def test_a_pod_refused_as_a_whole_is_nothing_that_worlds_could_show() -> None:
    check_conformance(OneGuest())


def test_a_filter_that_would_be_skipped_in_truth_must_let_its_worlds_pass() -> None:
    told = fault_of(SkipsWhereThereAreMany())
    assert "with a pod added to node-" in told
    assert "for the hypothetical node, [None] for the real one" in told


# ---------------------------------------------------------------- the one-node forms


class OneNode(Base, Scores):
    name = "OneNode"

    def filter_node(self, cycle: Cycle, node: NodeInfo) -> Status | None:
        return FULL if node.pod_count >= node.allowed_pods else None

    def score_node(self, cycle: Cycle, node: NodeInfo) -> Any:
        return min(node.pod_count, 100)


class OtherFilterNode(OneNode):
    name = "OtherFilterNode"

    def filter_node(self, cycle: Cycle, node: NodeInfo) -> Status | None:
        return FULL if node.pod_count > node.allowed_pods else None


class OtherScoreNode(OneNode):
    name = "OtherScoreNode"

    def score_node(self, cycle: Cycle, node: NodeInfo) -> Any:
        return 7


class FloatScoreNode(OneNode):
    name = "FloatScoreNode"

    def score_node(self, cycle: Cycle, node: NodeInfo) -> Any:
        return float(node.pod_count)


class BrokenScoreNode(OneNode):
    name = "BrokenScoreNode"

    def score_node(self, cycle: Cycle, node: NodeInfo) -> Any:
        raise LookupError("no score")


class BrokenFilterNode(OneNode):
    name = "BrokenFilterNode"

    def filter_node(self, cycle: Cycle, node: NodeInfo) -> Status | None:
        raise LookupError("no status")


def test_one_node_forms_that_agree_pass() -> None:
    check_conformance(OneNode())


@pytest.mark.parametrize(
    ("plugin", "fault"),
    [
        (OtherFilterNode(), "filter_node gives None for node-"),
        (OtherScoreNode(), "score_node gives 7 for node-0, score "),
        (FloatScoreNode(), "score_node gives "),
        (BrokenScoreNode(), 'running Score plugin "BrokenScoreNode": LookupError: no score'),
        (BrokenFilterNode(), 'running "BrokenFilterNode" filter plugin: LookupError: no status'),
    ],
)
def test_a_one_node_form_that_says_something_else_is_caught(plugin: Any, fault: str) -> None:
    assert fault in fault_of(plugin)


# ---------------------------------------------------------------- twins


class OtherReasons:
    name = "OtherReasons"

    @per_node
    def filter(self, pod: Any, node: NodeInfo) -> Status | None:
        return Reject("is full") if node.pod_count >= node.allowed_pods else None


class OtherScores:
    name = "OtherScores"

    @per_node
    def score(self, pod: Any, node: NodeInfo) -> int:
        return 100 if node.pod_count > 2 else min(node.pod_count, 100)


class Skips(Scores):
    """Skips every pod, though its scores would differ."""

    name = "Skips"

    def pre_score(self, cycle: Cycle, nodes: NodeView) -> Any:
        return SKIP


class AllAlike:
    name = "AllAlike"

    @per_node
    def score(self, pod: Any, node: NodeInfo) -> int:
        return 0


def test_a_reference_with_other_reasons_differs_and_the_node_is_named() -> None:
    told = fault_of(Base(), reference=OtherReasons())

    assert "filter and its reference differ: of node-" in told
    assert "Too many pods" in told
    assert "is full" in told


def test_a_reference_with_other_scores_differs_and_the_node_is_named() -> None:
    told = fault_of(Scores(), reference=OtherScores())
    assert "score and its reference differ: of node-" in told
    assert ", and 100" in told


def test_only_scores_that_are_all_alike_may_be_skipped() -> None:
    check_conformance(Skips(), reference=AllAlike())
    assert "either score or its reference skips the pod: " in fault_of(
        Skips(), reference=OtherScores()
    )


# ---------------------------------------------------------------- states


@dataclass
class Noted:
    free: Any


class NotedTuple(NamedTuple):
    free: Any


class Slotted:
    __slots__ = ("free",)

    def __init__(self, free: Any) -> None:
        self.free = free


class Notes(Base):
    """Stores a prepared state in pre_filter (or in pre_score)."""

    name = "Notes"

    def __init__(self, state: Any) -> None:
        self.state = state

    def pre_filter(self, cycle: Cycle) -> None:
        cycle[self] = self.state


class NotesLate(Scores):
    name = "NotesLate"

    def __init__(self, state: Any) -> None:
        self.state = state

    def pre_score(self, cycle: Cycle, nodes: NodeView) -> None:
        cycle[self] = self.state


OWN = np.arange(6)
VIEW = OWN[1:3]


@pytest.mark.parametrize("wrap", [Noted, NotedTuple, Slotted, list, dict, tuple])
def test_a_state_may_hold_arrays_of_its_own(wrap: Any) -> None:
    state = {"free": OWN} if wrap is dict else wrap([OWN]) if wrap in (list, tuple) else wrap(OWN)

    check_conformance(Notes(state), seeds=range(3))
    check_conformance(NotesLate(state), seeds=range(3))


@pytest.mark.parametrize(
    ("state", "place"),
    [
        (VIEW, "state"),
        (Noted(VIEW), "state.free"),
        (NotedTuple(VIEW), "state.free"),
        (Slotted(VIEW), "state.free"),
        ({"free": VIEW}, "state['free']"),
        ([OWN, VIEW], "state[1]"),
        (Noted({"cpu": [VIEW]}), "state.free['cpu'][0]"),
    ],
)
@pytest.mark.parametrize("kind", [Notes, NotesLate])
def test_a_state_with_a_view_of_something_is_caught(kind: Any, state: Any, place: str) -> None:
    assert f"{place} is a view of another array; copy it" in fault_of(kind(state))


def test_a_state_that_cannot_be_pickled_is_caught() -> None:
    assert "the state cannot be pickled: " in fault_of(Notes(lambda: None))


class StoresInFilter(Base):
    name = "StoresInFilter"

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        cycle[self] = 1
        return super().filter(cycle, nodes)


def test_a_state_that_is_stored_too_late_is_caught() -> None:
    assert "is stored only in the plugin's own pre_filter" in fault_of(StoresInFilter())
