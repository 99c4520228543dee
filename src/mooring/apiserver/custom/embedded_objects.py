"""Validates objects inside custom objects, which ``x-kubernetes-embedded-resource`` marks.

Source: k8s.io/apiextensions-apiserver pkg/apiserver/schema/objectmeta/validation.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from mooring.apiserver import names
from mooring.apiserver.errors import Errors, FieldError, invalid, required

#: Yields the errors of the metadata of an object.
MetadataCheck = Callable[[dict[str, Any]], Errors]

_EMBEDDED = "x-kubernetes-embedded-resource"


def find_embedded_errors(
    value: Any, schema: dict[str, Any], validate: MetadataCheck, path: str = ""
) -> Iterator[FieldError]:
    """Yields the errors of the names and the metadata of all objects inside a value.

    Args:
        value: As stored.
        schema: Of the value.
        validate: Yields the errors of the metadata of an object.
        path: Of the value, "" for the custom object itself.
    """
    if isinstance(value, list):
        items = schema.get("items")
        for number, item in enumerate(value if isinstance(items, dict) else ()):
            yield from find_embedded_errors(item, items or {}, validate, f"{path}[{number}]")
    if not isinstance(value, dict):
        return
    if schema.get(_EMBEDDED):
        yield from _object_errors(value, validate, f"{path}." if path else "")
    properties, additional = schema.get("properties") or {}, schema.get("additionalProperties")
    for name, item in value.items():
        if name in properties:
            inner = f"{path}.{name}" if path else name
            yield from find_embedded_errors(item, properties[name], validate, inner)
        elif isinstance(additional, dict):
            yield from find_embedded_errors(item, additional, validate, f"{path}[{name}]")


def _object_errors(obj: dict[str, Any], validate: MetadataCheck, lead: str) -> Iterator[FieldError]:
    for name in ("apiVersion", "kind"):
        field = f"{lead}{name}"
        if name not in obj:
            yield required(field)
            continue
        text = obj[name]
        if not isinstance(text, str):
            yield invalid(field, text, "must be a string")
        elif not text:
            yield invalid(field, text, "must not be empty")
        elif name == "apiVersion":
            if text.count("/") > 1:
                yield invalid(field, text, f"unexpected GroupVersion string: {text}")
        elif problems := names.dns_1035_label(text.lower()):
            detail = "may have mixed case, but should otherwise match: "
            yield invalid(field, text, detail + ",".join(problems))
    metadata = obj.get("metadata")
    if isinstance(metadata, dict):
        for error in validate(metadata):
            yield FieldError(error.type_name, lead + error.field, error.body)
