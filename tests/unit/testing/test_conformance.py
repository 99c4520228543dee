"""The conformance kit against plugins that are broken on purpose, one fault each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mooring.errors import ConfigError
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
from mooring.plugins import NodeName
from mooring.testing import check_conformance, make_node, make_pod
from tests.helpers.broken_plugins import FULL, Base, Scores, fault_of

pytest_plugins = ["pytester"]

# ---------------------------------------------------------------- good ones


class PerNode:
    name = "PerNode"

    @per_node
    def filter(self, pod: Any, node: NodeInfo) -> Status | None:
        return FULL if node.pod_count >= node.allowed_pods else None

    @per_node
    def score(self, pod: Any, node: NodeInfo) -> int:
        return min(node.pod_count, 100)


class Both(Base, Scores):
    name = "Both"


class RefusesInPreFilter(Base):
    """Some pods nowhere, others not at all, the rest by what it noted."""

    name = "RefusesInPreFilter"

    def pre_filter(self, cycle: Cycle) -> Any:
        priority = cycle.pod.priority
        if priority < 0:
            return Reject("has no priority", resolvable=False)
        if priority == 0:
            return SKIP
        cycle[self] = priority
        return None

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        return FilterStatuses.reject(nodes.pod_count >= cycle[self], FULL)


@pytest.mark.parametrize("plugin", [Base(), Scores(), PerNode(), Both(), RefusesInPreFilter()])
def test_a_plugin_without_a_fault_passes(plugin: Any) -> None:
    check_conformance(plugin)


def test_so_do_the_real_ones_with_objects_of_ones_own() -> None:
    check_conformance(
        NodeName(),
        seeds=(),
        objects=[make_node("a"), make_node("b")],
        pods=[make_pod(), make_pod(spec={"nodeName": "b"})],
    )
    check_conformance(Both(), reference=PerNode())


def test_one_line_in_a_test_of_another_client_s(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        from mooring.framework import Reject, per_node
        from mooring.testing import check_conformance

        class Quiet:
            name = "Quiet"

            @per_node
            def filter(self, pod, node):
                return Reject("is loud") if node.labels.get("rack") == "1" else None

        class Moody(Quiet):
            name = "Moody"
            calls = 0

            @per_node
            def filter(self, pod, node):
                self.calls += 1
                return Reject("not today") if self.calls % 4 == 0 else None

        def test_quiet_keeps_the_contract():
            check_conformance(Quiet())

        def test_moody_keeps_the_contract():
            check_conformance(Moody())
        """
    )

    result = pytester.runpytest_inprocess("-p", "no:cacheprovider", "--no-header")

    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        ["*plugin Moody, seed *, pod incoming: filter is not deterministic*"]
    )


# ---------------------------------------------------------------- what is asked for


def test_what_is_no_plugin_is_refused_as_the_framework_would() -> None:
    with pytest.raises(ConfigError, match="needs a name"):
        check_conformance(object())
    with pytest.raises(ConfigError, match="needs a name"):
        check_conformance(Base(), reference=object())


def test_objects_without_pods_would_try_nothing_so_that_is_said() -> None:
    with pytest.raises(TypeError, match="objects without pods"):
        check_conformance(Base(), objects=[make_node()])


# ---------------------------------------------------------------- purity


class Moody(Base):
    name = "Moody"

    def __init__(self) -> None:
        self.asked = 0

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        self.asked += 1
        return FilterStatuses.reject(np.full(len(nodes), self.asked % 2 == 0), Reject("not today"))


def test_a_filter_that_remembers_is_impure() -> None:
    told = fault_of(Moody())

    assert "filter is not deterministic: of node-" in told
    assert "not today" in told
    assert "seed " in told


class MoodyScore(Scores):
    name = "MoodyScore"

    def __init__(self) -> None:
        self.asked = 0

    def score(self, cycle: Cycle, nodes: NodeView) -> Any:
        self.asked += 1
        return np.full(len(nodes), self.asked % 7, dtype=np.int64)


def test_a_score_that_remembers_is_impure() -> None:
    assert "score is not deterministic: {'node-0': 1" in fault_of(MoodyScore())


class FirstOfThem(Base):
    name = "FirstOfThem"

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        return FilterStatuses.reject(np.arange(len(nodes)) > 0, Reject("is not the first"))


def test_a_filter_that_looks_at_the_other_nodes_is_caught() -> None:
    told = fault_of(FirstOfThem())

    assert "filter gives another result alone: of node-" in told
    assert "is not the first" in told


class Sorted(Base):
    """Right of one node and of all; wrong where they come in another order."""

    name = "Sorted"

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        is_full = nodes.pod_count >= nodes.allowed_pods
        return FilterStatuses.reject(is_full[np.argsort(nodes.rows)], FULL)


def test_a_filter_that_sorts_its_answers_is_caught() -> None:
    nodes = [make_node("a", allocatable={"pods": 0}), make_node("b")]

    told = fault_of(Sorted(), seeds=(), objects=nodes, pods=[make_pod("p")])

    assert told.startswith("plugin Sorted, objects, pod p: ")
    assert "filter gives another result in another order: of " in told


class EmptyHanded(Base):
    name = "EmptyHanded"

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        most = nodes.pod_count.max()
        return FilterStatuses.reject(nodes.pod_count > most, FULL)


def test_a_filter_has_to_bear_a_view_of_no_nodes() -> None:
    assert 'running "EmptyHanded" filter plugin: ValueError' in fault_of(EmptyHanded())


class WritesPod(Base):
    name = "WritesPod"

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        cycle.pod.metadata.labels["seen"] = "yes"
        return super().filter(cycle, nodes)


class WritesNode(Base):
    name = "WritesNode"

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        for node in nodes:
            node.node.metadata.annotations["seen"] = "yes"
        return super().filter(cycle, nodes)


class WritesColumn(Base):
    name = "WritesColumn"

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        nodes.requested("cpu")[:] += 1
        return super().filter(cycle, nodes)


class WritesCluster(Base):
    name = "WritesCluster"

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        cycle.snapshot.nodes._requested[0] += 1
        return super().filter(cycle, nodes)


@pytest.mark.parametrize(
    ("plugin", "fault"),
    [
        (WritesPod(), "the plugin changed the pod incoming"),
        (WritesNode(), "the plugin changed the node node-0"),
        (WritesColumn(), 'running "WritesColumn" filter plugin: ValueError: output array is read'),
        (WritesCluster(), "the plugin changed the cluster"),
    ],
)
def test_a_plugin_that_writes_what_it_was_shown_is_caught(plugin: Any, fault: str) -> None:
    assert fault in fault_of(plugin)


class WritesScores(Scores):
    name = "WritesScores"

    def normalize(self, cycle: Cycle, scores: Any, nodes: NodeView) -> Any:
        scores[:] = 0
        return scores


def test_normalize_may_not_write_the_raw_scores() -> None:
    assert 'running NormalizeScore plugin "WritesScores": ValueError' in fault_of(WritesScores())


# ---------------------------------------------------------------- shapes and ranges


class Answers:
    """A plugin that answers always the same."""

    def __init__(self, name: str, point: str, answer: Any) -> None:
        self.name = name

        def method(cycle: Cycle, nodes: NodeView) -> Any:
            return answer(nodes) if callable(answer) else answer

        setattr(self, point, method)


@pytest.mark.parametrize(
    ("point", "answer", "fault"),
    [
        ("filter", None, "returned None, not FilterStatuses"),
        ("filter", lambda nodes: FilterStatuses.feasible(99), "should be uint16 of shape ("),
        (
            "filter",
            lambda nodes: FilterStatuses(np.ones(len(nodes), dtype=np.uint16), []),
            "a code points past the end of the table",
        ),
        ("score", lambda nodes: [1] * len(nodes), "scores are list of shape None, not int64"),
        ("score", lambda nodes: np.ones(len(nodes)), "scores are float64 of shape ("),
        ("score", lambda nodes: np.ones(99, dtype=np.int64), "scores are int64 of shape (99,)"),
        (
            "score",
            lambda nodes: np.full(len(nodes), 101),
            "returns an invalid score 101, it should be in the range of [0, 100]",
        ),
        ("score", lambda nodes: np.full(len(nodes), -1), "returns an invalid score -1"),
    ],
)
def test_answers_of_a_wrong_shape_or_range_are_caught(point: str, answer: Any, fault: str) -> None:
    assert fault in fault_of(Answers("Wrong", point, answer))


def test_a_plugin_that_raises_is_named_with_what_it_raised() -> None:
    def fails(nodes: NodeView) -> None:
        raise KeyError("rack")

    told = fault_of(Answers("Breaks", "filter", fails))
    assert "running \"Breaks\" filter plugin: KeyError: 'rack'" in told


class PreFilterBreaks(Base):
    name = "PreFilterBreaks"

    def pre_filter(self, cycle: Cycle) -> Any:
        return "go on"


def test_an_answer_that_pre_filter_does_not_know_is_caught() -> None:
    assert "returned 'go on'" in fault_of(PreFilterBreaks())
