"""OpenAPI of custom resources: v3 documents, as kubectl explain and apply read them, and v2.

Source: k8s.io/apiextensions-apiserver pkg/controller/openapi/{builder,v2}.
Differs: the paths have only what kubectl reads: the methods, their kinds and fieldValidation.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from mooring.apiserver.resources import Resource

_CACHE_SIZE = 64
_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_PRIORITY_CLASS = "io.k8s.api.scheduling.v1.PriorityClass"
_GVK = "x-kubernetes-group-version-kind"
_PRESERVES = "x-kubernetes-preserve-unknown-fields"
#: What OpenAPI v2 does not have.
_V3_ONLY = frozenset({"allOf", "anyOf", "oneOf", "not", "nullable"})
_PARAMETERS = [
    {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
    for name in ("dryRun", "fieldManager", "fieldValidation")
]
_ACTIONS = {"get": "get", "put": "update", "patch": "patch", "delete": "delete", "post": "create"}


def document_name(resource: Resource) -> str:
    """Returns the name of the document that has a resource, such as "apis/example.com/v1"."""
    return f"apis/{resource.group}/{resource.version}"


@lru_cache(maxsize=_CACHE_SIZE)
def custom_document(resources: tuple[Resource, ...], meta: bytes) -> tuple[bytes, str]:
    """Returns the document of the resources of one group and version, and its hash.

    Args:
        resources: Of one group and version.
        meta: A document that has the schemas of PriorityClasses and of the metadata.
    """
    upstream = msgspec.json.decode(meta)["components"]["schemas"]
    common = {
        name: upstream[_PRIORITY_CLASS]["properties"][name]
        for name in ("apiVersion", "kind", "metadata")
    }
    schemas: dict[str, Any] = _metadata_schemas(upstream)
    paths: dict[str, Any] = {}
    for resource in resources:
        name = _schema_name(resource)
        schemas[name] = _schema(resource, common)
        scope = "/namespaces/{namespace}" if resource.namespaced else ""
        lead = f"/{document_name(resource)}{scope}/{resource.name}"
        paths[lead] = {"post": _operation(resource, "post", name)}
        paths[f"{lead}/{{name}}"] = {
            method: _operation(resource, method, name)
            for method in ("get", "put", "patch", "delete")
        }
    document = {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes CRD Swagger", "version": "v0.1.0"},
        "paths": paths,
        "components": {"schemas": schemas},
    }
    body = msgspec.json.encode(document)
    return body, hashlib.sha512(body).hexdigest().upper()


def custom_definition(resource: Resource) -> tuple[str, dict[str, Any]]:
    """Returns the name of a resource's definition in OpenAPI v2, and the definition.

    What version 2 lacks is left out, and so are fields beside unknown ones that are preserved.
    """
    assert resource.custom is not None
    schema = resource.custom.schema
    if not schema or schema.get(_PRESERVES):
        definition: dict[str, Any] = {"type": "object"}
    else:
        definition = _v2_schema(schema)
        _add_properties(definition)
    return _schema_name(resource), {**definition, _GVK: [_kind(resource)]}


def _v2_schema(schema: dict[str, Any]) -> dict[str, Any]:
    definition = {
        name: value for name, value in schema.items() if name not in _V3_ONLY and value is not None
    }
    preserves, is_nullable = bool(schema.get(_PRESERVES)), bool(schema.get("nullable"))
    if is_nullable:
        definition.pop("type", None)
    if is_nullable or preserves:
        definition.pop("items", None)
        definition.pop("properties", None)
    type_name = definition.get("type")
    if (type_name == "array" and "items" not in definition) or (
        preserves and type_name == "object"
    ):
        del definition["type"]
    properties = definition.get("properties") or {}
    required = _required(definition, properties)
    definition.pop("required", None)
    if required:
        definition["required"] = required
    if properties:
        definition["properties"] = {name: _v2_schema(part) for name, part in properties.items()}
    for name in ("items", "additionalProperties"):
        if isinstance(definition.get(name), dict):
            definition[name] = _v2_schema(definition[name])
    if schema.get("x-kubernetes-embedded-resource") and not preserves:
        _add_properties(definition)
        names = ("kind", "apiVersion")
        definition["required"] = required + [name for name in names if name not in required]
    return definition


def _required(definition: dict[str, Any], properties: dict[str, Any]) -> list[str]:
    """Returns the required fields: a null, which version 2 does not know, is none."""
    more = definition.get("additionalProperties")
    if isinstance(more, dict) and more.get("nullable"):
        return []
    names = definition.get("required") or ()
    return [name for name in names if not (properties.get(name) or {}).get("nullable")]


def _add_properties(definition: dict[str, Any]) -> None:
    text = {"type": "string"}
    definition["properties"] = {
        **(definition.get("properties") or {}),
        "apiVersion": text,
        "kind": text,
        "metadata": {"$ref": f"#/definitions/{_META}"},
    }


def _metadata_schemas(schemas: dict[str, Any]) -> dict[str, Any]:
    """Returns the schema of the metadata and those that it refers to."""
    names = [_META]
    reachable: dict[str, Any] = {}
    while names:
        name = names.pop()
        if name in schemas and name not in reachable:
            reachable[name] = schemas[name]
            text = msgspec.json.encode(schemas[name]).decode()
            names += [part.partition('"')[0] for part in text.split("#/components/schemas/")[1:]]
    return reachable


def _schema_name(resource: Resource) -> str:
    reversed_group = ".".join(reversed(resource.group.split(".")))
    return f"{reversed_group}.{resource.version}.{resource.kind}"


def _kind(resource: Resource) -> dict[str, str]:
    return {"group": resource.group, "kind": resource.kind, "version": resource.version}


def _schema(resource: Resource, common: dict[str, Any]) -> dict[str, Any]:
    """Returns the schema of a resource; ``common`` are the properties that every kind has."""
    assert resource.custom is not None
    schema = dict(resource.custom.schema)
    schema["properties"] = {**(schema.get("properties") or {}), **common}
    return {**schema, _GVK: [_kind(resource)]}


def _operation(resource: Resource, method: str, name: str) -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}}
    return {
        "operationId": f"{method}{resource.kind}",
        "parameters": _PARAMETERS,
        "responses": {"200": {"description": "OK", "content": content}},
        "x-kubernetes-action": _ACTIONS[method],
        _GVK: _kind(resource),
    }
