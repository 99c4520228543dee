"""The types in CEL of what the rules of a definition look at: ``self`` and ``oldSelf``.

Source: k8s.io/apiserver v0.36.3, pkg/cel/common/schemas.go (SchemaDeclType) and pkg/cel/types.go
(MaybeAssignTypeName); apiextensions-apiserver, pkg/apiserver/schema/cel/compilation.go.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from mooring.apiserver.custom.rules import names_in_rules
from mooring.cel.checker import check
from mooring.cel.depth import deep_recursion
from mooring.cel.syntax.parser import parse
from mooring.cel.syntax.source import Problems, Source
from mooring.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    FIELDS,
    INT,
    STRING,
    TIMESTAMP,
    Fields,
    Objects,
    Type,
    list_of,
    map_of,
    optional_of,
    struct,
)
from mooring.cel.validators import validate

#: Upstream's name has a number from the clock, so that nothing can refer to it.
_SELF: Final = "selfType0"
_FORMATS: Final = {
    "byte": BYTES,
    "duration": DURATION,
    "date": TIMESTAMP,
    "date-time": TIMESTAMP,
}
_SCALARS: Final = {"boolean": BOOL, "number": DOUBLE, "integer": INT}
_TEXT: Final = {"type": "string"}
_METADATA: Final = {"type": "object", "properties": {"name": _TEXT, "generateName": _TEXT}}
_OF_RESOURCES: Final = {"kind": _TEXT, "apiVersion": _TEXT, "metadata": _METADATA}


class SelfType(NamedTuple):
    """The type of ``self``, and the fields of all types of objects."""

    self: Type
    fields: Fields


class Compiled(NamedTuple):
    """Problems of an expression, "" = none, and its type."""

    problems: str
    result: Type


def self_type(schema: dict[str, Any], *, is_root: bool) -> SelfType | None:
    """Returns the type of what a schema describes; None if rules cannot see it.

    Args:
        schema: The schema.
        is_root: Whether it is that of the whole object.
    """
    fields = {**FIELDS}
    is_resource = is_root or bool(schema.get("x-kubernetes-embedded-resource"))
    with deep_recursion():
        entry = _type(schema, _SELF, fields, is_resource=is_resource)
    return None if entry is None else SelfType(entry, fields)


def compiled(text: str, declared: SelfType, *, is_old_optional: bool) -> Compiled:
    """Compiles a rule or a message expression with the type of ``self``.

    Args:
        text: The expression.
        declared: The type of ``self``.
        is_old_optional: Whether ``oldSelf`` is an optional value.
    """
    old = optional_of(declared.self) if is_old_optional else declared.self
    source = Source(text)
    problems = Problems(source)
    with deep_recursion():
        root = parse(source, problems)
        result = DYN
        if not problems:
            variables = {"self": declared.self, "oldSelf": old}
            result = check(root, source, problems, variables, Objects(declared.fields))
        if not problems:
            validate(root, source, problems)
    return Compiled(str(problems) if problems else "", result)


def _type(
    schema: dict[str, Any], name: str, fields: dict[str, Any], *, is_resource: bool
) -> Type | None:
    """Returns the type of a schema, and adds the fields of its objects under the type's name."""
    if schema.get("x-kubernetes-int-or-string"):
        return DYN
    kind = schema.get("type")
    if kind == "array":
        element = _of_part(schema.get("items"), f"{name}.@idx", fields)
        return None if element is None else list_of(element)
    if kind == "object":
        return _object_type(schema, name, fields, is_resource=is_resource)
    if kind == "string":
        return _FORMATS.get(schema.get("format") or "", STRING)
    return _SCALARS.get(kind or "")


def _object_type(
    schema: dict[str, Any], name: str, fields: dict[str, Any], *, is_resource: bool
) -> Type | None:
    values = schema.get("additionalProperties")
    if isinstance(values, dict):
        element = _of_part(values, f"{name}.@elem", fields)
        return None if element is None else map_of(STRING, element)
    properties = dict(schema.get("properties") or {})
    if is_resource:
        properties |= _OF_RESOURCES
    own: dict[str, Type] = {}
    for key, part in properties.items():
        names = names_in_rules(key)
        entry = _of_part(part, f"{name}.{names[0]}", fields) if names else None
        if entry is not None:
            own |= dict.fromkeys(names, entry)
    fields[name] = own
    return struct(name)


def _of_part(schema: Any, name: str, fields: dict[str, Any]) -> Type | None:
    if not isinstance(schema, dict):
        return None
    is_resource = bool(schema.get("x-kubernetes-embedded-resource"))
    return _type(schema, name, fields, is_resource=is_resource)
