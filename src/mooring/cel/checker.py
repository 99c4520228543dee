"""Checks the types of an expression, and chooses the overloads of its calls.

Writes ``type``, ``overloads`` and resolved names into the tree.

Source: cel-go v0.26.0, checker/checker.go, with homogeneous literals and comparisons of numbers
of different types.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mooring.cel import types
from mooring.cel.library import registry
from mooring.cel.syntax.tree import (
    Call,
    Comprehension,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    MessageLiteral,
    Node,
    Select,
    walk,
)
from mooring.cel.types import Type, TypeKind
from mooring.cel.unify import Substitutions, most_general
from mooring.cel.values import type_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mooring.cel.declarations import Function, Overload, Registry
    from mooring.cel.syntax.source import Problems, Source

#: Names of types that an expression may mention.
NAMED_TYPES: Final[dict[str, Type]] = {
    entry.name: entry
    for entry in (
        *(types.BOOL, types.BYTES, types.DOUBLE, types.DURATION, types.INT, types.NULL),
        *(types.STRING, types.TIMESTAMP, types.UINT, types.IP, types.CIDR, types.LIST, types.MAP),
        *(types.TYPE, types.OPTIONAL, types.EMPTY),
    )
}
#: Names that the checker knows as types, but that are none when the expression is planned.
_UNDEFINED_TYPES: Final[dict[str, Type]] = {
    "timestamp": types.TIMESTAMP,
    "duration": types.DURATION,
    types.DEVICE.name: types.DEVICE,
    types.ANY.name: types.ANY,
    "google.protobuf.Value": types.DYN,
    "google.protobuf.ListValue": types.list_of(types.DYN),
    "google.protobuf.Struct": types.map_of(types.STRING, types.DYN),
    **{
        f"google.protobuf.{name}Value": types.opaque(f"wrapper({wrapped})")
        for wrapped, names in (
            *(("bool", ["Bool"]), ("bytes", ["Bytes"]), ("double", ["Double", "Float"])),
            *(("int", ["Int32", "Int64"]), ("string", ["String"]), ("uint", ["UInt32", "UInt64"])),
        )
        for name in names
    },
}
#: The value of an enumeration that is known by its name.
NULL_VALUE: Final = "google.protobuf.NullValue.NULL_VALUE"
_DECLARED: Final[dict[str, Type]] = {
    "list": types.list_of(types.param("A")),
    "map": types.map_of(types.param("A"), types.param("B")),
}


#: The variables of a selector.
_SELECTOR: Final[dict[str, Type]] = {"device": types.DEVICE}


def check(
    root: Node,
    source: Source,
    problems: Problems,
    variables: Mapping[str, Type] | None = None,
    objects: types.Objects | None = None,
    functions: Registry | None = None,
) -> Type:
    """Returns the type of an expression; adds what is wrong with it to ``problems``.

    Args:
        root: The tree.
        source: Its text.
        problems: Problems are added.
        variables: The types of the variables; None = those of a selector.
        objects: The types of objects; None = those of a selector.
        functions: The functions; None = those of a selector.
    """
    declared = _SELECTOR if variables is None else variables
    checker = _Checker(
        source, problems, declared, objects or types.Objects(), functions or registry()
    )
    checker.check(root)
    return checker.finish(root)


def undefined_type(root: Node) -> str:
    """Returns the first type of a checked expression that has no value when it runs, or ""."""
    for node in walk(root):
        if isinstance(node, Ident | Select) and node.is_type:
            name = node.name if isinstance(node, Ident) else node.ident
            if name not in NAMED_TYPES:
                return name or ""
    return ""


class _Basics:
    """Types, scopes and problems; checks literals."""

    def __init__(
        self,
        source: Source,
        problems: Problems,
        variables: Mapping[str, Type],
        objects: types.Objects,
        functions: Registry,
    ) -> None:
        self._source = source
        self._problems = problems
        self._objects = objects
        self._functions = functions
        self._types = Substitutions()
        self._scopes: list[dict[str, Type]] = [dict(variables)]
        self._checked: list[Node] = []

    def finish(self, root: Node) -> Type:
        """Replaces type parameters everywhere, unbound ones by dyn; returns the root's type."""
        for node in self._checked:
            node.type = self._types.resolve(self._type(node), to_dyn=True)
        return self._type(root)

    def check(self, node: Node) -> None:
        """Gives a node and those below it their types."""
        raise NotImplementedError

    # ------------------------------------------------------------ helpers

    def _set(self, node: Node, entry: Type) -> None:
        node.type = entry
        self._checked.append(node)

    @staticmethod
    def _type(node: Node) -> Type:
        assert node.type is not None
        return node.type

    def _report(self, offset: int, message: str) -> None:
        self._problems.add(self._source.location(offset), message)

    def _mismatch(self, node: Node, expected: Type, actual: Type) -> None:
        self._report(node.offset, f"expected type '{expected.text}' but found '{actual.text}'")

    def _undeclared(self, node: Node, name: str) -> None:
        self._report(node.offset, f"undeclared reference to '{name}' (in container '')")

    def _variable(self, name: str) -> Type | None:
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        if name == NULL_VALUE:
            return types.INT
        named = _DECLARED.get(name) or NAMED_TYPES.get(name) or _UNDEFINED_TYPES.get(name)
        if named is None and self._objects.is_message(name):
            named = types.struct(name)
        return None if named is None else types.type_of(named)

    def _is_type(self, name: str) -> bool:
        is_known = name in NAMED_TYPES or name in _UNDEFINED_TYPES or self._objects.is_message(name)
        return is_known and not any(name in scope for scope in self._scopes)

    # ------------------------------------------------------------ literals

    def _check_list(self, node: ListLiteral) -> None:
        joined: Type | None = None
        for index, element in enumerate(node.elements):
            self.check(element)
            entry = self._type(element)
            if index in node.optional:
                entry = self._unwrap(element, entry)
            joined = self._join(joined, entry)
        self._set(node, types.list_of(joined or self._types.new_variable()))

    def _check_map(self, node: MapLiteral) -> None:
        key_type: Type | None = None
        value_type: Type | None = None
        for entry in node.entries:
            self.check(entry.key)
            key_type = self._join(key_type, self._type(entry.key))
            self.check(entry.value)
            entry_type = self._type(entry.value)
            if entry.is_optional:
                entry_type = self._unwrap(entry.value, entry_type)
            value_type = self._join(value_type, entry_type)
        key_type = key_type or self._types.new_variable()
        self._set(node, types.map_of(key_type, value_type or self._types.new_variable()))

    def _unwrap(self, node: Node, entry: Type) -> Type:
        if entry.is_optional and entry.params:
            return entry.params[0]
        if not entry.is_dyn:
            self._mismatch(node, types.optional_of(entry), entry)
        return entry

    def _join(self, previous: Type | None, current: Type) -> Type:
        """Returns the type of entries of a literal: dyn if they differ (the validator reports)."""
        if previous is None:
            return current
        if self._types.assign([previous], [current]):
            return most_general(previous, current)
        return types.DYN

    def _check_message(self, node: MessageLiteral) -> None:
        name = node.name.removeprefix(".")
        # Messages of protocol buffers, such as durations, are refused as well.
        if not self._objects.is_message(name):
            entry = self._variable(name)
            if entry is not None and entry.kind is not TypeKind.TYPE:
                self._report(node.offset, f"'{entry.name}' is not a type")
            else:
                self._undeclared(node, node.name)
            self._set(node, types.ERROR)
            return
        self._set(node, types.struct(name))
        fields = self._objects.fields_of(name)
        assert fields is not None
        for field in node.fields:
            self.check(field.value)
            value_type = self._type(field.value)
            if field.is_optional:
                value_type = self._unwrap(field.value, value_type)
            field_type = fields.get(field.name)
            if field_type is None:
                self._report(field.offset, f"undefined field '{field.name}'")
            elif not self._types.assign([field_type], [value_type]):
                shown_type = self._types.resolve(value_type, to_dyn=True)
                self._report(
                    field.offset,
                    f"expected type of field '{field.name}' is '{field_type.text}' "
                    f"but provided type is '{shown_type.text}'",
                )


class _Checker(_Basics):
    """One pass over the tree, bottom up."""

    def check(self, node: Node) -> None:
        """Gives a node and those below it their types."""
        match node:
            case Literal():
                self._set(node, type_of(node.value))
            case Ident():
                self._check_ident(node)
            case Select():
                self._check_select(node)
            case Call():
                self._check_call(node)
            case ListLiteral():
                self._check_list(node)
            case MapLiteral():
                self._check_map(node)
            case MessageLiteral():
                self._check_message(node)
            case Comprehension():
                self._check_comprehension(node)
            case _:
                self._set(node, types.ERROR)

    # ------------------------------------------------------------ names

    def _check_ident(self, node: Ident) -> None:
        name = node.name.removeprefix(".")
        entry = self._variable(name)
        if entry is None:
            self._set(node, types.ERROR)
            self._undeclared(node, node.name)
            return
        node.is_type = self._is_type(name)
        node.name = name
        self._set(node, entry)

    def _check_select(self, node: Select) -> None:
        qualified = None if node.is_test else _qualified_name(node)
        if qualified is not None:
            entry = self._variable(qualified.removeprefix("."))
            if entry is not None:
                node.ident = qualified.removeprefix(".")
                node.is_type = self._is_type(node.ident)
                self._set(node, entry)
                return
        result = self._field_type(node, node.operand, node.field, is_optional=False)
        result = types.BOOL if node.is_test else result
        self._set(node, self._types.resolve(result, to_dyn=False))

    def _field_type(self, node: Node, operand: Node, name: str, *, is_optional: bool) -> Type:
        self.check(operand)
        operand_type = self._types.resolve(self._type(operand), to_dyn=False)
        was_optional = operand_type.is_optional and bool(operand_type.params)
        target = operand_type.params[0] if was_optional else operand_type
        result = self._target_field(node, target, name)
        return types.optional_of(result) if was_optional or is_optional else result

    def _target_field(self, node: Node, target: Type, name: str) -> Type:
        if target.kind is TypeKind.MAP:
            return target.params[1]
        if target.kind is TypeKind.STRUCT:
            fields = self._objects.fields_of(target.name)
            if fields is None:
                self._report(node.offset, f"unexpected failed resolution of '{target.name}'")
                return types.ERROR
            if name not in fields:
                self._report(node.offset, f"undefined field '{name}'")
            return fields.get(name, types.ERROR)
        if target.kind is TypeKind.PARAM:
            self._types.assign([types.DYN], [target])
        elif not target.is_dyn and target.kind is not TypeKind.ERROR:
            message = f"type '{target.text}' does not support field selection"
            self._report(node.offset, message)
        return types.DYN

    # ------------------------------------------------------------ calls

    def _check_call(self, node: Call) -> None:
        if node.function == "_?._":
            operand, name = node.args
            assert isinstance(name, Literal)
            result = self._field_type(node, operand, name.value, is_optional=True)
            node.overloads = ("select_optional_field",)
            self._set(node, self._types.resolve(result, to_dyn=False))
            return
        for arg in node.args:
            self.check(arg)
        function = self._resolve_function(node)
        if function is None:
            self._set(node, types.ERROR)
            self._undeclared(node, node.function)
            return
        operands = node.args if node.target is None else [node.target, *node.args]
        result_type = self._resolve_overload(node, function, operands)
        self._set(node, types.ERROR if result_type is None else result_type)

    def _resolve_function(self, node: Call) -> Function | None:
        """Returns the function of a call; ``a.b(c)`` may be a function named ``a.b``."""
        functions = self._functions
        if node.target is None:
            function = functions.find(node.function.removeprefix("."))
            if function is not None:
                node.function = function.name
            return function
        prefix = _qualified_name(node.target)
        if prefix is not None:
            function = functions.find(f"{prefix}.{node.function}".removeprefix("."))
            if function is not None:
                node.target = None
                node.function = function.name
                return function
        self.check(node.target)
        return functions.find(node.function)

    def _resolve_overload(
        self, node: Call, function: Function, operands: list[Node]
    ) -> Type | None:
        arg_types = [self._type(operand) for operand in operands]
        if function.name in ("_&&_", "_||_"):
            node.overloads = (function.overloads[0].id,)
            return self._check_logical(operands, arg_types)
        result: Type | None = None
        overloads: list[str] = []
        for overload in function.overloads:
            if overload.is_method != (node.target is not None):
                continue
            candidate, candidate_args = self._instantiate(overload)
            if not self._types.assign(arg_types, candidate_args):
                continue
            overloads.append(overload.id)
            candidate = self._types.resolve(candidate, to_dyn=False)
            if result is None:
                result = candidate
            elif not result.is_dyn and not candidate.same_as(result):
                result = types.DYN
        if result is None:
            shown_types = [self._types.resolve(entry, to_dyn=True) for entry in arg_types]
            applied = types.signature(shown_types, is_method=node.target is not None)
            self._report(
                node.offset,
                f"found no matching overload for '{function.name}' applied to '{applied}'",
            )
        node.overloads = tuple(overloads)
        return result

    def _check_logical(self, operands: list[Node], arg_types: list[Type]) -> Type | None:
        is_valid = True
        for operand, entry in zip(operands, arg_types, strict=True):
            if not self._types.assign([entry], [types.BOOL]):
                self._mismatch(operand, types.BOOL, entry)
                is_valid = False
        return types.BOOL if is_valid else None

    def _instantiate(self, overload: Overload) -> tuple[Type, list[Type]]:
        """Returns result and arguments of an overload with parameters of their own."""
        variables: dict[str, Type] = {}
        args = [self._renamed(entry, variables) for entry in overload.args]
        return self._renamed(overload.result, variables), args

    def _renamed(self, entry: Type, variables: dict[str, Type]) -> Type:
        if entry.kind is TypeKind.PARAM:
            if entry.name not in variables:
                variables[entry.name] = self._types.new_variable()
            return variables[entry.name]
        if not entry.params:
            return entry
        params = tuple([self._renamed(part, variables) for part in entry.params])
        return Type(entry.kind, entry.name, params)

    # ------------------------------------------------------------ loops

    def _check_comprehension(self, node: Comprehension) -> None:
        self.check(node.iter_range)
        self.check(node.accu_init)
        range_type = self._types.resolve(self._type(node.iter_range), to_dyn=False)
        accu_type = self._type(node.accu_init)
        self._scopes.append({node.accu_var: accu_type})
        first, second = self._variable_types(node, range_type)
        variables = {node.iter_var: first}
        if node.iter_var2:
            variables[node.iter_var2] = second
        self._scopes.append(variables)
        self.check(node.condition)
        self._assert_type(node.condition, types.BOOL)
        self.check(node.step)
        self._assert_type(node.step, accu_type)
        self._scopes.pop()
        self.check(node.result)
        self._scopes.pop()
        self._set(node, self._types.resolve(self._type(node.result), to_dyn=False))

    def _variable_types(self, node: Comprehension, range_type: Type) -> tuple[Type, Type]:
        """Returns the types of one or two loop variables."""
        if range_type.kind is TypeKind.LIST:
            element = range_type.params[0]
            return (types.INT, element) if node.iter_var2 else (element, element)
        if range_type.kind is TypeKind.MAP:
            return range_type.params[0], range_type.params[1]
        if range_type.kind in (TypeKind.DYN, TypeKind.ERROR, TypeKind.PARAM):
            self._types.assign([types.DYN], [range_type])
            return types.DYN, types.DYN
        self._report(
            node.iter_range.offset,
            f"expression of type '{range_type.text}' cannot be range of a comprehension "
            "(must be list, map, or dynamic)",
        )
        return types.ERROR, types.ERROR

    def _assert_type(self, node: Node, expected: Type) -> None:
        if not self._types.assign([expected], [self._type(node)]):
            self._mismatch(node, expected, self._type(node))


def _qualified_name(node: Node) -> str | None:
    """Returns ``a.b.c`` for selections of names, else None."""
    parts: list[str] = []
    while isinstance(node, Select) and not node.is_test:
        parts.append(node.field)
        node = node.operand
    if not isinstance(node, Ident):
        return None
    return ".".join([node.name, *reversed(parts)])
