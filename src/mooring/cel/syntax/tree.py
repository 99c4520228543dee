"""The syntax tree of an expression.

The parser builds it, with macros already expanded; the checker writes ``type``, ``overloads`` and
``name`` of calls and identifiers. Every node has a number of its own: the cost tracker follows
values by it.

Source: cel-go v0.26.0, common/ast/expr.go.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mooring.cel.types import Type


@dataclass(slots=True, eq=False)
class Node:
    """One expression.

    Attributes:
        id: Number of the node, unique within an expression.
        offset: Where problems of the node are reported, in code points.
        height: Nesting of operators, selections and calls below the node, itself included.
        type: Type that the checker found.
    """

    id: int
    offset: int
    height: int = field(default=0, kw_only=True)
    type: Type | None = field(default=None, kw_only=True)


@dataclass(slots=True, eq=False)
class Invalid(Node):
    """Stands for a text that the parser could not read."""


@dataclass(slots=True, eq=False)
class Literal(Node):
    """A constant: None, bool, int, ``Uint``, float, str or bytes."""

    value: Any


@dataclass(slots=True, eq=False)
class Ident(Node):
    """A name. ``is_type`` is True if the checker resolved it to a type."""

    name: str
    is_type: bool = False


@dataclass(slots=True, eq=False)
class Select(Node):
    """``operand.field``, or ``has(operand.field)`` if ``is_test`` is True.

    ``ident`` is the qualified name of a type or constant if the whole selection names one, and
    ``is_type`` says which of the two.
    """

    operand: Node
    field: str
    is_test: bool = False
    ident: str = ""
    is_type: bool = False


@dataclass(slots=True, eq=False)
class Call(Node):
    """A call of a function or operator; ``target`` is the receiver of a method."""

    function: str
    args: list[Node]
    target: Node | None = None
    overloads: tuple[str, ...] = ()


@dataclass(slots=True, eq=False)
class ListLiteral(Node):
    """``[a, ?b]``; ``optional`` has the indices of entries with a question mark."""

    elements: list[Node]
    optional: frozenset[int] = frozenset()


@dataclass(slots=True, eq=False)
class MapEntry(Node):
    """``key: value`` or ``?key: value``."""

    key: Node
    value: Node
    is_optional: bool = False


@dataclass(slots=True, eq=False)
class MapLiteral(Node):
    """``{key: value}``."""

    entries: list[MapEntry]


@dataclass(slots=True, eq=False)
class MessageField(Node):
    """``field: value`` of a message."""

    name: str
    value: Node
    is_optional: bool = False


@dataclass(slots=True, eq=False)
class MessageLiteral(Node):
    """``Type{field: value}``: the checker refuses it, except in expressions of mutations."""

    name: str
    fields: list[MessageField]


@dataclass(slots=True, eq=False)
class Comprehension(Node):
    """A loop over ``iter_range``: what macros such as ``all`` and ``map`` become.

    ``accu_var`` begins as ``accu_init`` (computed when first read); while ``condition`` is not
    false, each element sets it to ``step``; ``result`` is the value of the loop.
    """

    iter_range: Node
    iter_var: str
    iter_var2: str
    accu_var: str
    accu_init: Node
    condition: Node
    step: Node
    result: Node


def children(node: Node) -> list[Node]:
    """Returns the direct subexpressions, in the order of upstream's visitors."""
    match node:
        case Select():
            return [node.operand]
        case Call():
            return [node.target, *node.args] if node.target is not None else list(node.args)
        case ListLiteral():
            return list(node.elements)
        case MapLiteral():
            return [part for entry in node.entries for part in (entry.key, entry.value)]
        case MessageLiteral():
            return [part.value for part in node.fields]
        case Comprehension():
            return [
                *(node.iter_range, node.accu_init, node.condition),
                *(node.step, node.result),
            ]
    return []


def walk(root: Node) -> list[Node]:
    """Returns a node and everything below it, each node after its subexpressions."""
    found_nodes: list[Node] = []
    pending = [root]
    while pending:
        node = pending.pop()
        found_nodes.append(node)
        pending.extend(children(node))
    found_nodes.reverse()
    return found_nodes
