"""Columns and cells of custom resources in Tables.

Source: k8s.io/apiextensions-apiserver pkg/registry/customresource/tableconvertor.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from mooring.apiserver.custom.jsonpath import JsonPathError, evaluate, parse
from mooring.apiserver.schema.times import seconds_of
from mooring.objects.sorted_json import encode_sorted

if TYPE_CHECKING:
    from collections.abc import Callable

    from mooring.apiserver.types import Object

#: Go writes numbers between these without an exponent.
_PLAIN_MIN: Final = 1e-4
_PLAIN_MAX: Final = 1e21


def column_definitions(columns: tuple[Object, ...], name_column: Object) -> list[Object]:
    """Returns the columns of a Table: the name, then those of the definition."""
    return [name_column, *map(_definition, readable(columns))]


def readable(columns: tuple[Object, ...]) -> tuple[Object, ...]:
    """Returns the columns before the first one whose path cannot be read."""
    for number, column in enumerate(columns):
        try:
            parse(column["jsonPath"])
        except JsonPathError:
            return columns[:number]
    return columns


def _definition(column: Object) -> Object:
    path = f"Custom resource definition column (in JSONPath format): {column['jsonPath']}"
    return {
        "name": column["name"],
        "type": column["type"],
        "format": column.get("format", ""),
        "description": column.get("description") or path,
        "priority": column.get("priority", 0),
    }


def cells_of(columns: tuple[Object, ...], obj: Object, age_of: Callable[[str], str]) -> list[Any]:
    """Returns the cells of one object; ``age_of`` formats the time since a timestamp."""
    name = obj["metadata"]["name"]
    return [name, *(_cell(column, obj, age_of) for column in readable(columns))]


def _cell(column: Object, obj: Object, age_of: Callable[[str], str]) -> Any:
    try:
        values = evaluate(parse(column["jsonPath"]), obj)
    except JsonPathError:
        return None
    if not values:
        return None
    value, kind = values[0], column["type"]
    if kind == "string":
        return _text(value)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    match kind:
        case "integer":
            return int(value) if is_number else None
        case "number":
            return _number(value) if is_number else None
        case "boolean":
            return value if isinstance(value, bool) else None
        case "date":
            return _age(value, age_of) if isinstance(value, str) else None
    return None


def _age(text: str, age_of: Callable[[str], str]) -> str:
    if text in ("", "null"):
        return "<unknown>"
    try:
        seconds_of(text)
    except ValueError:
        return "<invalid>"
    return age_of(text)


def _number(value: float) -> float:
    """Returns a number that is written as Go writes it: without a fraction of zero."""
    return int(value) if float(value).is_integer() and abs(value) < _PLAIN_MAX else value


def _text(value: Any) -> str:
    """Returns a value as upstream's JSON path printer writes it."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict | list):
        text = encode_sorted(value).decode()
        for character in "<>&":
            text = text.replace(character, f"\\u{ord(character):04x}")
        return text
    if value is None:
        return "<no value>"
    if isinstance(value, float):
        return _float_text(value)
    return str(value).lower()


def _float_text(value: float) -> str:
    """Returns a number as Go's %v: in scientific notation if it is very small or large."""
    if value and not _PLAIN_MIN <= abs(value) < _PLAIN_MAX:
        mantissa, _, exponent = f"{value!r}".partition("e")
        if not exponent:
            mantissa, _, exponent = f"{value:.17e}".partition("e")
        return f"{mantissa.removesuffix('.0')}e{exponent}"
    return str(int(value)) if value.is_integer() else format(Decimal(repr(value)), "f")
