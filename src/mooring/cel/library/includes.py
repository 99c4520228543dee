"""``includes``: whether an attribute is a value, or a list with it.

The scheduler compiles stored expressions, for which feature gates do not hide it.

Source: dynamic-resource-allocation v0.36.3, cel/compile.go.
"""

from __future__ import annotations

from typing import Final

from mooring.cel.declarations import Function, Overload, method
from mooring.cel.types import BOOL, DYN
from mooring.cel.values import ErrorValue, Value, equal

_MAX_VALUES: Final = 48


def _includes(target: Value, value: Value) -> Value:
    if not isinstance(target, list):
        return equal(target, value) is True
    for index, element in enumerate(target):
        if index >= _MAX_VALUES:
            return ErrorValue(
                f"'includes' function cannot be applied to lists longer than {_MAX_VALUES} values"
            )
        if equal(element, value) is True:
            return True
    return False


LIBRARY: Final[dict[str, Function | list[Overload]]] = {
    "includes": [method("dra_includes_dyn_dyn", (DYN, DYN), BOOL, _includes)]
}
