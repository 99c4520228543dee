"""The working sheet of the Filter stage against a list of dicts."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mooring.framework import Code, Diagnosis, FilterStatuses, NodeError, Reject, Status
from mooring.framework.runtime.filter_results import NOT_VISITED, FilterResults

STATUSES: list[Status | None] = [
    None,
    None,
    Reject("a"),
    Reject("b", "c"),
    Reject("d", resolvable=False),
]
ANSWER = st.lists(st.sampled_from(STATUSES), min_size=6, max_size=6)


def first_of(answers: list[list[Status | None]], row: int) -> Status | None:
    for plugin, of_plugin in enumerate(answers):
        status = of_plugin[row]
        if status is not None:
            return status.named(f"p{plugin}")
    return None


@given(st.lists(ANSWER, min_size=1, max_size=3), st.lists(st.integers(0, 5), max_size=8), ANSWER)
def test_the_first_refusal_in_plugin_order_counts_also_after_changes(
    answers: list[list[Status | None]], changed: list[int], newer: list[Status | None]
) -> None:
    names = tuple(f"p{plugin}" for plugin in range(len(answers)))
    results = FilterResults(names, 6)
    for plugin, of_plugin in enumerate(answers):
        results.set_codes(plugin, slice(None), FilterStatuses.of(of_plugin))
    results.recompute_first(None, 6)
    before = [row for row in range(6) if first_of(answers, row) is None]
    assert results.feasible_rows().tolist() == before
    copy = results.copy()

    rows = sorted(set(changed))
    for row in rows:
        answers[0][row] = newer[row]
    at = np.array(rows, dtype=np.intp)
    results.set_codes(0, at, FilterStatuses.of([newer[row] for row in rows]))
    results.recompute_first(at, 6)

    expected = [first_of(answers, row) for row in range(6)]
    assert [results.status(row) for row in range(6)] == expected
    assert results.count == expected.count(None)
    assert results.feasible.tolist() == [status is None for status in expected]
    feasible = [row for row, status in enumerate(expected) if status is None]
    assert results.feasible_rows().tolist() == feasible
    assert copy.feasible_rows().tolist() == before
    diagnosis = Diagnosis(6)
    results.describe(diagnosis)
    assert diagnosis.reasons == Counter(
        reason for status in expected if status for reason in status.reasons
    )
    assert diagnosis.unschedulable_plugins == {status.plugin for status in expected if status}


def test_a_copy_does_not_change_with_the_original() -> None:
    results = FilterResults(("p",), 3)
    results.set_codes(0, slice(None), FilterStatuses.of([None, Reject("x"), None]))
    results.recompute_first(None, 3)
    copy = results.copy()

    results.set_many(np.array([0, 1, 2]), NOT_VISITED)

    assert results.feasible_rows().tolist() == []
    assert copy.feasible_rows().tolist() == [0, 2]
    assert copy.count == 2
    assert copy.status(1) == Reject("x").named("p")
    assert results.count == 0
    assert results.status(1) is None


def test_a_cleared_sheet_knows_nothing_and_its_copies_still_do() -> None:
    results = FilterResults(("p", "q"), 3)
    results.set_codes(0, slice(None), FilterStatuses.of([None, NodeError("broken"), None]))
    results.recompute_first(None, 3)
    copy = results.copy()

    results.clear()
    results.set_codes(1, slice(2), FilterStatuses.of([Reject("y"), None]))
    results.recompute_first(None, 2)

    assert [results.status(row) for row in range(3)] == [Reject("y").named("q"), None, None]
    assert (results.count, results.feasible.tolist()) == (1, [False, True, False])
    assert not results.has_errors()
    assert [copy.status(row) for row in range(3)] == [None, NodeError("broken").named("p"), None]
    assert copy.has_errors()


def test_one_row_may_be_written_alone() -> None:
    results = FilterResults(("p", "q"), 2)
    results.set_many(np.array([0, 1]), 0)

    results.set_code(1, 0, Reject("x"))
    results.recompute_first(np.array([0], dtype=np.intp), 2)
    assert results.status(0) == Reject("x").named("q")
    results.set_code(1, 0, None)
    results.recompute_first(np.array([0], dtype=np.intp), 2)
    assert results.status(0) is None


def test_a_cleared_sheet_has_no_feasible_row_and_no_counts() -> None:
    results = FilterResults(("p", "q"), 3)
    results.set_codes(0, slice(None), FilterStatuses.of([None, Reject("x"), None]))
    results.recompute_first(None, 3)
    assert results.refused_counts()[:2] == [2, 1]

    results.clear()

    assert results.feasible.tolist() == [False, False, False]
    assert (results.feasible_rows().tolist(), results.count) == ([], 0)
    assert results.refused_counts()[NOT_VISITED] == 3
    assert sum(results.refused_counts()) == 3
    assert (results.refused_count(), list(results.status_counts())) == (0, [])
    results.set_first(2, 0)
    assert (results.feasible_rows().tolist(), results.count) == ([2], 1)


@given(
    st.lists(
        st.tuples(
            st.lists(st.integers(0, 7), unique=True, max_size=8),
            st.sampled_from([0, 1, 2, NOT_VISITED]),
            st.booleans(),
        ),
        max_size=8,
    )
)
def test_counts_are_kept_up_to_date_whichever_rows_change(
    changes: list[tuple[list[int], int, bool]],
) -> None:
    results = FilterResults(("p", "q"), 8)
    results.refused_counts()
    expected = [NOT_VISITED] * 8
    for rows, first, one_by_one in changes:
        for row in rows:
            expected[row] = first
        if one_by_one:
            for row in rows:
                results.set_first(row, first)
        else:
            results.set_many(np.array(rows, dtype=np.intp), first)
        counts = results.refused_counts()
        assert [counts[value] for value in (0, 1, 2, NOT_VISITED)] == [
            expected.count(value) for value in (0, 1, 2, NOT_VISITED)
        ]
        assert results.count == expected.count(0)
        feasible = [row for row, value in enumerate(expected) if value == 0]
        assert results.feasible_rows().tolist() == feasible
        assert results.copy().refused_counts() == counts


def test_marks_are_set_where_the_first_rejection_has_the_code() -> None:
    final = Reject("never", resolvable=False)
    results = FilterResults(("p", "q"), 5)
    results.set_codes(0, slice(None), FilterStatuses.of([None, Reject("x"), final, None, None]))
    results.set_codes(1, slice(None), FilterStatuses.of([None, final, Reject("y"), final, None]))
    results.recompute_first(None, 5)
    marks = np.array([True, True, True, False, False])

    results.mask_of_code(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, marks)

    # Feasible rows keep what they had.
    assert marks.tolist() == [True, False, True, True, False]
