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
from mooring.config.field_errors import Fault
from mooring.config.types import API_VERSION, DURATION
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
GONE = {
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


def checked(value: Any, struct: type[Any], path: Path, faults: list[Fault]) -> Any:
    """``value`` ready for ``msgspec.convert(..., struct)``: nulls left out, durations in seconds.

    What is wrong is added to ``faults``; the result means nothing then.
    """
    return _walk(value, inspect.type_info(struct), path, faults)


def build(value: Any, struct: type[Any]) -> Any:
    """Returns a struct of a value that ``checked`` found nothing wrong with."""
    return msgspec.convert(value, struct)


def _walk(value: Any, wanted: inspect.Type, path: Path, faults: list[Fault]) -> Any:
    extra: dict[str, Any] = {}
    if isinstance(wanted, inspect.Metadata):
        extra, wanted = wanted.extra or {}, wanted.type
    if isinstance(wanted, inspect.UnionType):
        wanted = next(kind for kind in wanted.types if not isinstance(kind, inspect.NoneType))
        return _walk(value, wanted, path, faults)
    if extra.get(DURATION):
        return _duration(value, path, faults)
    match wanted:
        case inspect.AnyType():
            return value
        case inspect.StructType():
            return _mapping(value, wanted, path, faults)
        case inspect.VarTupleType(item_type=item):
            return _sequence(value, item, path, faults)
        case inspect.DictType(value_type=item):
            return _dict(value, item, path, faults)
        case inspect.StrType():
            return _expect(value, str, path, faults)
        case inspect.BoolType():
            return _expect(value, bool, path, faults)
        case inspect.IntType():
            return _integer(value, wanted, path, faults)
        case inspect.FloatType():
            return _number(value, path, faults)
    raise NotImplementedError(f"a configuration has no fields of type {wanted}")


def _expect(value: Any, kind: type[Any], path: Path, faults: list[Fault]) -> Any:
    if type(value) is not kind:
        suggestion = str(value).lower() if kind is str and isinstance(value, bool) else None
        hint = "; put it in quotes" if kind is str and isinstance(value, bool | int | float) else ""
        faults.append(Fault(path, f"must be {_NAMES[kind]}{hint}", value, suggestion))
    return value


def _integer(value: Any, wanted: inspect.IntType, path: Path, faults: list[Fault]) -> Any:
    if type(value) is not int:
        faults.append(Fault(path, "must be an integer", value))
        return value
    low, high = wanted.ge, wanted.le
    if (low is not None and value < low) or (high is not None and value > high):
        faults.append(Fault(path, f"must be an integer from {low} to {high}", value))
    return value


def _number(value: Any, path: Path, faults: list[Fault]) -> Any:
    if type(value) not in (int, float):
        faults.append(Fault(path, "must be a number", value))
    return value


def _duration(value: Any, path: Path, faults: list[Fault]) -> Any:
    if not isinstance(value, str):
        faults.append(Fault(path, 'must be a duration such as "15s" or "1m30s"', value))
        return value
    try:
        return parse_duration_s(value)
    except ValueError as error:
        faults.append(Fault(path, str(error), value))
        return 0.0


def _sequence(value: Any, item: inspect.Type, path: Path, faults: list[Fault]) -> Any:
    if not isinstance(value, list):
        faults.append(Fault(path, "must be a list", value))
        return []
    return [_walk(each, item, (*path, i), faults) for i, each in enumerate(value)]


def _dict(value: Any, item: inspect.Type, path: Path, faults: list[Fault]) -> Any:
    if not isinstance(value, dict):
        faults.append(Fault(path, "must be a mapping", value))
        return {}
    return {key: _walk(each, item, (*path, key), faults) for key, each in value.items()}


def _mapping(value: Any, wanted: inspect.StructType, path: Path, faults: list[Fault]) -> Any:
    if not isinstance(value, dict):
        faults.append(Fault(path, "must be a mapping", value))
        return {}
    fields = {field.encode_name: field for field in wanted.fields}
    kept: dict[str, Any] = {}
    for key, each in value.items():
        if key not in fields:
            faults.append(_unknown((*path, key), list(fields)))
        elif each is not None:
            kept[key] = _walk(each, fields[key].type, (*path, key), faults)
    for name, field in fields.items():
        if field.required and name not in kept:
            faults.append(Fault((*path, name), "is required"))
    return kept


def _unknown(path: Path, known: list[str]) -> Fault:
    """Returns a field that is not there: perhaps a slip, perhaps one of an older version."""
    key = str(path[-1])
    instead = GONE.get(key) if len(path) == 1 else None
    if instead is not None:
        return Fault(path, f"unknown field: removed before {API_VERSION}; {instead}")
    return Fault(path, "unknown field", None, _nearest(key, known))


def _nearest(key: str, known: list[str]) -> str | None:
    by_lower = {name.lower(): name for name in known}
    if key.lower() in by_lower:
        return by_lower[key.lower()]
    near = get_close_matches(key, known, n=1)
    return near[0] if near else None
