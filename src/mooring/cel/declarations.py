"""Declarations of functions: signatures for the checker, implementations for evaluation."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from mooring.cel import types
from mooring.cel.types import Type, TypeKind
from mooring.cel.values import NO_OVERLOAD, ErrorValue, Value, is_mapping, type_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

#: Types whose values answer an operator that they do not have with "no such overload" alone.
_RECEIVERS: Final = frozenset({types.STRING, types.DURATION, types.TIMESTAMP})


@dataclass(frozen=True, slots=True, eq=False)
class Overload:
    """One signature of a function.

    Attributes:
        id: Upstream's name of the overload; costs depend on it.
        args: Types of the arguments, that of the receiver first.
        result: Type of the result.
        is_method: Whether the first argument is a receiver.
        implementation: Computes the result; None where the function as a whole has one.
        is_sequential: Whether an argument that fails stops the evaluation of the next ones.
    """

    id: str
    args: tuple[Type, ...]
    result: Type
    is_method: bool
    implementation: Callable[..., Value] | None = None
    is_sequential: bool = False


@dataclass(slots=True, eq=False)
class Function:
    """A function with all its overloads, in the order of declaration.

    Attributes:
        name: Name, or that of an operator, such as ``_+_``.
        overloads: Signatures.
        implementation: Computes the result for all overloads, if they have none of their own.
        trait: Types of the first argument that ``implementation`` accepts; None for all.
        has_guards: Whether argument types are compared with the signature before a call.
    """

    name: str
    overloads: list[Overload] = field(default_factory=list)
    implementation: Callable[..., Value] | None = None
    trait: frozenset[Type] | None = None
    has_guards: bool = True

    def overload(self, overload_id: str) -> Overload:
        """Returns an overload by its name."""
        return next(entry for entry in self.overloads if entry.id == overload_id)


def function(
    overload_id: str,
    args: Iterable[Type],
    result: Type,
    implementation: Callable[..., Value] | None = None,
) -> Overload:
    """Returns an overload that is called as ``name(...)``."""
    return Overload(overload_id, tuple(args), result, False, implementation)


def method(
    overload_id: str,
    args: Iterable[Type],
    result: Type,
    implementation: Callable[..., Value] | None = None,
    *,
    is_sequential: bool = False,
) -> Overload:
    """Returns an overload that is called as ``receiver.name(...)``."""
    return Overload(overload_id, tuple(args), result, True, implementation, is_sequential)


def fits(declared: Type, value: Value) -> bool:
    """Returns whether a value may be passed where a type is declared.

    Only the first entry of a list or map is looked at, as upstream does.
    """
    if declared.kind in (TypeKind.DYN, TypeKind.ANY, TypeKind.PARAM):
        return True
    if declared.name != type_of(value).name:
        return False
    if declared.kind is TypeKind.LIST and isinstance(value, list):
        return not value or fits(declared.params[0], value[0])
    if declared.kind is TypeKind.MAP and is_mapping(value):
        first: Any = next(value.items(), None)
        if first is None:
            return True
        return fits(declared.params[0], first[0]) and fits(declared.params[1], first[1])
    return True


def call_overload(entry: Function, overload: Overload) -> Callable[..., Value]:
    """Returns what calls one overload, with the types of the arguments checked."""
    implementation = overload.implementation
    assert implementation is not None
    if not entry.has_guards:
        return implementation
    declared = overload.args
    # The names are compared first: a function of simple types needs no further checks.
    is_simple = all(not arg.params for arg in declared)
    names = tuple(
        None if arg.is_dyn or arg.kind is TypeKind.PARAM else arg.name for arg in declared
    )

    def call(*args: Value) -> Value:
        for declared_type, name, value in zip(declared, names, args, strict=True):
            if name is None:
                continue
            if type_of(value).name != name or not (is_simple or fits(declared_type, value)):
                return mismatch(entry.name, args)
        return implementation(*args)

    return call


def call_any(entry: Function) -> Callable[..., Value]:
    """Returns what calls the first overload that the arguments fit."""
    bound = [overload for overload in entry.overloads if overload.implementation is not None]

    def call(*args: Value) -> Value:
        for overload in bound:
            if len(overload.args) != len(args):
                continue
            if not entry.has_guards or all(map(fits, overload.args, args)):
                assert overload.implementation is not None
                return overload.implementation(*args)
        return mismatch(entry.name, args)

    return call


def call_function(entry: Function) -> Callable[..., Value]:
    """Returns what calls the implementation that all overloads share."""
    implementation, trait = entry.implementation, entry.trait
    assert implementation is not None
    if trait is None:
        return implementation
    names = frozenset(accepted.name for accepted in trait)
    receivers = frozenset(receiver.name for receiver in _RECEIVERS)
    missing = ErrorValue(f"no such overload: {entry.name}")

    def call(*args: Value) -> Value:
        name = type_of(args[0]).name
        if name in names:
            return implementation(*args)
        return NO_OVERLOAD if name in receivers else missing

    return call


def mismatch(name: str, args: tuple[Value, ...]) -> ErrorValue:
    """Returns the error of a call with arguments of other types."""
    texts = ", ".join(type_of(value).name for value in args)
    return ErrorValue(f"no such overload: {name}({texts})")


class Registry:
    """All functions by name; libraries that declare the same name are merged."""

    def __init__(self) -> None:
        self._functions: dict[str, Function] = {}

    def add(self, library: dict[str, Function | list[Overload]]) -> None:
        """Adds a library after those that are there."""
        for name, entry in library.items():
            declared = entry if isinstance(entry, Function) else Function(name, list(entry))
            present = self._functions.get(name)
            if present is None:
                self._functions[name] = declared
                continue
            present.overloads.extend(declared.overloads)
            present.implementation = present.implementation or declared.implementation
            present.has_guards = present.has_guards and declared.has_guards

    def functions(self) -> Iterable[Function]:
        """Returns all functions, in the order of declaration."""
        return self._functions.values()

    def find(self, name: str) -> Function | None:
        """Returns a function, or None."""
        return self._functions.get(name)
