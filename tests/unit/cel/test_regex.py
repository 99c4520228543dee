"""Regular expressions: RE2's syntax, leftmost-first matches, linear time."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.cel.regex.pattern import PatternError, compile_pattern


@settings(max_examples=400, deadline=None)
@given(
    st.text("ab|()*+?.^$[]", max_size=8),
    st.text("abc\n", max_size=8),
)
def test_a_pattern_that_python_shares_matches_as_in_python(pattern: str, text: str) -> None:
    try:
        compiled = compile_pattern(pattern)
        reference = re.compile(pattern.replace("$", r"\Z"))
    except (PatternError, re.error, FutureWarning):
        return
    match = reference.search(text)
    assert compiled.matches(text) == (match is not None)
    assert compiled.find(text) == (match[0] if match is not None else "")


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("(", "missing closing ): `(`"),
        (")", "unexpected ): `)`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("*", "missing argument to repetition operator: `*`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
        ("\\1", "invalid escape sequence: `\\1`"),
        ("[z-a]", "invalid character class range: `z-a`"),
        ("[", "missing closing ]: `[`"),
    ],
)
def test_what_re2_lacks_is_refused_in_go_s_words(pattern: str, problem: str) -> None:
    with pytest.raises(PatternError) as failure:
        compile_pattern(pattern)
    assert str(failure.value) == f"error parsing regexp: {problem}"


def test_nested_repetitions_take_linear_time() -> None:
    assert not compile_pattern("(a*)*(a*)*b").matches("a" * 20_000)
