"""Filter and Score of given nodes, as the extender server calls them."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.errors import PluginError
from mooring.framework import Cycle, NodeError, PreFilterResult, Reject, per_node
from mooring.framework.runtime.evaluate import filter_nodes, score_nodes
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
