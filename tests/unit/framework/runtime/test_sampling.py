"""Sampling of nodes: percentages, the start index, profiles without scores."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mooring.decision import Decision
from mooring.framework import (
    Attempt,
    Cycle,
    Diagnosis,
    FilterStatuses,
    NodeView,
    Placement,
    Reject,
    per_node,
    schedule_pod,
)
from mooring.framework.runtime import filter as filtering
from mooring.state import PodInfo
from mooring.testing import Harness, make_node, make_pod

POD = make_pod("p")
NODES = [make_node(name) for name in ("a", "b", "c", "d")]


class Flat:
    name = "Flat"

    def score(self, cycle: Cycle, nodes: NodeView) -> Any:
        return np.zeros(len(nodes), dtype=np.int64)


def decided(*plugins: Any, start: int) -> Decision:
    return Harness(NODES, plugins).decide(POD, start_index=start).decision


def filter_nodes(passing: list[bool], start: int, enough: int) -> tuple[list[int], list[int], int]:
    """Returns (feasible, rejected, evaluated nodes) of upstream's walk, one node at a time."""
    feasible: list[int] = []
    refused: list[int] = []
    for step in range(len(passing)):
        at = (start + step) % len(passing)
        if not passing[at]:
            refused.append(at)
        elif len(feasible) == enough:
            return feasible, refused, step
        else:
            feasible.append(at)
    return feasible, refused, len(passing)


@given(
    st.lists(st.booleans(), min_size=100, max_size=230),
    st.integers(0, 300),
    st.sampled_from([None, 0, 1, 50, 60, 90, 100]),
)
def test_sampling_walks_as_upstream_does(
    passing: list[bool], start: int, percentage: int | None
) -> None:
    class Odd:
        name = "Odd"

        def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
            refused = [not passing[int(name)] for name in nodes.names]
            return FilterStatuses.reject(np.array(refused, dtype=np.bool_), Reject("odd"))

    count = len(passing)
    # Upstream: under 100 nodes all; adaptive 50 % - nodes/125; never fewer than 100.
    share = (50 - count // 125) if percentage == 0 else percentage
    enough = count if share is None else max(100, count * share // 100)
    feasible, refused, looked_at = filter_nodes(passing, start % count, enough)
    nodes = [make_node(str(number)) for number in range(count)]
    harness = Harness(nodes, [Odd(), Flat()], percentage_of_nodes_to_score=percentage)
    snapshot = harness.cache.snapshot()
    attempt = Attempt(snapshot, start)
    found = schedule_pod(
        harness.framework, harness.framework.new_cycle(PodInfo(POD), snapshot), attempt
    )

    assert sorted(map(int, attempt.rejected())) == sorted(refused)
    if not feasible:
        assert isinstance(found, Diagnosis)
        assert found.message == f"0/{count} nodes are available: {count} odd."
        return
    assert isinstance(found, Placement)
    assert found.feasible_count == len(feasible)
    assert found.node_name == str(feasible[0])  # all are equal, so the first one visited wins
    assert attempt.sampled == (looked_at if looked_at < count else None)


def test_without_score_plugins_the_first_node_that_passes_is_taken() -> None:
    class NotB:
        name = "NotB"

        @per_node
        def filter(self, pod: Any, node: Any) -> Any:
            return Reject("is b") if node.name == "b" else None

    assert [decided(NotB(), start=start).node for start in range(5)] == ["a", "c", "c", "d", "a"]
    decision = decided(NotB(), start=0)
    assert (decision.choice, decision.total, decision.sampled) == ("first", None, 2)
    assert list(decision.rejected) == ["b"]  # it stands before the second one that passes


def test_without_filters_every_node_will_do() -> None:
    harness = Harness(NODES, [Flat()])
    snapshot = harness.cache.snapshot()
    cycle = harness.framework.new_cycle(PodInfo(POD), snapshot)

    found = filtering.find_nodes_that_fit(harness.framework, cycle, Attempt(snapshot))

    assert isinstance(found, filtering.Feasible)
    assert (found.count, found.evaluated_count) == (4, 4)
