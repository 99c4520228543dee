"""Combined filter results against a plain loop over rows, whichever rows have changed."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from mooring.framework import FilterStatuses, Reject, Status
from mooring.framework.runtime.combined_results import CHANGES_MAX, CombinedCache
from mooring.framework.runtime.filter_results import NOT_VISITED, FilterResults
from mooring.state.columns.change_log import ChangeLog

ROWS = 100
NAMES = ("before", "column", "after")
COLUMN = NAMES.index("column")


class Column:
    """A column of results that changes at random."""

    rejections = (Reject("no device"), Reject("no pool"))

    def __init__(self) -> None:
        self.codes = np.zeros(ROWS, dtype=np.uint16)
        self.is_unknown = np.zeros(ROWS, dtype=np.bool_)
        self.unknown_count = 0
        self.version = 0
        self.log = ChangeLog(2 * ROWS)

    def set(self, row: int, code: int) -> None:
        self.codes[row] = code
        self.log.append(row, 0)


class Cluster:
    """The results of two cached filters, and the column of a third between them."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.cached = FilterResults(NAMES, ROWS)
        self.cached.set_many(np.arange(ROWS - 3), 0)  # three rows have no node
        self.columns = [Column(), Column()]
        self.combined = CombinedCache()

    def reject(self, rows: list[int]) -> None:
        """Gives rows new results of the cached filters."""
        for row in rows:
            for plugin in (0, 2):
                status = self.random.choice([None, None, Reject("full"), Reject("old")])
                self.cached.set_code(plugin, row, status)
        changed = np.array(sorted(set(rows)), dtype=np.intp)
        self.cached.recompute_first(changed, ROWS)
        self.combined.note(changed)

    def expected(self, column: Column, row: int) -> Status | None:
        """Returns the first rejection of a row in the order of the filters."""
        if self.cached.refused_by[row] == NOT_VISITED:
            return None
        first = self.cached.status(row)
        code = int(column.codes[row])
        if code and (first is None or first.plugin == "after"):
            return column.rejections[code - 1].named("column")
        return first

    def check(self, column: Column) -> None:
        results = self.combined.of(self.cached, COLUMN, column)
        assert results is not None
        statuses = [self.expected(column, row) for row in range(ROWS)]
        assert [results.status(row) for row in range(ROWS)] == statuses
        is_feasible = [status is None and row < ROWS - 3 for row, status in enumerate(statuses)]
        assert results.feasible.tolist() == is_feasible
        assert results.count == sum(is_feasible)
        counted = sum(count for _, count in results.status_counts())
        assert counted == ROWS - 3 - results.count


@pytest.mark.parametrize("seed", range(10))
def test_a_combination_follows_all_changes(seed: int) -> None:
    random = Random(seed)
    cluster = Cluster(random)
    for _ in range(60):
        column = random.choice(cluster.columns)
        rows = [random.randrange(ROWS - 3) for _ in range(random.choice((0, 1, 2, 12, 70)))]
        kind = random.choice(("cached", "column", "both", "all rows"))
        if kind in ("cached", "both"):
            cluster.reject(rows)
        if kind in ("column", "both"):
            for row in rows:
                column.set(row, random.randrange(3))
        if kind == "all rows" and random.random() < 0.3:
            column.codes[:] = random.randrange(3)
            column.version += 1
        if kind == "all rows" and random.random() < 0.3:
            cluster.cached.recompute_first(np.arange(ROWS - 3), ROWS)
            cluster.combined.note(None)
        cluster.check(column)


def test_only_the_rows_that_changed_are_read() -> None:
    cluster = Cluster(Random(0))
    column = cluster.columns[0]
    cluster.check(column)

    column.codes[5] = 1  # without an entry in the log
    column.set(7, 2)
    results = cluster.combined.of(cluster.cached, COLUMN, column)

    assert results is not None
    assert results.status(5) is None
    assert results.status(7) == Reject("no pool").named("column")


def test_many_changes_are_read_as_a_whole_column() -> None:
    cluster = Cluster(Random(0))
    column = cluster.columns[0]
    cluster.check(column)

    for row in range(CHANGES_MAX + 1):
        column.set(row, 1)

    cluster.check(column)


@pytest.mark.parametrize(
    ("rejected_by", "is_combined"), [(None, False), ("before", True), ("after", False)]
)
def test_a_row_without_a_result_is_searched_unless_an_earlier_filter_rejects_it(
    rejected_by: str | None, is_combined: bool
) -> None:
    cluster = Cluster(Random(0))
    column = cluster.columns[0]
    column.is_unknown[4] = True
    column.unknown_count = 1
    if rejected_by is not None:
        row, plugin = np.array([4], dtype=np.intp), NAMES.index(rejected_by)
        cluster.cached.set_codes(plugin, row, FilterStatuses.of([Reject("full")]))
        cluster.cached.recompute_first(row, ROWS)

    results = cluster.combined.of(cluster.cached, COLUMN, column)

    assert (results is not None) == is_combined


def test_the_cached_results_stay_as_they_are() -> None:
    cluster = Cluster(Random(0))
    column = cluster.columns[0]
    column.set(1, 1)

    cluster.check(column)

    assert cluster.cached.count == ROWS - 3
    assert not cluster.cached.codes[COLUMN].any()
