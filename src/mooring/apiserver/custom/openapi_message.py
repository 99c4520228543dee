"""Definitions of OpenAPI v2 as protocol buffers, in which kubectl asks for them.

Source of the numbers: github.com/google/gnostic-models v0.7.0 openapiv2/OpenAPIv2.proto.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from mooring.objects.codec.protobuf import bytes_field


def definitions_field(definitions: Mapping[str, Any]) -> bytes:
    """Returns the field of a Document with definitions.

    A message that occurs twice is merged, so a document with this field after it has them as well.

    Args:
        definitions: Name -> schema, as JSON has it.
    """
    return bytes_field(9, _named_schemas(definitions))


def _named_schemas(schemas: Mapping[str, Any]) -> bytes:
    return b"".join(
        bytes_field(1, _text(1, name) + bytes_field(2, _schema(schema)))
        for name, schema in schemas.items()
    )


def _schema(schema: Mapping[str, Any]) -> bytes:
    return b"".join(_schema_fields(schema))


def _schema_fields(schema: Mapping[str, Any]) -> Iterator[bytes]:
    """Yields the fields of a Schema in the order of their numbers."""
    for number, name in ((1, "$ref"), (2, "format")):
        if name in schema:
            yield _text(number, schema[name])
    if "default" in schema:
        yield bytes_field(5, _any(schema["default"]))
    for name in schema.get("required", ()):
        yield _text(19, name)
    if isinstance(schema.get("additionalProperties"), Mapping):
        yield bytes_field(21, bytes_field(1, _schema(schema["additionalProperties"])))
    if "type" in schema:
        yield bytes_field(22, _text(1, schema["type"]))
    if isinstance(schema.get("items"), Mapping):
        yield bytes_field(23, bytes_field(1, _schema(schema["items"])))
    if "properties" in schema:
        yield bytes_field(25, _named_schemas(schema["properties"]))
    for name, value in schema.items():
        if name.startswith("x-"):
            yield bytes_field(31, _text(1, name) + bytes_field(2, _any(value)))


def _any(value: Any) -> bytes:
    """Returns an Any; JSON is YAML."""
    return _text(2, json.dumps(value))


def _text(number: int, text: str) -> bytes:
    return bytes_field(number, text.encode())
