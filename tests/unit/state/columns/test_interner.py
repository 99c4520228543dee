"""Interner: ids are dense, shared, and reused when their reference count is 0."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.errors import InvariantViolation
from mooring.state.columns.interner import Interner


def test_equal_values_share_an_id_and_new_ones_are_dense() -> None:
    table = Interner[str]()

    assert [table.acquire(value) for value in ("a", "b", "a", "c")] == [0, 1, 0, 2]
    assert table.values() == ["a", "b", "c"]


def test_an_id_is_reused_only_after_its_last_holder_let_go() -> None:
    table = Interner[str]()
    table.acquire("a")
    table.acquire("a")

    table.release(0)
    assert table.acquire("b") == 1
    table.release(0)
    assert table.find("a") == -1
    assert table.acquire("c") == 0
    assert table.value(0) == "c"


def test_the_version_rises_when_an_id_gets_a_new_meaning_and_only_then() -> None:
    table = Interner[str]()
    table.acquire("a")
    first = table.version

    table.acquire("a")
    assert table.version == first
    table.release(0)
    table.release(0)
    table.acquire("b")
    assert table.version == first + 1


def test_releasing_what_nobody_holds_is_our_bug() -> None:
    table = Interner[str]()
    table.acquire("a")
    table.release(0)

    with pytest.raises(InvariantViolation, match="released more often"):
        table.release(0)
    with pytest.raises(InvariantViolation, match="not in use"):
        table.value(0)


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.booleans()), max_size=60))
def test_it_behaves_like_a_dict_of_counters(steps: list[tuple[str, bool]]) -> None:
    table = Interner[str]()
    held: dict[str, int] = {}
    for value, take in steps:
        if take:
            index = table.acquire(value)
            held[value] = held.get(value, 0) + 1
            assert table.value(index) == value
        elif held.get(value):
            table.release(table.find(value))
            held[value] -= 1
        assert {v: n for v, n in held.items() if n} == {
            v: table.ref_count(v) for v in table.values() if v is not None
        }
        assert len(table) <= 4
