"""The estimated costs of calls, and the sizes of their results.

Source: cel-go v0.26.0, ext/lists.go, ext/sets.go; apiserver v0.36.3, pkg/cel/library/cost.go.
The calls of the standard library are in ``standard``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from mooring.cel import types
from mooring.cel.estimate.paths import EMPTY, ITEMS, DeclaredSize, Path
from mooring.cel.estimate.ranges import MAX, ONE, UNKNOWN, ZERO, Range, fixed, wrapped
from mooring.cel.syntax.tree import Literal, Node
from mooring.cel.types import Type, TypeKind

if TYPE_CHECKING:
    from collections.abc import Sequence

TRAVERSAL: Final = 0.1
PATTERN: Final = 0.25
_LIST_COST: Final = 10
_CHECK_COST: Final = 350_000
_FORMAT_PATTERN_SIZE: Final = 128
_FORMAT_MAX: Final = 64
#: Entries of a list attribute: what ``includes`` compares, at most.
_VALUES_MAX: Final = 48
#: Bytes of an address.
_ADDRESS: Final = Range(4, 16)


@dataclass(frozen=True, slots=True)
class Operand:
    """A target or an argument of a call."""

    node: Node | None
    type: Type
    path: Path
    known_size: Range | None
    declared_size: DeclaredSize

    @property
    def size(self) -> Range:
        """Its size, as far as it is known."""
        return self.known_size or self.declared_size(self.path) or UNKNOWN

    @property
    def element(self) -> Operand | None:
        """The elements of a list; None if the operand is no list."""
        if not self.type.params:
            return None
        path = Path([*self.path.parts], len(self.path)) if len(self.path) else EMPTY
        path = path.with_part(ITEMS) if len(path) else EMPTY
        return Operand(None, self.type.params[0], path, None, self.declared_size)

    def int_value(self, default: int) -> int:
        """Returns the value of a constant integer, at least 0."""
        if isinstance(self.node, Literal) and self.node.value.__class__ is int:
            return max(0, self.node.value)
        return default


@dataclass(frozen=True, slots=True)
class CallEstimate:
    """The cost of a call without its arguments; the size of its result, if it is known."""

    cost: Range
    size: Range | None = None


_Estimator: TypeAlias = Callable[
    [str, "Operand | None", "Sequence[Operand]"], "CallEstimate | None"
]


def library_estimate(
    function: str, overload: str, target: Operand | None, args: Sequence[Operand]
) -> CallEstimate | None:
    """Returns the estimate of a call of an extension; None for the standard library."""
    estimator = _BY_OVERLOAD.get(overload)
    if estimator is not None:
        estimate = estimator(overload, target, args)
        if estimate is not None:
            return estimate
    estimator = _BY_FUNCTION.get(function)
    return None if estimator is None else estimator(overload, target, args)


def _one(_overload: str, _target: Operand | None, _args: Sequence[Operand]) -> CallEstimate:
    return CallEstimate(ONE)


def _check(_overload: str, _target: Operand | None, _args: Sequence[Operand]) -> CallEstimate:
    return CallEstimate(fixed(_CHECK_COST))


def _includes(_overload: str, _target: Operand | None, _args: Sequence[Operand]) -> CallEstimate:
    return CallEstimate(Range(0, _VALUES_MAX))


# ---------------------------------------------------------------- lists and sets


def _new_list(factor: float, size: Range) -> CallEstimate:
    return CallEstimate(size.scaled(factor).plus(fixed(1 + _LIST_COST)), size)


def _slice(_overload: str, target: Operand | None, args: Sequence[Operand]) -> CallEstimate | None:
    if target is None or len(args) != 2:
        return None
    first, last = args[0].int_value(0), args[1].int_value(target.size.most)
    return _new_list(1, fixed(wrapped(last - first)))


def _range(_overload: str, _target: Operand | None, args: Sequence[Operand]) -> CallEstimate:
    return _new_list(1, fixed(args[0].int_value(MAX)))


def _reverse(
    _overload: str, target: Operand | None, _args: Sequence[Operand]
) -> CallEstimate | None:
    return None if target is None else _new_list(1, target.size)


def _flatten(
    _overload: str, target: Operand | None, args: Sequence[Operand]
) -> CallEstimate | None:
    if target is None:
        return None
    return _new_list(float(args[0].int_value(MAX)) if args else 1.0, target.size)


def _compare_all(operand: Operand, factor: float = 2.0) -> CallEstimate:
    return _new_list(factor, operand.size.times(operand.size))


def _distinct(
    _overload: str, target: Operand | None, _args: Sequence[Operand]
) -> CallEstimate | None:
    return None if target is None else _compare_all(target)


def _sort(overload: str, target: Operand | None, args: Sequence[Operand]) -> CallEstimate | None:
    if target is None:
        return None
    has_texts = overload.startswith(("list_string_", "list_bytes_"))
    return _compare_all(args[0] if args else target, 2.0 + TRAVERSAL if has_texts else 2.0)


def _sets(factor: float) -> _Estimator:
    def estimate(
        _overload: str, _target: Operand | None, args: Sequence[Operand]
    ) -> CallEstimate | None:
        if len(args) != 2:
            return None
        return CallEstimate(args[0].size.times(args[1].size).scaled(factor).plus(ONE))

    return estimate


def _aggregate(
    _overload: str, target: Operand | None, _args: Sequence[Operand]
) -> CallEstimate | None:
    """Functions that compare each element, or search in a string."""
    if target is None:
        return None
    element = target.element
    if element is None:
        return CallEstimate(target.size.scaled(TRAVERSAL))
    cost = ONE
    if element.type.kind in (TypeKind.STRING, TypeKind.BYTES):
        cost = cost.plus(element.size.scaled(TRAVERSAL))
    return CallEstimate(target.size.times(cost))


# ---------------------------------------------------------------- strings


def _read_first(
    _overload: str, _target: Operand | None, args: Sequence[Operand]
) -> CallEstimate | None:
    return CallEstimate(args[0].size.scaled(TRAVERSAL)) if args else None


def _read_first_twice(
    _overload: str, _target: Operand | None, args: Sequence[Operand]
) -> CallEstimate | None:
    return CallEstimate(args[0].size.scaled(2 * TRAVERSAL)) if args else None


def _url(_overload: str, _target: Operand | None, args: Sequence[Operand]) -> CallEstimate | None:
    if len(args) != 1:
        return None
    return CallEstimate(args[0].size.scaled(TRAVERSAL), args[0].size)


def _same_length(
    _overload: str, target: Operand | None, _args: Sequence[Operand]
) -> CallEstimate | None:
    if target is None:
        return None
    return CallEstimate(target.size.scaled(TRAVERSAL), target.size)


def _replace(
    _overload: str, target: Operand | None, args: Sequence[Operand]
) -> CallEstimate | None:
    if target is None or len(args) < 2:
        return None
    size, old, new = target.size, args[0].size, args[1].size
    if old.least == 0:
        most, kept_most = min(size.most + 1, MAX), size.most
    elif new.most <= old.least:
        most, kept_most = 0, size.most
    else:
        most, kept_most = _ratio(size.most, old.least), 0
    if old.most == 0:
        least, kept_least = min(size.least + 1, MAX), size.least
    elif old.most <= new.least:
        least, kept_least = 0, size.least
    else:
        least, kept_least = _ratio(size.least, old.most), 0
    result = Range(least, most).times(new).plus(Range(kept_least, kept_most))
    return CallEstimate(size.scaled(2 * TRAVERSAL), result)


def _ratio(dividend: int, divisor: int) -> int:
    """Returns how often one length is in another."""
    return min(math.ceil(float(dividend) / float(divisor)), MAX)


def _split(_overload: str, target: Operand | None, args: Sequence[Operand]) -> CallEstimate | None:
    if target is None:
        return None
    most = target.size.most
    if len(args) > 1:
        node = args[1].node
        if isinstance(node, Literal) and node.value.__class__ is int:
            most = wrapped(node.value)
    return CallEstimate(target.size.scaled(2 * TRAVERSAL), Range(0, most))


def _join(_overload: str, target: Operand | None, args: Sequence[Operand]) -> CallEstimate | None:
    if target is None:
        return None
    size, element = ZERO, target.element
    if element is not None:
        size = target.size.times(element.size)
    if args:
        separators = Range(max(0, target.size.least - 1), max(0, target.size.most - 1))
        size = size.plus(args[0].size.times(separators))
    return CallEstimate(size.scaled(TRAVERSAL), size)


def _find(_overload: str, target: Operand | None, args: Sequence[Operand]) -> CallEstimate | None:
    if target is None or not args:
        return None
    cost = target.size.plus(ONE).scaled(TRAVERSAL).times(args[0].size.scaled(PATTERN))
    return CallEstimate(cost, Range(0, target.size.most))


def _validate(
    _overload: str, _target: Operand | None, args: Sequence[Operand]
) -> CallEstimate | None:
    if not args:
        return None
    cost = args[0].size.scaled(TRAVERSAL)
    return CallEstimate(cost.scaled(_FORMAT_PATTERN_SIZE * PATTERN))


# ---------------------------------------------------------------- networks


def _contains_ip(
    overload: str, _target: Operand | None, args: Sequence[Operand]
) -> CallEstimate | None:
    cost = _ADDRESS.plus(_ADDRESS).scaled(TRAVERSAL)
    if overload == "cidr_contains_ip_string":
        cost = cost.plus(args[0].size.scaled(TRAVERSAL))
    return CallEstimate(cost)


def _contains_cidr(
    overload: str, _target: Operand | None, args: Sequence[Operand]
) -> CallEstimate | None:
    cost = _ADDRESS.plus(_ADDRESS).scaled(TRAVERSAL)
    cost = cost.plus(_ADDRESS.scaled(TRAVERSAL)).plus(ONE)
    if overload == "cidr_contains_cidr_string":
        cost = cost.plus(args[0].size.scaled(TRAVERSAL))
    return CallEstimate(cost)


# ---------------------------------------------------------------- equality


def _equals(
    _overload: str, _target: Operand | None, args: Sequence[Operand]
) -> CallEstimate | None:
    if len(args) != 2 or not args[0].type.same_as(args[1].type):
        return None
    name = args[0].type.name
    if name in (types.IP.name, types.CIDR.name, types.QUANTITY.name, types.SEMVER.name):
        return CallEstimate(ONE)
    if name == types.NAMED_FORMAT.name:
        return CallEstimate(Range(1, _FORMAT_MAX).scaled(TRAVERSAL))
    if name == types.URL.name:
        size = args[1].known_size or ONE
        return CallEstimate(Range(1, size.most).scaled(TRAVERSAL))
    return None


_BY_OVERLOAD: Final[dict[str, _Estimator]] = {
    "list_slice": _slice,
    "list_flatten": _flatten,
    "list_flatten_int": _flatten,
    "lists_range": _range,
    "list_reverse": _reverse,
    "list_distinct": _distinct,
    **{
        f"list_{name}_{function}": _sort
        for function in ("sort", "sortByAssociatedKeys")
        for name in (
            *("int", "uint", "double", "bool", "string", "bytes"),
            *(types.DURATION.name, types.TIMESTAMP.name),
        )
    },
    "list_sets_contains_list": _sets(1),
    "list_sets_intersects_list": _sets(1),
    "list_sets_equivalent_list": _sets(2),
    "cidr_ip": _one,
    "dra_includes_dyn_dyn": _includes,
}
_BY_FUNCTION: Final[dict[str, _Estimator]] = {
    "check": _check,
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _aggregate),
    "url": _url,
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim"), _same_length),
    "replace": _replace,
    "split": _split,
    "join": _join,
    **dict.fromkeys(("find", "findAll"), _find),
    **dict.fromkeys(("cidr", "isIP", "isCIDR", "ip"), _read_first),
    "ip.isCanonical": _read_first_twice,
    "containsIP": _contains_ip,
    "containsCIDR": _contains_cidr,
    **dict.fromkeys(("quantity", "isQuantity", "semver", "isSemver"), _read_first),
    "validate": _validate,
    "_==_": _equals,
    # Accessors and arithmetic, O(1).
    **dict.fromkeys(
        (
            *("serviceAccount", "path", "group", "resource", "subresource", "namespace", "name"),
            *("allowed", "reason", "error", "errored", "masked", "prefixLength", "family"),
            *("isUnspecified", "isLoopback", "isLinkLocalMulticast", "isLinkLocalUnicast"),
            *("isGlobalUnicast", "format.named", "sign", "asInteger", "isInteger"),
            *("asApproximateFloat", "isGreaterThan", "isLessThan", "compareTo", "add", "sub"),
            *("major", "minor", "patch", "getScheme", "getHostname", "getHost", "getPort"),
            *("getEscapedPath", "getQuery"),
        ),
        _one,
    ),
}
