"""Replaces JSON nulls as Go decodes them: the same as absent.

In a struct a null field keeps its zero value; in a list or a mapping a null element is the zero
value of its type. Which of the two applies depends on the type, so this traverses value and
type in parallel. It is the slow path of decoding: most objects do not need it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import inspect

from mooring.objects.codec.struct_types import struct_type

if TYPE_CHECKING:
    from collections.abc import Mapping


def without_nulls(raw: Any, struct: Any) -> Any:
    """Returns a copy of ``raw`` without nulls, as far as ``struct`` reads it."""
    return _cleaned(raw, struct_type(struct))


def _cleaned(raw: Any, expected: inspect.Type) -> Any:
    if isinstance(expected, inspect.Metadata):
        return _cleaned(raw, expected.type)
    if isinstance(expected, inspect.UnionType):
        expected = _member_for(raw, expected)
    if isinstance(raw, dict) and isinstance(expected, inspect.StructType):
        fields = _fields(expected)
        return {
            name: _cleaned(value, fields[name])
            for name, value in raw.items()
            if value is not None and name in fields
        }
    if isinstance(raw, dict) and isinstance(expected, inspect.DictType):
        return {name: _element(value, expected.value_type) for name, value in raw.items()}
    if isinstance(raw, list) and isinstance(expected, inspect.VarTupleType):
        return [_element(value, expected.item_type) for value in raw]
    return raw


def _element(raw: Any, expected: inspect.Type) -> Any:
    return _zero(expected) if raw is None else _cleaned(raw, expected)


def _member_for(raw: Any, union: inspect.UnionType) -> inspect.Type:
    """Returns the union member for a value of this shape; unions here have one per shape."""
    shapes: tuple[type[inspect.Type], ...] = ()
    if isinstance(raw, dict):
        shapes = (inspect.StructType, inspect.DictType)
    elif isinstance(raw, list):
        shapes = (inspect.VarTupleType,)
    return next((member for member in union.types if isinstance(member, shapes)), union)


def _zero(expected: inspect.Type) -> Any:
    """Returns Go's zero value of the type, as in JSON."""
    if isinstance(expected, inspect.Metadata):
        return _zero(expected.type)
    if isinstance(expected, inspect.UnionType):
        # A quantity is text or a number: its zero is 0. A pointer's is nil.
        return None if expected.includes_none else 0
    if isinstance(expected, inspect.StructType | inspect.DictType):
        return {}
    if isinstance(expected, inspect.VarTupleType):
        return []
    if isinstance(expected, inspect.BoolType):
        return False
    if isinstance(expected, inspect.IntType | inspect.FloatType):
        return 0
    return "" if isinstance(expected, inspect.StrType) else None


def _fields(struct: inspect.StructType) -> Mapping[str, inspect.Type]:
    return {field.encode_name: field.type for field in struct.fields}
