"""InterPodAffinity: counts by the values of a topology key."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mooring.framework import NodeView
from mooring.plugins.inter_pod_affinity.domains import KeyColumn
from mooring.testing import cluster, make_node

#: Rows 0 and 2 have the value 0, row 1 the value 1, and row 3 lacks the key.
ZONES = KeyColumn(np.array([0, 1, 0, 2]), 2, np.array([True, True, True, False]), is_alone=False)
#: Each row has a value of its own, but row 1 lacks the key.
HOSTS = KeyColumn(np.arange(4), 4, np.array([True, False, True, True]), is_alone=True)
EVERYWHERE = KeyColumn(np.arange(4), 4, None, is_alone=True)

LARGE = 2**62


@pytest.mark.parametrize(
    ("column", "counts", "expected"),
    [
        (ZONES, [1, 2, 4, 8], [5, 2, 0]),
        (ZONES, [0, 0, 0, 8], [0, 0, 0]),
        (ZONES, [LARGE, 1, LARGE - 1, 5], [2 * LARGE - 1, 1, 0]),
        (ZONES, [LARGE, 1, LARGE, 5], [-2 * LARGE, 1, 0]),  # wraps
        (ZONES, [-LARGE, 3, -1, 0], [-LARGE - 1, 3, 0]),
        (HOSTS, [1, 2, 4, 8], [1, 0, 4, 8]),
        (EVERYWHERE, [1, 2, 4, 8], [1, 2, 4, 8]),
        (HOSTS, [LARGE, 2, -LARGE, 8], [LARGE, 0, -LARGE, 8]),
    ],
)
@pytest.mark.parametrize("more_rows", [0, 3])
def test_counts_are_summed_by_value_exactly(
    column: KeyColumn, counts: list[int], expected: list[int], more_rows: int
) -> None:
    rows = np.array(counts + [9] * more_rows, dtype=np.int64)

    sums = column.add_up(rows)

    assert sums.dtype == np.int64
    assert sums.tolist() == expected
    if max(map(abs, counts)) < 2**31:
        assert column.add_up(rows.astype(np.int32)).tolist() == expected


@pytest.mark.parametrize("column", [ZONES, HOSTS, EVERYWHERE])
def test_sums_that_are_updated_are_those_of_the_new_counts(column: KeyColumn) -> None:
    counts = np.zeros(4, dtype=np.int32)
    sums = column.add_up(counts)
    for row, by in ((0, 2), (1, 3), (2, 1), (3, 5), (0, -1), (2, -1)):
        counts[row] += by
        column.add(sums, row, by)
        assert sums.tolist() == column.add_up(counts).tolist()
    column.add(sums, 4, 7)  # a row that is newer than the column
    assert sums.tolist() == column.add_up(counts).tolist()


@pytest.mark.parametrize(
    ("column", "by_value", "expected", "has_key"),
    [
        (ZONES, [5, 6, 7], [7, 5, 6], [False, True, True]),
        (HOSTS, [5, 6, 7, 8], [8, 5, 6], [True, True, False]),
        (EVERYWHERE, [5, 6, 7, 8], [8, 5, 6], [True, True, True]),
    ],
)
def test_entries_by_value_are_read_by_node(
    column: KeyColumn, by_value: list[int], expected: list[int], has_key: list[bool]
) -> None:
    cache = cluster(*(make_node(name) for name in "abcd"))
    view = NodeView(cache.snapshot(), np.array([3, 0, 1], dtype=np.intp))
    table: Any = np.zeros(cache.nodes.capacity, dtype=np.int64)
    table[: len(by_value)] = by_value
    of_row = np.zeros(cache.nodes.capacity, dtype=np.intp)
    of_row[:4] = column.of_row
    keys = column.has_key
    if keys is not None:
        keys = np.concatenate([keys, np.zeros(cache.nodes.capacity - 4, dtype=np.bool_)])
    longer = KeyColumn(of_row, column.missing, keys, is_alone=column.is_alone)

    assert longer.at(table, view).tolist() == expected
    assert longer.nodes_with_key(view).tolist() == has_key
    no_pods = longer.no_pods()
    assert not longer.at(no_pods.counts, view).any()
