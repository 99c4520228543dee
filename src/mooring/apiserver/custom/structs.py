"""Structs of custom resources: the types by which managedFields and apply see their fields.

Source: k8s.io/apiextensions-apiserver pkg/controller/openapi/builder;
k8s.io/kube-openapi pkg/schemaconv.
"""

from __future__ import annotations

from typing import Any

from mooring.objects.schema.types import (
    ALWAYS,
    DEDUCED,
    OTHERS,
    POINTER,
    CustomStruct,
    Field,
    add_struct,
)

_SCALARS = {"string": "string", "boolean": "bool", "integer": "int64", "number": "float64"}
_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_METADATA = Field("meta.ObjectMeta", ALWAYS)
_NAME = Field("string", POINTER)


def struct_of_schema(schema: dict[str, Any]) -> CustomStruct:
    """Returns the struct of a definition's schema, with those below it."""
    return _struct(schema, is_object=True)


def _struct(schema: dict[str, Any], *, is_object: bool) -> CustomStruct:
    parts: list[CustomStruct] = []
    properties = (schema.get("properties") or {}).items()
    fields = {name: _field(part, parts) for name, part in properties}
    if is_object:
        fields |= {"apiVersion": _NAME, "kind": _NAME, "metadata": _METADATA}
    if schema.get(_PRESERVE):
        fields[OTHERS] = Field(DEDUCED, POINTER)
    return add_struct(fields, tuple(parts))


def _field(schema: dict[str, Any], parts: list[CustomStruct]) -> Field:
    """Returns the field of a schema; adds the structs of its type to ``parts``."""
    kind = schema.get("type")
    if schema.get("x-kubernetes-int-or-string"):
        return Field("any", POINTER)
    if kind == "array":
        keys = tuple(schema.get("x-kubernetes-list-map-keys") or ())
        list_type = schema.get("x-kubernetes-list-type") or ""
        items = _field(schema.get("items") or {}, parts)
        return Field(f"[]{items.type_name}", POINTER, list_type=list_type, keys=keys)
    if kind in _SCALARS:
        return Field(_SCALARS[kind], POINTER, default=schema.get("default"))
    atomic = "atomic" if schema.get("x-kubernetes-map-type") == "atomic" else ""
    return Field(_mapping(schema, parts), POINTER, list_type=atomic)


def _mapping(schema: dict[str, Any], parts: list[CustomStruct]) -> str:
    is_embedded = bool(schema.get("x-kubernetes-embedded-resource"))
    additional = schema.get("additionalProperties")
    if schema.get("properties") or is_embedded:
        parts.append(_struct(schema, is_object=is_embedded))
        return parts[-1].name
    if isinstance(additional, dict):
        return "{}" + _field(additional, parts).type_name
    if additional or schema.get(_PRESERVE) or schema.get("type") != "object":
        return DEDUCED
    parts.append(_struct(schema, is_object=False))
    return parts[-1].name
