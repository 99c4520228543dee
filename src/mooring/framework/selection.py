"""From scores to one node: visiting order, sampling, ties.

Source: pkg/scheduler/schedule_one.go (findNodesThatPassFilters, numFeasibleNodesToFind,
sortedNodeScores), with parallelism 1.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.intp]

#: Fewer nodes than this are never sampled.
MIN_FEASIBLE_NODES = 100
#: The adaptive percentage never falls below this.
MIN_PERCENTAGE = 5

#: Places on the left edge of a binary heap, from the root down: each beats all that comes after it,
#: and every place that is not on the edge.
LEFT_EDGE = 2 ** np.arange(40) - 1
#: So few tied nodes are ranked at once.
FEW_TIED = 32


def feasible_nodes_to_find(percentage: int | None, node_count: int) -> int:
    """How many feasible nodes are enough.

    ``percentage`` None = look at all nodes (mooring's default: columns make that cheaper than
    upstream's sample); 0 = upstream's adaptive 50 % down to 5 % for large clusters.
    """
    if percentage is None or node_count < MIN_FEASIBLE_NODES:
        return node_count
    if percentage == 0:
        percentage = max(MIN_PERCENTAGE, 50 - node_count // 125)
    return max(MIN_FEASIBLE_NODES, node_count * percentage // 100)


def visiting_order(rows: Rows, start_index: int) -> Rows:
    """``rows``, listed in the table's visit order, from ``start_index`` on and round to it."""
    start = start_index % len(rows) if len(rows) else 0
    return np.concatenate([rows[start:], rows[:start]]) if start else rows


def first_in_heap(positions: npt.NDArray[np.int64]) -> int:
    """Which of the tied ``positions`` in the list of feasible nodes wins.

    Upstream puts the nodes into a binary heap in visiting order and takes the root. Among equals
    that is the first one in pre-order of the complete tree with children 2i+1 and 2i+2: a node
    beats all below it, and everything under a left child beats everything under the right one.

    Example:
        >>> first_in_heap(np.array([2, 3]))  # 3 is below 1, the left child of the root
        3
        >>> first_in_heap(np.array([1, 3]))
        1
    """
    numbers = positions + 1  # the heap's nodes numbered from 1: the bits after the first = path
    _, lengths = np.frexp(numbers.astype(np.float64))
    depth = int(lengths.max())
    paths = numbers << (depth - lengths)  # as if every path went down to the deepest level
    return int(positions[np.argmin(paths * 64 + lengths)])  # of equal paths the shorter is above


def first_in_order(
    listed: Rows,
    places: npt.NDArray[np.int64],
    tied: Rows,
    mask: npt.NDArray[np.bool_] | None,
) -> int:
    """Which of the ``tied`` rows wins, if the walk began at the first node.

    ``listed`` the rows in visiting order, ``places`` the place of each row in it, ``tied`` rising;
    ``mask`` bool over rows, which nodes are feasible, None = all. Complexity: O(nodes).
    """
    passed = None if mask is None else mask[listed]
    if len(tied) > FEW_TIED:
        # Of many, one is mostly on the heap's left edge, and so before all that are not.
        rows = listed if passed is None else listed[passed]
        edge = rows[LEFT_EDGE[: int(LEFT_EDGE.searchsorted(len(rows)))]]
        at = tied.searchsorted(edge)
        at[at == len(tied)] = 0
        on_edge = (tied[at] == edge).nonzero()[0]
        if len(on_edge):
            return int(edge[on_edge[0]])
    ranks = places[tied] if passed is None else passed.cumsum()[places[tied]] - 1
    return int(tied[int((ranks == first_in_heap(ranks)).argmax())])


def ranks_of(wanted: Rows, mask: npt.NDArray[np.bool_], walk: Rows) -> npt.NDArray[np.int64]:
    """The places of the rows ``wanted`` in the list of feasible nodes.

    ``mask`` bool over rows, which nodes are feasible; ``walk`` the rows in visiting order. All of
    ``wanted`` are feasible and in ``walk``. Complexity: O(nodes).
    """
    passed_before = np.cumsum(mask[walk]) - 1
    place_in_walk = np.empty(len(mask), dtype=np.int64)
    place_in_walk[walk] = np.arange(len(walk))
    ranks: npt.NDArray[np.int64] = passed_before[place_in_walk[wanted]]
    return ranks
