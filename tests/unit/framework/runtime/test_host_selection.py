"""Host selection against Go's heap, written out, and sampling against upstream's arithmetic."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.framework.runtime.host_selection import (
    feasible_nodes_to_find,
    first_in_heap,
    first_in_order,
    first_of,
    ranks_of,
    visiting_order,
)


def root_after_heap_init(scores: list[int]) -> int:
    """Returns the index at the root after container/heap.Init on a max-heap, moved step by step."""
    heap = list(enumerate(scores))

    def less(i: int, j: int) -> bool:
        return heap[i][1] > heap[j][1]

    def down(start: int) -> None:
        parent = start
        while True:
            child = 2 * parent + 1
            if child >= len(heap):
                return
            if child + 1 < len(heap) and less(child + 1, child):
                child += 1
            if not less(child, parent):
                return
            heap[parent], heap[child] = heap[child], heap[parent]
            parent = child

    for index in range(len(heap) // 2 - 1, -1, -1):
        down(index)
    return heap[0][0]


@given(st.lists(st.integers(0, 3), min_size=1, max_size=70), st.integers(0, 30))
def test_the_winner_by_position_is_that_root(scores: list[int], refused: int) -> None:
    positions = np.flatnonzero(np.array(scores) == max(scores))

    best = first_of(positions, len(scores) + refused)

    assert positions.tolist()[best] == root_after_heap_init(scores)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=70))
def test_the_winner_is_the_root_of_upstreams_heap(scores: list[int]) -> None:
    best = max(scores)
    tied = np.array([i for i, score in enumerate(scores) if score == best], dtype=np.int64)

    assert first_in_heap(tied) == root_after_heap_init(scores)


@given(
    st.integers(1, 400),
    st.sampled_from([0.0, 0.1, 0.6, 1.0]),
    st.sampled_from([1, 2, 5, 30]),
    st.integers(0, 2**32),
)
def test_the_winner_in_visiting_order_is_that_root_too(
    length: int, refused: float, scores: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    listed = rng.permutation(length).astype(np.intp)
    places = np.empty(length, dtype=np.int64)
    places[listed] = np.arange(length)
    mask = rng.random(length) >= refused
    mask[rng.integers(length)] = True
    total = np.where(mask, rng.integers(scores, size=length), -1)
    tied = np.flatnonzero(total == total.max())
    passed = [int(row) for row in listed if mask[row]]

    wanted = passed[root_after_heap_init([int(total[row]) for row in passed])]

    assert first_in_order(listed, places, tied, mask) == wanted
    if mask.all():
        assert first_in_order(listed, places, tied, None) == wanted


@pytest.mark.parametrize("length", [1, 2, 3, 4, 1000, 4097])
def test_among_all_equal_the_first_wins(length: int) -> None:
    assert first_in_heap(np.arange(length, dtype=np.int64)) == 0


def test_a_deep_left_child_beats_a_shallow_right_one() -> None:
    assert first_in_heap(np.array([2, 7], dtype=np.int64)) == 7
    assert first_in_heap(np.array([2, 5], dtype=np.int64)) == 2


@pytest.mark.parametrize(
    ("percentage", "node_count", "expected"),
    [
        (None, 5000, 5000),
        (0, 99, 99),
        (10, 99, 99),
        (0, 100, 100),
        (0, 1000, 420),
        (0, 5000, 500),
        (0, 6000, 300),
        (0, 15000, 750),
        (100, 5000, 5000),
        (30, 1000, 300),
        (1, 1000, 100),
        (33, 101, 100),
    ],
)
def test_how_many_feasible_nodes_are_enough(
    percentage: int | None, node_count: int, expected: int
) -> None:
    assert feasible_nodes_to_find(percentage, node_count) == expected


def test_the_walk_begins_at_the_start_index_and_comes_round() -> None:
    rows = np.array([5, 3, 9], dtype=np.intp)

    assert visiting_order(rows, 0).tolist() == [5, 3, 9]
    assert visiting_order(rows, 2).tolist() == [9, 5, 3]
    assert visiting_order(rows, 4).tolist() == [3, 9, 5]
    assert visiting_order(rows[:0], 4).tolist() == []


def test_ranks_count_feasible_nodes_before_in_the_walk() -> None:
    filter_nodes = np.array([4, 0, 3, 1], dtype=np.intp)
    mask = np.array([True, True, False, False, True])

    ranks = ranks_of(np.array([0, 1, 4], dtype=np.intp), mask, filter_nodes)

    assert ranks.tolist() == [1, 2, 0]
