"""Bounds of an evaluation, known before it begins: that it is cheap, that it is shallow.

An expression without loops visits each of its nodes once. If none of its functions makes a text or
list longer than its arguments together, no value is longer than the expression and the attributes
that it reads; so the cost has a bound, and if that is below the limit nothing needs to be counted.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from mooring.cel.cost import COST_LIMIT
from mooring.cel.device import MAX_VALUE_LENGTH
from mooring.cel.syntax.tree import Call, Comprehension, Node, Select, children, walk

#: Functions whose results may be longer than their arguments together.
_GROWING: Final = frozenset(
    {"replace", "join", "format", "lists.range", "strings.quote", "flatten", "string"}
)
#: Functions whose cost is a product of two lengths, or the square of one.
_PRODUCTS: Final = frozenset(
    {
        *("matches", "contains", "find", "findAll", "validate"),
        *("sets.contains", "sets.equivalent", "sets.intersects"),
    }
)
#: Functions for which counting the cost can end an evaluation: see ``cost``.
_ALWAYS_COUNTED: Final = frozenset({"distinct", "sort", "@sortByAssociatedKeys"})
#: Entries of a device: at most so many attributes and capacities.
_MAX_ENTRIES: Final = 64
#: Calls nested deeper than this need more of Python's stack than it has by default.
_MAX_DEPTH: Final = 40


class Bounds(NamedTuple):
    """Bounds of an expression: no costs need to be counted, and it nests deep."""

    is_cheap: bool
    is_deep: bool


def bounds(root: Node, expression: str) -> Bounds:
    """Returns what is known about the evaluation of a checked expression."""
    nodes = walk(root)
    is_deep = _depth(root) > _MAX_DEPTH
    calls = [node for node in nodes if isinstance(node, Call)]
    can_grow = any(call.function in _GROWING | _ALWAYS_COUNTED for call in calls)
    has_loop = any(isinstance(node, Comprehension) and not _is_bind(node) for node in nodes)
    binds_and_adds = any(isinstance(node, Comprehension) for node in nodes) and any(
        call.function == "_+_" for call in calls
    )
    if is_deep or can_grow or has_loop or binds_and_adds:
        return Bounds(False, is_deep)
    n_reads = sum(isinstance(node, Select | Call) for node in nodes)
    length = len(expression) + _MAX_ENTRIES + n_reads * MAX_VALUE_LENGTH
    n_products = sum(call.function in _PRODUCTS for call in calls)
    cost = len(nodes) * (length + 400) + n_products * (2.2 * length**2 + 400 * length)
    return Bounds(cost < COST_LIMIT, is_deep)


def _is_bind(node: Comprehension) -> bool:
    """Returns whether a loop visits nothing: it only gives a name to a value."""
    return node.iter_var == "#unused"


def _depth(root: Node) -> int:
    deepest = 0
    pending = [(root, 1)]
    while pending:
        node, depth = pending.pop()
        deepest = max(deepest, depth)
        pending.extend((child, depth + 1) for child in children(node))
    return deepest
