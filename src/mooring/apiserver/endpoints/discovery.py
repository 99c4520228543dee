"""Discovery: API groups, versions, resources, and the server's version.

All documents are computed once from ``resources.RESOURCES``, in both of kube-apiserver's forms:
unaggregated (/api, /apis, then a document for each group and version) and aggregated, where
two requests return everything.

Source: k8s.io/apiserver pkg/endpoints/discovery, pkg/endpoints/installer.go.
"""

from __future__ import annotations

import base64
import hashlib
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from mooring.apiserver.custom.definition import version_priority
from mooring.apiserver.endpoints import health, negotiation
from mooring.apiserver.resources import RESOURCES, Resource, Subresource

if TYPE_CHECKING:
    from collections.abc import Mapping

#: The version that the embedded server follows; clients compare it with their own.
KUBERNETES_VERSION = "v1.36.3"
GIT_COMMIT = "mooring"
#: Documents change with the definitions; few sets of them are in use at a time.
_CACHE_SIZE = 8
#: The index at "/" lists documents, not objects.
_OPENAPI_PATHS = ("/openapi/v2", "/openapi/v3")
#: What kube-apiserver stores in another version or group than it serves: the hash is of this one.
_STORED_ELSEWHERE = {
    ("events.k8s.io", "events"): "/v1/Event",
    ("resource.k8s.io", "devicetaintrules"): "resource.k8s.io/v1alpha3/DeviceTaintRule",
}


class HttpResponse(NamedTuple):
    """A complete response."""

    status: int
    headers: dict[str, str]
    body: bytes


def respond(
    path: str, headers: Mapping[str, str], custom: tuple[Resource, ...] = ()
) -> HttpResponse | None:
    """Returns the response to a GET of ``path``, or None if it is no discovery path.

    Args:
        path: Decoded, without query.
        headers: With lower-case names.
        custom: The resources that definitions have added.

    Raises:
        ApiStatusError: 406, the client does not accept JSON.

    Example:
        >>> respond("/version", {}).status
        200
        >>> respond("/api/v1/pods", {}) is None
        True
    """
    path = path.rstrip("/") or "/"
    if path in ("/api", "/apis"):
        shape = negotiation.requested_shape(headers.get("accept", ""), negotiation.AGGREGATED)
        if shape is not None:
            return _aggregated(path, shape[1], headers, custom)
    body = _documents(custom).get(path)
    if body is None:
        return None
    if path.startswith("/api"):
        negotiation.requested_shape(headers.get("accept", ""), ())
    return HttpResponse(200, {"content-type": negotiation.JSON}, body)


def is_get_only(path: str) -> bool:
    """Returns True if methods other than GET are refused; other documents ignore the method."""
    parts = path.strip("/").split("/")
    if parts[0] == "apis":
        return len(parts) > 2
    return parts[0] in ("api", "version")


def _aggregated(
    path: str, version: str, headers: Mapping[str, str], custom: tuple[Resource, ...]
) -> HttpResponse:
    body, tag = _aggregated_document(path, version, custom)
    response_headers = {
        "content-type": f"{negotiation.JSON};g=apidiscovery.k8s.io;v={version}"
        ";as=APIGroupDiscoveryList",
        "etag": tag,
        "vary": "Accept",
        "cache-control": "public",
    }
    if headers.get("if-none-match") == tag:
        return HttpResponse(304, response_headers, b"")
    return HttpResponse(200, response_headers, body)


@lru_cache(maxsize=_CACHE_SIZE)
def _aggregated_document(
    path: str, version: str, custom: tuple[Resource, ...]
) -> tuple[bytes, str]:
    """Returns the aggregated form of /api or /apis, with its ETag."""
    names = [group for group in groups(custom) if bool(group) == (path == "/apis")]
    document = {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"apidiscovery.k8s.io/{version}",
        "metadata": {},
        "items": [_group_discovery(group, custom) for group in names],
    }
    body = msgspec.json.encode(document)
    return body, f'"{hashlib.sha512(body).hexdigest().upper()}"'


def groups(custom: tuple[Resource, ...] = ()) -> tuple[str, ...]:
    """Returns the API groups, "" for the core group, in discovery's order."""
    return tuple(dict.fromkeys(resource.group for resource in (*RESOURCES, *custom)))


def versions(group: str, custom: tuple[Resource, ...] = ()) -> tuple[str, ...]:
    """Returns the versions of a group, the preferred one first."""
    added = sorted({r.version for r in custom if r.group == group}, key=version_priority)
    return tuple(dict.fromkeys((*(r.version for r in RESOURCES if r.group == group), *added)))


def _resources_of(group: str, version: str, custom: tuple[Resource, ...]) -> list[Resource]:
    return [r for r in (*RESOURCES, *custom) if (r.group, r.version) == (group, version)]


def _group_discovery(group: str, custom: tuple[Resource, ...]) -> dict[str, Any]:
    return {
        "metadata": {"name": group} if group else {},
        "versions": [
            {
                "version": version,
                "resources": [
                    _resource_discovery(r) for r in _resources_of(group, version, custom)
                ],
                "freshness": "Current",
            }
            for version in versions(group, custom)
        ],
    }


def _short_names_and_categories(resource: Resource) -> dict[str, list[str]]:
    lists = {"shortNames": resource.short_names, "categories": resource.categories}
    return {name: list(values) for name, values in lists.items() if values}


def _resource_discovery(resource: Resource) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "resource": resource.name,
        "responseKind": {"group": "", "version": "", "kind": resource.kind},
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": list(resource.verbs),
    }
    entry |= _short_names_and_categories(resource)
    if resource.subresources:
        entry["subresources"] = [
            {
                "subresource": subresource.name,
                "responseKind": {
                    "group": subresource.group,
                    "version": subresource.version,
                    "kind": subresource.kind or resource.kind,
                },
                "verbs": list(subresource.verbs),
            }
            for subresource in resource.subresources
        ]
    return entry


@lru_cache(maxsize=_CACHE_SIZE)
def _documents(custom: tuple[Resource, ...]) -> dict[str, bytes]:
    """Returns all unaggregated documents, /version and the index, by path."""
    documents: dict[str, Any] = {
        "/api": {
            "kind": "APIVersions",
            "versions": list(versions("")),
            "serverAddressByClientCIDRs": [],
        },
        "/apis": {
            "kind": "APIGroupList",
            "apiVersion": "v1",
            "groups": [_group(group, custom) for group in groups(custom) if group],
        },
        "/version": _version(),
    }
    for group in groups(custom):
        if group:
            documents[f"/apis/{group}"] = {
                "kind": "APIGroup",
                "apiVersion": "v1",
                **_group(group, custom),
            }
        for version in versions(group, custom):
            root = f"/apis/{group}/{version}" if group else f"/api/{version}"
            documents[root] = _resource_list(group, version, custom)
    documents["/"] = {"paths": sorted([*documents, *health.PATHS, *_OPENAPI_PATHS])}
    return {path: msgspec.json.encode(document) for path, document in documents.items()}


def _version() -> dict[str, str]:
    major, minor, _ = KUBERNETES_VERSION.removeprefix("v").split(".")
    return {
        "major": major,
        "minor": minor,
        "emulationMajor": major,
        "emulationMinor": minor,
        "minCompatibilityMajor": major,
        "minCompatibilityMinor": str(int(minor) - 1),
        "gitVersion": KUBERNETES_VERSION,
        "gitCommit": GIT_COMMIT,
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none",
        "compiler": "none",
        "platform": "python",
    }


def _group(group: str, custom: tuple[Resource, ...]) -> dict[str, Any]:
    served = [
        {"groupVersion": f"{group}/{version}", "version": version}
        for version in versions(group, custom)
    ]
    return {"name": group, "versions": served, "preferredVersion": served[0]}


def _resource_list(group: str, version: str, custom: tuple[Resource, ...]) -> dict[str, Any]:
    rows = [row for resource in _resources_of(group, version, custom) for row in _rows(resource)]
    return {
        "kind": "APIResourceList",
        # kube-apiserver leaves it out for the core group.
        **({"apiVersion": "v1"} if group else {}),
        "groupVersion": f"{group}/{version}" if group else version,
        "resources": rows,
    }


def _rows(resource: Resource) -> list[dict[str, Any]]:
    """Returns the entries of a resource and its subresources in an APIResourceList."""
    row: dict[str, Any] = {
        "name": resource.name,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(resource.verbs),
    }
    row |= _short_names_and_categories(resource)
    if resource.is_stored:
        row["storageVersionHash"] = _storage_version_hash(resource)
    return [row, *(_subresource_row(resource, part) for part in resource.subresources)]


def _subresource_row(resource: Resource, subresource: Subresource) -> dict[str, Any]:
    row: dict[str, Any] = {
        "name": f"{resource.name}/{subresource.name}",
        "singularName": "",
        "namespaced": resource.namespaced,
        "kind": subresource.kind or resource.kind,
        "verbs": list(subresource.verbs),
    }
    if subresource.group:
        row["group"] = subresource.group
    if subresource.version:
        row["version"] = subresource.version
    return row


def _storage_version_hash(resource: Resource) -> str:
    """Returns the hash by which clients detect a change of the stored version."""
    served = f"{resource.group}/{resource.version}/{resource.kind}"
    stored = _STORED_ELSEWHERE.get((resource.group, resource.name), served)
    return base64.b64encode(hashlib.sha256(stored.encode()).digest()[:8]).decode("ascii")
