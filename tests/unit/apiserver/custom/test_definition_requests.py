"""Requests about definitions and their objects, as clients may send them: values of other types,
paths to fields that a schema has not, definitions that change after their objects are stored."""

from __future__ import annotations

import gc
import json
from typing import Any

import pytest

from mooring.apiserver.patch.patch import APPLY_PATCH, MERGE_PATCH
from mooring.apiserver.storage.store import SnapshotError
from mooring.objects.schema.types import CustomStruct
from tests.helpers.api import Api

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
OBJECTS = "/apis/example.com/v1/widgets"
_KEYED = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["key"],
    "items": {"type": "object", "required": ["key"], "properties": {"key": {"type": "string"}}},
}


def definition(spec: dict[str, Any], **version: Any) -> dict[str, Any]:
    """Returns the definition of widgets, whose ``spec`` has these properties."""
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}}
    first = {"name": "v1", "served": True, "storage": True, **version}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Cluster",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"schema": {"openAPIV3Schema": schema}, **first}],
        },
    }


def widget(name: str, spec: Any) -> dict[str, Any]:
    """Returns a widget."""
    head = {"apiVersion": "example.com/v1", "kind": "Widget"}
    return {**head, "metadata": {"name": name}, "spec": spec}


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        (7, "spec"),
        ({"parts": [7]}, "spec.parts[0]"),
        ({"parts": 7}, "spec.parts"),
        ({"part": [1]}, "spec.part"),
        ({"labels": "a"}, "spec.labels"),
    ],
)
def test_a_value_of_another_type_is_refused_in_creates_and_updates(spec: Any, field: str) -> None:
    api = Api()
    part = {"type": "object", "properties": {"a": {"type": "string"}}}
    labels = {"type": "object", "additionalProperties": {"type": "string"}}
    api.post(DEFINITIONS, definition({"parts": _KEYED, "part": part, "labels": labels}))
    api.post(OBJECTS, widget("b", {}))

    created = api.ask("POST", OBJECTS, widget("a", spec))
    patched = api.ask("PATCH", f"{OBJECTS}/b", {"spec": spec}, content_type=MERGE_PATCH)

    for status, answer in (created, patched):
        assert status == 422
        assert answer["details"]["causes"][0]["field"] == field


def test_an_apply_to_an_object_of_another_type_says_so() -> None:
    """The schema has changed since it was stored."""
    api = Api()
    api.post(DEFINITIONS, definition({"a": {"type": "string"}}))
    stored = api.post(OBJECTS, widget("b", {"a": "x"}))
    assert stored["metadata"]["managedFields"]
    changed = definition({"a": {"type": "object", "properties": {"b": {"type": "string"}}}})
    api.patch(f"{DEFINITIONS}/widgets.example.com", {"spec": changed["spec"]})

    status, answer = api.ask(
        "PATCH",
        f"{OBJECTS}/b?fieldManager=m&force=true",
        widget("b", {"a": {"b": "c"}}),
        content_type=APPLY_PATCH,
    )
    listed = api.get(OBJECTS)

    assert status == 500
    lead = "failed to create typed live object (/b; example.com/v1, Kind=Widget): "
    assert answer["message"] == f"{lead}.spec.a: expected map, got &{{x}}"
    assert [own["spec"] for own in listed["items"]] == [{"a": "x"}]


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        (".a[?(@.b==1)]", "is an invalid path: does not refer to a valid field"),
        (".spec.list[0]", "is an invalid path: array notation is not allowed"),
        (".spec.absent", "is an invalid path: does not refer to a valid field"),
        (".spec.", "is an invalid path: unexpected end of JSON path"),
        ("spec", "is an invalid path: expected [ or . but got: spec"),
        (
            ".spec.list",
            "must point to a field of type string, boolean or integer. Enum string fields and "
            "strings with formats are allowed.",
        ),
    ],
)
def test_a_selectable_field_is_a_scalar_of_the_schema(path: str, problem: str) -> None:
    numbers = {"type": "array", "items": {"type": "integer"}}
    fields = [{"jsonPath": ".spec.color"}, {"jsonPath": path}]

    status, answer = Api().ask(
        "POST",
        DEFINITIONS,
        definition({"color": {"type": "string"}, "list": numbers}, selectableFields=fields),
    )

    assert status == 422
    cause = answer["details"]["causes"][0]
    assert cause["field"] == "spec.selectableFields[1].jsonPath"
    assert cause["message"] == f'Invalid value: "{path}": {problem}'


@pytest.mark.parametrize(
    ("additional", "problem"),
    [
        (
            {"type": "string", "maxLength": []},
            "cannot unmarshal array into Go struct field JSONSchemaProps.spec.versions.schema."
            "openAPIV3Schema.properties.properties.additionalProperties.maxLength of type int64",
        ),
        (
            {"additionalProperties": {"minimum": "1"}},
            "cannot unmarshal string into Go struct field JSONSchemaProps.spec.versions.schema."
            "openAPIV3Schema.properties.properties.additionalProperties.additionalProperties."
            "minimum of type float64",
        ),
        ("true", "boolean or JSON schema expected"),
        (7, "boolean or JSON schema expected"),
    ],
)
def test_the_schema_of_additional_properties_is_decoded(additional: Any, problem: str) -> None:
    sent = definition({"map": {"type": "object", "additionalProperties": additional}})

    status, answer = Api().ask("POST", DEFINITIONS, sent)

    assert status == 400
    assert answer["message"].endswith(problem)


def test_unknown_fields_of_the_schema_of_additional_properties_are_dropped() -> None:
    additional = {"type": "string", "x-odd": 1, "pattern": None}

    stored = Api().post(
        DEFINITIONS, definition({"map": {"type": "object", "additionalProperties": additional}})
    )

    version = stored["spec"]["versions"][0]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assert spec["properties"]["map"]["additionalProperties"] == {"type": "string"}


@pytest.mark.parametrize(
    ("pod", "field", "message"),
    [
        ({"kind": "Pod"}, "apiVersion", "Required value"),
        ({"apiVersion": "", "kind": "Pod"}, "apiVersion", 'Invalid value: "": must not be empty'),
        (
            {"apiVersion": "a/b/c", "kind": "Pod"},
            "apiVersion",
            'Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c',
        ),
        (
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a/b"}},
            "metadata.name",
            "Invalid value: \"a/b\": may not contain '/'",
        ),
    ],
)
def test_an_object_inside_a_custom_object_has_valid_names(
    pod: dict[str, Any], field: str, message: str
) -> None:
    api = Api()
    embedded = {
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        "x-kubernetes-preserve-unknown-fields": True,
    }
    api.post(DEFINITIONS, definition({"pods": {"type": "array", "items": embedded}}))

    status, answer = api.ask("POST", OBJECTS, widget("a", {"pods": [pod]}))

    assert status == 422
    cause = answer["details"]["causes"][0]
    assert (cause["field"], cause["message"]) == (f"spec.pods[0].{field}", message)


def test_a_snapshot_with_a_definition_without_a_storage_version_is_refused() -> None:
    api = Api()
    api.post(DEFINITIONS, definition({}))
    state = json.loads(api.server.snapshot())
    state["format"] = "mooring-apiserver-1"
    del state["sha256"]
    (stored,) = state["objects"]["customresourcedefinitions.apiextensions.k8s.io"]
    stored["spec"]["versions"][0]["storage"] = False

    with pytest.raises(SnapshotError, match=r"widgets\.example\.com: no version of spec\.versions"):
        api.server.load(json.dumps(state).encode())


# ---------------------------------------------------------------- memory


def custom_structs() -> set[str]:
    """Returns the names of the structs of custom resources that are in memory."""
    gc.collect()
    return {thing.name for thing in gc.get_objects() if isinstance(thing, CustomStruct)}


def numbered(number: int) -> dict[str, Any]:
    """Returns a definition that no other number has, with structs at each place of a schema."""
    part = {"type": "object", "properties": {f"a{number}": {"type": "string"}}}
    items = {"type": "object", "required": ["key"],
             "properties": {"key": {"type": "string"}, f"b{number}": part}}  # fmt: skip
    keyed = {**_KEYED, "items": items}
    return definition({"part": part, "keyed": keyed, "map": {"type": "object",
        "additionalProperties": {"type": "array", "items": part}}})  # fmt: skip


def test_a_replaced_definition_leaves_no_structs() -> None:
    api = Api()
    of_others = custom_structs()
    api.post(DEFINITIONS, numbered(0))
    before = custom_structs() - of_others
    path = f"{DEFINITIONS}/widgets.example.com"

    for number in range(1, 5):
        changed = numbered(number)
        changed["metadata"] = api.get(path)["metadata"]
        api.put(path, changed)
        stored = api.post(OBJECTS, widget(f"a{number}", {"part": {f"a{number}": "x"}}))
        assert "f:part" in stored["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]
        keyed = {"keyed": [{"key": "k", f"b{number}": {f"a{number}": "y"}}]}
        applied = {**widget(f"a{number}", keyed), "metadata": {"name": f"a{number}"}}
        api.patch(f"{OBJECTS}/a{number}?fieldManager=m", applied, APPLY_PATCH)

    after = custom_structs() - of_others
    assert len(after) == len(before) > 0
    assert not after & before


def test_a_deleted_definition_leaves_no_structs() -> None:
    api = Api()
    before = custom_structs()

    for number in range(3):
        api.post(DEFINITIONS, numbered(number))
        api.post(OBJECTS, widget("a", {"part": {f"a{number}": "x"}}))
        api.delete(f"{DEFINITIONS}/widgets.example.com")

    assert custom_structs() <= before


def test_equal_definitions_of_two_servers_share_their_structs() -> None:
    first, second = Api(), Api()
    of_others = custom_structs()
    first.post(DEFINITIONS, numbered(7))
    before = custom_structs() - of_others

    second.post(DEFINITIONS, numbered(7))
    first.delete(f"{DEFINITIONS}/widgets.example.com")

    assert custom_structs() - of_others == before
    assert second.post(OBJECTS, widget("a", {"part": {"a7": "x"}}))
