"""Go's text forms of values."""

from __future__ import annotations

import math

import pytest

from mooring.component import go_values as go
from mooring.component.go_values import GoError


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0), ("-7", -7), ("+7", 7), ("0x1F", 31), ("017", 15), ("0o17", 15), ("0b11", 3),
     ("1_000", 1000), ("0x_1", 1)],
)  # fmt: skip
def test_integers(text: str, number: int) -> None:
    assert go.parse_int(text, bits=32) == number


@pytest.mark.parametrize("text", ["", "-", "08", "1__0", "_1", "1_", "1.5", " 1", "0x", "é"])
def test_texts_that_are_no_integers(text: str) -> None:
    with pytest.raises(GoError, match="invalid syntax"):
        go.parse_int(text, bits=32)


@pytest.mark.parametrize(("text", "bits"), [("2147483648", 32), ("-9223372036854775809", 64)])
def test_integers_that_do_not_fit(text: str, bits: int) -> None:
    with pytest.raises(GoError, match="value out of range"):
        go.parse_int(text, bits=bits)


@pytest.mark.parametrize(
    ("text", "shown"),
    [("50", "50"), ("0.1", "0.1"), ("1e6", "1e+06"), ("100000", "100000"), ("0.00001", "1e-05"),
     ("3.4028235e38", "3.4028235e+38"), ("inf", "+Inf"), ("-Infinity", "-Inf"), ("0x1p4", "16")],
)  # fmt: skip
def test_floats(text: str, shown: str) -> None:
    assert go.float32_text(go.parse_float32(text)) == shown


def test_floats_that_are_none() -> None:
    assert math.isnan(go.parse_float32("nan"))
    for text in ("", "x", "1e", "1_0", "--1"):
        with pytest.raises(GoError, match="invalid syntax"):
            go.parse_float32(text)
    with pytest.raises(GoError, match="out of range"):
        go.parse_float32("1e39")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0", 0), ("-0", 0), ("1h2m3s", 3723), ("1.5s", 1.5), (".5s", 0.5), ("-2ms", -0.002),
     ("1us1ns", 0.000001001)],
)  # fmt: skip
def test_durations(text: str, seconds: float) -> None:
    assert go.parse_duration_s(text) == seconds


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", 'time: invalid duration ""'),
        ("5", 'time: missing unit in duration "5"'),
        ("1d", 'time: unknown unit "d" in duration "1d"'),
        (".s", 'time: invalid duration ".s"'),
        ("1h ", 'time: unknown unit "h " in duration "1h "'),
        ("9999999h", 'time: invalid duration "9999999h"'),
    ],
)
def test_texts_that_are_no_durations(text: str, problem: str) -> None:
    with pytest.raises(GoError) as caught:
        go.parse_duration_s(text)
    assert str(caught.value) == problem


@pytest.mark.parametrize(
    ("text", "fields"),
    [("", ()), ("a", ("a",)), ("a,,b", ("a", "", "b")), ('"a,b",c', ("a,b", "c")),
     ('"a""b"', ('a"b',)), (" a", (" a",)), ("a,", ("a", ""))],
)  # fmt: skip
def test_lists(text: str, fields: tuple[str, ...]) -> None:
    assert go.parse_csv(text) == fields


def test_lists_are_printed_with_quotes_where_needed() -> None:
    assert go.csv_text(("a", "b,c", 'd"e', " f", "")) == 'a,"b,c","d""e"," f",'


@pytest.mark.parametrize(
    ("text", "shown"),
    [("10.0.0.1", "10.0.0.1"), ("::1", "::1"), ("::ffff:1.2.3.4", "1.2.3.4"), (" ::", "::")],
)
def test_addresses(text: str, shown: str) -> None:
    assert go.parse_ip(text) == shown


@pytest.mark.parametrize("text", ["x", "1.2.3", "fe80::1%eth0", "01.2.3.4"])
def test_texts_that_are_no_addresses(text: str) -> None:
    with pytest.raises(GoError, match="failed to parse IP"):
        go.parse_ip(text)
