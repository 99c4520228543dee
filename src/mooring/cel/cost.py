"""The cost of an evaluation: what each step adds, and the limit.

The tracker keeps a stack of values by the number of their node, as upstream's does: a call takes
the values of its arguments from it, and adds nothing if one of them is not there.

Source: cel-go v0.26.0, interpreter/runtimecost.go; apiserver v0.36.3, pkg/cel/library/cost.go;
cel-go, ext/lists.go and ext/sets.go.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, TypeAlias

from mooring.cel.library.formats import NamedFormat
from mooring.cel.library.networks import CIDRValue, IPValue
from mooring.cel.library.quantities import QuantityValue
from mooring.cel.library.semvers import Semver
from mooring.cel.library.urls import URLValue
from mooring.cel.values import (
    COST_EXCEEDED,
    Cancelled,
    ErrorValue,
    Optional,
    Value,
    is_mapping,
    size,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    CallCost: TypeAlias = Callable[[list[Value], Value], int]

#: Cost of the evaluation of one selector for one device, at most.
COST_LIMIT: Final = 1_000_000
#: Steps of loops: some loops cost nothing.
STEP_LIMIT: Final = 500_000
_LIST_COST: Final = 10
_MAP_COST: Final = 30
_TRAVERSAL: Final = 0.1
_PATTERN: Final = 0.25


class CostTracker:
    """The cost of one evaluation so far.

    Attributes:
        cost: Cost units.
        n_steps: Steps of loops.
    """

    __slots__ = ("_ids", "_positions", "_values", "cost", "n_steps")

    def __init__(self) -> None:
        self.cost = 0
        self.n_steps = 0
        self._ids: list[int] = []
        self._values: list[Value] = []
        #: Where a number was pushed; positions that are not valid any more are dropped late.
        self._positions: dict[int, list[int]] = {}

    def push(self, node_id: int, value: Value) -> None:
        """Records the value of a node.

        Raises:
            Cancelled: The cost exceeds the limit.
        """
        self._positions.setdefault(node_id, []).append(len(self._ids))
        self._ids.append(node_id)
        self._values.append(value)
        if self.cost > COST_LIMIT:
            raise Cancelled(COST_EXCEEDED)

    def drop(self, *node_ids: int) -> None:
        """Forgets the latest value of nodes, and everything after it."""
        for node_id in node_ids:
            self._take(node_id)

    def take_args(self, node_ids: list[int]) -> list[Value] | None:
        """Takes the latest values of nodes; None if one of them is not there."""
        values: list[Value] = [None] * len(node_ids)
        for index in range(len(node_ids) - 1, -1, -1):
            position = self._take(node_ids[index])
            if position is None:
                return None
            values[index] = position[0]
        return values

    def _take(self, node_id: int) -> tuple[Value] | None:
        ids = self._ids
        positions = self._positions.get(node_id)
        while positions:
            position = positions.pop()
            if position < len(ids) and ids[position] == node_id:
                value = self._values[position]
                del ids[position:]
                del self._values[position:]
                return (value,)
        return None

    def count_step(self) -> None:
        """Counts one step of a loop.

        Raises:
            Cancelled: There were too many.
        """
        self.n_steps += 1
        if self.n_steps > STEP_LIMIT:
            raise Cancelled("operation interrupted")


def _size(value: Value) -> int:
    """Returns the size that costs depend on: 1 for values without one."""
    length = size(value)
    if length is not None:
        return length
    return value.n_bytes if isinstance(value, IPValue | CIDRValue) else 1


def _deep_size(value: Value) -> int:
    while isinstance(value, Optional) and value.is_present:
        value = value.value
    return _size(value)


def _factor(amount: float, factor: float = _TRAVERSAL) -> int:
    return math.ceil(float(amount) * factor)


def _traversal(value: Value) -> int:
    """Returns the cost of reading a value with everything in it."""
    if isinstance(value, str):
        return int(len(value.encode()) * _TRAVERSAL)
    if isinstance(value, bytes):
        return int(len(value) * _TRAVERSAL)
    if isinstance(value, list):
        return sum([_traversal(entry) for entry in value])
    if is_mapping(value):
        return sum([_traversal(key) + _traversal(entry) for key, entry in value.items()])
    return 1


# ---------------------------------------------------------------- calls


def _one(_args: list[Value], _result: Value) -> int:
    return 1


def _first(args: list[Value], _result: Value) -> int:
    return _factor(_size(args[0]))


def _first_twice(args: list[Value], _result: Value) -> int:
    return math.ceil(float(_size(args[0])) * 2 * _TRAVERSAL)


def _join(_args: list[Value], result: Value) -> int:
    return math.ceil(float(_size(result)) * 2 * _TRAVERSAL)


def _traverse_first(args: list[Value], _result: Value) -> int:
    return _traversal(args[0])


def _search(args: list[Value], _result: Value) -> int:
    return _factor(1.0 + _size(args[0])) * _factor(_size(args[1]), _PATTERN)


def _contains_ip(overload: str) -> CallCost:
    def cost(args: list[Value], _result: Value) -> int:
        total = _factor(2 * _size(args[0]))
        return total + (_factor(_size(args[1])) if overload.endswith("_string") else 0)

    return cost


def _contains_cidr(overload: str) -> CallCost:
    contains_ip = _contains_ip(overload)

    def cost(args: list[Value], result: Value) -> int:
        return contains_ip(args, result) + _factor(_size(args[0])) + 1

    return cost


def _validate(args: list[Value], _result: Value) -> int:
    if not isinstance(args[0], NamedFormat):
        return 1
    return _factor(1.0 + _size(args[1])) * _factor(args[0].regex_size, _PATTERN)


def _equals(args: list[Value], _result: Value) -> int:
    kubernetes = QuantityValue | IPValue | CIDRValue | NamedFormat | URLValue | Semver
    if isinstance(args[0], kubernetes):
        return 1
    return _compare(args, _result)


def _compare(args: list[Value], _result: Value) -> int:
    return _factor(min(_deep_size(args[0]), _deep_size(args[1])))


def _first_deep(args: list[Value], _result: Value) -> int:
    return _factor(_deep_size(args[0]))


def _in_list(args: list[Value], _result: Value) -> int:
    return _deep_size(args[1])


def _add_texts(args: list[Value], _result: Value) -> int:
    return _factor(_deep_size(args[0]) + _deep_size(args[1]))


def _matches(args: list[Value], _result: Value) -> int:
    return _factor(1.0 + _deep_size(args[0])) * _factor(_deep_size(args[1]), _PATTERN)


def _contains(args: list[Value], _result: Value) -> int:
    return _factor(_deep_size(args[0])) * _factor(_deep_size(args[1]))


def _new_list(_args: list[Value], result: Value) -> int:
    return _size(result) + 1 + _LIST_COST


def _flatten(args: list[Value], _result: Value) -> int:
    depth = float(args[1]) if len(args) == 2 and args[1].__class__ is int else 1.0
    return int(_size(args[0]) * depth) + 1 + _LIST_COST


def _compare_all(index: int) -> CallCost:
    def cost(args: list[Value], _result: Value) -> int:
        values = args[index]
        if isinstance(values, ErrorValue):
            raise Cancelled(_NO_LIST)
        if not isinstance(values, list):
            return 1
        has_texts = bool(values) and isinstance(values[0], str | bytes)
        factor = 2.0 + (_TRAVERSAL if has_texts else 0.0)
        return int(float(len(values) ** 2) * factor) + 1 + _LIST_COST

    return cost


def _sets(factor: float) -> CallCost:
    def cost(args: list[Value], _result: Value) -> int:
        return 1 + int(float(_size(args[0]) * _size(args[1])) * factor)

    return cost


_BY_OVERLOAD: Final[dict[str, CallCost]] = {
    "list_slice": _new_list,
    "list_flatten": _flatten,
    "list_flatten_int": _flatten,
    "lists_range": _new_list,
    "list_reverse": _new_list,
    "list_distinct": _compare_all(0),
    "list_sets_contains_list": _sets(1),
    "list_sets_intersects_list": _sets(1),
    "list_sets_equivalent_list": _sets(2),
}
_BY_FUNCTION: Final[dict[str, CallCost]] = {
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _traverse_first),
    **dict.fromkeys(("url", "lowerAscii", "upperAscii", "substring", "trim"), _first),
    **dict.fromkeys(("replace", "split", "ip.isCanonical"), _first_twice),
    "join": _join,
    **dict.fromkeys(("find", "findAll"), _search),
    **dict.fromkeys(("cidr", "isIP", "isCIDR", "ip"), _first),
    **dict.fromkeys(("quantity", "isQuantity", "semver", "isSemver"), _first),
    "validate": _validate,
    "_==_": _equals,
}
_BY_STANDARD_OVERLOAD: Final[dict[str, CallCost]] = {
    **dict.fromkeys(
        (
            *("starts_with_string", "ends_with_string", "string_to_bytes"),
            *("bytes_to_string", "strings_quote", "string_format"),
        ),
        _first_deep,
    ),
    "in_list": _in_list,
    **dict.fromkeys(
        (
            *("less_string", "greater_string", "less_equals_string", "greater_equals_string"),
            *("less_bytes", "greater_bytes", "less_equals_bytes", "greater_equals_bytes"),
            *("equals", "not_equals"),
        ),
        _compare,
    ),
    **dict.fromkeys(("add_string", "add_bytes"), _add_texts),
    "matches_string": _matches,
    "contains_string": _contains,
}
_CHECK_COST: Final = 350_000
#: Upstream panics where it reads the size of a list that is an error.
_NO_LIST: Final = (
    "internal error: interface conversion: *types.Err is not traits.Lister: missing method Add"
)


def call_cost(function: str, overload: str) -> CallCost:
    """Returns what computes the cost of calls, of arguments and result."""
    if overload in _BY_OVERLOAD:
        return _BY_OVERLOAD[overload]
    if overload.endswith("_sort"):
        return _compare_all(0)
    if overload.endswith("_sortByAssociatedKeys"):
        return _compare_all(1)
    if overload == "cidr_ip":
        return _one
    if function == "containsIP":
        return _contains_ip(overload)
    if function == "containsCIDR":
        return _contains_cidr(overload)
    if function == "check":
        return lambda _args, _result: _CHECK_COST
    special = _BY_FUNCTION.get(function) or _BY_STANDARD_OVERLOAD.get(overload)
    return _one if special is None else special


def literal_cost(*, is_map: bool) -> int:
    """Returns the cost of making a list or a map."""
    return _MAP_COST if is_map else _LIST_COST
