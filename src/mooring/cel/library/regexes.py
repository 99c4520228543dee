"""Search with regular expressions.

Source: apiserver v0.36.3, pkg/cel/library/regex.go.
"""

from __future__ import annotations

from typing import Final

from mooring.cel import types
from mooring.cel.declarations import Function, Overload, method
from mooring.cel.regex.pattern import PatternError, compile_pattern
from mooring.cel.types import INT, STRING
from mooring.cel.values import ErrorValue, Value


def find(value: str, pattern: str) -> Value:
    """Returns the first match in a text, or "" without one."""
    try:
        return compile_pattern(pattern).find(value)
    except PatternError as error:
        return ErrorValue(f"Illegal regex: {error}")


def find_all(value: str, pattern: str, limit: int = -1) -> Value:
    """Returns all matches in a text, or the first ``limit``."""
    try:
        return compile_pattern(pattern).find_all(value, limit)
    except PatternError as error:
        return ErrorValue(f"Illegal regex: {error}")


_STRINGS: Final = types.list_of(STRING)

LIBRARY: Final[dict[str, Function | list[Overload]]] = {
    "find": [method("string_find_string", (STRING, STRING), STRING, find)],
    "findAll": [
        method("string_find_all_string", (STRING, STRING), _STRINGS, find_all),
        method("string_find_all_string_int", (STRING, STRING, INT), _STRINGS, find_all),
    ],
}
