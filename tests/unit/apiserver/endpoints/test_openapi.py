"""OpenAPI: the index, the documents, and that they are complete for what is served."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

import pytest

from mooring.apiserver.custom.definition import ServedDefinition
from mooring.apiserver.endpoints import openapi
from mooring.apiserver.errors import ApiStatusError
from mooring.apiserver.resources import DEVICE_TAINT_RULES, RESOURCES, Resource, resource_at

BETA = "apis/resource.k8s.io/v1beta2"


def index(*added: Resource) -> dict[str, str]:
    answer = openapi.respond("/openapi/v3", {"accept": "application/json"}, added=added)
    assert answer is not None
    paths = json.loads(answer.body)["paths"]
    return {name: entry["serverRelativeURL"] for name, entry in paths.items()}


def document(name: str) -> Any:
    return json.loads(openapi.document(name))


def test_every_group_and_version_has_a_document() -> None:
    assert {one.root.strip("/") for one in RESOURCES} <= set(index())


def test_the_hash_in_the_index_is_that_of_the_bytes_sent() -> None:
    for name, url in index().items():
        path, _, tag = url.partition("?hash=")
        answer = openapi.respond(path, {}, [("hash", tag)])

        assert answer is not None, name
        assert answer.status == 200
        assert hashlib.sha512(answer.body).hexdigest().upper() == tag
        assert answer.headers["cache-control"] == "public, immutable"


def test_an_old_hash_leads_to_the_new_one() -> None:
    answer = openapi.respond("/openapi/v3/api/v1", {}, [("hash", "OLD")])

    assert answer is not None
    assert (answer.status, answer.headers["location"]) == (301, index()["api/v1"])


def test_who_has_a_document_is_not_sent_it_again() -> None:
    first = openapi.respond("/openapi/v3/api/v1", {})
    assert first is not None
    again = openapi.respond("/openapi/v3/api/v1", {"if-none-match": first.headers["etag"]})

    assert again is not None
    assert (again.status, again.body) == (304, b"")


@pytest.mark.parametrize("path", ["/openapi/v3/apis/none/v1", "/api/v1", "/openapi"])
def test_other_paths_are_not_answered(path: str) -> None:
    assert openapi.respond(path, {}) is None


def test_protobuf_documents_are_refused() -> None:
    accept = "application/com.github.proto-openapi.spec.v3@v1.0+protobuf"
    with pytest.raises(ApiStatusError) as error:
        openapi.respond("/openapi/v3/api/v1", {"accept": accept})

    assert error.value.code == 406


@pytest.mark.parametrize(
    "name", ["api/v1", "apis/apps/v1", "apis/policy/v1", "apis/resource.k8s.io/v1", BETA]
)
def test_a_document_refers_to_nothing_that_it_lacks(name: str) -> None:
    text = openapi.document(name).decode()
    references = set(re.findall(r'"#/components/schemas/([^"]+)"', text))

    assert references
    assert references <= set(json.loads(text)["components"]["schemas"])


def test_only_what_is_served_is_described() -> None:
    methods = {"get", "put", "post", "patch", "delete"}
    for path, item in document("api/v1")["paths"].items():
        result = resource_at(path)
        if result is None:
            assert path == "/api/v1/"
            continue
        part = result.resource.subresource(result.subresource) if result.subresource else None
        verbs = part.verbs if part is not None else result.resource.verbs
        actions = {item[method]["x-kubernetes-action"] for method in methods & set(item)}
        assert actions
        assert {{"post": "create", "put": "update"}.get(one, one) for one in actions} <= set(verbs)


def test_patches_say_that_fields_can_be_validated() -> None:
    """kubectl looks for this parameter before it leaves validation to the server."""
    patch = document("api/v1")["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"]

    assert "fieldValidation" in [parameter["name"] for parameter in patch["parameters"]]
    assert patch["x-kubernetes-group-version-kind"] == {"group": "", "kind": "Pod", "version": "v1"}
    assert sorted(patch["requestBody"]["content"]) == [
        "application/apply-patch+yaml",
        "application/json-patch+json",
        "application/merge-patch+json",
        "application/strategic-merge-patch+json",
    ]
    assert list(patch["responses"]["200"]["content"]) == ["application/json"]


def test_schemas_keep_how_lists_are_merged() -> None:
    schemas = document("api/v1")["components"]["schemas"]
    spec = schemas["io.k8s.api.core.v1.PodSpec"]["properties"]

    assert spec["containers"]["x-kubernetes-patch-merge-key"] == "name"
    assert spec["containers"]["x-kubernetes-list-map-keys"] == ["name"]
    taints = schemas["io.k8s.api.core.v1.NodeSpec"]["properties"]["taints"]
    assert taints["x-kubernetes-list-type"] == "atomic"
    assert "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions" in schemas


def test_a_document_that_needs_a_gate_is_served_with_the_gate_only() -> None:
    assert set(index(DEVICE_TAINT_RULES)) - set(index()) == {BETA}
    url = index(DEVICE_TAINT_RULES)[BETA]
    path, _, tag = url.partition("?hash=")

    assert openapi.respond(path, {}, [("hash", tag)]) is None
    answer = openapi.respond(path, {}, [("hash", tag)], (DEVICE_TAINT_RULES,))

    assert answer is not None
    assert answer.status == 200
    assert hashlib.sha512(answer.body).hexdigest().upper() == tag
    beta = json.loads(answer.body)
    rules = f"/{BETA}/devicetaintrules"
    assert set(beta["paths"]) == {
        f"/{BETA}/",
        rules,
        f"{rules}/{{name}}",
        f"{rules}/{{name}}/status",
    }
    spec = beta["components"]["schemas"]["io.k8s.api.resource.v1beta2.DeviceTaintRuleSpec"]
    assert set(spec["properties"]) == {"deviceSelector", "taint"}


def test_a_name_that_is_no_document_is_an_error() -> None:
    with pytest.raises(KeyError, match=r"\.\./secrets"):
        openapi.document("../secrets")


# ---------------------------------------------------------------- v2


V2 = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"


def fields(data: bytes) -> list[tuple[int, bytes]]:
    """Returns the fields of a message that has none but strings and messages."""
    items = []
    position = 0

    def varint() -> int:
        nonlocal position
        number = shift = 0
        while True:
            byte = data[position]
            position += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return number

    while position < len(data):
        tag = varint()
        assert tag & 7 == 2
        length = varint()
        items.append((tag >> 3, data[position : position + length]))
        position += length
    return items


def schemas_of_v2(*added: Resource) -> list[dict[int, bytes]]:
    """Returns the NamedSchemas of the document: field 1 is the name, field 2 the schema.

    Document.definitions = 9 may occur several times: protobuf merges these messages.
    """
    answer = openapi.respond("/openapi/v2", {"accept": V2}, added=added)
    assert answer is not None
    definitions = [value for number, value in fields(answer.body) if number == 9]
    return [dict(fields(one)) for part in definitions for _, one in fields(part)]


def test_the_old_document_has_kinds_that_need_a_gate_with_the_gate_only() -> None:
    without = [one[1].decode() for one in schemas_of_v2()]
    names = [one[1].decode() for one in schemas_of_v2(DEVICE_TAINT_RULES)]

    package = "io.k8s.api.resource.v1beta2"
    kinds = ("DeviceTaint", "DeviceTaintRule", "DeviceTaintRuleList", "DeviceTaintRuleSpec")
    more = ("DeviceTaintRuleStatus", "DeviceTaintSelector")
    assert sorted(set(names) - set(without)) == [f"{package}.{kind}" for kind in kinds + more]
    assert len(set(names)) == len(names)
    schemas = b"".join(one[2] for one in schemas_of_v2(DEVICE_TAINT_RULES))
    references = re.findall(rb"#/definitions/([a-zA-Z0-9.-]*[a-zA-Z0-9])", schemas)
    assert {name.decode() for name in references} <= set(names)


@pytest.mark.parametrize("accept", [V2, V2.replace("@", "."), f"{V2}, */*"])
def test_the_old_document_is_the_protobuf_that_kubectl_asks_for(accept: str) -> None:
    answer = openapi.respond("/openapi/v2", {"accept": accept})

    assert answer is not None
    assert answer.status == 200
    # kubectl asks with "@", which the header of an answer cannot have.
    assert answer.headers["content-type"] == V2.replace("@", ".")
    document_fields = dict(fields(answer.body))
    assert document_fields[1] == b"2.0"
    # Document.definitions = 9, Definitions.additional_properties = 1, NamedSchema = name, value.
    schemas = [dict(fields(one)) for _, one in fields(document_fields[9])]
    pod = next(fields(one[2]) for one in schemas if one[1] == b"io.k8s.api.core.v1.Pod")
    extensions = [dict(fields(one)) for number, one in pod if number == 31]
    kinds = next(one for one in extensions if one[1] == b"x-kubernetes-group-version-kind")
    assert json.loads(dict(fields(kinds[2]))[2]) == [{"group": "", "kind": "Pod", "version": "v1"}]


@pytest.mark.parametrize("accept", ["", "*/*", "application/*", "application/json", f"*/*, {V2}"])
def test_the_old_document_is_json_for_all_others(accept: str) -> None:
    answer = openapi.respond("/openapi/v2", {"accept": accept})

    assert answer is not None
    assert answer.headers["content-type"] == "application/json"
    document = json.loads(answer.body)
    assert (document["swagger"], document["info"]["version"]) == ("2.0", "v1.36.3")
    pod = document["definitions"]["io.k8s.api.core.v1.Pod"]
    assert pod["properties"]["spec"] == {"$ref": "#/definitions/io.k8s.api.core.v1.PodSpec"}
    kinds = [{"group": "", "kind": "Pod", "version": "v1"}]
    assert pod["x-kubernetes-group-version-kind"] == kinds


def test_the_old_document_is_not_there_in_other_formats() -> None:
    with pytest.raises(ApiStatusError) as error:
        openapi.respond("/openapi/v2", {"accept": "application/yaml"})

    assert error.value.code == 406


def test_the_old_document_has_custom_resources_as_version_2_can_say_them() -> None:
    """The rules are those of ToStructuralOpenAPIV2 in k8s.io/apiextensions-apiserver."""
    text = {"type": "string"}
    schema = {
        "type": "object",
        "required": ["size", "note"],
        "properties": {
            "size": {"type": "integer", "minimum": 1, "anyOf": [{"minimum": 2}]},
            "note": {"type": "string", "nullable": True, "description": "any"},
            "list": {"type": "array", "nullable": True, "items": text},
            "free": {
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": True,
                "properties": {"a": text},
            },
            "maps": {
                "type": "object",
                "required": ["a"],
                "additionalProperties": {"type": "integer", "nullable": True},
            },
            "pod": {"type": "object", "x-kubernetes-embedded-resource": True, "properties": {}},
        },
    }
    metadata = {"$ref": "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}
    own = {"apiVersion": text, "kind": text, "metadata": metadata}
    kinds = [{"group": "example.com", "kind": "Widget", "version": "v1"}]

    assert definition_of(schema) == {
        "type": "object",
        "required": ["size"],
        "properties": {
            "size": {"type": "integer", "minimum": 1},
            "note": {"description": "any"},
            "list": {},
            "free": {"x-kubernetes-preserve-unknown-fields": True},
            "maps": {"type": "object", "additionalProperties": {}},
            "pod": {
                "type": "object",
                "x-kubernetes-embedded-resource": True,
                "required": ["kind", "apiVersion"],
                "properties": own,
            },
            **own,
        },
        "x-kubernetes-group-version-kind": kinds,
    }
    preserving = {"type": "object", "x-kubernetes-preserve-unknown-fields": True, **schema}
    assert definition_of(preserving) == {
        "type": "object",
        "x-kubernetes-group-version-kind": kinds,
    }


def definition_of(schema: dict[str, Any]) -> Any:
    """Returns what the old document has of a custom resource: equal as JSON and as protobuf."""
    version = {"name": "v1", "served": True, "storage": True}
    names = {"plural": "widgets", "kind": "Widget"}
    spec: dict[str, Any] = {"group": "example.com", "scope": "Namespaced", "names": names}
    spec["versions"] = [{**version, "schema": {"openAPIV3Schema": schema}}]
    body = {"metadata": {}, "spec": spec, "status": {"acceptedNames": names}}
    added = tuple(ServedDefinition.of(body, None).resources)
    answer = openapi.respond("/openapi/v2", {}, added=added)
    assert answer is not None
    definition = json.loads(answer.body)["definitions"]["com.example.v1.Widget"]
    messages = {item[1].decode(): item[2] for item in schemas_of_v2(*added)}
    assert schema_of(messages["com.example.v1.Widget"]) == with_message_fields(definition)
    return definition


#: The fields of a schema that the messages have.
MESSAGE_FIELDS = {"$ref", "format", "required", "additionalProperties", "type", "items"}


def with_message_fields(schema: dict[str, Any]) -> dict[str, Any]:
    """Returns a schema without the fields that the messages do not have."""
    found = {
        name: value
        for name, value in schema.items()
        if name in MESSAGE_FIELDS or name.startswith("x-")
    }
    for name in ("items", "additionalProperties"):
        if isinstance(found.get(name), dict):
            found[name] = with_message_fields(found[name])
        elif name in found:
            del found[name]
    if "properties" in schema:
        pairs = schema["properties"].items()
        found["properties"] = {name: with_message_fields(value) for name, value in pairs}
    return found


def schema_of(message: bytes) -> dict[str, Any]:
    """Returns a Schema as JSON has it."""
    found: dict[str, Any] = {}
    for number, value in fields(message):
        inner = dict(fields(value)) if number in (21, 22, 23) else {}
        if number in (1, 2):
            found["$ref" if number == 1 else "format"] = value.decode()
        elif number == 19:
            found.setdefault("required", []).append(value.decode())
        elif number == 22:
            found["type"] = inner[1].decode()
        elif number in (21, 23):
            found["additionalProperties" if number == 21 else "items"] = schema_of(inner[1])
        elif number == 25:
            pairs = [dict(fields(item)) for _, item in fields(value)]
            found["properties"] = {pair[1].decode(): schema_of(pair[2]) for pair in pairs}
        else:
            assert number == 31
            pair = dict(fields(value))
            found[pair[1].decode()] = json.loads(dict(fields(pair[2]))[2])
    return found


def test_who_has_the_old_document_is_not_sent_it_again() -> None:
    first = openapi.respond("/openapi/v2", {})
    assert first is not None
    again = openapi.respond("/openapi/v2", {"if-none-match": first.headers["etag"]})

    assert again is not None
    assert again.status == 304
