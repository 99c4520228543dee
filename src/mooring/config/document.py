"""A configuration back to what a file holds: for showing it, and for recordings."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import inspect

from mooring.config.durations import duration_text
from mooring.config.plugin_defaults import ARGS_TYPES
from mooring.config.types import API_VERSION, DURATION, KubeSchedulerConfiguration
from mooring.objects.codec.struct_types import struct_type


def to_document(config: KubeSchedulerConfiguration) -> dict[str, Any]:
    """Returns a configuration as plain values, the inverse of ``from_document``.

    What is None or an empty list is left out.
    """
    document: dict[str, Any] = _plain(config)
    for profile in document.get("profiles", ()):
        for entry in profile.get("pluginConfig", ()):
            if entry["name"] in ARGS_TYPES:
                kind = {"apiVersion": API_VERSION, "kind": entry["name"] + "Args"}
                entry["args"] = {**kind, **entry.get("args", {})}
    return document


def _plain(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        return _struct(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


def _struct(value: msgspec.Struct) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    described = struct_type(type(value))
    assert isinstance(described, inspect.StructType)
    for field in described.fields:
        document = getattr(value, field.name)
        if document is None or document == ():
            continue
        text = duration_text(document) if _is_duration(field.type) else _plain(document)
        plain[field.encode_name] = text
    return plain


def _is_duration(described: inspect.Type) -> bool:
    if isinstance(described, inspect.UnionType):
        return any(map(_is_duration, described.types))
    extra = described.extra if isinstance(described, inspect.Metadata) else None
    return bool(extra and extra.get(DURATION))
