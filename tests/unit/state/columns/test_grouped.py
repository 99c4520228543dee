"""Sums over groups of rows: they follow the counts, whatever comes, goes, or is made longer."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.objects.selectors import EVERYTHING
from mooring.state import audit
from mooring.state.cache import Cache
from mooring.state.columns.grouped import SUMS_CACHED, Counts, GroupedCounts, Sums
from mooring.state.tables.affinity_terms import RowCounts
from mooring.state.tables.counters import CounterKey, PodCounter
from mooring.testing import make_node, make_pod
from tests.plugins.affinity_clusters import near, wants, web


class Remainders:
    """Rows with the same remainder are a group; from row 30 on they are in none."""

    def __init__(self, divisor: int) -> None:
        self.divisor = divisor
        self.asked = 0

    def add_up(self, counts: Counts) -> Sums:
        self.asked += 1
        sums = np.zeros(self.divisor, dtype=np.int64)
        for row, count in enumerate(counts[:30].tolist()):
            sums[row % self.divisor] += count
        return sums

    def add(self, sums: Sums, row: int, by: int) -> None:
        if row < 30:
            sums[row % self.divisor] += by


def counter(capacity: int) -> PodCounter:
    return PodCounter(CounterKey(None, EVERYTHING, with_terminating=True), capacity)


@pytest.mark.parametrize("made", [counter, RowCounts])
@given(changes=st.lists(st.tuples(st.integers(0, 39), st.sampled_from((1, 1, 1, -1)))))
def test_sums_follow_every_change(
    made: Callable[[int], PodCounter | RowCounts], changes: list[tuple[int, int]]
) -> None:
    counts, by_two, by_three = made(40), Remainders(2), Remainders(3)
    before = counts.sums_over(by_two)

    for at, (row, by) in enumerate(changes):
        counts.change(row, by)
        if at == 5:
            counts.sums_over(by_three)

    for groups in (by_two, by_three):
        assert counts.sums_over(groups).tolist() == groups.add_up(counts.column()).tolist()
    assert counts.sums_over(by_two) is before


def test_sums_are_added_up_once_and_the_first_ones_give_way() -> None:
    counts, groups = RowCounts(40), [Remainders(2 + n) for n in range(SUMS_CACHED + 1)]
    for each in groups[:-1] * 2:
        counts.sums_over(each)
    assert [each.asked for each in groups] == [1] * SUMS_CACHED + [0]

    counts.sums_over(groups[-1])

    assert [each for each, _ in counts.cached_sums()] == groups[1:]


def test_the_audit_tells_of_sums_that_are_not_those_of_the_counts() -> None:
    cache = Cache()
    cache.put_node(make_node("n"))
    cache.put_pod(make_pod("a", node="n"))
    cache.put_pod(web("b", wants(near()), node="n"))
    key = CounterKey(None, EVERYTHING, with_terminating=True)
    (held,) = cache.terms.affinity
    kept: list[GroupedCounts] = [cache.counters.counter(key), held.rows]

    for counts in kept:
        sums = counts.sums_over(Remainders(2))
        assert audit(cache) == []
        sums[0] += 1  # behind its back
        assert any("sums" in problem for problem in audit(cache))
        sums[0] -= 1
