"""The error tree, and messages on invalid input: position, value, suggestion."""

from __future__ import annotations

from typing import Any

import pytest

from mooring import errors
from mooring.errors import ApiError, ConfigError, PluginError, SchedulerError, exception_text


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ({}, "must be positive"),
        ({"value": 0}, "must be positive, got 0"),
        ({"value": ""}, "must be positive, got ''"),
        ({"path": "spec.x"}, "spec.x: must be positive"),
        ({"file": "a.yaml", "line": 3}, "a.yaml: line 3: must be positive"),
        ({"file": "a.yaml", "document": 2}, "a.yaml: document 2: must be positive"),
        (
            {
                "file": "f",
                "document": 1,
                "line": 9,
                "path": "p",
                "value": "weigth",
                "suggestion": "weight",
            },
            "f: document 1: line 9: p: must be positive, got 'weigth' (did you mean 'weight'?)",
        ),
    ],
)
def test_the_message_has_every_part_that_is_known(parts: dict[str, Any], text: str) -> None:
    error = ConfigError("must be positive", **parts)

    assert str(error) == text
    assert {name: getattr(error, name) for name in parts} == parts


def test_a_long_value_is_cut() -> None:
    limit = ConfigError.VALUE_LIMIT

    whole = str(ConfigError("bad", value="x" * (limit - 2)))
    cut = str(ConfigError("bad", value="x" * 10_000))

    assert whole == f"bad, got '{'x' * (limit - 2)}'"
    assert cut == f"bad, got '{'x' * (limit - 1)}..."


def test_a_place_is_added_by_who_knows_it_and_never_replaced() -> None:
    error = ConfigError("bad", path="p", line=4, value=1, suggestion="2")

    outer = error.located(file="a.yaml", document=3).located(file="b.yaml", document=5)

    assert str(outer) == "a.yaml: document 3: line 4: p: bad, got 1 (did you mean '2'?)"
    assert isinstance(outer, ConfigError)


def test_a_plugin_error_names_plugin_and_point() -> None:
    error = PluginError("Rack", "Filter", "KeyError: 'zone'")

    assert str(error) == "running \"Rack\" filter plugin: KeyError: 'zone'"
    assert (error.plugin, error.point, error.problem) == ("Rack", "Filter", "KeyError: 'zone'")


def test_an_answer_of_the_api_server_keeps_its_code() -> None:
    error = errors.Conflict("pod is bound already", status=409, reason="AlreadyExists")
    busy = errors.TooManyRequests("slow down", status=429, retry_after_s=7)

    assert (str(error), error.status, error.reason) == (
        "pod is bound already",
        409,
        "AlreadyExists",
    )
    assert (busy.status, busy.reason, busy.retry_after_s) == (429, "", 7)
    assert isinstance(error, ApiError)
    assert isinstance(busy, ApiError)


def error_classes() -> list[type[Exception]]:
    found = [value for value in vars(errors).values() if isinstance(value, type)]
    return [value for value in found if issubclass(value, Exception)]


def test_everything_raised_on_purpose_has_one_root_and_a_line_in_the_drawing() -> None:
    drawing = errors.__doc__ or ""

    for kind in error_classes():
        assert issubclass(kind, SchedulerError)
        assert kind.__name__ in drawing


def test_unknown_is_neither_surely_done_nor_surely_not() -> None:
    assert not issubclass(errors.OutcomeUnknown, ApiError)
    assert not issubclass(errors.Unreachable, errors.OutcomeUnknown)


def test_a_plugin_error_says_where_its_plugin_raised() -> None:
    def broken() -> None:
        raise KeyError("gone")

    try:
        broken()
    except KeyError as cause:
        error = PluginError("Bad", "Filter", "KeyError: 'gone'")
        error.__cause__ = cause
        line = broken.__code__.co_firstlineno + 1
    assert error.location == f"{__file__}:{line}"
    assert error.located == f"running \"Bad\" filter plugin: KeyError: 'gone' ({__file__}:{line})"
    assert PluginError("Bad", "Filter", "returned 5").location == ""


class Unreadable(Exception):
    """Has no text."""

    def __str__(self) -> str:
        raise KeyError("text")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("too large"), "ValueError: too large"),
        (ValueError(), "ValueError"),
        (Unreadable(), "Unreadable (its __str__ raises KeyError)"),
        (SystemExit(3), "SystemExit: 3"),
    ],
)
def test_an_exception_is_a_line_of_text(error: BaseException, text: str) -> None:
    assert exception_text(error) == text


def test_the_problem_of_a_plugin_can_be_sent() -> None:
    error = PluginError("P", "Filter", "unknown size \ud800, too grand é")
    assert error.problem == "unknown size \\ud800, too grand é"
    assert str(error) == f'running "P" filter plugin: {error.problem}'
