"""Pruning and defaults of custom objects; the facts are those of the contract suite."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.apiserver.custom.decoding import WrongMetadata, read_custom

_PART = {"type": "object", "properties": {"name": {"type": "string", "default": "n"}}}


def schema(**spec: Any) -> dict[str, Any]:
    spec_schema = {"type": "object", "properties": spec}
    return {"type": "object", "properties": {"spec": spec_schema}}


def test_unknown_fields_are_dropped_at_every_level() -> None:
    raw = {"spec": {"parts": [{"name": "a", "x": 1}], "y": 2}, "other": {}}
    obj, unknown = read_custom(raw, schema(parts={"type": "array", "items": _PART}))
    assert obj == {"spec": {"parts": [{"name": "a"}]}, "metadata": {}}
    assert unknown == ["other", "spec.parts[0].x", "spec.y"]


def test_unknown_fields_are_preserved_where_the_schema_says_so() -> None:
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    obj, unknown = read_custom({"spec": {"free": {"a": {"b": 1}}}}, schema(free=free))
    assert obj["spec"] == {"free": {"a": {"b": 1}}}
    assert unknown == []


def test_the_metadata_of_an_embedded_object_is_read() -> None:
    template = {
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        "x-kubernetes-preserve-unknown-fields": True,
    }
    raw = {"spec": {"template": {"kind": "Pod", "metadata": {"name": "a", "x": 1}, "spec": {}}}}
    obj, unknown = read_custom(raw, schema(template=template))
    assert obj["spec"]["template"]["metadata"] == {"name": "a"}
    assert unknown == ["spec.template.metadata.x"]


@pytest.mark.parametrize(
    ("field", "sent", "stored"),
    [
        ({"type": "string", "default": "d"}, {}, {"a": "d"}),
        ({"type": "string", "default": "d"}, {"a": None}, {"a": "d"}),
        ({"type": "string", "nullable": True, "default": "d"}, {"a": None}, {"a": None}),
        ({"type": "string"}, {"a": None}, {}),
        ({"type": "object", "default": {}, "properties": {"b": _PART}}, {}, {"a": {}}),
        ({**_PART, "default": {}}, {}, {"a": {"name": "n"}}),
    ],
)
def test_defaults_replace_absent_values_and_nulls(
    field: dict[str, Any], sent: dict[str, Any], stored: dict[str, Any]
) -> None:
    obj, _ = read_custom({"spec": sent}, schema(a=field))
    assert obj["spec"] == stored


def test_metadata_of_a_wrong_type_is_refused() -> None:
    with pytest.raises(WrongMetadata):
        read_custom({"metadata": {"labels": {"a": 1}}}, schema())
