"""The Score stage: raw scores, normalizing, weights, skips, ties; and who broke the contract."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.errors import PluginError
from mooring.framework import SKIP, Cycle, NodeView, Reject, default_normalize, per_node
from mooring.framework.runtime.score import is_zero, zero_scores
from mooring.testing import Harness, make_node, make_pod

NAMES = ("a", "b", "c")
NODES = [make_node(name) for name in NAMES]
POD = make_pod("p")


class Scores:
    """Gives these scores to a, b and c."""

    def __init__(self, name: str, *scores: int) -> None:
        self.name = name
        self.scores = dict(zip(NAMES, scores, strict=False))
        self.asked: list[str] = []

    def score(self, cycle: Cycle, nodes: NodeView) -> Any:
        self.asked += nodes.names
        return np.array([self.scores[name] for name in nodes.names], dtype=np.int64)


class Scaled(Scores):
    def normalize(self, cycle: Cycle, scores: Any, nodes: NodeView) -> Any:
        assert nodes.names == list(NAMES)
        return default_normalize(scores)


class Not:
    def __init__(self, *names: str) -> None:
        self.name = "Not"
        self.names = names

    @per_node
    def filter(self, pod: Any, node: Any) -> Any:
        return Reject("not") if node.name in self.names else None


def decided(*plugins: Any, weights: dict[str, int] | None = None, start: int = 0) -> Any:
    return Harness(NODES, plugins, weights=weights).decide(POD, start_index=start).decision


def test_the_highest_sum_of_score_times_weight_wins() -> None:
    decision = decided(Scores("A", 10, 20, 30), Scores("B", 30, 20, 0), weights={"B": 2})

    assert decision.total == {"a": 70, "b": 60, "c": 30}
    assert (decision.node, decision.tied) == ("a", ("a",))
    assert decision.raw == {"A": {"a": 10, "b": 20, "c": 30}, "B": {"a": 30, "b": 20, "c": 0}}
    assert decision.scores == decision.raw  # without weights


def test_raw_and_normalized_scores_are_both_kept() -> None:
    decision = decided(Scaled("A", 1, 2, 3), weights={"A": 3})

    assert decision.raw == {"A": {"a": 1, "b": 2, "c": 3}}
    assert decision.scores == {"A": {"a": 33, "b": 66, "c": 100}}
    assert decision.total == {"a": 99, "b": 198, "c": 300}


def test_only_feasible_nodes_are_scored() -> None:
    scores = Scores("A", 1, 9, 2)

    decision = decided(Not("b"), scores)

    assert scores.asked == ["a", "c"]
    assert decision.total == {"a": 1, "c": 2}
    assert decision.node == "c"


def test_a_single_feasible_node_is_not_scored() -> None:
    scores = Scores("A", 1, 9, 2)

    decision = decided(Not("a", "b"), scores)

    assert (scores.asked, decision.node) == ([], "c")
    assert (decision.raw, decision.scores, decision.total) == (None, None, None)


def test_a_plugin_that_skips_in_pre_score_is_absent() -> None:
    class Skips(Scores):
        def pre_score(self, cycle: Cycle, nodes: NodeView) -> Any:
            return SKIP

    skipping = Skips("B", 0, 0, 100)
    decision = decided(Scores("A", 3, 2, 1), skipping)

    assert decision.node == "a"
    assert list(decision.scores) == ["A"]
    assert skipping.asked == []


def test_if_all_skip_every_node_has_nothing_and_the_first_wins() -> None:
    class Skips(Scores):
        def pre_score(self, cycle: Cycle, nodes: NodeView) -> Any:
            return SKIP

    decision = decided(Skips("A", 1, 2, 3))

    assert decision.total == {"a": 0, "b": 0, "c": 0}
    assert (decision.node, decision.tied) == ("a", NAMES)


def test_pre_score_sees_the_nodes_that_will_be_scored() -> None:
    seen = []

    class Looks(Scores):
        def pre_score(self, cycle: Cycle, nodes: NodeView) -> None:
            seen.append(nodes.names)

    decided(Not("a"), Looks("A", 0, 0, 0))

    assert seen == [["b", "c"]]


@pytest.mark.parametrize("answer", [0, "skip", Reject("no")])
def test_pre_score_answers_nothing_or_skip(answer: Any) -> None:
    class Odd(Scores):
        def pre_score(self, cycle: Cycle, nodes: NodeView) -> Any:
            return answer

    with pytest.raises(PluginError) as caught:
        decided(Odd("Odd", 1, 2, 3))

    assert str(caught.value) == (
        f'running PreScore plugin "Odd": returned {answer!r}, not None or SKIP'
    )


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ([1, 2, 3], "scores are list of shape None, not int64 of (3,)"),
        (np.zeros(3), "scores are float64 of shape (3,), not int64 of (3,)"),
        (np.zeros(2, dtype=np.int64), "scores are int64 of shape (2,), not int64 of (3,)"),
        (np.zeros((3, 1), dtype=np.int64), "scores are int64 of shape (3, 1), not int64 of (3,)"),
        (np.zeros(3, dtype=np.int32), "scores are int32 of shape (3,), not int64 of (3,)"),
    ],
)
@pytest.mark.parametrize("point", ["Score", "NormalizeScore"])
def test_another_type_or_shape_is_an_error_of_that_point(
    point: str, answer: Any, told: str
) -> None:
    class Odd(Scores):
        def score(self, cycle: Cycle, nodes: NodeView) -> Any:
            return answer if point == "Score" else super().score(cycle, nodes)

        def normalize(self, cycle: Cycle, scores: Any, nodes: NodeView) -> Any:
            return answer

    with pytest.raises(PluginError) as caught:
        decided(Odd("Odd", 1, 2, 3))

    assert str(caught.value) == f'running {point} plugin "Odd": {told}'


@pytest.mark.parametrize(("scores", "wrong"), [((0, 101, 5), 101), ((-1, 5, 200), -1)])
def test_scores_after_normalizing_are_from_0_to_100(scores: tuple[int, ...], wrong: int) -> None:
    with pytest.raises(PluginError, match=rf"invalid score {wrong}, .* \[0, 100\] after"):
        decided(Scores("A", *scores))


def test_the_ends_of_the_range_are_allowed() -> None:
    assert decided(Scores("A", 0, 100, 50)).node == "b"


def test_raw_scores_may_be_anything_if_normalize_makes_them_good() -> None:
    assert decided(Scaled("A", 7, 9_000_000, 0)).scores == {"A": {"a": 0, "b": 100, "c": 0}}


def test_normalize_cannot_write_into_the_raw_scores() -> None:
    class Scribbles(Scores):
        def normalize(self, cycle: Cycle, scores: Any, nodes: NodeView) -> Any:
            scores[0] = 100
            return scores

    with pytest.raises(PluginError, match=r'NormalizeScore plugin "A": ValueError: .*read-only'):
        decided(Scribbles("A", 1, 2, 3))


def test_an_exception_in_score_names_the_plugin() -> None:
    class Broken:
        name = "Broken"

        def score(self, cycle: Cycle, nodes: NodeView) -> Any:
            raise ZeroDivisionError

    with pytest.raises(PluginError) as caught:
        decided(Broken())

    assert str(caught.value) == 'running Score plugin "Broken": ZeroDivisionError'


def heap_root(scores: list[int]) -> int:
    """Returns the index of the maximum that Go's heap.Init leaves at the root."""
    heap = list(range(len(scores)))
    for start in range(len(heap) // 2 - 1, -1, -1):
        at = start
        while (child := 2 * at + 1) < len(heap):
            if child + 1 < len(heap) and scores[heap[child + 1]] > scores[heap[child]]:
                child += 1
            if scores[heap[child]] <= scores[heap[at]]:
                break
            heap[at], heap[child] = heap[child], heap[at]
            at = child
    return heap[0]


@given(st.lists(st.integers(0, 2), min_size=2, max_size=20), st.integers(0, 40), st.data())
def test_ties_follow_upstreams_heap_over_the_rotated_walk(
    scores: list[int], start: int, data: st.DataObject
) -> None:
    count = len(scores)
    refused = data.draw(st.sets(st.integers(0, count - 1), max_size=count - 2))

    class Given:
        name = "Given"

        @per_node
        def filter(self, pod: Any, node: Any) -> Any:
            return Reject("x") if int(node.name) in refused else None

        @per_node
        def score(self, pod: Any, node: Any) -> int:
            return scores[int(node.name)]

    filter_nodes = [(start + step) % count for step in range(count)]
    passed = [at for at in filter_nodes if at not in refused]
    best = heap_root([scores[at] for at in passed])
    nodes = [make_node(str(number)) for number in range(count)]

    decision = Harness(nodes, [Given()]).decide(POD, start_index=start).decision

    assert decision.node == str(passed[best])
    highest = max(scores[at] for at in passed)
    assert set(decision.tied) == {str(at) for at in passed if scores[at] == highest}


@pytest.mark.parametrize(
    ("raw", "plain", "reverse"),
    [
        ([], [], []),
        ([0, 0], [0, 0], [100, 100]),
        ([1, 3, 2], [33, 100, 66], [67, 0, 34]),
        ([5], [100], [0]),
        ([0, 7], [0, 100], [100, 0]),
    ],
)
def test_default_normalize_scales_as_upstream_does(
    raw: list[int], plain: list[int], reverse: list[int]
) -> None:
    scores = np.array(raw, dtype=np.int64)

    assert default_normalize(scores).tolist() == plain
    assert default_normalize(scores, reverse=True).tolist() == reverse
    assert scores.tolist() == raw


def test_zero_scores_are_shared_and_cannot_be_changed() -> None:
    zeros = zero_scores(3)

    assert zeros.tolist() == [0, 0, 0]
    assert zeros.dtype.name == "int64"
    assert zero_scores(3) is zeros
    with pytest.raises(ValueError, match="read-only"):
        zeros[0] = 1
    assert is_zero(zeros)
    assert is_zero(np.zeros(3, dtype=np.int64))
    assert not is_zero(np.array([0, 0, 1]))
    assert zero_scores(0).tolist() == []
    assert is_zero(np.zeros(0, dtype=np.int64))


@pytest.mark.parametrize(
    ("scores", "refused", "tied", "node"),
    [
        ((3, 7, 7), (), ["b", "c"], "c"),
        ((7, 7, 7), (), ["a", "b", "c"], "c"),
        ((7, 3, 7), ("b",), ["a", "c"], "c"),
        ((9, 9, 7), ("a",), None, "b"),
        ((1, 2, 3), (), None, "c"),
        ((3, 2, 1), (), None, "a"),
    ],
)
def test_a_function_that_breaks_ties_gets_the_best_nodes_by_name(
    scores: tuple[int, ...], refused: tuple[str, ...], tied: list[str] | None, node: str
) -> None:
    # The nodes are visited in another order than that of their names.
    harness = Harness(NODES[::-1], [Not(*refused), Scores("A", *scores)])
    calls: list[list[str]] = []

    def take_last(names: Sequence[str]) -> str:
        calls.append(list(names))
        return names[-1]

    harness.framework.tie_break = take_last

    decision = harness.decide(POD).decision

    assert decision.node == node
    assert calls == ([] if tied is None else [tied])
    assert decision.tied == tuple(tied or [node])
