"""ChangeLog: a reader that falls behind by more than its length must start over."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mooring.state.columns.change_log import Change, ChangeLog


def test_nothing_changed_since_now() -> None:
    log = ChangeLog(capacity=4)
    log.append(3, Change.LABELS)

    since = log.since(log.generation)

    assert since is not None
    assert since[0].tolist() == []


def test_who_is_too_far_behind_gets_none() -> None:
    log = ChangeLog(capacity=2)
    for row in range(3):
        log.append(row, Change.USAGE)

    assert log.since(0) is None
    kept = log.since(1)
    assert kept is not None
    assert kept[0].tolist() == [1, 2]


@given(st.integers(1, 7), st.lists(st.tuples(st.integers(0, 99), st.integers(1, 255)), max_size=40))
def test_every_generation_still_held_gives_exactly_what_came_after_it(
    capacity: int, appended: list[tuple[int, int]]
) -> None:
    log = ChangeLog(capacity=capacity)
    for row, kinds in appended:
        log.append(row, kinds)

    for generation in range(len(appended) + 1):
        since = log.since(generation)
        if len(appended) - generation > capacity:
            assert since is None
        else:
            assert since is not None
            pairs = list(zip(since[0].tolist(), since[1].tolist(), strict=True))
            assert pairs == appended[generation:]


@given(st.integers(1, 7), st.lists(st.tuples(st.integers(0, 99), st.integers(1, 255)), max_size=40))
def test_rows_are_those_of_the_changes_all_or_of_some_kinds(
    capacity: int, appended: list[tuple[int, int]]
) -> None:
    log = ChangeLog(capacity=capacity)
    for row, kinds in appended:
        log.append(row, kinds)

    for generation in range(len(appended) + 1):
        kept = appended[generation:] if len(appended) - generation <= capacity else None
        selected = None if kept is None else [row for row, kinds in kept if kinds & Change.LABELS]
        assert log.rows_since(generation) == (None if kept is None else [row for row, _ in kept])
        assert log.rows_with(int(Change.LABELS), generation) == selected
