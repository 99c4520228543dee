"""Plain words of YAML: against what Go's library was seen to make of them, and by property."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.objects.files.scalars import resolve

# Read off the tables and branches of go.yaml.in/yaml/v2 v2.4.3, resolve.go.
WORDS: list[tuple[str, Any]] = [
    ("", None),
    ("~", None),
    ("null", None),
    ("Null", None),
    ("nULL", "nULL"),
    ("y", True),
    ("Y", True),
    ("yes", True),
    ("on", True),
    ("On", True),
    ("oN", "oN"),
    ("true", True),
    ("tRUE", "tRUE"),
    ("n", False),
    ("NO", False),
    ("off", False),
    ("False", False),
    ("0", 0),
    ("-0", 0),
    ("+1", 1),
    ("42", 42),
    ("-17", -17),
    ("017", 15),
    ("0o17", 15),
    ("-017", -15),
    ("089", 89),  # not octal, so it is tried as a float, and is whole
    ("0x1f", 31),
    ("0XFF", 255),
    ("-0x10", -16),
    ("0b101", 5),
    ("-0b11", -3),
    ("1_000", 1000),
    ("1__0", 10),
    ("_1", "_1"),
    ("0x", "0x"),
    ("0b2", "0b2"),
    ("1e3", 1000),
    ("1E-2", 0.01),
    ("1.", 1),
    (".5", 0.5),
    ("-.5", -0.5),
    ("+.5", 0.5),
    (".", "."),
    ("-", "-"),
    ("1.5", 1.5),
    ("1.5.2", "1.5.2"),
    ("1e400", "1e400"),
    ("1:30", "1:30"),
    ("190:20:30", "190:20:30"),
    ("2020-01-01", "2020-01-01"),
    ("2020-01-01T00:00:00Z", "2020-01-01T00:00:00Z"),
    ("9223372036854775807", 2**63 - 1),
    ("18446744073709551615", 2**64 - 1),
    ("18446744073709551616", int(float(2**64))),
    ("-9223372036854775808", -(2**63)),
    ("100m", "100m"),
    ("1Gi", "1Gi"),
    ("=", "="),
    ("text", "text"),
    ("10.0.0.1", "10.0.0.1"),
]


@pytest.mark.parametrize(("word", "expected"), WORDS)
def test_word_means_what_go_reads(word: str, expected: Any) -> None:
    found = resolve(word)
    assert found == expected
    assert type(found) is type(expected)


def test_infinite_words_are_floats() -> None:
    assert resolve(".inf") == math.inf
    assert resolve("-.Inf") == -math.inf
    nan = resolve(".NaN")
    assert isinstance(nan, float)
    assert math.isnan(nan)


@given(st.integers(-(2**63), 2**64 - 1))
def test_every_integer_that_go_has_reads_as_itself(number: int) -> None:
    assert resolve(str(number)) == number


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_keeps_its_value(number: float) -> None:
    assert resolve(repr(number)) == number


@given(st.text(alphabet="abcdgh/XZ", min_size=1))
def test_words_that_begin_with_other_letters_are_strings(word: str) -> None:
    assert resolve(word) == word


@pytest.mark.parametrize("digits", ["9" * 100_000, "-" + "9" * 100_000, "0x" + "f" * 100_000])
def test_a_number_of_thousands_of_digits_is_a_string(digits: str) -> None:
    assert resolve(digits) == digits


def test_leading_zeros_do_not_make_a_number_long() -> None:
    assert resolve("0b" + "0" * 5000 + "11") == 3
