"""The estimated costs of calls of the standard library.

Source: cel-go v0.26.0, checker/cost.go (functionCost).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mooring.cel.estimate.calls import PATTERN, TRAVERSAL, CallEstimate, Operand
from mooring.cel.estimate.ranges import ONE, UNKNOWN, Range, wrapped

if TYPE_CHECKING:
    from collections.abc import Sequence

_COMPARISONS: Final = frozenset(
    {
        *("less_string", "greater_string", "less_equals_string", "greater_equals_string"),
        *("less_bytes", "greater_bytes", "less_equals_bytes", "greater_equals_bytes"),
        *("equals", "not_equals"),
    }
)


def _size(operand: Operand) -> Range:
    """Returns a size that is known already; the size that is declared was used for it."""
    return operand.known_size or UNKNOWN


def standard_estimate(
    overload: str, target: Operand | None, args: Sequence[Operand]
) -> CallEstimate:
    """Returns the estimate of a call; O(1) for what has no rule of its own."""
    if overload in _COMPARISONS:
        most = min(_size(args[0]).most, _size(args[1]).most)
        return CallEstimate(Range(1 if most > 0 else 0, most).scaled(TRAVERSAL))
    match overload, target, len(args):
        case "string_format", Operand(), _:
            return CallEstimate(_size(target).scaled(TRAVERSAL))
        case "starts_with_string" | "ends_with_string", _, 1:
            return CallEstimate(_size(args[0]).scaled(TRAVERSAL))
        case "in_list", _, 2:
            return CallEstimate(_size(args[1]).scaled(1))
        case "matches_string", Operand(), 1:
            cost = _size(target).plus(ONE).scaled(TRAVERSAL)
            return CallEstimate(cost.times(_size(args[0]).scaled(PATTERN)))
        case "contains_string", Operand(), 1:
            cost = _size(target).scaled(TRAVERSAL)
            return CallEstimate(cost.times(_size(args[0]).scaled(TRAVERSAL)))
        case "add_string" | "add_bytes", _, 2:
            size = _size(args[0]).plus(_size(args[1]))
            return CallEstimate(size.scaled(TRAVERSAL), size)
        case "add_list", _, 2:
            return CallEstimate(ONE, _size(args[0]).plus(_size(args[1])))
        case "string_to_bytes" | "bytes_to_string" | "strings_quote", _, 1:
            size = _size(args[0])
            return CallEstimate(size.scaled(TRAVERSAL), _converted(overload, size))
    return CallEstimate(ONE)


def _converted(overload: str, size: Range) -> Range:
    """Returns the size of a text in another form; these sums are not guarded upstream."""
    if overload == "string_to_bytes":
        return Range(size.least, wrapped(size.most * 4))
    if overload == "bytes_to_string":
        return Range(size.least // 4, size.most)
    return Range(wrapped(size.least + 2), wrapped(size.most * 2 + 2))
