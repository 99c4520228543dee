"""The layout on a terminal: no line is wider than it, and only headings have colours."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mooring.explain.layout import WIDTH_MIN, coloured, wrapped

WORDS = st.lists(st.text("abc-/=", min_size=1, max_size=15), max_size=30)


@given(WORDS, st.integers(0, 4), st.integers(WIDTH_MIN + 5, 90))
def test_wrapped_lines_fit_and_keep_every_word(words: list[str], indent: int, width: int) -> None:
    line = " " * indent + " ".join(words)
    lines = list(wrapped([line], width))
    assert all(len(part) <= width for part in lines)
    assert " ".join(lines).split() == words


def test_a_long_word_is_not_broken() -> None:
    name = "x" * 60
    assert list(wrapped([f"  all: pod {name} (a)"], 30)) == ["  all: pod", f"    {name}", "    (a)"]


def test_headings_and_the_result_have_colours() -> None:
    lines = ["Pod a/x goes to n.", "", "Its claims:", "  group:", "    all"]
    assert list(coloured(lines)) == [
        "\x1b[32m\x1b[1mPod a/x goes to n.\x1b[0m",
        "",
        "\x1b[1mIts claims:\x1b[0m",
        "  group:",
        "    all",
    ]
    (line,) = coloured(["Pod a/x is unschedulable: 0/1 nodes are feasible."])
    assert line.startswith("\x1b[33m")
