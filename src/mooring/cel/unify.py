"""Assigns types to each other and to type parameters.

Source: cel-go v0.26.0, checker/types.go and checker/mapping.go.
"""

from __future__ import annotations

from typing import Final

from mooring.cel import types
from mooring.cel.types import Type, TypeKind

_PRIMITIVE: Final = frozenset(
    {
        *(TypeKind.BOOL, TypeKind.BYTES, TypeKind.DOUBLE, TypeKind.INT, TypeKind.STRING),
        *(TypeKind.UINT, TypeKind.DURATION, TypeKind.TIMESTAMP, TypeKind.STRUCT),
    }
)
_NULLABLE: Final = frozenset(
    {TypeKind.OPAQUE, TypeKind.STRUCT, TypeKind.ANY, TypeKind.DURATION, TypeKind.TIMESTAMP}
)
_COMPOSED: Final = frozenset({TypeKind.OPAQUE, TypeKind.LIST, TypeKind.MAP, TypeKind.TYPE})


class Substitutions:
    """The types that parameters stand for; a failed assignment leaves no trace."""

    def __init__(self) -> None:
        self._types: dict[str, Type] = {}
        self._n_variables = 0

    def new_variable(self) -> Type:
        """Returns a type parameter that nothing uses yet."""
        name = f"_var{self._n_variables}"
        self._n_variables += 1
        return types.param(name)

    def assign(self, target: list[Type], source: list[Type]) -> bool:
        """Returns whether types fit pairwise, and keeps what parameters must stand for."""
        if len(target) != len(source):
            return False
        before = self._types
        self._types = dict(before)
        if all(self._fits(*pair) for pair in zip(target, source, strict=True)):
            return True
        self._types = before
        return False

    def resolve(self, given_type: Type, *, to_dyn: bool) -> Type:
        """Returns a type with parameters replaced; ``to_dyn`` replaces unbound ones by dyn."""
        while given_type.kind is TypeKind.PARAM:
            bound = self._types.get(given_type.name)
            if bound is None:
                return types.DYN if to_dyn else given_type
            given_type = bound
        if given_type.kind not in _COMPOSED or not given_type.params:
            return given_type
        params = tuple([self.resolve(entry, to_dyn=to_dyn) for entry in given_type.params])
        if all(map(_is, params, given_type.params)):
            return given_type
        return Type(given_type.kind, given_type.name, params)

    def _fits(self, first: Type, second: Type) -> bool:
        if second.kind is TypeKind.PARAM:
            is_valid, had_binding = self._bind(first, second)
            if is_valid or had_binding:
                return is_valid
        if first.kind is TypeKind.PARAM:
            return self._bind(second, first)[0]
        if _is_dyn_or_error(first) or _is_dyn_or_error(second):
            return True
        if first.kind is TypeKind.NULL:
            return second.kind in _NULLABLE or second.kind is TypeKind.NULL
        if second.kind is TypeKind.NULL:
            return first.kind in _NULLABLE
        if first.kind is not second.kind:
            return False
        if first.kind in _PRIMITIVE:
            return first.name == second.name
        if first.kind is TypeKind.TYPE:
            return True
        if first.name != second.name or len(first.params) != len(second.params):
            return False
        pairs = zip(first.params, second.params, strict=True)
        return all(self._fits(*pair) for pair in pairs)

    def _bind(self, entry: Type, variable: Type) -> tuple[bool, bool]:
        """Returns whether ``variable`` can stand for a type, and whether it was bound before."""
        if entry.same_as(variable):
            return True, True
        bound = self._types.get(variable.name)
        if bound is not None:
            if entry.same_as(bound):
                return True, True
            if self._fits(entry, bound):
                general = most_general(entry, bound)
                if self._is_free(variable, general):
                    self._types[variable.name] = general
                return True, True
            return False, True
        if self._is_free(variable, entry):
            self._types[variable.name] = entry
            return True, False
        return False, False

    def _is_free(self, variable: Type, within: Type) -> bool:
        """Returns whether a type does not mention a variable: it must not contain itself."""
        if variable.same_as(within):
            return False
        if within.kind is TypeKind.PARAM:
            bound = self._types.get(within.name)
            return bound is None or self._is_free(variable, bound)
        return all(self._is_free(variable, entry) for entry in within.params)


def most_general(first: Type, second: Type) -> Type:
    """Returns the less specific of two types that fit."""
    return first if _is_less_specific(first, second) else second


def is_equivalent(first: Type, second: Type) -> bool:
    """Returns whether types are equal up to the names of parameters."""
    if first is second:
        return True
    if first.kind is not second.kind or len(first.params) != len(second.params):
        return False
    if first.kind is not TypeKind.PARAM and first.name != second.name:
        return False
    pairs = zip(first.params, second.params, strict=True)
    return all(is_equivalent(*pair) for pair in pairs)


def _is(first: object, second: object) -> bool:
    return first is second


def _is_dyn_or_error(entry: Type) -> bool:
    return entry.kind in (TypeKind.DYN, TypeKind.ANY, TypeKind.ERROR)


def _is_less_specific(first: Type, second: Type) -> bool:
    if first.is_dyn or first.kind is TypeKind.PARAM:
        return True
    if second.is_dyn or second.kind is TypeKind.PARAM:
        return False
    if first.kind is not second.kind:
        return False
    if first.kind is TypeKind.TYPE:
        return True
    if first.kind in _COMPOSED:
        if first.name != second.name or len(first.params) != len(second.params):
            return False
        pairs = zip(first.params, second.params, strict=True)
        return all(_is_less_specific(*pair) for pair in pairs)
    return first.same_as(second)
