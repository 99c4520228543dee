"""The working sheet of the Filter stage against a list of dicts."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mooring.framework import Diagnosis, NodeError, Reject, Status, Verdicts
from mooring.framework.runtime.filter_results import NOT_VISITED, Refusals

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
    sheet = Refusals(names, 6)
    for plugin, of_plugin in enumerate(answers):
        sheet.write(plugin, slice(None), Verdicts.of(of_plugin))
    sheet.combine(None, 6)

    rows = sorted(set(changed))
    for row in rows:
        answers[0][row] = newer[row]
    at = np.array(rows, dtype=np.intp)
    sheet.write(0, at, Verdicts.of([newer[row] for row in rows]))
    sheet.combine(at, 6)

    expected = [first_of(answers, row) for row in range(6)]
    assert [sheet.status(row) for row in range(6)] == expected
    assert sheet.count == expected.count(None)
    assert sheet.feasible.tolist() == [status is None for status in expected]
    diagnosis = Diagnosis(6)
    sheet.describe(diagnosis)
    assert diagnosis.reasons == Counter(
        reason for status in expected if status for reason in status.reasons
    )
    assert diagnosis.unschedulable_plugins == {status.plugin for status in expected if status}


def test_a_copy_does_not_change_with_the_original() -> None:
    sheet = Refusals(("p",), 3)
    sheet.write(0, slice(None), Verdicts.of([None, Reject("x"), None]))
    sheet.combine(None, 3)
    copy = sheet.copy()

    sheet.set_many(np.array([0, 1, 2]), NOT_VISITED)

    assert copy.count == 2
    assert copy.status(1) == Reject("x").named("p")
    assert sheet.count == 0
    assert sheet.status(1) is None


def test_a_cleared_sheet_knows_nothing_and_its_copies_still_do() -> None:
    sheet = Refusals(("p", "q"), 3)
    sheet.write(0, slice(None), Verdicts.of([None, NodeError("broken"), None]))
    sheet.combine(None, 3)
    copy = sheet.copy()

    sheet.clear()
    sheet.write(1, slice(2), Verdicts.of([Reject("y"), None]))
    sheet.combine(None, 2)

    assert [sheet.status(row) for row in range(3)] == [Reject("y").named("q"), None, None]
    assert (sheet.count, sheet.feasible.tolist()) == (1, [False, True, False])
    assert not sheet.has_errors()
    assert [copy.status(row) for row in range(3)] == [None, NodeError("broken").named("p"), None]
    assert copy.has_errors()


def test_one_row_may_be_written_alone() -> None:
    sheet = Refusals(("p", "q"), 2)
    sheet.set_many(np.array([0, 1]), 0)

    sheet.write_one(1, 0, Reject("x"))
    sheet.combine(np.array([0], dtype=np.intp), 2)
    assert sheet.status(0) == Reject("x").named("q")
    sheet.write_one(1, 0, None)
    sheet.combine(np.array([0], dtype=np.intp), 2)
    assert sheet.status(0) is None
