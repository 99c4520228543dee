"""OpenAPI v3 documents of custom resources, as kubectl explain and apply read them.

Source: k8s.io/apiextensions-apiserver pkg/controller/openapi/builder.
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
        meta: A document that has the schemas of the metadata.
    """
    schemas: dict[str, Any] = _metadata_schemas(msgspec.json.decode(meta)["components"]["schemas"])
    paths: dict[str, Any] = {}
    for resource in resources:
        name = _schema_name(resource)
        schemas[name] = _schema(resource)
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


def _schema(resource: Resource) -> dict[str, Any]:
    assert resource.custom is not None
    schema = dict(resource.custom.schema)
    text = {"type": "string"}
    schema["properties"] = {
        **(schema.get("properties") or {}),
        "apiVersion": text,
        "kind": text,
        "metadata": {"allOf": [{"$ref": f"#/components/schemas/{_META}"}]},
    }
    return {**schema, "x-kubernetes-group-version-kind": [_kind(resource)]}


def _operation(resource: Resource, method: str, name: str) -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}}
    return {
        "operationId": f"{method}{resource.kind}",
        "parameters": _PARAMETERS,
        "responses": {"200": {"description": "OK", "content": content}},
        "x-kubernetes-action": _ACTIONS[method],
        "x-kubernetes-group-version-kind": _kind(resource),
    }
