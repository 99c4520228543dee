"""Functions of strings.

Source: cel-go v0.26.0, common/types/string.go (contains, endsWith, startsWith, matches) and
ext/strings.go, version 2.
"""

from __future__ import annotations

from typing import Final

from mooring.cel import types
from mooring.cel.declarations import Function, Overload, function, method
from mooring.cel.library.formatting import format_string
from mooring.cel.library.operators import bounded
from mooring.cel.regex.pattern import PatternError, compile_pattern
from mooring.cel.types import BOOL, INT, STRING
from mooring.cel.values import NO_OVERLOAD, ErrorValue, Value, text
from mooring.objects.go_text import ESCAPES

#: White space as Unicode and Go define it; Python's ``strip`` takes control characters too.
_SPACE: Final = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009"
    "\u200a\u2028\u2029\u202f\u205f\u3000"
)
_UPPER: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_TO_LOWER: Final = str.maketrans(_UPPER, _UPPER.lower())
_TO_UPPER: Final = str.maketrans(_UPPER.lower(), _UPPER)
_QUOTED: Final = str.maketrans(ESCAPES)


def _contains(value: Value, part: Value) -> Value:
    if value.__class__ is not str or part.__class__ is not str:
        return NO_OVERLOAD
    return part in value


def _ends_with(value: Value, part: Value) -> Value:
    if value.__class__ is not str or part.__class__ is not str:
        return NO_OVERLOAD
    return value.endswith(part)


def _starts_with(value: Value, part: Value) -> Value:
    if value.__class__ is not str or part.__class__ is not str:
        return NO_OVERLOAD
    return value.startswith(part)


def matches(value: Value, pattern: Value) -> Value:
    """Returns whether a regular expression matches a part of a text."""
    if pattern.__class__ is not str:
        return NO_OVERLOAD
    try:
        return compile_pattern(pattern).matches(value)
    except PatternError as error:
        return ErrorValue(str(error))


# ---------------------------------------------------------------- version 2


def _char_at(value: str, index: int) -> Value:
    if not 0 <= index <= len(value):
        return _out_of_range(index)
    return value[index : index + 1]


def _index_of(value: str, part: str, offset: int = 0) -> Value:
    if not part:
        return offset
    if offset < 0:
        return _out_of_range(offset)
    return value.find(part, offset) if offset < len(value) else -1


def _last_index_of(value: str, part: str) -> Value:
    return value.rfind(part)


def _last_index_of_from(value: str, part: str, offset: int) -> Value:
    if not part:
        return offset
    if offset < 0:
        return _out_of_range(offset)
    return value.rfind(part, 0, offset + len(part)) if offset < len(value) else -1


def _lower(value: str) -> str:
    return value.translate(_TO_LOWER)


def _upper(value: str) -> str:
    return value.translate(_TO_UPPER)


def _replace(value: str, old: str, new: str, limit: int = -1) -> str:
    count = value.count(old) if limit < 0 else min(value.count(old), limit)
    bounded(len(value) + count * max(len(new) - len(old), 0))
    return value.replace(old, new, max(limit, -1))


def _split(value: str, separator: str, limit: int = -1) -> list[Value]:
    if limit == 0:
        return []
    if separator:
        return list(value.split(separator, limit - 1 if limit > 0 else -1))
    if not value:
        return []
    if limit < 0 or limit >= len(value):
        return list(value)
    return [*value[: limit - 1], value[limit - 1 :]]


def _substring(value: str, start: int, end: int | None = None) -> Value:
    if end is None:
        return value[start:] if 0 <= start <= len(value) else _out_of_range(start)
    if start > end:
        return ErrorValue(f"invalid substring range. start: {start}, end: {end}")
    for index in (start, end):
        if not 0 <= index <= len(value):
            return _out_of_range(index)
    return value[start:end]


def _trim(value: str) -> str:
    return value.strip(_SPACE)


def _quote(value: str) -> str:
    return f'"{value.translate(_QUOTED)}"'


def _join(values: list[Value], separator: str = "") -> Value:
    length = len(separator) * max(len(values) - 1, 0)
    for value in values:
        if value.__class__ is not str:
            return ErrorValue(f"join: invalid input: {text(value)}")
        length += len(value)
    bounded(length)
    return separator.join(values)


def _out_of_range(index: int) -> ErrorValue:
    return ErrorValue(f"index out of range: {index}")


_STRINGS: Final = types.list_of(STRING)
_TWO: Final = (STRING, STRING)

STANDARD: Final[dict[str, Function | list[Overload]]] = {
    "contains": Function(
        "contains", [method("contains_string", _TWO, BOOL, _contains)], has_guards=False
    ),
    "endsWith": Function(
        "endsWith", [method("ends_with_string", _TWO, BOOL, _ends_with)], has_guards=False
    ),
    "startsWith": Function(
        "startsWith", [method("starts_with_string", _TWO, BOOL, _starts_with)], has_guards=False
    ),
    "matches": Function(
        "matches",
        [function("matches", _TWO, BOOL), method("matches_string", _TWO, BOOL)],
        matches,
        frozenset({STRING}),
    ),
}

EXTENDED: Final[dict[str, Function | list[Overload]]] = {
    "charAt": [method("string_char_at_int", (STRING, INT), STRING, _char_at)],
    "indexOf": [
        method("string_index_of_string", _TWO, INT, _index_of),
        method("string_index_of_string_int", (*_TWO, INT), INT, _index_of),
    ],
    "lastIndexOf": [
        method("string_last_index_of_string", _TWO, INT, _last_index_of),
        method("string_last_index_of_string_int", (*_TWO, INT), INT, _last_index_of_from),
    ],
    "lowerAscii": [method("string_lower_ascii", (STRING,), STRING, _lower)],
    "replace": [
        method("string_replace_string_string", (*_TWO, STRING), STRING, _replace),
        method("string_replace_string_string_int", (*_TWO, STRING, INT), STRING, _replace),
    ],
    "split": [
        method("string_split_string", _TWO, _STRINGS, _split),
        method("string_split_string_int", (*_TWO, INT), _STRINGS, _split),
    ],
    "substring": [
        method("string_substring_int", (STRING, INT), STRING, _substring),
        method("string_substring_int_int", (STRING, INT, INT), STRING, _substring),
    ],
    "trim": [method("string_trim", (STRING,), STRING, _trim)],
    "upperAscii": [method("string_upper_ascii", (STRING,), STRING, _upper)],
    "format": [
        method(
            "string_format",
            (STRING, types.list_of(types.DYN)),
            STRING,
            format_string,
            is_sequential=True,
        )
    ],
    "strings.quote": [function("strings_quote", (STRING,), STRING, _quote)],
    "join": [
        method("list_join", (_STRINGS,), STRING, _join),
        method("list_join_string", (_STRINGS, STRING), STRING, _join),
    ],
}
