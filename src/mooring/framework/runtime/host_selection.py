"""Visiting order, sampling, and the choice among nodes with equal scores.

Source: pkg/scheduler/schedule_one.go (findNodesThatPassFilters, numFeasibleNodesToFind,
sortedNodeScores), with parallelism 1.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

from mooring.state.types import Rows

#: Fewer nodes than this are never sampled.
MIN_FEASIBLE_NODES = 100
#: The adaptive percentage never falls below this.
MIN_PERCENTAGE = 5


def feasible_nodes_to_find(percentage: int | None, node_count: int) -> int:
    """Returns the number of feasible nodes that are enough.

    ``percentage`` None = all nodes (mooring's default: on columns that is cheaper than upstream's
    sampling); 0 = upstream's adaptive percentage, from 50 down to 5 for large clusters.
    """
    if percentage is None or node_count < MIN_FEASIBLE_NODES:
        return node_count
    if percentage == 0:
        percentage = max(MIN_PERCENTAGE, 50 - node_count // 125)
    return max(MIN_FEASIBLE_NODES, node_count * percentage // 100)


def visiting_order(rows: Rows, start_index: int) -> Rows:
    """Returns ``rows``, which are in visit order, rotated to begin at ``start_index``."""
    start = start_index % len(rows) if len(rows) else 0
    return np.concatenate([rows[start:], rows[:start]]) if start else rows


def first_in_heap(positions: npt.NDArray[np.int64]) -> int:
    """Returns the one of the tied ``positions`` in the list of feasible nodes that is selected.

    Upstream puts the nodes into a binary heap in visiting order and takes the root. Among equal
    scores that is the first one in pre-order of the complete tree with children 2i+1 and 2i+2: a
    node precedes all its descendants, and a left subtree precedes the right one.

    Example:
        >>> first_in_heap(np.array([2, 3]))  # 3 is below 1, the left child of the root
        3
        >>> first_in_heap(np.array([1, 3]))
        1
    """
    order = heap_order((int(positions.max()) + 1).bit_length())
    return positions.item(order.take(positions).argmin())


@cache
def heap_order(depth: int) -> npt.NDArray[np.int64]:
    """Returns sort keys of the pre-order of a complete binary tree, by position.

    Shape (2**depth - 1,).
    """
    numbers = np.arange(1, 1 << depth)  # in binary: a 1, then the path from the root
    _, lengths = np.frexp(numbers.astype(np.float64))
    paths = numbers << (depth - lengths)  # as if every path went down to the deepest level
    order: npt.NDArray[np.int64] = paths * 64 + lengths  # of equal paths the shorter is above
    order.flags.writeable = False
    return order


def first_in_order(
    listed: Rows,
    places: npt.NDArray[np.int64],
    tied: Rows,
    mask: npt.NDArray[np.bool_] | None,
) -> int:
    """Returns the one of the ``tied`` rows that is selected, if visiting began at the first node.

    ``listed`` are the rows in visiting order, ``places`` the index of each row in it; ``mask`` bool
    over rows, the feasible nodes, None = all. Complexity: O(nodes).
    """
    ranks = places.take(tied)
    if mask is not None:
        ranks = mask.take(listed).cumsum().take(ranks) - 1
    return tied.item(first_of(ranks, len(listed)))


def first_of(ranks: npt.NDArray[np.int64], count: int) -> int:
    """Returns the index of the one of ``ranks``, positions among ``count`` nodes, to select."""
    return int(heap_order(count.bit_length()).take(ranks).argmin())


def ranks_of(rows: Rows, mask: npt.NDArray[np.bool_], visited: Rows) -> npt.NDArray[np.int64]:
    """Returns the positions of ``rows`` in the list of feasible nodes.

    ``mask`` bool over rows, the feasible nodes; ``visited`` the rows in visiting order. All of
    ``rows`` are feasible and in ``visited``. Complexity: O(nodes).
    """
    feasible_before = np.cumsum(mask[visited]) - 1
    visited_index = np.empty(len(mask), dtype=np.int64)
    visited_index[visited] = np.arange(len(visited))
    ranks: npt.NDArray[np.int64] = feasible_before[visited_index[rows]]
    return ranks
