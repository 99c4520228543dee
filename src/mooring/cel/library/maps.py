"""Insertion into the map that ``transformMap`` and ``transformMapEntry`` collect.

Source: cel-go v0.26.0, ext/comprehensions.go.
"""

from __future__ import annotations

from typing import Final

from mooring.cel import types
from mooring.cel.declarations import Function, Overload, function
from mooring.cel.values import ErrorValue, Mapping, Value, insert

_K: Final = types.param("K")
_V: Final = types.param("V")
_MAP: Final = types.map_of(_K, _V)


def _insert_all(target: Mapping, update: Mapping) -> Value:
    result: Mapping | ErrorValue = target
    for key, value in update.items():
        if isinstance(result, ErrorValue):
            break
        result = insert(result, key, value)
    return result


LIBRARY: Final[dict[str, Function | list[Overload]]] = {
    "cel.@mapInsert": [
        function("@mapInsert_map_key_value", (_MAP, _K, _V), _MAP, insert),
        function("@mapInsert_map_map", (_MAP, _MAP), _MAP, _insert_all),
    ]
}
