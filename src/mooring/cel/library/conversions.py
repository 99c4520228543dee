"""Conversions between types: ``int(x)``, ``string(x)``, ``type(x)`` and so on.

Source: cel-go v0.26.0, common/stdlib/standard.go and ConvertToType of common/types.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from mooring.cel import types
from mooring.cel.declarations import Function, Overload, function
from mooring.cel.golang.text import general, parse_float, shortest
from mooring.cel.library.operators import A
from mooring.cel.times import (
    INTEGER_OVERFLOW,
    Duration,
    Timestamp,
    duration_of,
    parse_duration,
    parse_timestamp,
    timestamp_of,
)
from mooring.cel.types import BOOL, BYTES, DOUBLE, DURATION, INT, STRING, TIMESTAMP, UINT, Type
from mooring.cel.values import ErrorValue, Uint, Value, type_of

if TYPE_CHECKING:
    from collections.abc import Callable

#: Functions whose calls with constants are computed once, when the expression is compiled.
CONVERSIONS: Final = frozenset(
    {
        *("bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type"),
        "uint",
    }
)
_UINT_OVERFLOW: Final = ErrorValue("unsigned integer overflow")
_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})


def _failed(source: Type, target: Type) -> ErrorValue:
    return ErrorValue(f"type conversion error from '{source.long_text}' to '{target.long_text}'")


def _identity(value: Value) -> Value:
    return value


def _of_string(parse: Callable[[str], Value], target: Type) -> Callable[[Value], Value]:
    def convert(value: Value) -> Value:
        result = parse(value)
        return _failed(STRING, target) if result is None else result

    return convert


def _parse_int(text: str) -> int | None:
    if not re.fullmatch(r"[+-]?[0-9]+", text, re.ASCII) or len(text) > 400:
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


def _parse_uint(text: str) -> Uint | None:
    if not re.fullmatch(r"[0-9]+", text, re.ASCII) or len(text) > 400:
        return None
    number = int(text)
    return Uint(number) if number < 2**64 else None


def _parse_bool(text: str) -> bool | None:
    return True if text in _TRUE else False if text in _FALSE else None


def _double_to_int(number: float) -> Value:
    if not -(2.0**63) < number < 2.0**63:
        return INTEGER_OVERFLOW
    return int(number)


def _double_to_uint(number: float) -> Value:
    if not 0 <= number < 2.0**64:
        return _UINT_OVERFLOW
    return Uint(int(number))


def _int_to_uint(number: int) -> Value:
    return Uint(number) if number >= 0 else _UINT_OVERFLOW


def _uint_to_int(value: Uint) -> Value:
    return value.number if value.number < 2**63 else INTEGER_OVERFLOW


def _bytes_to_string(value: bytes) -> Value:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return ErrorValue("invalid UTF-8 in bytes, cannot convert to string")


def duration_text(value: Duration) -> str:
    """Returns a duration in seconds, such as ``5400s``."""
    return shortest(value.seconds) + "s"


def double_text(value: float) -> str:
    """Returns a double as ``string`` does."""
    return general(value)


def _bool_text(value: bool) -> str:
    return "true" if value else "false"


def _timestamp_text(value: Timestamp) -> str:
    return value.rfc3339()


LIBRARY: Final[dict[str, Function | list[Overload]]] = {
    "type": Function("type", [function("type", (A,), types.type_of(A))], type_of),
    "dyn": Function("dyn", [function("to_dyn", (A,), types.DYN)], _identity),
    "bool": [
        function("bool_to_bool", (BOOL,), BOOL, _identity),
        function("string_to_bool", (STRING,), BOOL, _of_string(_parse_bool, BOOL)),
    ],
    "bytes": [
        function("bytes_to_bytes", (BYTES,), BYTES, _identity),
        function("string_to_bytes", (STRING,), BYTES, str.encode),
    ],
    "double": [
        function("double_to_double", (DOUBLE,), DOUBLE, _identity),
        function("int64_to_double", (INT,), DOUBLE, float),
        function("string_to_double", (STRING,), DOUBLE, _of_string(parse_float, DOUBLE)),
        function("uint64_to_double", (UINT,), DOUBLE, lambda value: float(value.number)),
    ],
    "duration": [
        function("duration_to_duration", (DURATION,), DURATION, _identity),
        function("int64_to_duration", (INT,), DURATION, lambda _: _failed(INT, DURATION)),
        function("string_to_duration", (STRING,), DURATION, _of_string(parse_duration, DURATION)),
    ],
    "int": [
        function("int64_to_int64", (INT,), INT, _identity),
        function("double_to_int64", (DOUBLE,), INT, _double_to_int),
        function("duration_to_int64", (DURATION,), INT, lambda value: value.nanos),
        function("string_to_int64", (STRING,), INT, _of_string(_parse_int, INT)),
        function("timestamp_to_int64", (TIMESTAMP,), INT, lambda value: value.seconds),
        function("uint64_to_int64", (UINT,), INT, _uint_to_int),
    ],
    "string": [
        function("string_to_string", (STRING,), STRING, _identity),
        function("bool_to_string", (BOOL,), STRING, _bool_text),
        function("bytes_to_string", (BYTES,), STRING, _bytes_to_string),
        function("double_to_string", (DOUBLE,), STRING, double_text),
        function("duration_to_string", (DURATION,), STRING, duration_text),
        function("int64_to_string", (INT,), STRING, str),
        function("timestamp_to_string", (TIMESTAMP,), STRING, _timestamp_text),
        function("uint64_to_string", (UINT,), STRING, lambda value: str(value.number)),
    ],
    "timestamp": [
        function("timestamp_to_timestamp", (TIMESTAMP,), TIMESTAMP, _identity),
        function("int64_to_timestamp", (INT,), TIMESTAMP, timestamp_of),
        function(
            "string_to_timestamp", (STRING,), TIMESTAMP, _of_string(parse_timestamp, TIMESTAMP)
        ),
    ],
    "uint": [
        function("uint64_to_uint64", (UINT,), UINT, _identity),
        function("double_to_uint64", (DOUBLE,), UINT, _double_to_uint),
        function("int64_to_uint64", (INT,), UINT, _int_to_uint),
        function("string_to_uint64", (STRING,), UINT, _of_string(_parse_uint, UINT)),
    ],
}

__all__ = ["CONVERSIONS", "LIBRARY", "double_text", "duration_of", "duration_text"]
