"""Log lines: one event a line, whatever is in it."""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Iterator

import pytest

from mooring.log import (
    LINES_MAX,
    VALUE_LENGTH_MAX,
    ConsoleFormatter,
    KeyValueFormatter,
    configure,
    configure_console,
)


@pytest.fixture(autouse=True)
def _root() -> Iterator[None]:
    """Restores the root logger after each test."""
    root = logging.getLogger()
    before = root.handlers[:], root.level
    yield
    root.handlers[:] = before[0]
    root.setLevel(before[1])


def line(message: str = "it happened", level: int = logging.INFO, **extra: object) -> str:
    record = logging.LogRecord("mooring.x", level, "f.py", 1, message, None, None)
    record.created = 1_767_225_600.25
    for name, value in extra.items():
        setattr(record, name, value)
    return KeyValueFormatter().format(record)


def test_a_line_has_time_level_name_and_message() -> None:
    assert line() == "2026-01-01T00:00:00.250Z INFO mooring.x: it happened"


def test_facts_follow_as_words() -> None:
    assert line(pod="default/web", nodes=5).endswith(": it happened pod=default/web nodes=5")


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("two words", '"two words"'),
        ('a "quoted" one', '"a \\"quoted\\" one"'),
        ("a=b", '"a=b"'),
        ("", '""'),
        ("two\nlines", '"two\\nlines"'),
        ("\x1b[31mred", '"\\u001b[31mred"'),
        ("größer", "größer"),
        (None, "None"),
        (1.5, "1.5"),
    ],
)
def test_values_are_quoted_when_they_must_be(value: object, written: str) -> None:
    assert line(key=value).endswith(f" key={written}")


def test_a_message_cannot_begin_another_line() -> None:
    assert line("a\nb\x1b[2J").endswith(": a\\nb\\u001b[2J")


def test_long_values_are_cut() -> None:
    assert line(key="x" * (VALUE_LENGTH_MAX + 1)).endswith("x" * VALUE_LENGTH_MAX + "...")
    assert line(key="x" * VALUE_LENGTH_MAX).endswith("=" + "x" * VALUE_LENGTH_MAX)


def test_a_trace_is_on_the_line_too() -> None:
    try:
        raise ValueError("oops")
    except ValueError:
        record = logging.LogRecord("m", logging.ERROR, "f", 1, "bad", None, sys.exc_info())
    text = KeyValueFormatter().format(record)
    assert "\n" not in text
    assert "trace=" in text
    assert "ValueError: oops" in text


def test_configure_sends_lines_of_that_level_and_above_there_and_nowhere_else() -> None:
    first, second = io.StringIO(), io.StringIO()
    configure(logging.DEBUG, out=first)
    configure("WARNING", out=second)
    logger = logging.getLogger("mooring.test")
    logger.info("quiet")
    logger.warning("loud", extra={"pod": "d/p"})
    assert first.getvalue() == ""
    assert second.getvalue().endswith("WARNING mooring.test: loud pod=d/p\n")
    assert second.getvalue().count("\n") == 1


def test_without_a_stream_lines_go_to_what_is_stderr_at_the_moment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    configure()
    later = io.StringIO()
    monkeypatch.setattr(sys, "stderr", later)
    logging.getLogger("mooring.test").info("here")
    assert "here" in later.getvalue()


def plugin_error(at: str | None) -> logging.LogRecord:
    try:
        raise ValueError("no room")
    except ValueError:
        info = sys.exc_info()
    record = logging.LogRecord("mooring.x", logging.ERROR, "f.py", 1, "failed", None, info)
    record.plugin, record.at = "P", at
    return record


def test_a_console_line_names_command_and_place_and_has_no_traceback() -> None:
    text = ConsoleFormatter("mooring simulate").format(plugin_error("p.py:6"))
    assert text == "mooring simulate: failed: plugin=P at=p.py:6"


def test_a_console_line_without_place_has_the_traceback() -> None:
    lines = ConsoleFormatter("mooring simulate").format(plugin_error("")).splitlines()
    assert lines[0] == 'mooring simulate: failed: plugin=P at=""'
    assert lines[1] == "Traceback (most recent call last):"
    assert lines[-1] == "ValueError: no room"


def console(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    out = io.StringIO()
    monkeypatch.setattr(sys, "stderr", out)
    logging.getLogger().handlers[:] = []
    configure_console("mooring explain")
    return out


def test_the_console_has_each_warning_once(monkeypatch: pytest.MonkeyPatch) -> None:
    out = console(monkeypatch)
    log = logging.getLogger("mooring.test")
    log.info("unimportant")
    for pod in ("a", "b", "a"):
        log.warning("was rejected", extra={"pod": pod})
    assert out.getvalue().splitlines() == [
        "mooring explain: was rejected: pod=a",
        "mooring explain: was rejected: pod=b",
    ]


def test_the_console_has_a_limit_of_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    out = console(monkeypatch)
    for number in range(2 * LINES_MAX):
        logging.getLogger("mooring.test").warning("line %d", number)
    lines = out.getvalue().splitlines()
    assert lines[0] == "mooring explain: line 0"
    assert lines[-1] == f"mooring explain: line {LINES_MAX - 1} (no further messages)"
    assert len(lines) == LINES_MAX


def test_a_configured_log_stays_as_it_is() -> None:
    configure()
    before = logging.getLogger().handlers[:]
    configure_console("mooring run")
    assert logging.getLogger().handlers == before
