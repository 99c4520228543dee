"""Go's durations: texts and what Go makes of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.config.durations import duration_text, parse_duration_s

# From the documentation and tests of Go's package time.
GOOD = [
    ("0", 0),
    ("5s", 5),
    ("30s", 30),
    ("1478s", 1478),
    ("-5s", -5),
    ("+5s", 5),
    ("-0", 0),
    ("5.0s", 5),
    ("5.6s", 5.6),
    ("5.s", 5),
    (".5s", 0.5),
    ("1.004s", 1.004),
    ("100.00100s", 100.001),
    ("10ns", 1e-8),
    ("11us", 1.1e-5),
    ("12µs", 1.2e-5),
    ("12μs", 1.2e-5),
    ("13ms", 0.013),
    ("15m", 900),
    ("16h", 57600),
    ("3h30m", 12600),
    ("10.5s4m", 250.5),
    ("-2m3.4s", -123.4),
    ("1h2m3s4ms5us6ns", 3723.004005006),
    ("39h9m14.425s", 140954.425),
    ("0.3333333333333333333h", 1200),
]
BAD = [
    "",
    "3",
    "-",
    "s",
    ".",
    "-.",
    ".s",
    "+.s",
    "1d",
    "5 s",
    "1s ",
    "--1s",
    "1s-1s",
    "1e3s",
    "inf",
]


@pytest.mark.parametrize(("text", "seconds"), GOOD)
def test_reads_what_go_reads(text: str, seconds: float) -> None:
    assert parse_duration_s(text) == pytest.approx(seconds, abs=1e-9, rel=1e-12)


@pytest.mark.parametrize("text", BAD)
def test_refuses_what_go_refuses(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration_s(text)


def test_refuses_what_does_not_fit() -> None:
    with pytest.raises(ValueError, match="longer"):
        parse_duration_s("3000000h")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (1e-9, "1ns"),
        (1.1e-6, "1.1µs"),
        (2.2e-3, "2.2ms"),
        (3.3, "3.3s"),
        (245, "4m5s"),
        (245.001, "4m5.001s"),
        (18367.001, "5h6m7.001s"),
        (600, "10m0s"),
        (-1.5, "-1.5s"),
    ],
)
def test_writes_as_go_does(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


@given(st.integers(-(10**15), 10**15))
def test_what_is_written_reads_back(microseconds: int) -> None:
    seconds = microseconds / 10**6
    assert parse_duration_s(duration_text(seconds)) == pytest.approx(seconds, abs=2e-7)
