"""Quantities: against apimachinery's own answers, and against exact fractions."""

from __future__ import annotations

import gzip
import json
import re
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.objects.quantity import (
    BINARY_SI,
    DECIMAL_EXPONENT,
    DECIMAL_SI,
    ZERO,
    Quantity,
    QuantityError,
)
from tests.helpers.paths import UNIT_DATA

RECORDED = UNIT_DATA / "quantities.jsonl.gz"

POWERS_OF_TEN = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12}
POWERS_OF_TWO = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40}
FACTORS = {
    **{suffix: Fraction(10) ** power for suffix, power in POWERS_OF_TEN.items()},
    **{suffix: Fraction(2) ** power for suffix, power in POWERS_OF_TWO.items()},
    **{f"{letter}{power}": Fraction(10) ** power for letter in "eE" for power in (-2, 0, 3)},
}


def recorded_rows() -> list[dict[str, Any]]:
    with gzip.open(RECORDED, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def is_quantity(text: str) -> bool:
    try:
        Quantity.parse(text)
    except QuantityError:
        return False
    return True


def rounded_away_from_zero(amount: Fraction) -> int:
    magnitude = -((-abs(amount.numerator)) // amount.denominator)
    return magnitude if amount >= 0 else -magnitude


def test_every_recorded_text_is_accepted_or_refused_as_upstream_does() -> None:
    rows = recorded_rows()
    assert len(rows) == 2161
    differing = [row["text"] for row in rows if is_quantity(row["text"]) is not row["ok"]]
    assert differing == []


def test_every_recorded_amount_is_upstreams() -> None:
    rows = [row for row in recorded_rows() if row["ok"] and row["fits"]]
    assert len(rows) > 1000
    ours = [
        (Quantity.parse(row["text"]).value(), Quantity.parse(row["text"]).milli()) for row in rows
    ]
    assert ours == [(int(row["value"]), int(row["milli"])) for row in rows]


def test_every_recorded_canonical_text_is_upstreams() -> None:
    # The one exception has 400 digits: beyond 10**60 units we do not keep them all.
    rows = [row for row in recorded_rows() if row["ok"] and len(row["text"]) < 60]
    differing = [
        (row["text"], str(Quantity.parse(row["text"])), row["canonical"])
        for row in rows
        if str(Quantity.parse(row["text"])) != row["canonical"]
    ]
    assert differing == []


@given(
    sign=st.sampled_from(["", "+", "-"]),
    whole=st.integers(0, 10**6),
    fraction=st.none() | st.text("0123456789", max_size=14),
    suffix=st.sampled_from(sorted(FACTORS)),
)
def test_an_amount_is_the_exact_number_rounded_to_billionths(
    sign: str, whole: int, fraction: str | None, suffix: str
) -> None:
    number = str(whole) if fraction is None else f"{whole}.{fraction}"
    exact = Fraction(number.rstrip(".")) * FACTORS[suffix] * (-1 if sign == "-" else 1)
    found = Quantity.parse(f"{sign}{number}{suffix}")
    nanos = rounded_away_from_zero(exact * 10**9)
    assert found.nanos == nanos
    assert found.value() == rounded_away_from_zero(Fraction(nanos, 10**9))
    milli = rounded_away_from_zero(Fraction(nanos, 10**6))
    assert found.milli() == max(-(2**63), min(milli, 2**63 - 1))


@given(st.integers(-(10**24), 10**24), st.sampled_from([DECIMAL_SI, BINARY_SI, DECIMAL_EXPONENT]))
def test_the_canonical_text_reads_back_as_the_same_amount(nanos: int, form: str) -> None:
    amount = Quantity(nanos, form)
    text = str(amount)
    assert Quantity.parse(text) == amount
    assert re.fullmatch(r"-?[0-9]+(e-?[0-9]+|[numkMGTPE]?|[KMGTPE]i)", text)


@given(st.integers(-(10**20), 10**20), st.integers(-(10**20), 10**20))
def test_adding_and_comparing_are_exact(left: int, right: int) -> None:
    one, other = Quantity(left), Quantity(right)
    assert (one + other).nanos == left + right
    assert (one - other).nanos == left - right
    assert (-one).nanos == -left
    assert (one < other, one <= other, one > other, one >= other, one == other) == (
        left < right, left <= right, left > right, left >= right, left == right,
    )  # fmt: skip


def test_equal_amounts_are_equal_however_they_are_written() -> None:
    assert Quantity.parse("1") == Quantity.parse("1000m") == Quantity.parse("1e0")
    assert len({Quantity.parse("1Ki"), Quantity.parse("1024"), Quantity.parse("1.024k")}) == 1
    assert Quantity.parse("1") != "1"


def test_a_sum_is_written_like_its_first_part_that_is_not_zero() -> None:
    assert str(Quantity.parse("1Gi") + Quantity.parse("1G")) == "2073741824"
    assert str(Quantity.parse("1536Mi") + Quantity.parse("512Mi")) == "2Gi"
    assert str(ZERO + Quantity.parse("1024Mi")) == "1Gi"
    assert str(ZERO - Quantity.parse("2Ki")) == "-2Ki"


@pytest.mark.parametrize(
    ("raw", "milli"),
    [
        ("250m", 250),
        (" 2 ", 2000),
        (3, 3000),
        (0.5, 500),
        (1e-7, 1),
        (1e22, 2**63 - 1),
        (-4, -4000),
    ],
)
def test_json_may_write_a_number_where_a_text_is_usual(raw: str | float, milli: int) -> None:
    assert Quantity.from_wire(raw).milli() == milli


@pytest.mark.parametrize(
    "text", ["", " 1", "1 ", "1x", "1mi", "--1", "1.2.3", "Ei", "e", "٣", "1\n"]
)
def test_what_is_not_a_quantity_is_refused_with_its_text(text: str) -> None:
    with pytest.raises(QuantityError) as caught:
        Quantity.parse(text)
    assert repr(text) in str(caught.value)
    assert isinstance(caught.value, ValueError)


def test_a_long_text_is_cut_in_the_message() -> None:
    with pytest.raises(QuantityError) as caught:
        Quantity.parse("1" * 10_000 + "x")
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("text", ["1e2147483647", "9" * 5000, "9" * 5000 + "Mi", "9E" + "9" * 9])
def test_a_huge_number_costs_no_memory_and_is_held_within_int64(text: str) -> None:
    found = Quantity.parse(text)
    assert found.value() == found.milli() == 2**63 - 1
    assert found.nanos.bit_length() < 300


@pytest.mark.parametrize(
    "text", ["1e-2147483647", "0." + "0" * 5000 + "1", "." + "0" * 5000 + "1Ki", "1e-30"]
)
def test_a_tiny_number_is_rounded_up_to_a_billionth(text: str) -> None:
    assert Quantity.parse(text).nanos == 1


def test_an_exponent_wraps_around_as_int32_like_upstreams() -> None:
    assert Quantity.parse(f"1e{2**32}").value() == 1
    with pytest.raises(QuantityError):
        Quantity.parse(f"1e{2**63}")


def test_a_fraction_of_a_binary_unit_that_decides_the_rounding_is_not_lost() -> None:
    almost = "0." + "0" * 27 + "1" + "0" * 80 + "1"
    assert Quantity.parse(f"{almost}Ki").nanos == 1
    exactly_one_nano = Fraction(1, 10**9) / 2**10
    digits = str(exactly_one_nano.numerator * 10**60 // exactly_one_nano.denominator)
    text = "0." + digits.rjust(60, "0")
    assert Quantity.parse(f"{text}Ki").nanos == 1
    assert Quantity.parse(f"{text}{'0' * 60}1Ki").nanos == 2


def test_whole_numbers_make_quantities() -> None:
    assert str(Quantity.of_value(2048)) == "2048"
    assert str(Quantity.of_milli(1500)) == "1500m"
    assert Quantity.of_milli(1).value() == 1
    assert ZERO.is_zero
    assert not Quantity(1).is_zero
