"""Checks of a well-typed expression: literals of regular expressions, times and formats.

Source: cel-go v0.26.0, cel/validator.go and ext/formatting.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mooring.cel.library.formatting import FormatProblem, interpolate, type_problem
from mooring.cel.regex.pattern import PatternError, compile_pattern
from mooring.cel.syntax.tree import Call, ListLiteral, Literal, MapLiteral, Node, children, walk
from mooring.cel.times import Duration, Timestamp, parse_duration, parse_timestamp, timestamp_of
from mooring.cel.types import Type, TypeKind
from mooring.cel.unify import is_equivalent

if TYPE_CHECKING:
    from collections.abc import Callable

    from mooring.cel.syntax.source import Problems, Source

    _Report = Callable[[Node, str], None]

#: Types that the verbs of a format take.
_VERB_KINDS: Final = {
    "s": frozenset(
        {
            *(TypeKind.LIST, TypeKind.MAP, TypeKind.INT, TypeKind.UINT, TypeKind.DOUBLE),
            *(TypeKind.BOOL, TypeKind.STRING, TypeKind.TIMESTAMP, TypeKind.BYTES),
            *(TypeKind.DURATION, TypeKind.TYPE, TypeKind.NULL),
        }
    ),
    "d": frozenset({TypeKind.INT, TypeKind.UINT}),
    "o": frozenset({TypeKind.INT, TypeKind.UINT}),
    "f": frozenset({TypeKind.DOUBLE, TypeKind.STRING}),
    "e": frozenset({TypeKind.DOUBLE, TypeKind.STRING}),
    "b": frozenset({TypeKind.INT, TypeKind.UINT, TypeKind.BOOL}),
    "x": frozenset({TypeKind.INT, TypeKind.UINT, TypeKind.STRING, TypeKind.BYTES}),
}


def validate(root: Node, source: Source, problems: Problems) -> None:
    """Adds what is wrong with the literals of an expression to ``problems``."""

    def report(node: Node, message: str) -> None:
        problems.add(source.location(node.offset), message)

    nodes = walk(root)
    calls = [node for node in nodes if isinstance(node, Call)]
    for name, is_valid in (
        ("duration", _is_duration),
        ("timestamp", _is_timestamp),
        ("matches", _is_pattern),
    ):
        for call in calls:
            argument = call.args[0] if call.function == name and call.args else None
            if isinstance(argument, Literal) and not is_valid(argument.value):
                report(argument, f"invalid {name} argument")
    exempt = _below_format(root)
    for node in nodes:
        if isinstance(node, ListLiteral) and id(node) not in exempt:
            _check_list(node, report)
    for node in nodes:
        if isinstance(node, MapLiteral) and id(node) not in exempt:
            _check_map(node, report)
    for call in calls:
        _check_format(call, report)


def _is_duration(value: object) -> bool:
    if isinstance(value, str):
        return isinstance(parse_duration(value), Duration)
    return not isinstance(value, int) or isinstance(value, bool)


def _is_timestamp(value: object) -> bool:
    if isinstance(value, str):
        return isinstance(parse_timestamp(value), Timestamp)
    return not isinstance(value, int) or isinstance(timestamp_of(value), Timestamp)


def _is_pattern(value: object) -> bool:
    if not isinstance(value, str):
        return True
    try:
        compile_pattern(value)
    except PatternError:
        return False
    return True


def _below_format(root: Node) -> set[int]:
    """Returns the ids of nodes below a call of ``format``: their types may differ."""
    exempt: set[int] = set()
    pending = [(root, False)]
    while pending:
        node, is_exempt = pending.pop()
        if is_exempt:
            exempt.add(id(node))
        is_below = is_exempt or (isinstance(node, Call) and node.function == "format")
        pending.extend((child, is_below) for child in children(node))
    return exempt


def _type(node: Node) -> Type:
    assert node.type is not None
    return node.type


def _mismatch(expected: Type, actual: Type) -> str:
    return f"expected type '{expected.text}' but found '{actual.text}'"


def _check_list(node: ListLiteral, report: _Report) -> None:
    first: Type | None = None
    for index, element in enumerate(node.elements):
        entry = _type(element)
        if index in node.optional and entry.params:
            entry = entry.params[0]
        if first is None:
            first = entry
        elif not is_equivalent(first, entry):
            report(element, _mismatch(first, entry))
            break


def _check_map(node: MapLiteral, report: _Report) -> None:
    first: tuple[Type, Type] | None = None
    for entry in node.entries:
        key, value = _type(entry.key), _type(entry.value)
        if entry.is_optional and value.params:
            value = value.params[0]
        if first is None:
            first = key, value
            continue
        if not is_equivalent(first[0], key):
            report(entry.key, _mismatch(first[0], key))
        if not is_equivalent(first[1], value):
            report(entry.value, _mismatch(first[1], value))


# ---------------------------------------------------------------- format


def _check_format(call: Call, report: _Report) -> None:
    template = call.target
    if call.function != "format" or not isinstance(template, Literal):
        return
    if not isinstance(template.value, str) or len(call.args) != 1:
        return
    arguments = call.args[0]
    if not isinstance(arguments, ListLiteral):
        return
    clauses = _TypedClauses(arguments.elements)
    try:
        interpolate(template.value, clauses)
    except FormatProblem as problem:
        blamed = problem.argument if isinstance(problem.argument, Node) else call
        report(blamed, problem.message)
        return
    if len(arguments.elements) > clauses.n_used:
        report(
            call,
            f"too many arguments supplied to string.format (expected {clauses.n_used}, "
            f"got {len(arguments.elements)})",
        )


class _TypedClauses:
    """The verbs of a format, for the types of arguments."""

    def __init__(self, elements: list[Node]) -> None:
        self._elements = elements
        self.n_used = 0

    def size(self) -> int:
        return len(self._elements)

    def format(self, index: int, verb: str, precision: int | None) -> str:  # noqa: ARG002
        self.n_used += 1
        element = self._elements[index]
        wrong = self._wrong_text(element) if verb == "s" else self._wrong(element, verb)
        if wrong is not None:
            raise type_problem(verb, _type(wrong).name, wrong)
        return ""

    @staticmethod
    def _wrong(element: Node, verb: str) -> Node | None:
        entry = _type(element)
        is_dyn = entry.kind is TypeKind.DYN
        return None if is_dyn or entry.kind in _VERB_KINDS[verb.lower()] else element

    def _wrong_text(self, element: Node) -> Node | None:
        """Returns the first part of an argument that has no text."""
        wrong = self._wrong(element, "s")
        if wrong is None and isinstance(element, ListLiteral | MapLiteral):
            for child in children(element):
                wrong = wrong or self._wrong_text(child)
        return wrong
