"""Filter and Score of given nodes, as the extender server calls them."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.errors import PluginError
from mooring.framework import (
    SKIP,
    Cycle,
    FilterStatuses,
    NodeError,
    NodeView,
    PreFilterResult,
    Reject,
    per_node,
)
from mooring.framework.runtime.evaluate import (
    filter_nodes,
    filter_nodes_without_victims,
    score_nodes,
)
from mooring.state import PodInfo
from mooring.testing import Harness, make_node, make_pod

NODES = [make_node(name) for name in "abc"]


class OnlyAAndB:
    """Narrows the nodes in PreFilter."""

    name = "OnlyAAndB"

    def pre_filter(self, cycle: Cycle) -> PreFilterResult:
        """Returns the nodes that remain."""
        del cycle
        return PreFilterResult(frozenset("ab"))

    @per_node
    def filter(self, pod: PodInfo, node: Any) -> Reject | None:
        """Rejects b."""
        del pod
        return Reject("is b") if node.name == "b" else None


class Fails:
    """Returns an error for b."""

    name = "Fails"

    @per_node
    def filter(self, pod: PodInfo, node: Any) -> NodeError | None:
        """Fails on b."""
        del pod
        return NodeError("b is broken") if node.name == "b" else None


def _cycle(harness: Harness) -> Cycle:
    return harness.framework.new_cycle(PodInfo(make_pod()), harness.cache.snapshot())


def test_nodes_that_pre_filter_excludes_are_rejected_by_it() -> None:
    harness = Harness(NODES, [OnlyAAndB()])

    statuses = filter_nodes(harness.framework, _cycle(harness), ["c", "b", "a"])

    assert {name: status and status.reasons for name, status in statuses.items()} == {
        "a": None,
        "b": ("is b",),
        "c": ("node(s) didn't satisfy plugin(s) [OnlyAAndB]",),
    }


def test_an_error_on_a_node_is_raised_with_its_plugin() -> None:
    harness = Harness(NODES, [Fails()])

    assert filter_nodes(harness.framework, _cycle(harness), ["a", "c"]) == {"a": None, "c": None}
    with pytest.raises(PluginError, match="b is broken") as raised:
        filter_nodes(harness.framework, _cycle(harness), ["a", "b"])
    assert raised.value.plugin == "Fails"


def test_without_score_plugins_or_nodes_all_scores_are_zero() -> None:
    harness = Harness(NODES, [OnlyAAndB()])

    assert score_nodes(harness.framework, _cycle(harness), ["a", "c"]) == {"a": 0.0, "c": 0.0}
    assert score_nodes(harness.framework, _cycle(harness), []) == {}


class AtMost:
    """Rejects nodes with so many pods or more."""

    def __init__(self, limit: int, name: str = "AtMost") -> None:
        self.name = name
        self.limit = limit

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        """Rejects the nodes that are full."""
        return FilterStatuses.reject(nodes.pod_count >= self.limit, Reject("full"))


class PreFilters:
    """Returns a prepared result of PreFilter."""

    name = "PreFilters"

    def __init__(self, result: Any) -> None:
        self.result = result

    def pre_filter(self, cycle: Cycle) -> Any:
        """Returns the result."""
        return self.result


PLACED = {name: [make_pod(f"{name}{number}", node=name) for number in range(2)] for name in "abc"}


def _without(harness: Harness, **victims: int) -> set[str]:
    """Returns the nodes that are feasible without so many of their pods."""
    pods = {name: [PodInfo(pod) for pod in PLACED[name][:count]] for name, count in victims.items()}
    return filter_nodes_without_victims(harness.framework, _cycle(harness), pods)


def test_nodes_are_filtered_without_their_victims() -> None:
    objects: list[Any] = [*NODES, *(pod for pods in PLACED.values() for pod in pods)]
    harness = Harness(objects, [AtMost(2)])
    assert _without(harness, a=0, b=1, c=2) == {"b", "c"}
    assert _without(harness, c=0) == set()
    assert _without(harness) == set()
    # A node must pass every filter.
    both = Harness(objects, [AtMost(2, "A"), AtMost(1, "B"), OnlyAAndB()])
    assert _without(both, a=2, b=2, c=2) == {"a"}
    assert _without(both, a=1, b=2) == set()
    assert _without(both, c=2) == set()


def test_a_pod_that_pre_filter_rejects_fits_nowhere() -> None:
    rejecting = Harness(NODES, [PreFilters(Reject("no"))])

    assert filter_nodes(rejecting.framework, _cycle(rejecting), ["a", "b"]) == {
        "a": Reject("no").named("PreFilters"),
        "b": Reject("no").named("PreFilters"),
    }
    assert _without(rejecting, a=0) == set()


class Scores:
    """Gives prepared scores."""

    def __init__(self, name: str, *, skips: bool = False, **scores: int) -> None:
        self.name = name
        self.skips = skips
        self.scores = scores

    def pre_score(self, cycle: Cycle, nodes: NodeView) -> Any:
        """Skips the pod, or not."""
        return SKIP if self.skips else None

    @per_node
    def score(self, pod: PodInfo, node: Any) -> int:
        """Returns the score of the node."""
        return self.scores[node.name]


def test_scores_are_the_weighted_mean_of_the_plugins_that_score_the_pod() -> None:
    plugins = [
        Scores("A", a=10, b=20, c=40),
        Scores("B", a=100, b=0, c=40),
        Scores("C", skips=True, a=0, b=0, c=0),
    ]
    harness = Harness(NODES, plugins, weights={"B": 3, "C": 50})
    cycle = _cycle(harness)
    filter_nodes(harness.framework, cycle, ["a", "b", "c"])

    scores = score_nodes(harness.framework, cycle, ["c", "a", "b"])

    assert scores == {"c": 40.0, "a": 77.5, "b": 5.0}
    assert list(scores) == ["c", "a", "b"]


def test_if_all_plugins_skip_the_pod_all_scores_are_zero() -> None:
    harness = Harness(NODES, [Scores("A", skips=True, a=1, b=2, c=3)])
    cycle = _cycle(harness)
    filter_nodes(harness.framework, cycle, ["a", "b"])

    assert score_nodes(harness.framework, cycle, ["a", "b"]) == {"a": 0.0, "b": 0.0}
