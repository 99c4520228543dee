"""The types in CEL of what the rules of a definition look at, and how large that may be.

Source: k8s.io/apiserver v0.36.3, pkg/cel/common/schemas.go (SchemaDeclType) and pkg/cel/types.go
(MaybeAssignTypeName); apiextensions-apiserver, pkg/apiserver/schema/cel/compilation.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from mooring.apiserver.custom.rules.evaluation import names_in_rules
from mooring.cel.checker import check
from mooring.cel.depth import deep_recursion
from mooring.cel.environment import Environment
from mooring.cel.estimate import ITEMS, KEYS, VALUES, Path, Range, estimate_cost
from mooring.cel.library import registry
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
_TEXT: Final = {"type": "string"}
_METADATA: Final = {"type": "object", "properties": {"name": _TEXT, "generateName": _TEXT}}
_OF_RESOURCES: Final = {"kind": _TEXT, "apiVersion": _TEXT, "metadata": _METADATA}
#: Bytes of a request, and so of the largest value in it.
_REQUEST_BYTES_MAX: Final = 3 * 1024 * 1024
#: Bytes of the longest string that is not limited: its quotation marks are in the request, too.
_TEXT_BYTES_MAX: Final = _REQUEST_BYTES_MAX - 2
#: Bytes of a character: limits of schemas count characters, estimates bytes.
_CHARACTER_BYTES_MAX: Final = 4


class Declared(NamedTuple):
    """Declaration of a value by its schema: its type and its sizes.

    Attributes:
        type: The type.
        most: Elements of a list or a map, or bytes of a string.
        least_bytes: Bytes of the shortest value in JSON.
        below: The fields of an object by their names in rules, or what is in a list or a map.
    """

    type: Type
    most: int = 0
    least_bytes: int = 0
    below: Mapping[str, Declared] = {}

    @property
    def instances_max(self) -> int:
        """Returns how many such values a request may have, if nothing else limits them."""
        return _REQUEST_BYTES_MAX // (self.least_bytes + 1)

    def size(self, path: Path) -> Range | None:
        """Returns the size of what is at a path of an expression; None = nothing is declared.

        Args:
            path: The path: of ``self``, ``oldSelf``, or a value without a name.
        """
        if not len(path):
            return None
        value = self
        for part in path.parts[1:]:
            below = value.below.get(part)
            if below is None:
                return None
            value = below
        return Range(0, value.most)


#: Strings with a format: their types, the longest and the shortest.
_FORMATS: Final = {
    "duration": Declared(DURATION, 32, 3),
    "date": Declared(TIMESTAMP, 12, 12),
    "date-time": Declared(TIMESTAMP, 32, 21),
}
_SCALARS: Final = {
    "boolean": Declared(BOOL, least_bytes=4),
    "number": Declared(DOUBLE, least_bytes=1),
    "integer": Declared(INT, least_bytes=1),
}
_KEY: Final = Declared(STRING, least_bytes=2)


class SelfType(NamedTuple):
    """Declaration of ``self``, and the fields of all types of objects."""

    self: Declared
    fields: Fields


class Compiled(NamedTuple):
    """An expression that was compiled.

    Attributes:
        problems: Why it is invalid; "" = it is valid.
        result: Its type.
        cost: The greatest cost of an evaluation, by its text and the sizes of the schema.
    """

    problems: str
    result: Type
    cost: int


def self_type(schema: dict[str, Any], *, is_root: bool) -> SelfType | None:
    """Returns the type of what a schema describes; None if rules cannot see it.

    Args:
        schema: The schema.
        is_root: Whether it is that of the whole object.
    """
    fields = {**FIELDS}
    is_resource = is_root or bool(schema.get("x-kubernetes-embedded-resource"))
    with deep_recursion():
        declared = _declared(schema, _SELF, fields, is_resource=is_resource)
    return None if declared is None else SelfType(declared, fields)


def compiled(text: str, declared: SelfType, *, is_old_optional: bool) -> Compiled:
    """Compiles a rule or a message expression with the type of ``self``.

    Args:
        text: The expression.
        declared: The type of ``self``.
        is_old_optional: Whether ``oldSelf`` is an optional value.
    """
    own = declared.self
    source = Source(text)
    problems = Problems(source)
    with deep_recursion():
        root = parse(source, problems, Environment.RULE)
        result, cost = DYN, 0
        if not problems:
            old = optional_of(own.type) if is_old_optional else own.type
            variables = {"self": own.type, "oldSelf": old}
            objects, functions = Objects(declared.fields), registry(Environment.RULE)
            result = check(root, source, problems, variables, objects, functions)
        if not problems:
            validate(root, source, problems)
        if not problems:
            cost = estimate_cost(root, own.size).most
    return Compiled(str(problems) if problems else "", result, cost)


def _declared(
    schema: dict[str, Any], name: str, fields: dict[str, Any], *, is_resource: bool
) -> Declared | None:
    """Returns what a schema declares, and adds the fields of its objects under the type's name."""
    if schema.get("x-kubernetes-int-or-string"):
        return Declared(DYN, _text_max(schema), 1)
    match schema.get("type"):
        case "array":
            return _declared_list(schema, name, fields)
        case "object" if isinstance(schema.get("additionalProperties"), dict):
            return _declared_map(schema, name, fields)
        case "object":
            return _declared_object(schema, name, fields, is_resource=is_resource)
        case "string":
            return _declared_text(schema)
        case kind:
            return _SCALARS.get(kind or "")


def _declared_list(schema: dict[str, Any], name: str, fields: dict[str, Any]) -> Declared | None:
    element = _of_part(schema.get("items"), f"{name}.@idx", fields)
    if element is None:
        return None
    most = (_REQUEST_BYTES_MAX - 2) // (element.least_bytes + 1)
    below = {ITEMS: element, VALUES: element}
    return Declared(list_of(element.type), _limit(schema, "maxItems", most), 2, below)


def _declared_map(schema: dict[str, Any], name: str, fields: dict[str, Any]) -> Declared | None:
    element = _of_part(schema["additionalProperties"], f"{name}.@elem", fields)
    if element is None:
        return None
    # A key of no character has quotation marks, a colon, and a comma behind its value.
    most = (_REQUEST_BYTES_MAX - 2) // (element.least_bytes + 6)
    below = {ITEMS: element, VALUES: element, KEYS: _KEY}
    of_map = map_of(STRING, element.type)
    return Declared(of_map, _limit(schema, "maxProperties", most), 2, below)


def _declared_object(
    schema: dict[str, Any], name: str, fields: dict[str, Any], *, is_resource: bool
) -> Declared:
    properties = dict(schema.get("properties") or {})
    if is_resource and not _has_metadata(properties):
        properties |= _OF_RESOURCES
    needed = set(schema.get("required") or ())
    types: dict[str, Type] = {}
    below: dict[str, Declared] = {}
    least_bytes = 2
    for key, part in properties.items():
        names = names_in_rules(key)
        # A property that rules cannot name has a size.
        declared = _of_part(part, f"{name}.{names[0] if names else key}", fields)
        if declared is None:
            continue
        types |= dict.fromkeys(names, declared.type)
        below |= dict.fromkeys(names[:1], declared)
        if key in needed and part.get("default") is None:
            least_bytes += len(key.encode()) + declared.least_bytes + 4
    fields[name] = types
    return Declared(struct(name), 0, least_bytes, below)


def _has_metadata(properties: dict[str, Any]) -> bool:
    """Returns whether the properties of every resource have the types that they must have."""
    metadata = properties.get("metadata") or {}
    own = metadata.get("properties") or {}
    texts = [properties.get("kind"), properties.get("apiVersion")]
    texts += [own.get("name"), own.get("generateName")]
    return metadata.get("type") == "object" and all(
        (text or {}).get("type") == "string" for text in texts
    )


def _declared_text(schema: dict[str, Any]) -> Declared:
    name = schema.get("format")
    if name == "byte":
        return Declared(BYTES, _limit(schema, "maxLength", _TEXT_BYTES_MAX), 2)
    if name in _FORMATS:
        return _FORMATS[name]
    return Declared(STRING, _text_max(schema), 2)


def _text_max(schema: dict[str, Any]) -> int:
    """Returns the bytes of the longest string that a schema allows."""
    if schema.get("maxLength") is not None:
        return _limit(schema, "maxLength", 0) * _CHARACTER_BYTES_MAX
    if schema.get("enum") and not schema.get("x-kubernetes-int-or-string"):
        return max(len(it.encode()) for it in ["", *schema["enum"]] if isinstance(it, str))
    return _TEXT_BYTES_MAX


def _limit(schema: dict[str, Any], name: str, default: int) -> int:
    value = schema.get(name)
    return default if value is None else max(0, int(value))


def _of_part(schema: Any, name: str, fields: dict[str, Any]) -> Declared | None:
    if not isinstance(schema, dict):
        return None
    is_resource = bool(schema.get("x-kubernetes-embedded-resource"))
    return _declared(schema, name, fields, is_resource=is_resource)
