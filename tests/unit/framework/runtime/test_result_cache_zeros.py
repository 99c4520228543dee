"""Scores of nothing but zeros are known without normalizing, and equal what normalizing gives."""

from __future__ import annotations

from typing import Any

import numpy as np

from mooring.decision import Decision, encode_decision
from mooring.framework import Cycle, NodeView, default_normalize
from mooring.state.columns.change_log import Change
from mooring.testing import Harness, make_node, make_pod


class Debts:
    """The more a node owes, by a taint's value, the worse; notes what it normalizes."""

    name = "Debts"
    reads = Change.TAINTS
    normalized_zero = 100

    def __init__(self) -> None:
        self.normalized: list[list[int]] = []

    def sign(self, pod: Any) -> Any:
        return ()

    def score(self, cycle: Cycle, nodes: NodeView) -> Any:
        owed = [sum(int(taint.value) for taint in node.taints) for node in nodes]
        return np.array(owed, dtype=np.int64)

    def normalize(self, cycle: Cycle, scores: Any, nodes: NodeView) -> Any:
        self.normalized.append(scores.tolist())
        return default_normalize(scores, reverse=True)


class Free:
    """The free cpu is the score."""

    name = "Free"
    reads = Change.ALLOCATABLE | Change.USAGE

    def sign(self, pod: Any) -> Any:
        return ()

    def score(self, cycle: Cycle, nodes: NodeView) -> Any:
        return (nodes.allocatable("cpu") - nodes.requested("cpu")) // 1000


def node(name: str, owed: int = 0) -> Any:
    taints = [f"owes={owed}:PreferNoSchedule"] if owed else []
    return make_node(name, allocatable={"cpu": "4"}, taints=taints)


def test_what_zeros_become_is_known_without_normalizing() -> None:
    plugin, weights = Debts(), {"Debts": 3}
    nodes = [node(f"n{number}") for number in range(6)]
    shared = Harness(nodes, [plugin, Free()], weights=weights)
    afresh = Harness(nodes, [Debts(), Free()], weights=weights, cache_results=False)

    def decide() -> Decision:
        mine, other = shared.decide(make_pod("q")).decision, afresh.decide(make_pod("q")).decision
        assert encode_decision(mine) == encode_decision(other)
        return mine

    def debts(decision: Decision) -> dict[str, int]:
        assert decision.scores is not None
        return decision.scores["Debts"]

    assert set(debts(decide()).values()) == {100}
    assert plugin.normalized == []
    for owed, expected in ((5, 0), (0, 100)):
        for harness in (shared, afresh):
            harness.cache.put_node(node("n2", owed))
        decision = decide()
        assert debts(decision)["n2"] == expected
        assert decision.total is not None
        assert decision.total["n1"] == 3 * 100 + 4
    assert plugin.normalized == [[0, 0, 5, 0, 0, 0]]
