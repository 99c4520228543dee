"""Decodes custom objects: metadata, pruning of unknown fields, defaults.

Source: k8s.io/apiextensions-apiserver pkg/apiserver/schema/{pruning,defaulting,objectmeta}.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from mooring.apiserver.custom.values import go_number
from mooring.apiserver.errors import invalid
from mooring.apiserver.schema.type_errors import find_type_errors
from mooring.objects.schema.decoding import WrongType, reader_of

_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_EMBEDDED = "x-kubernetes-embedded-resource"
_NAMES = ("apiVersion", "kind", "metadata")
_META = "meta.ObjectMeta"


class WrongMetadata(Exception):
    """The metadata, or a name of an object inside, has a wrong type; the message is Go's."""


def read_custom(
    raw: dict[str, Any], schema: dict[str, Any], *, drops_nulls: bool = True
) -> tuple[dict[str, Any], list[str]]:
    """Returns the object as it is stored, and the paths of unknown fields; ``raw`` is changed.

    Args:
        raw: Decoded.
        schema: Of the definition's version.
        drops_nulls: False if the validation has to refuse nulls where none may be.

    Raises:
        WrongMetadata: The metadata cannot be read.
    """
    unknown: list[str] = []
    _read_metadata(raw, "metadata", unknown)
    raw.setdefault("metadata", {})
    for name, value in raw.items():
        if name != "metadata":
            raw[name] = _with_go_numbers(value)
    _prune(raw, schema, "", unknown, is_object=True)
    if drops_nulls:
        _drop_nulls(raw, schema)
    fill_defaults(raw, schema)
    return raw, sorted(unknown)


def _with_go_numbers(value: Any) -> Any:
    """Returns a value with its numbers as Go decodes and encodes them; containers are changed."""
    if isinstance(value, dict):
        for name, item in value.items():
            value[name] = _with_go_numbers(item)
    elif isinstance(value, list):
        value[:] = map(_with_go_numbers, value)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        return go_number(value)
    return value


def as_read(obj: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """Returns a stored object, which may be older than a schema, as the schema has it.

    Unknown fields are pruned, and missing ones get their defaults; ``obj`` is changed.
    """
    _prune(obj, schema, "", [], is_object=True)
    _drop_nulls(obj, schema)
    fill_defaults(obj, schema)
    return obj


def _read_metadata(obj: dict[str, Any], path: str, unknown: list[str]) -> None:
    metadata = obj.get("metadata")
    if metadata is None:
        obj.pop("metadata", None)
        return
    reader = reader_of(_META)
    try:
        obj["metadata"] = reader.read(metadata)
    except WrongType:
        raise WrongMetadata(find_type_errors(_META, metadata)[0]) from None
    if reader.has_unknown_fields:
        unknown += [f"{path}.{name}" for name in find_type_errors(_META, metadata)[1]]


def _read_embedded(obj: dict[str, Any], path: str, unknown: list[str]) -> None:
    """Reads the names and the metadata of an object inside another.

    Raises:
        WrongMetadata: One of them has a wrong type.
    """
    for name in _NAMES[:2]:
        if name in obj and not isinstance(obj[name], str):
            raise _wrong(f"{path}.{name}", obj[name], "must be a string")
    metadata = obj.get("metadata")
    try:
        _read_metadata(obj, f"{path}.metadata", unknown)
    except WrongMetadata as error:
        raise _wrong(f"{path}.metadata", metadata, str(error)) from None


def _wrong(field: str, value: Any, problem: str) -> WrongMetadata:
    return WrongMetadata(f"{field}: {invalid(field, value, problem).body}")


def _prune(
    value: Any, schema: dict[str, Any], path: str, unknown: list[str], *, is_object: bool = False
) -> None:
    if isinstance(value, list):
        for number, item in enumerate(value):
            _prune(item, schema.get("items") or {}, f"{path}[{number}]", unknown)
        return
    if not isinstance(value, dict):
        return
    is_embedded = bool(schema.get(_EMBEDDED))
    if is_embedded and not is_object:
        _read_embedded(value, path, unknown)
    properties = schema.get("properties") or {}
    additional = schema.get("additionalProperties")
    for name in list(value):
        inner = f"{path}.{name}" if path else name
        if (is_object or is_embedded) and name in _NAMES:
            continue
        part = properties.get(name)
        if part is None and isinstance(additional, dict):
            part = additional
        if part is not None:
            _prune(value[name], part, inner, unknown)
        elif not (additional or schema.get(_PRESERVE)):
            del value[name]
            unknown.append(inner)


def _drop_nulls(value: Any, schema: dict[str, Any]) -> None:
    """Removes nulls of fields that are not nullable and have no default."""
    if isinstance(value, list):
        for item in value:
            _drop_nulls(item, schema.get("items") or {})
    if not isinstance(value, dict):
        return
    properties, additional = schema.get("properties") or {}, schema.get("additionalProperties")
    for name in list(value):
        part = properties.get(name)
        if part is None:
            if not isinstance(additional, dict):
                continue
            part = additional
        if value[name] is None and not part.get("nullable") and part.get("default") is None:
            del value[name]
        else:
            _drop_nulls(value[name], part)


def fill_defaults(value: Any, schema: dict[str, Any]) -> None:
    """Sets the defaults of a schema in a value."""
    if isinstance(value, list):
        items = schema.get("items") or {}
        for number, item in enumerate(value):
            if item is None and not items.get("nullable"):
                value[number] = deepcopy(items.get("default"))
            fill_defaults(value[number], items)
    if not isinstance(value, dict):
        return
    properties, additional = schema.get("properties") or {}, schema.get("additionalProperties")
    for name, part in properties.items():
        default = part.get("default")
        is_null = value.get(name) is None and not part.get("nullable")
        if default is not None and (name not in value or is_null):
            value[name] = deepcopy(default)
    for name, item in value.items():
        part = properties.get(name, additional)
        if isinstance(part, dict):
            if item is None and name not in properties and not part.get("nullable"):
                value[name] = deepcopy(part.get("default"))
            fill_defaults(value[name], part)
