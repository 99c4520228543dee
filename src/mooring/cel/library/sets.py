"""Lists as sets.

Source: cel-go v0.26.0, ext/sets.go.
"""

from __future__ import annotations

from typing import Final

from mooring.cel import types
from mooring.cel.declarations import Function, Overload, function
from mooring.cel.types import BOOL
from mooring.cel.values import Value, contains


def _contains(values: list[Value], part: list[Value]) -> bool:
    return all(contains(values, value) for value in part)


def _equivalent(first: list[Value], second: list[Value]) -> bool:
    return _contains(first, second) and _contains(second, first)


def _intersects(first: list[Value], second: list[Value]) -> bool:
    return any(contains(second, value) for value in first)


_LIST: Final = types.list_of(types.param("T"))

LIBRARY: Final[dict[str, Function | list[Overload]]] = {
    "sets.contains": [function("list_sets_contains_list", (_LIST, _LIST), BOOL, _contains)],
    "sets.equivalent": [function("list_sets_equivalent_list", (_LIST, _LIST), BOOL, _equivalent)],
    "sets.intersects": [function("list_sets_intersects_list", (_LIST, _LIST), BOOL, _intersects)],
}
