"""Macros: calls that the parser replaces by loops, conditions and presence tests.

Source: cel-go v0.26.0, parser/macro.go, cel/library.go (optMap, optFlatMap), ext/bindings.go
(cel.bind), ext/comprehensions.go (two variables), ext/lists.go (sortBy).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from mooring.cel.environment import Environment
from mooring.cel.syntax.tree import (
    Call,
    Comprehension,
    Ident,
    Invalid,
    ListLiteral,
    Literal,
    MapEntry,
    MapLiteral,
    MessageField,
    MessageLiteral,
    Node,
    Select,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    Expander: TypeAlias = Callable[["Builder", Any, list[Node]], Node | None]

#: Name of the result of a loop: no identifier of an expression can be equal to it.
ACCUMULATOR: Final = "@result"
_OLD_ACCUMULATOR: Final = "__result__"
UNUSED: Final = "#unused"
_SORT_INPUT: Final = "@__sortBy_input__"


class MacroError(Exception):
    """Wrong arguments of a macro; ``offset`` says where."""

    def __init__(self, offset: int, message: str) -> None:
        super().__init__(message)
        self.offset = offset
        self.message = message


class NodeFactory:
    """Hands out the numbers of nodes."""

    def __init__(self) -> None:
        self._n_nodes = 0

    def next_id(self) -> int:
        """Returns a number that no node has."""
        self._n_nodes += 1
        return self._n_nodes

    def at(self, offset: int) -> Builder:
        """Returns a builder of nodes at an offset."""
        return Builder(self, offset)


class Builder:
    """Builds the nodes of one expansion, all at the place of the macro."""

    def __init__(self, factory: NodeFactory, offset: int) -> None:
        self._factory = factory
        self._offset = offset

    def literal(self, value: Any) -> Node:
        """Returns a constant."""
        return Literal(self._factory.next_id(), self._offset, value)

    def ident(self, name: str) -> Node:
        """Returns a name."""
        return Ident(self._factory.next_id(), self._offset, name)

    def accumulator(self) -> Node:
        """Returns the result of the loop so far."""
        return self.ident(ACCUMULATOR)

    def call(self, function: str, *args: Node) -> Node:
        """Returns a call of a function."""
        return Call(self._factory.next_id(), self._offset, function, list(args))

    def method(self, function: str, target: Node, *args: Node) -> Node:
        """Returns a call of a method."""
        return Call(self._factory.next_id(), self._offset, function, list(args), target)

    def list_of(self, *elements: Node) -> Node:
        """Returns a list literal."""
        return ListLiteral(self._factory.next_id(), self._offset, list(elements))

    def empty_map(self) -> Node:
        """Returns an empty map."""
        return MapLiteral(self._factory.next_id(), self._offset, [])

    def presence_test(self, operand: Node, field: str) -> Node:
        """Returns ``has(operand.field)``."""
        return Select(self._factory.next_id(), self._offset, operand, field, is_test=True)

    def loop(
        self,
        iter_range: Node,
        variables: tuple[str, str],
        init: Node,
        condition: Node,
        step: Node,
        result: Node,
        *,
        accumulator: str = ACCUMULATOR,
    ) -> Node:
        """Returns a loop; the second variable is "" for loops with one."""
        node_id = self._factory.next_id()
        return Comprehension(
            node_id,
            self._offset,
            iter_range,
            *variables,
            accumulator,
            init,
            condition,
            step,
            result,
        )

    def bind(self, name: str, value: Node, result: Node) -> Node:
        """Returns ``result`` with a name for ``value``: a loop over nothing."""
        return self.loop(
            self.list_of(),
            (UNUSED, ""),
            value,
            self.literal(False),
            self.ident(name),
            result,
            accumulator=name,
        )

    def copy(self, node: Node) -> Node:
        """Returns a copy of a tree with numbers of its own."""
        node_id, offset = self._factory.next_id(), node.offset
        match node:
            case Literal():
                return Literal(node_id, offset, node.value)
            case Ident():
                return Ident(node_id, offset, node.name)
            case Select():
                return Select(node_id, offset, self.copy(node.operand), node.field, node.is_test)
            case Call():
                args = [self.copy(arg) for arg in node.args]
                target = self.copy(node.target) if node.target is not None else None
                return Call(node_id, offset, node.function, args, target)
            case ListLiteral():
                elements = [self.copy(element) for element in node.elements]
                return ListLiteral(node_id, offset, elements, node.optional)
            case MapLiteral():
                return MapLiteral(node_id, offset, [self._copy_entry(e) for e in node.entries])
            case MessageLiteral():
                return MessageLiteral(node_id, offset, node.name, self._copy_fields(node.fields))
            case Comprehension():
                parts = [
                    self.copy(part) for part in (node.iter_range, node.accu_init, node.condition)
                ]
                step, result = self.copy(node.step), self.copy(node.result)
                return Comprehension(
                    *(node_id, offset, parts[0], node.iter_var, node.iter_var2, node.accu_var),
                    *(parts[1], parts[2], step, result),
                )
        return Invalid(node_id, offset)

    def _copy_entry(self, entry: MapEntry) -> MapEntry:
        key, value = self.copy(entry.key), self.copy(entry.value)
        return MapEntry(self._factory.next_id(), self._offset, key, value, entry.is_optional)

    def _copy_fields(self, fields: list[MessageField]) -> list[MessageField]:
        return [
            MessageField(
                *(self._factory.next_id(), self._offset, part.name),
                *(self.copy(part.value), part.is_optional),
            )
            for part in fields
        ]


def find_macro(
    function: str, n_args: int, environment: Environment, *, is_method: bool
) -> Expander | None:
    """Returns what expands a call, or None if no macro has this name and number of arguments.

    Args:
        function: The name.
        n_args: The number of arguments.
        environment: What the expression is for.
        is_method: Whether the call has a target.
    """
    expander = _MACROS.get((function, n_args, is_method))
    if expander is _bind and environment is not Environment.SELECTOR:
        return None
    return expander


# ---------------------------------------------------------------- loops


def _loop_parts(build: Builder, kind: str, predicate: Node) -> tuple[Node, Node, Node, Node]:
    """Returns init, condition, step and result of ``all``, ``exists`` and ``exists_one``."""
    if kind == "all":
        return (
            build.literal(True),
            build.call("@not_strictly_false", build.accumulator()),
            build.call("_&&_", build.accumulator(), predicate),
            build.accumulator(),
        )
    if kind == "exists":
        return (
            build.literal(False),
            build.call("@not_strictly_false", build.call("!_", build.accumulator())),
            build.call("_||_", build.accumulator(), predicate),
            build.accumulator(),
        )
    return (
        build.literal(0),
        build.literal(True),
        build.call(
            "_?_:_",
            predicate,
            build.call("_+_", build.accumulator(), build.literal(1)),
            build.accumulator(),
        ),
        build.call("_==_", build.accumulator(), build.literal(1)),
    )


def _quantifier(kind: str) -> Expander:
    def expand(build: Builder, target: Node, args: list[Node]) -> Node:
        variable = _variable(args[0], "argument must be a simple name")
        return build.loop(target, (variable, ""), *_loop_parts(build, kind, args[1]))

    return expand


def _quantifier_2(kind: str) -> Expander:
    def expand(build: Builder, target: Node, args: list[Node]) -> Node:
        return build.loop(target, _variables(args), *_loop_parts(build, kind, args[2]))

    return expand


def _collect(
    build: Builder, target: Node, variables: tuple[str, str], init: Node, step: Node,
    condition: Node | None,
) -> Node:  # fmt: skip
    """Returns a loop that adds to its result whatever the condition lets through."""
    if condition is not None:
        step = build.call("_?_:_", condition, step, build.accumulator())
    return build.loop(target, variables, init, build.literal(True), step, build.accumulator())


def _map(build: Builder, target: Node, args: list[Node]) -> Node:
    variable = _variable(args[0], "argument is not an identifier")
    init = build.list_of()
    condition = args[1] if len(args) == 3 else None
    step = build.call("_+_", build.accumulator(), build.list_of(args[-1]))
    return _collect(build, target, (variable, ""), init, step, condition)


def _filter(build: Builder, target: Node, args: list[Node]) -> Node:
    variable = _variable(args[0], "argument is not an identifier")
    init = build.list_of()
    step = build.call("_+_", build.accumulator(), build.list_of(args[0]))
    return _collect(build, target, (variable, ""), init, step, args[1])


def _transform_list(build: Builder, target: Node, args: list[Node]) -> Node:
    variables = _variables(args)
    condition = args[2] if len(args) == 4 else None
    step = build.call("_+_", build.accumulator(), build.list_of(args[-1]))
    return _collect(build, target, variables, build.list_of(), step, condition)


def _transform_map(build: Builder, target: Node, args: list[Node]) -> Node:
    variables = _variables(args)
    condition = args[2] if len(args) == 4 else None
    key = build.ident(variables[0])
    step = build.call("cel.@mapInsert", build.accumulator(), key, args[-1])
    return _collect(build, target, variables, build.empty_map(), step, condition)


def _transform_map_entry(build: Builder, target: Node, args: list[Node]) -> Node:
    variables = _variables(args)
    condition = args[2] if len(args) == 4 else None
    step = build.call("cel.@mapInsert", build.accumulator(), args[-1])
    return _collect(build, target, variables, build.empty_map(), step, condition)


def _sort_by(build: Builder, target: Node, args: list[Node]) -> Node:
    variable = build.ident(_SORT_INPUT)
    if not isinstance(target, ListLiteral | Select | Ident | Comprehension | Call):
        raise MacroError(
            target.offset,
            "sortBy can only be applied to a list, identifier, comprehension, call or select "
            "expression",
        )
    keys = _map(build, build.copy(variable), args)
    call = build.method("@sortByAssociatedKeys", build.copy(variable), keys)
    return build.loop(
        build.list_of(),
        (UNUSED, ""),
        target,
        build.literal(False),
        variable,
        call,
        accumulator=_SORT_INPUT,
    )


# ---------------------------------------------------------------- others


def _has(build: Builder, _target: Node | None, args: list[Node]) -> Node:
    if isinstance(args[0], Select):
        return build.presence_test(args[0].operand, args[0].field)
    raise MacroError(args[0].offset, "invalid argument to has() macro")


def _bind(build: Builder, target: Node, args: list[Node]) -> Node | None:
    if not (isinstance(target, Ident) and target.name == "cel"):
        return None
    if not isinstance(args[0], Ident):
        raise MacroError(args[0].offset, "cel.bind() variable names must be simple identifiers")
    return build.bind(args[0].name, args[1], args[2])


def _opt_map(build: Builder, target: Node, args: list[Node]) -> Node:
    bound = _bind_value(build, target, args, "optMap")
    return build.call(
        "_?_:_",
        build.method("hasValue", target),
        build.call("optional.of", bound),
        build.call("optional.none"),
    )


def _opt_flat_map(build: Builder, target: Node, args: list[Node]) -> Node:
    bound = _bind_value(build, target, args, "optFlatMap")
    return build.call("_?_:_", build.method("hasValue", target), bound, build.call("optional.none"))


def _bind_value(build: Builder, target: Node, args: list[Node], macro: str) -> Node:
    if not isinstance(args[0], Ident):
        raise MacroError(args[0].offset, f"{macro}() variable name must be a simple identifier")
    value = build.method("value", build.copy(target))
    return build.bind(args[0].name, value, args[1])


def _variable(node: Node, problem: str) -> str:
    if not isinstance(node, Ident):
        raise MacroError(node.offset, problem)
    if node.name in (ACCUMULATOR, _OLD_ACCUMULATOR):
        raise MacroError(node.offset, "iteration variable overwrites accumulator variable")
    return node.name


def _variables(args: list[Node]) -> tuple[str, str]:
    names = []
    for node in args[:2]:
        if not isinstance(node, Ident):
            raise MacroError(node.offset, "argument must be a simple name")
        names.append(node.name)
    if names[0] == names[1]:
        raise MacroError(args[1].offset, f"duplicate variable name: {names[0]}")
    for node in args[:2]:
        _variable(node, "argument must be a simple name")
    return names[0], names[1]


_MACROS: Final[dict[tuple[str, int, bool], Expander]] = {
    ("has", 1, False): _has,
    ("all", 2, True): _quantifier("all"),
    ("exists", 2, True): _quantifier("exists"),
    ("exists_one", 2, True): _quantifier("exists_one"),
    ("map", 2, True): _map,
    ("map", 3, True): _map,
    ("filter", 2, True): _filter,
    ("all", 3, True): _quantifier_2("all"),
    ("exists", 3, True): _quantifier_2("exists"),
    ("existsOne", 3, True): _quantifier_2("exists_one"),
    ("exists_one", 3, True): _quantifier_2("exists_one"),
    ("transformList", 3, True): _transform_list,
    ("transformList", 4, True): _transform_list,
    ("transformMap", 3, True): _transform_map,
    ("transformMap", 4, True): _transform_map,
    ("transformMapEntry", 3, True): _transform_map_entry,
    ("transformMapEntry", 4, True): _transform_map_entry,
    ("bind", 3, True): _bind,
    ("optMap", 2, True): _opt_map,
    ("optFlatMap", 2, True): _opt_flat_map,
    ("sortBy", 2, True): _sort_by,
}
