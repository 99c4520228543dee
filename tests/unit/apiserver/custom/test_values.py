"""Validation of values, beyond the contract suite: combinations, formats, quantities."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.apiserver.custom.values import find_value_errors

#: As controllers generate it for a quantity.
_QUANTITY = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "pattern": r"^(\+|-)?[0-9]+(m|[KMGTPE]i?)?$",
    "x-kubernetes-int-or-string": True,
}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (_QUANTITY, 3),
        (_QUANTITY, "500m"),
        (_QUANTITY, "2Gi"),
        ({"type": "number"}, 1),
        ({"type": "integer"}, 2.0),
        ({"type": "string", "nullable": True}, None),
        ({"type": "string", "format": "date-time"}, "2026-01-02T03:04:05Z"),
        ({"type": "string", "format": "unknown"}, "x"),
        ({"oneOf": [{"required": ["a"]}, {"required": ["b"]}]}, {"a": 1}),
        ({"not": {"required": ["a"]}}, {"b": 1}),
        ({"type": "integer", "multipleOf": 3}, 9),
    ],
)
def test_valid_values(schema: dict[str, Any], value: Any) -> None:
    assert list(find_value_errors(value, schema, "spec.x")) == []


@pytest.mark.parametrize(
    ("schema", "value", "text"),
    [
        (_QUANTITY, "2 Gi", "should match '"),
        ({"type": "string", "format": "date-time"}, "today", 'must be of type date-time: "today"'),
        (
            {"oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
            {"a": 1, "b": 1},
            '"spec.x" must validate one and only one schema (oneOf). Found 2 valid alternatives',
        ),
        ({"not": {"required": ["a"]}}, {"a": 1}, '"spec.x" must not validate the schema (not)'),
        ({"type": "integer", "multipleOf": 3}, 8, "spec.x in body should be a multiple of 3"),
        (
            {"type": "integer", "maximum": 3, "exclusiveMaximum": True},
            3,
            "spec.x in body should be less than 3",
        ),
        ({"type": "object", "minProperties": 1}, {}, "should have at least 1 properties"),
    ],
)
def test_invalid_values(schema: dict[str, Any], value: Any, text: str) -> None:
    errors = list(find_value_errors(value, schema, "spec.x"))
    assert len(errors) == 1
    assert text in errors[0].body


def test_an_item_of_a_wrong_type_is_an_error_also_in_an_update() -> None:
    item = {"type": "object", "properties": {"name": {"type": "string"}}}
    keys = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
    schema = {"type": "array", "items": item, **keys}
    errors = list(find_value_errors(["x"], schema, "parts", [{"name": "a"}, 5]))
    assert [error.field for error in errors] == ["parts[0]", "parts[0]"]
    assert list(find_value_errors([{"name": "a"}], schema, "parts", [5, {"name": "a"}])) == []
