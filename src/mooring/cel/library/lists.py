"""Functions of lists.

Source: apiserver v0.36.3, pkg/cel/library/lists.go; cel-go v0.26.0, ext/lists.go, version 3.
"""

from __future__ import annotations

from functools import cmp_to_key
from typing import TYPE_CHECKING, Final

from mooring.cel import types
from mooring.cel.declarations import Function, Overload, function, method
from mooring.cel.library.operators import add, compare
from mooring.cel.times import Duration, Timestamp
from mooring.cel.types import BOOL, BYTES, DOUBLE, DURATION, INT, STRING, TIMESTAMP, UINT, Type
from mooring.cel.values import (
    COST_EXCEEDED,
    NO_OVERLOAD,
    Cancelled,
    ErrorValue,
    Uint,
    Value,
    equal,
    type_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

#: A longer range costs more than the limit.
_MAX_RANGE: Final = 1_000_000
_COMPARABLE_CLASSES: Final = (bool, int, float, str, bytes, Uint, Duration, Timestamp)


# ---------------------------------------------------------------- Kubernetes


def _is_sorted(values: list[Value]) -> Value:
    for index, value in enumerate(values):
        if not isinstance(value, _COMPARABLE_CLASSES):
            return NO_OVERLOAD
        if index and compare(values[index - 1], value) == 1:
            return False
    return True


def _sum(zero: Value) -> Callable[[list[Value]], Value]:
    def implementation(values: list[Value]) -> Value:
        total = zero
        for value in values:
            total = add(total, value)
            if isinstance(total, ErrorValue):
                return total
        return total

    return implementation


def _extreme(name: str, replaced_by: int) -> Callable[[list[Value]], Value]:
    def implementation(values: list[Value]) -> Value:
        if not values:
            return ErrorValue(f"{name} called on empty list")
        result = values[0]
        for value in values:
            if not isinstance(value, _COMPARABLE_CLASSES):
                return NO_OVERLOAD
            if compare(result, value) == replaced_by:
                result = value
        return result

    return implementation


def _index_of(values: list[Value], element: Value) -> int:
    for index, value in enumerate(values):
        if equal(value, element) is True:
            return index
    return -1


def _last_index_of(values: list[Value], element: Value) -> int:
    for index in range(len(values) - 1, -1, -1):
        if equal(values[index], element) is True:
            return index
    return -1


# ---------------------------------------------------------------- cel-go


def _slice(values: list[Value], start: int, end: int) -> Value:
    head = f"cannot slice({start}, {end}), "
    if start < 0 or end < 0:
        return ErrorValue(head + "negative indexes not supported")
    if start > end:
        return ErrorValue(head + "start index must be less than or equal to end index")
    if end > len(values):
        return ErrorValue(f"{head}list is length {len(values)}")
    return values[start:end]


def _flatten(values: Value, depth: Value = 1) -> Value:
    if not isinstance(values, list):
        arguments = f"({type_of(depth).long_text})" if depth != 1 else "()"
        return ErrorValue(f"no such overload: {type_of(values).long_text}.flatten{arguments}")
    if depth.__class__ is not int:
        names = f"{type_of(values).long_text}.flatten({type_of(depth).long_text})"
        return ErrorValue(f"no such overload: {names}")
    if depth < 0:
        return ErrorValue("level must be non-negative")
    return _flattened(values, depth)


def _flattened(values: list[Value], depth: int) -> list[Value]:
    result: list[Value] = []
    for value in values:
        if isinstance(value, list) and depth:
            result.extend(_flattened(value, depth - 1))
        else:
            result.append(value)
    return result


def _sort(values: list[Value]) -> Value:
    return _sort_by(values, values)


def _sort_by(values: list[Value], keys: list[Value]) -> Value:
    if len(values) != len(keys):
        return ErrorValue(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys "
            f"list, but got {len(values)} and {len(keys)} elements respectively"
        )
    if not values:
        return values
    first = type_of(keys[0])
    if not isinstance(keys[0], _COMPARABLE_CLASSES):
        return ErrorValue("list elements must be comparable")
    if len(keys) > 1 and any(type_of(key).name != first.name for key in keys):
        return ErrorValue("list elements must have the same type")

    def order(left: int, right: int) -> int:
        result = compare(keys[left], keys[right])
        return result if isinstance(result, int) else 0

    indices = sorted(range(len(values)), key=cmp_to_key(order))
    return [values[index] for index in indices]


def _range(count: int) -> list[Value]:
    if count > _MAX_RANGE:
        raise Cancelled(COST_EXCEEDED, count + 11)
    return list(range(count))


def _reverse(values: list[Value]) -> list[Value]:
    return values[::-1]


def _distinct(values: list[Value]) -> list[Value]:
    result: list[Value] = []
    for value in values:
        if not any(equal(value, other) is True for other in result):
            result.append(value)
    return result


_A: Final = types.param("A")
_T: Final = types.param("T")
_LIST: Final = types.list_of(_T)
_NAMES: Final = {
    INT: "int", UINT: "uint", DOUBLE: "double", BOOL: "bool", DURATION: "duration",
    TIMESTAMP: "timestamp", STRING: "string", BYTES: "bytes",
}  # fmt: skip
_ZEROS: Final[dict[Type, Value]] = {INT: 0, UINT: Uint(0), DOUBLE: 0.0, DURATION: Duration(0)}


def _for_comparable(
    suffix: str, implementation: Callable[..., Value], result: Type | None = None
) -> list[Overload]:
    return [
        method(
            f"list_{name}_{suffix.replace('*', name)}",
            (types.list_of(entry),),
            result or entry,
            implementation,
        )
        for entry, name in _NAMES.items()
    ]


KUBERNETES: Final[dict[str, Function | list[Overload]]] = {
    "isSorted": _for_comparable("is_sorted_bool", _is_sorted, BOOL),
    "sum": [
        method(
            f"list_{_NAMES[entry]}_sum_{_NAMES[entry]}",
            (types.list_of(entry),),
            entry,
            _sum(zero),
        )
        for entry, zero in _ZEROS.items()
    ],
    "max": _for_comparable("max_*", _extreme("max", -1)),
    "min": _for_comparable("min_*", _extreme("min", 1)),
    "indexOf": [method("list_a_index_of_int", (types.list_of(_A), _A), INT, _index_of)],
    "lastIndexOf": [
        method("list_a_last_index_of_int", (types.list_of(_A), _A), INT, _last_index_of)
    ],
}

EXTENDED: Final[dict[str, Function | list[Overload]]] = {
    "slice": [method("list_slice", (_LIST, INT, INT), _LIST, _slice)],
    "flatten": Function(
        "flatten",
        [
            method("list_flatten", (types.list_of(_LIST),), _LIST, _flatten),
            method("list_flatten_int", (types.LIST, INT), types.LIST, _flatten),
        ],
        has_guards=False,
    ),
    "sort": Function(
        "sort",
        [
            method(f"list_{entry.name}_sort", (types.list_of(entry),), types.list_of(entry))
            for entry in _NAMES
        ],
        _sort,
        frozenset({types.LIST}),
    ),
    "@sortByAssociatedKeys": Function(
        "@sortByAssociatedKeys",
        [
            method(f"list_{entry.name}_sortByAssociatedKeys", (_LIST, types.list_of(entry)), _LIST)
            for entry in _NAMES
        ],
        _sort_by,
        frozenset({types.LIST}),
    ),
    "lists.range": [function("lists_range", (INT,), types.list_of(INT), _range)],
    "reverse": [method("list_reverse", (_LIST,), _LIST, _reverse)],
    "distinct": [method("list_distinct", (_LIST,), _LIST, _distinct)],
}
