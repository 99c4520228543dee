"""Operators: arithmetic, order, membership, size; and ``!``, ``&&``, ``||``, ``?:``, ``==``.

Source: cel-go v0.26.0, common/stdlib/standard.go and common/types.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from mooring.cel import types
from mooring.cel.declarations import Function, Overload, function, method
from mooring.cel.times import (
    INTEGER_OVERFLOW,
    Duration,
    Timestamp,
    difference,
    duration_of,
    shift,
)
from mooring.cel.types import BOOL, BYTES, DOUBLE, DURATION, INT, STRING, TIMESTAMP, UINT, Type
from mooring.cel.values import (
    COST_EXCEEDED,
    NO_OVERLOAD,
    Cancelled,
    ErrorValue,
    MutableList,
    Uint,
    Value,
    compare_numbers,
    contains,
    is_mapping,
    size,
)

if TYPE_CHECKING:
    from collections.abc import Callable

_MAX_INT: Final = 2**63 - 1
_MIN_INT: Final = -(2**63)
_MAX_UINT: Final = 2**64 - 1
_UINT_OVERFLOW: Final = ErrorValue("unsigned integer overflow")
_DIVISION: Final = ErrorValue("division by zero")
_MODULUS: Final = ErrorValue("modulus by zero")
_NAN: Final = ErrorValue("NaN values cannot be ordered")

#: Lists and texts do not grow beyond this: reading a longer one exceeds the cost limit anyway.
MAX_LENGTH: Final = 10_000_000

A: Final = types.param("A")
B: Final = types.param("B")
LIST_A: Final = types.list_of(A)
MAP_AB: Final = types.map_of(A, B)


def bounded(length: int) -> None:
    """Refuses to build a list or text that is too long.

    Raises:
        Cancelled: It is too long.
    """
    if length > MAX_LENGTH:
        raise Cancelled(COST_EXCEEDED)


# ---------------------------------------------------------------- arithmetic


def _int(number: int) -> Value:
    return number if _MIN_INT <= number <= _MAX_INT else INTEGER_OVERFLOW


def _uint(number: int) -> Value:
    return Uint(number) if 0 <= number <= _MAX_UINT else _UINT_OVERFLOW


def add(left: Value, right: Value) -> Value:
    """Adds numbers, durations and timestamps; joins texts, bytes and lists."""
    cls = left.__class__
    if cls is int:
        return _int(left + right) if right.__class__ is int else NO_OVERLOAD
    if isinstance(left, list):
        return _join_lists(left, right)
    if cls is str or cls is bytes:
        if right.__class__ is not cls:
            return NO_OVERLOAD
        bounded(len(left) + len(right))
        return left + right
    if cls is float:
        return left + right if right.__class__ is float else NO_OVERLOAD
    if cls is Uint:
        return _uint(left.number + right.number) if isinstance(right, Uint) else NO_OVERLOAD
    if cls is Timestamp:
        return shift(left, right.nanos) if isinstance(right, Duration) else NO_OVERLOAD
    if isinstance(right, Timestamp):
        return shift(right, left.nanos)
    return duration_of(left.nanos + right.nanos) if isinstance(right, Duration) else NO_OVERLOAD


def _join_lists(left: list[Value], right: Value) -> Value:
    if not isinstance(right, list):
        return NO_OVERLOAD
    if isinstance(left, MutableList):
        bounded(len(left) + len(right))
        left.extend(right)
        return left
    if not left:
        return right
    if not right:
        return left
    bounded(len(left) + len(right))
    return [*left, *right]


def _subtract(left: Value, right: Value) -> Value:
    cls = left.__class__
    if cls is int:
        return _int(left - right) if right.__class__ is int else NO_OVERLOAD
    if cls is float:
        return left - right if right.__class__ is float else NO_OVERLOAD
    if cls is Uint:
        return _uint(left.number - right.number) if isinstance(right, Uint) else NO_OVERLOAD
    if cls is Timestamp:
        if isinstance(right, Timestamp):
            return difference(left, right)
        if not isinstance(right, Duration):
            return NO_OVERLOAD
        return INTEGER_OVERFLOW if right.nanos == _MIN_INT else shift(left, -right.nanos)
    return duration_of(left.nanos - right.nanos) if isinstance(right, Duration) else NO_OVERLOAD


def _multiply(left: Value, right: Value) -> Value:
    if left.__class__ is not right.__class__:
        return NO_OVERLOAD
    if left.__class__ is int:
        return _int(left * right)
    if left.__class__ is Uint:
        return _uint(left.number * right.number)
    return left * right


def _divide(left: Value, right: Value) -> Value:
    if left.__class__ is not right.__class__:
        return NO_OVERLOAD
    if left.__class__ is float:
        return _divide_floats(left, right)
    if left.__class__ is Uint:
        return Uint(left.number // right.number) if right.number else _DIVISION
    if right == 0:
        return _DIVISION
    quotient = abs(left) // abs(right)
    return _int(quotient if (left < 0) == (right < 0) else -quotient)


def _divide_floats(left: float, right: float) -> float:
    if right != 0:
        return left / right
    if left == 0 or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


def _modulo(left: Value, right: Value) -> Value:
    if left.__class__ is not right.__class__:
        return NO_OVERLOAD
    if left.__class__ is Uint:
        return Uint(left.number % right.number) if right.number else _MODULUS
    if right == 0:
        return _MODULUS
    if left == _MIN_INT and right == -1:
        return INTEGER_OVERFLOW
    rest = abs(left) % abs(right)
    return rest if left >= 0 else -rest


def _negate(value: Value) -> Value:
    if value.__class__ is bool:
        return NO_OVERLOAD
    if value.__class__ is int:
        return _int(-value)
    return duration_of(-value.nanos) if isinstance(value, Duration) else -value


def _not(value: Value) -> Value:
    return not value if value.__class__ is bool else NO_OVERLOAD


def _not_strictly_false(value: Value) -> Value:
    return value if value.__class__ is bool else True


# ---------------------------------------------------------------- order


def compare(left: Value, right: Value) -> int | ErrorValue:
    """Returns -1, 0 or 1 for values that have an order."""
    cls = left.__class__
    if cls is int or cls is float or cls is Uint:
        order = compare_numbers(left, right)
        if order is not None:
            return order
        is_nan = left != left or right.__class__ is float
        return _NAN if is_nan else NO_OVERLOAD
    if cls is not right.__class__:
        return NO_OVERLOAD
    if cls is Duration:
        left, right = left.nanos, right.nanos
    elif cls is Timestamp:
        left, right = left.total, right.total
    return int(left > right) - int(left < right)


def _ordered(accepted: frozenset[int]) -> Callable[[Value, Value], Value]:
    def implementation(left: Value, right: Value) -> Value:
        order = compare(left, right)
        return order if order.__class__ is ErrorValue else order in accepted

    return implementation


def _in(element: Value, container: Value) -> Value:
    if isinstance(container, list):
        return contains(container, element)
    return container.has(element) if is_mapping(container) else NO_OVERLOAD


def _size(value: Value) -> Value:
    return size(value)


_COMPARABLE: Final = (BOOL, INT, UINT, DOUBLE, STRING, BYTES, TIMESTAMP, DURATION)
_NAMES: Final = {
    BOOL: "bool", INT: "int64", UINT: "uint64", DOUBLE: "double", STRING: "string",
    BYTES: "bytes", TIMESTAMP: "timestamp", DURATION: "duration",
}  # fmt: skip
_NUMBERS: Final = (INT, UINT, DOUBLE)


def _comparison(name: str, word: str, accepted: frozenset[int]) -> Function:
    overloads: list[Overload] = []
    for entry in _COMPARABLE:
        overloads.append(function(f"{word}_{_NAMES[entry]}", (entry, entry), BOOL))
        overloads.extend(
            function(f"{word}_{_NAMES[entry]}_{_NAMES[other]}", (entry, other), BOOL)
            for other in (_NUMBERS if entry in _NUMBERS else ())
            if other is not entry
        )
    return Function(name, overloads, _ordered(accepted), frozenset(_COMPARABLE))


def _operator(
    name: str,
    word: str,
    signatures: list[tuple[Type, Type, Type]],
    implementation: Callable[..., Value],
    trait: tuple[Type, ...],
) -> Function:
    overloads = [
        function(f"{word}_{index}", (left, right), result)
        for index, (left, right, result) in enumerate(signatures)
    ]
    return Function(name, overloads, implementation, frozenset(trait))


def _same(*entries: Type) -> list[tuple[Type, Type, Type]]:
    return [(entry, entry, entry) for entry in entries]


_ADD: Final = Function(
    "_+_",
    [
        function("add_bytes", (BYTES, BYTES), BYTES),
        function("add_double", (DOUBLE, DOUBLE), DOUBLE),
        function("add_duration_duration", (DURATION, DURATION), DURATION),
        function("add_duration_timestamp", (DURATION, TIMESTAMP), TIMESTAMP),
        function("add_timestamp_duration", (TIMESTAMP, DURATION), TIMESTAMP),
        function("add_int64", (INT, INT), INT),
        function("add_list", (LIST_A, LIST_A), LIST_A),
        function("add_string", (STRING, STRING), STRING),
        function("add_uint64", (UINT, UINT), UINT),
    ],
    add,
    frozenset({BYTES, DOUBLE, DURATION, INT, types.LIST, STRING, TIMESTAMP, UINT}),
)
_SUBTRACT: Final = _operator(
    "_-_",
    "subtract",
    [
        *_same(DOUBLE, DURATION, INT),
        (TIMESTAMP, DURATION, TIMESTAMP),
        (TIMESTAMP, TIMESTAMP, DURATION),
        *_same(UINT),
    ],
    _subtract,
    (DOUBLE, DURATION, INT, TIMESTAMP, UINT),
)
_SIZE: Final = Function(
    "size",
    [
        overload
        for word, entry in (
            ("bytes", BYTES), ("list", LIST_A), ("map", MAP_AB), ("string", STRING),
        )
        for overload in (
            function(f"size_{word}", (entry,), INT),
            method(f"{word}_size", (entry,), INT),
        )
    ],
    _size,
    frozenset({BYTES, types.LIST, types.MAP, STRING}),
)  # fmt: skip

LIBRARY: Final[dict[str, Function | list[Overload]]] = {
    "_?_:_": [function("conditional", (BOOL, A, A), A)],
    "_&&_": [function("logical_and", (BOOL, BOOL), BOOL)],
    "_||_": [function("logical_or", (BOOL, BOOL), BOOL)],
    "!_": Function("!_", [function("logical_not", (BOOL,), BOOL)], _not),
    "@not_strictly_false": [function("not_strictly_false", (BOOL,), BOOL, _not_strictly_false)],
    "_==_": [function("equals", (A, A), BOOL)],
    "_!=_": [function("not_equals", (A, A), BOOL)],
    "_+_": _ADD,
    "_/_": _operator("_/_", "divide", _same(DOUBLE, INT, UINT), _divide, _NUMBERS),
    "_%_": _operator("_%_", "modulo", _same(INT, UINT), _modulo, (INT, UINT)),
    "_*_": _operator("_*_", "multiply", _same(DOUBLE, INT, UINT), _multiply, _NUMBERS),
    "-_": Function(
        "-_",
        [function("negate_double", (DOUBLE,), DOUBLE), function("negate_int64", (INT,), INT)],
        _negate,
        frozenset({BOOL, DOUBLE, DURATION, INT}),
    ),
    "_-_": _SUBTRACT,
    "_<_": _comparison("_<_", "less", frozenset({-1})),
    "_<=_": _comparison("_<=_", "less_equals", frozenset({-1, 0})),
    "_>_": _comparison("_>_", "greater", frozenset({1})),
    "_>=_": _comparison("_>=_", "greater_equals", frozenset({0, 1})),
    "_[_]": [
        function("index_list", (LIST_A, INT), A),
        function("index_map", (MAP_AB, A), B),
    ],
    "@in": Function(
        "@in",
        [function("in_list", (A, LIST_A), BOOL), function("in_map", (A, MAP_AB), BOOL)],
        _in,
    ),
    "size": _SIZE,
}
