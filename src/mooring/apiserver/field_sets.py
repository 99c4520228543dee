"""Sets of fields as managedFields write them: which parts of an object somebody has applied.

A set is nested dictionaries: ``f:name`` for a field, ``k:{"name":"c"}`` for an element of a list
that is a map, ``v:"x"`` for an element of a set, ``.`` for the element itself; ``{}`` ends a path.

Source: sigs.k8s.io/structured-merge-diff fieldpath; k8s.io/apimachinery FieldsV1.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from mooring.apiserver.schema import Field, is_struct, structs

Json = Any
Object = dict[str, Any]
Fields = dict[str, Any]

ANY = Field("any", "")
#: Keys of elements that may be left out, since they have a default.
_KEY_DEFAULTS: Mapping[str, Json] = MappingProxyType({"protocol": "TCP"})
#: Parts of the metadata that belong to nobody.
_OWNERLESS = (
    "name",
    "namespace",
    "creationTimestamp",
    "selfLink",
    "uid",
    "generation",
    "managedFields",
    "resourceVersion",
)


def child(type_name: str, name: str) -> Field:
    """The field of a struct, or of a mapping with free keys."""
    if is_struct(type_name):
        return structs()[type_name].get(name, ANY)
    return Field(type_name[2:], "") if type_name.startswith("{}") else ANY


def is_granular(value: Json, field: Field) -> bool:
    """Whether parts of the value can belong to different managers."""
    if field.list_type == "atomic":
        return False
    if isinstance(value, dict):
        return is_struct(field.type_name) or field.is_map
    return isinstance(value, list) and field.list_type in ("map", "set")


def element_name(item: Json, field: Field) -> str:
    """How a set names an element of a list."""
    if field.list_type == "set":
        return "v:" + msgspec.json.encode(item).decode()
    keys = {key: item.get(key, _KEY_DEFAULTS.get(key)) for key in field.keys}
    named = {key: value for key, value in keys.items() if value is not None}
    return "k:" + msgspec.json.encode(named, order="sorted").decode()


def fields_of_object(found: Object, type_name: str) -> Fields:
    """The set of all fields that an applied object has."""
    content = {key: value for key, value in found.items() if key not in ("apiVersion", "kind")}
    if isinstance(content.get("metadata"), dict):
        metadata = content["metadata"]
        content["metadata"] = {k: v for k, v in metadata.items() if k not in _OWNERLESS}
        if not content["metadata"]:
            del content["metadata"]
    return _fields(content, Field(type_name, ""))


def _fields(value: Json, field: Field) -> Fields:
    if not is_granular(value, field):
        return {}
    if isinstance(value, dict):
        type_name = field.type_name
        return {f"f:{name}": _fields(item, child(type_name, name)) for name, item in value.items()}
    if field.list_type == "set":
        return {element_name(item, field): {} for item in value}
    inner = Field(field.element, "")
    return {element_name(item, field): {".": {}, **_fields(item, inner)} for item in value}


def remove_fields(value: Json, gone: Fields, field: Field) -> None:
    """Take the fields of a set out of a value; what becomes empty by it goes as well."""
    if isinstance(value, list):
        _remove_elements(value, gone, field)
    if not isinstance(value, dict):
        return
    for step, below in gone.items():
        name = step[2:]
        if not step.startswith("f:") or name not in value:
            continue
        inner = child(field.type_name, name)
        is_part = bool(below) and is_granular(value[name], inner)
        if is_part:
            remove_fields(value[name], below, inner)
        if not is_part or not value[name]:
            del value[name]


def _remove_elements(items: list[Json], gone: Fields, field: Field) -> None:
    for position in reversed(range(len(items))):
        step = element_name(items[position], field)
        if step not in gone:
            continue
        if "." in gone[step] or not gone[step]:
            del items[position]
        else:
            remove_fields(items[position], gone[step], Field(field.element, ""))


def without(fields: Fields, others: Fields) -> Fields:
    """The fields of one set that are not in another."""
    left: Fields = {}
    for step, below in fields.items():
        if step not in others:
            left[step] = below
        elif below:
            rest = without(below, others[step])
            if rest:
                left[step] = rest
    return left


def changed_fields(before: Json, after: Json, field: Field, owned: Fields) -> Fields:
    """Those of the owned fields whose values differ between two objects."""
    changed: Fields = {}
    for step, below in owned.items():
        if step == ".":
            continue
        old, new = _at(before, step, field), _at(after, step, field)
        inner = (
            child(field.type_name, step[2:]) if step.startswith("f:") else Field(field.element, "")
        )
        if below and is_granular(new, inner) and is_granular(old, inner):
            deeper = changed_fields(old, new, inner, below)
            if deeper:
                changed[step] = deeper
        elif old != new:
            changed[step] = below
    return changed


def _at(value: Json, step: str, field: Field) -> Json:
    if isinstance(value, dict):
        return value.get(step[2:])
    if isinstance(value, list):
        for item in value:
            if element_name(item, field) == step:
                return item
    return None
