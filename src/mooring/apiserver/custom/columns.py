"""Columns and cells of custom resources in Tables.

Source: k8s.io/apiextensions-apiserver pkg/registry/customresource/tableconvertor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from mooring.apiserver.custom.paths import find

if TYPE_CHECKING:
    from collections.abc import Callable

    from mooring.apiserver.types import Object


def column_definitions(columns: tuple[Object, ...], name_column: Object) -> list[Object]:
    """Returns the columns of a Table: the name, then those of the definition."""
    return [name_column, *map(_definition, columns)]


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
    return [obj["metadata"]["name"], *(_cell(column, obj, age_of) for column in columns)]


def _cell(column: Object, obj: Object, age_of: Callable[[str], str]) -> Any:
    values = find(obj, column["jsonPath"])
    if not values:
        return None
    value, kind = values[0], column["type"]
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    match kind:
        case "string":
            return _text(value)
        case "integer":
            return int(value) if is_number else None
        case "number":
            return value if is_number else None
        case "boolean":
            return value if isinstance(value, bool) else None
        case "date":
            return age_of(value) if isinstance(value, str) else None
    return None


def _text(value: Any) -> str:
    """Returns a value as upstream's JSON path printer writes it."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict | list):
        return msgspec.json.encode(value, order="sorted").decode()
    if value is None:
        return "<nil>"
    return str(value).lower()
