"""Plain values against structs, strictly: every fault is collected with its path.

msgspec stops at the first fault and names no key it does not know, so this walk does the looking
and msgspec the building. The walk follows the structs' own types: a new field needs no code here.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

import msgspec
from msgspec import inspect

from mooring.config.durations import parse_duration_s
from mooring.config.field_errors import FieldError
from mooring.config.types import API_VERSION, DURATION
from mooring.objects.codec.struct_types import struct_type
from mooring.objects.files.documents import Path

_NAMES = {
    bool: "a boolean",
    int: "an integer",
    float: "a number",
    str: "a string",
    list: "a list",
    dict: "a mapping",
}

_IN_PROFILES = "moved to profiles[]"
_FLAGS = "replaced by the flags --bind-address and --secure-port"

#: Fields of a file that older versions had -> what to do instead.
REMOVED_FIELDS = {
    "algorithmSource": "replaced by profiles[].plugins",
    "bindTimeoutSeconds": "moved to profiles[].pluginConfig (VolumeBinding)",
    "disablePreemption": "replaced by disabling DefaultPreemption at postFilter",
    "hardPodAffinitySymmetricWeight": "moved to profiles[].pluginConfig (InterPodAffinity)",
    "healthzBindAddress": _FLAGS,
    "metricsBindAddress": _FLAGS,
    "pluginConfig": _IN_PROFILES,
    "plugins": _IN_PROFILES,
    "schedulerName": _IN_PROFILES,
}


def checked(value: Any, struct: type[Any], path: Path, errors: list[FieldError]) -> Any:
    """Returns ``value`` for ``msgspec.convert(..., struct)``: without nulls, durations in seconds.

    What is wrong is added to ``errors``; the result means nothing then.
    """
    return _walk(value, struct_type(struct), path, errors)


def build(value: Any, struct: type[Any]) -> Any:
    """Returns a struct of a value that ``checked`` found nothing wrong with."""
    return msgspec.convert(value, struct)


def _walk(value: Any, expected: inspect.Type, path: Path, errors: list[FieldError]) -> Any:
    extra: dict[str, Any] = {}
    if isinstance(expected, inspect.Metadata):
        extra, expected = expected.extra or {}, expected.type
    if isinstance(expected, inspect.UnionType):
        expected = next(kind for kind in expected.types if not isinstance(kind, inspect.NoneType))
        return _walk(value, expected, path, errors)
    if extra.get(DURATION):
        return _duration(value, path, errors)
    match expected:
        case inspect.AnyType():
            return value
        case inspect.StructType():
            return _mapping(value, expected, path, errors)
        case inspect.VarTupleType(item_type=item):
            return _sequence(value, item, path, errors)
        case inspect.DictType(value_type=item):
            return _dict(value, item, path, errors)
        case inspect.StrType():
            return _expect(value, str, path, errors)
        case inspect.BoolType():
            return _expect(value, bool, path, errors)
        case inspect.IntType():
            return _integer(value, expected, path, errors)
        case inspect.FloatType():
            return _number(value, path, errors)
    raise NotImplementedError(f"a configuration has no fields of type {expected}")


def _expect(value: Any, kind: type[Any], path: Path, errors: list[FieldError]) -> Any:
    if type(value) is not kind:
        suggestion = str(value).lower() if kind is str and isinstance(value, bool) else None
        hint = "; put it in quotes" if kind is str and isinstance(value, bool | int | float) else ""
        errors.append(FieldError(path, f"must be {_NAMES[kind]}{hint}", value, suggestion))
    return value


def _integer(value: Any, expected: inspect.IntType, path: Path, errors: list[FieldError]) -> Any:
    if type(value) is not int:
        errors.append(FieldError(path, "must be an integer", value))
        return value
    low, high = expected.ge, expected.le
    if (low is not None and value < low) or (high is not None and value > high):
        errors.append(FieldError(path, f"must be an integer from {low} to {high}", value))
    return value


def _number(value: Any, path: Path, errors: list[FieldError]) -> Any:
    if type(value) not in (int, float):
        errors.append(FieldError(path, "must be a number", value))
    return value


def _duration(value: Any, path: Path, errors: list[FieldError]) -> Any:
    if not isinstance(value, str):
        errors.append(FieldError(path, 'must be a duration such as "15s" or "1m30s"', value))
        return value
    try:
        return parse_duration_s(value)
    except ValueError as error:
        errors.append(FieldError(path, str(error), value))
        return 0.0


def _sequence(value: Any, item: inspect.Type, path: Path, errors: list[FieldError]) -> Any:
    if not isinstance(value, list):
        errors.append(FieldError(path, "must be a list", value))
        return []
    return [_walk(element, item, (*path, i), errors) for i, element in enumerate(value)]


def _dict(value: Any, item: inspect.Type, path: Path, errors: list[FieldError]) -> Any:
    if not isinstance(value, dict):
        errors.append(FieldError(path, "must be a mapping", value))
        return {}
    return {key: _walk(element, item, (*path, key), errors) for key, element in value.items()}


def _mapping(value: Any, expected: inspect.StructType, path: Path, errors: list[FieldError]) -> Any:
    if not isinstance(value, dict):
        errors.append(FieldError(path, "must be a mapping", value))
        return {}
    fields = {field.encode_name: field for field in expected.fields}
    remaining: dict[str, Any] = {}
    for key, item in value.items():
        if key not in fields:
            errors.append(_unknown((*path, key), list(fields)))
        elif item is not None:
            remaining[key] = _walk(item, fields[key].type, (*path, key), errors)
    for name, field in fields.items():
        if field.required and name not in remaining:
            errors.append(FieldError((*path, name), "is required"))
    return remaining


def _unknown(path: Path, names: list[str]) -> FieldError:
    """Returns the error of an unknown field: misspelled, or of an older version."""
    key = str(path[-1])
    instead = REMOVED_FIELDS.get(key) if len(path) == 1 else None
    if instead is not None:
        return FieldError(path, f"unknown field: removed before {API_VERSION}; {instead}")
    return FieldError(path, "unknown field", None, nearest(key, names))


def nearest(key: str, names: list[str]) -> str | None:
    """Returns the name that was probably meant; None = none is near."""
    by_lower = {name.lower(): name for name in names}
    if key.lower() in by_lower:
        return by_lower[key.lower()]
    near = get_close_matches(key, names, n=1)
    return near[0] if near else None
