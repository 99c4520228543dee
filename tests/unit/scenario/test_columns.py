"""Columns that need few bytes a row."""

from __future__ import annotations

import math
import pickle

import pytest

from mooring.scenario.columns import CHUNK, Times, numbers

VALUES = [1.0, 2.5, math.nan, 0.1234567, -3.0, 2.0**60]
ROWS = [1, 2.5, None, 0.123457, -3, 2.0**60]


def test_rows_are_times_to_the_microsecond() -> None:
    column = Times(VALUES)
    assert list(column) == ROWS
    assert [column[row] for row in range(len(column))] == ROWS
    assert list(map(type, column)) == [int, float, type(None), float, int, float]
    assert column == ROWS
    assert column != ROWS[:-1]
    assert column != "text of six"[:6]


def test_a_part_is_a_column() -> None:
    assert Times(VALUES)[1:3] == ROWS[1:3]
    assert Times(VALUES)[-1] == ROWS[-1]
    with pytest.raises(IndexError):
        Times(VALUES)[6]


def test_no_row_is_lost_between_chunks() -> None:
    column = Times(range(2 * CHUNK + 1))
    assert list(column) == list(range(2 * CHUNK + 1))


def test_it_can_be_sent_to_another_process() -> None:
    assert pickle.loads(pickle.dumps(Times(VALUES))) == ROWS


def test_it_is_shown_by_its_first_rows() -> None:
    assert repr(Times([])) == "Times([])"
    assert repr(Times([1.0, math.nan])) == "Times([1, None])"
    assert repr(Times(range(9))) == "Times([0, 1, 2, 3, 4, ...])"


def test_equal_numbers_are_one_object() -> None:
    values = numbers([int("1000"), int("1001"), int("1000")])
    assert values == [1000, 1001, 1000]
    assert values[0] is values[2]
