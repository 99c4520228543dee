"""Plans the evaluation of a checked expression.

Source: cel-go v0.26.0, interpreter/planner.go, interpreter/decorators.go, cel/library.go
(decorateOptionalOr).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mooring.cel.checker import NAMED_TYPES, NULL_VALUE
from mooring.cel.declarations import call_any, call_function, call_overload
from mooring.cel.golang.type_names import go_type, is_key, unhashable
from mooring.cel.library import registry
from mooring.cel.library.conversions import CONVERSIONS
from mooring.cel.plan import (
    Attribute,
    CallStep,
    Choice,
    Const,
    ListStep,
    Logical,
    Loop,
    MapStep,
    Membership,
    Operand,
    OptionalOr,
    Plan,
    Qualifier,
    Step,
    Variable,
)
from mooring.cel.regex.pattern import PatternError, compile_pattern
from mooring.cel.syntax.tree import (
    Call,
    Comprehension,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Node,
    Select,
)
from mooring.cel.values import (
    NO_OVERLOAD,
    ErrorValue,
    Fatal,
    MapValue,
    Optional,
    Uint,
    Value,
    equal,
    map_key,
    text,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mooring.cel.declarations import Function

#: Slots of a frame before those of loops.
DEVICE_SLOT: Final = 0
TRACKER_SLOT: Final = 1
FIRST_SLOT: Final = 2

_PATTERN_FUNCTIONS: Final = frozenset({"matches", "find", "findAll"})


class PlanError(Exception):
    """A constant part of an expression that fails."""


def plan(root: Node, variables: Sequence[str] = ()) -> Plan:
    """Returns the plan of a checked expression.

    Args:
        root: The tree.
        variables: Names besides "device", whose slots follow that of the cost tracker.

    Raises:
        PlanError: A conversion of a constant, a constant regular expression, or the key of a
            constant map is invalid. *Differs:* upstream panics in the last case.
    """
    planner = _Planner(variables)
    try:
        step = planner.plan(root)
    except Fatal as failure:
        raise PlanError(str(failure)) from None
    return Plan(step, planner.n_slots, frozenset(planner.names))


class _Planner:
    """One pass over the tree, bottom up."""

    def __init__(self, variables: Sequence[str] = ()) -> None:
        self.names: set[str] = set()
        self.n_slots = FIRST_SLOT + len(variables)
        slots = {name: Variable(FIRST_SLOT + place) for place, name in enumerate(variables)}
        self._scopes: list[dict[str, Variable]] = [{"device": Variable(DEVICE_SLOT), **slots}]

    def plan(self, node: Node) -> Step:
        """Returns the step that computes a node."""
        match node:
            case Literal():
                return Const(node.id, node.value)
            case Ident():
                return self._plan_name(node, node.name, is_type=node.is_type)
            case Select():
                return self._plan_select(node)
            case Call():
                return self._plan_call(node)
            case ListLiteral():
                return self._plan_list(node)
            case MapLiteral():
                return self._plan_map(node)
            case Comprehension():
                return self._plan_loop(node)
        raise PlanError(f"unsupported expr: {node}")

    # ------------------------------------------------------------ attributes

    def _plan_name(self, node: Node, name: str, *, is_type: bool) -> Step:
        if is_type:
            if name not in NAMED_TYPES:
                raise PlanError(f"reference to undefined type: {name}")
            return Const(node.id, NAMED_TYPES[name])
        if name == NULL_VALUE:
            return Const(node.id, 0)
        for scope in reversed(self._scopes):
            if name in scope:
                self.names.add(name)
                return Attribute(node.id, scope[name])
        raise PlanError(f"undeclared reference to '{name}'")

    def _plan_select(self, node: Select) -> Step:
        if node.ident:
            return self._plan_name(node, node.ident, is_type=node.is_type)
        attribute = _as_attribute(self.plan(node.operand))
        index = Const(node.id, node.field)
        attribute.add(Qualifier(node.id, index, is_test=node.is_test))
        return attribute

    def _plan_index(self, node: Call, args: list[Step], *, is_optional: bool) -> Step:
        attribute = _as_attribute(args[0])
        index = args[1]
        if isinstance(index, Const) and not is_key(index.value):
            raise PlanError(f"invalid qualifier type: {go_type(index.value)}")
        attribute.add(Qualifier(node.id, index, is_optional))
        return attribute

    def _plan_choice(self, node: Call, args: list[Step]) -> Step:
        truthy, falsy = (_as_attribute(arg) for arg in args[1:])
        return Attribute(node.id, Choice(args[0], truthy, falsy))

    # ------------------------------------------------------------ calls

    def _plan_call(self, node: Call) -> Step:
        operands = node.args if node.target is None else [node.target, *node.args]
        args = [self.plan(operand) for operand in operands]
        special = self._plan_special(node, args)
        if special is not None:
            return special
        function = registry().find(node.function)
        assert function is not None
        overload = node.overloads[0] if len(node.overloads) == 1 else ""
        implementation, is_sequential = _implementation(function, overload, len(args))
        step = CallStep(
            node.id,
            node.function,
            overload,
            args,
            implementation,
            is_sequential or len(args) > 2,
            node.function != "@not_strictly_false",
        )
        return _folded(step)

    def _plan_special(self, node: Call, args: list[Step]) -> Step | None:
        """Returns the step of a call that has rules of its own."""
        match node.function:
            case "_&&_" | "_||_":
                return Logical(node.id, node.function == "_&&_", args[0], args[1])
            case "_?_:_":
                return self._plan_choice(node, args)
            case "_==_":
                return CallStep(node.id, "_==_", "equals", args, equal)
            case "_!=_":
                return CallStep(node.id, "_!=_", "equals", args, _not_equal)
            case "_[_]":
                return self._plan_index(node, args, is_optional=False)
            case "_?._" | "_[?_]":
                return self._plan_index(node, args, is_optional=True)
            case "or" | "orValue":
                return OptionalOr(node.id, node.function == "orValue", args[0], args[1])
        return None

    # ------------------------------------------------------------ literals

    def _plan_list(self, node: ListLiteral) -> Step:
        elements = [self.plan(element) for element in node.elements]
        if not all(isinstance(element, Const) for element in elements):
            return ListStep(node.id, elements, node.optional)
        values: list[Value] = []
        for index, element in enumerate(elements):
            assert isinstance(element, Const)
            if index not in node.optional:
                values.append(element.value)
                continue
            if not isinstance(element.value, Optional):
                error = optional_element_error(element.value)
                return Const(node.id, error)
            if element.value.is_present:
                values.append(element.value.value)
        return Const(node.id, values)

    def _plan_map(self, node: MapLiteral) -> Step:
        entries = [
            (self.plan(entry.key), self.plan(entry.value), entry.is_optional)
            for entry in node.entries
        ]
        result = MapValue()
        for key, value, is_optional in entries:
            if not isinstance(key, Const) or not isinstance(value, Const):
                return MapStep(node.id, entries)
            error = put(result, key.value, value.value, is_optional=is_optional)
            if error is not None:
                return Const(node.id, error)
        return Const(node.id, result)

    # ------------------------------------------------------------ loops

    def _slot(self) -> int:
        self.n_slots += 1
        return self.n_slots - 1

    def _plan_loop(self, node: Comprehension) -> Step:
        accu = Variable(self._slot(), self.plan(node.accu_init))
        iter_range = self.plan(node.iter_range)
        first = self._slot()
        second = self._slot() if node.iter_var2 else None
        variables = {node.iter_var: Variable(first)}
        if second is not None:
            variables[node.iter_var2] = Variable(second)
        self._scopes.append(variables | {node.accu_var: accu})
        condition = self.plan(node.condition)
        step = self.plan(node.step)
        self._scopes[-1] = {node.accu_var: accu}
        result = self.plan(node.result)
        self._scopes.pop()
        return Loop(node.id, iter_range, accu, first, second, condition, step, result)


def _as_attribute(step: Step) -> Attribute:
    if isinstance(step, Attribute):
        return step
    return Attribute(step.id, Operand(step))


def _not_equal(left: Value, right: Value) -> bool:
    return equal(left, right) is not True


def _implementation(
    function: Function, overload_id: str, n_args: int
) -> tuple[Callable[..., Value], bool]:
    """Returns what computes a call, and whether its arguments are evaluated one by one."""
    if function.implementation is not None:
        return call_function(function), False
    bound = [entry for entry in function.overloads if entry.implementation is not None]
    if overload_id:
        overload = function.overload(overload_id)
        if overload.implementation is not None:
            return call_overload(function, overload), overload.is_sequential
    if len(bound) == 1:
        return call_overload(function, bound[0]), bound[0].is_sequential
    return call_any(function), n_args > 0


# ---------------------------------------------------------------- folding


def _folded(step: CallStep) -> Step:
    """Replaces calls whose result is known, and prepares constant arguments."""
    if step.overload == "in_list":
        return _folded_membership(step)
    if step.function in CONVERSIONS and len(step.args) == 1:
        argument = step.args[0]
        if isinstance(argument, Const):
            return _folded_conversion(step, argument)
    if step.function in _PATTERN_FUNCTIONS and isinstance(step.args[1], Const):
        pattern = step.args[1].value
        if isinstance(pattern, str):
            _prepare_pattern(step, pattern)
    return step


def _folded_conversion(step: CallStep, argument: Const) -> Const:
    if isinstance(argument.value, ErrorValue):
        raise PlanError(argument.value.message)
    value = step.implementation(argument.value)
    if isinstance(value, ErrorValue):
        raise PlanError(value.message)
    return Const(step.id, value)


def _folded_membership(step: CallStep) -> Step:
    values = step.args[1]
    if not isinstance(values, Const):
        return step
    if not values.value:
        return Const(step.id, False)
    keys: set[Any] = set()
    for value in values.value:
        if not isinstance(value, bool | int | float | str | Uint):
            return step
        keys.update(_equal_keys(value))
    return Membership(step.id, step.args[0], frozenset(keys))


def _equal_keys(value: Value) -> list[Any]:
    """Returns the identities of the values that are equal to a constant."""
    keys = [map_key(value)]
    if value.__class__ is int:
        keys.append((float, float(value)))
        if value >= 0:
            keys.append((Uint, value))
    elif isinstance(value, Uint):
        keys.append((float, float(value.number)))
        if value.number < 2**63:
            keys.append((int, value.number))
    elif value.__class__ is float and value == value and abs(value) < 2.0**64:
        number = int(value)
        if number == value:
            keys += [(int, number)] if -(2.0**63) < value < 2.0**63 else []
            keys += [(Uint, number)] if number >= 0 else []
    return keys


def _prepare_pattern(step: CallStep, pattern: str) -> None:
    """Compiles a constant regular expression once."""
    try:
        compiled = compile_pattern(pattern)
    except PatternError as error:
        raise PlanError(str(error)) from None
    step.is_sequential = True
    if step.function == "matches":
        step.implementation = lambda value, _: _on_string(compiled.matches, value)
    elif step.function == "find":
        step.implementation = lambda value, _: _on_string(compiled.find, value)
    else:
        step.implementation = lambda value, _, limit=-1: (
            compiled.find_all(value, limit)
            if value.__class__ is str and limit.__class__ is int
            else NO_OVERLOAD
        )


def _on_string(read: Callable[[str], Value], value: Value) -> Value:
    return read(value) if value.__class__ is str else NO_OVERLOAD


# ---------------------------------------------------------------- entries


def put(target: MapValue, key: Value, value: Value, *, is_optional: bool) -> ErrorValue | None:
    """Sets an entry of a map literal; returns the error of an optional entry without optional.

    Raises:
        Fatal: Values of the key's type cannot be keys.
    """
    if is_optional and not isinstance(value, Optional):
        return ErrorValue(
            f"cannot initialize optional entry '{text(key)}' from non-optional value {text(value)}"
        )
    check_hashable(key)
    if is_optional:
        if not value.is_present:
            target.entries.pop(map_key(key), None)
            return None
        value = value.value
    target.entries[map_key(key)] = (key, value)
    return None


def check_hashable(key: Value) -> None:
    """Makes sure that a value can be the key of a map.

    Raises:
        Fatal: It is of a type that upstream cannot hash.
    """
    if name := unhashable(key):
        raise Fatal(f"internal error: runtime error: hash of unhashable type {name}")


def optional_element_error(value: Value) -> ErrorValue:
    """Returns the error of an optional list element that is no optional."""
    return ErrorValue(
        f"cannot initialize optional list element from non-optional value {text(value)}"
    )
