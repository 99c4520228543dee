"""Optional values.

``or`` and ``orValue`` have no implementation here: they evaluate their argument only if needed.

Source: cel-go v0.26.0, cel/library.go.
"""

from __future__ import annotations

from typing import Final

from mooring.cel import types
from mooring.cel.declarations import Function, Overload, function, method
from mooring.cel.times import Duration, Timestamp
from mooring.cel.types import BOOL, INT, STRING
from mooring.cel.values import NONE, ErrorValue, MapValue, Optional, StringMap, Uint, Value, text


def _of_non_zero(value: Value) -> Optional:
    return NONE if _is_zero(value) else Optional(value)


def _is_zero(value: Value) -> bool:
    if value is None:
        return True
    if isinstance(value, Uint):
        return value.number == 0
    if isinstance(value, Duration):
        return value.nanos == 0
    if isinstance(value, Timestamp):
        # Year 1 is the zero of Go's time.
        return value.seconds == -62_135_596_800 and value.nanos == 0
    if isinstance(value, list | MapValue | StringMap):
        return len(value) == 0
    return isinstance(value, bool | int | float | str | bytes) and not value


def _value(optional: Optional) -> Value:
    return optional.value if optional.is_present else ErrorValue("optional.none() dereference")


def _first(values: list[Value]) -> Optional:
    return Optional(values[0]) if values else NONE


def _last(values: list[Value]) -> Optional:
    return Optional(values[-1]) if values else NONE


def _unwrap(values: list[Value]) -> Value:
    for value in values:
        if not isinstance(value, Optional):
            return ErrorValue(f"value {text(value)} is not optional")
    return [value.value for value in values if value.is_present]


_K: Final = types.param("K")
_V: Final = types.param("V")
_OPTIONAL: Final = types.optional_of(_V)
_LIST: Final = types.list_of(_V)
_MAP: Final = types.map_of(_K, _V)
_OPTIONALS: Final = types.list_of(_OPTIONAL)

LIBRARY: Final[dict[str, Function | list[Overload]]] = {
    "optional.of": [function("optional_of", (_V,), _OPTIONAL, Optional)],
    "optional.ofNonZeroValue": [
        function("optional_ofNonZeroValue", (_V,), _OPTIONAL, _of_non_zero)
    ],
    "optional.none": [function("optional_none", (), _OPTIONAL, lambda: NONE)],
    "value": [method("optional_value", (_OPTIONAL,), _V, _value)],
    "hasValue": [
        method("optional_hasValue", (_OPTIONAL,), BOOL, lambda optional: optional.is_present)
    ],
    "or": [method("optional_or_optional", (_OPTIONAL, _OPTIONAL), _OPTIONAL)],
    "orValue": [method("optional_orValue_value", (_OPTIONAL, _V), _V)],
    "_?._": [function("select_optional_field", (types.DYN, STRING), _OPTIONAL)],
    "_[?_]": [
        function("list_optindex_optional_int", (_LIST, INT), _OPTIONAL),
        function("optional_list_optindex_optional_int", (types.optional_of(_LIST), INT), _OPTIONAL),
        function("map_optindex_optional_value", (_MAP, _K), _OPTIONAL),
        function("optional_map_optindex_optional_value", (types.optional_of(_MAP), _K), _OPTIONAL),
    ],
    "_[_]": [
        function("optional_list_index_int", (types.optional_of(_LIST), INT), _OPTIONAL),
        function("optional_map_index_value", (types.optional_of(_MAP), _K), _OPTIONAL),
    ],
    "last": [method("list_last", (_LIST,), _OPTIONAL, _last)],
    "first": [method("list_first", (_LIST,), _OPTIONAL, _first)],
    "optional.unwrap": [function("optional_unwrap", (_OPTIONALS,), _LIST, _unwrap)],
    "unwrapOpt": [method("optional_unwrapOpt", (_OPTIONALS,), _LIST, _unwrap)],
}
