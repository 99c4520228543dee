"""What the server says about itself: groups, versions, resources, health.

Everything is computed once from ``resources.RESOURCES``, in both of kube-apiserver's forms: the
old one (/api, /apis, then a document for each group and version) and the aggregated one, where
two requests tell all.

Source: k8s.io/apiserver pkg/endpoints/discovery, pkg/endpoints/installer.go, pkg/server/healthz.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from mooring.apiserver.endpoints import negotiation
from mooring.apiserver.resources import RESOURCES, Resource

if TYPE_CHECKING:
    from collections.abc import Mapping

#: What the embedded server behaves like; clients compare it with their own version.
KUBERNETES_VERSION = "v1.36.3"
GIT_COMMIT = "mooring"
HEALTH_PATHS = ("/healthz", "/livez", "/readyz")
#: Nobody looks for more behind "/": the documents, not the objects.
_OPENAPI_PATHS = ("/openapi/v2", "/openapi/v3")
#: The core events are what is stored; events.k8s.io shows the same objects.
_STORED_ELSEWHERE = {("events.k8s.io", "events"): "/v1/Event"}


class Answer(NamedTuple):
    """A complete answer."""

    status: int
    headers: dict[str, str]
    body: bytes


def respond(path: str, headers: Mapping[str, str]) -> Answer | None:
    """Returns the answer to a GET of ``path``, or None if the path is none of discovery's.

    Args:
        path: Decoded, without query.
        headers: With lower-case names.

    Raises:
        Refused: 406, the client takes no JSON.

    Example:
        >>> respond("/healthz", {}).body
        b'ok'
        >>> respond("/api/v1/pods", {}) is None
        True
    """
    path = path.rstrip("/") or "/"
    if path in HEALTH_PATHS:
        plain = {"content-type": "text/plain; charset=utf-8", "x-content-type-options": "nosniff"}
        return Answer(200, plain, b"ok")
    if path in ("/api", "/apis"):
        shape = negotiation.wanted_shape(headers.get("accept", ""), negotiation.AGGREGATED)
        if shape is not None:
            return _aggregated(path, shape[1], headers)
    body = _documents().get(path)
    if body is None:
        return None
    if path.startswith("/api"):
        negotiation.wanted_shape(headers.get("accept", ""), ())
    return Answer(200, {"content-type": negotiation.JSON}, body)


def is_get_only(path: str) -> bool:
    """Returns whether other methods than GET are refused; the other documents do not look at it."""
    parts = path.strip("/").split("/")
    if parts[0] == "apis":
        return len(parts) > 2
    return parts[0] in ("api", "version")


def _aggregated(path: str, version: str, headers: Mapping[str, str]) -> Answer:
    body, tag = _aggregated_document(path, version)
    found = {
        "content-type": f"{negotiation.JSON};g=apidiscovery.k8s.io;v={version}"
        ";as=APIGroupDiscoveryList",
        "etag": tag,
        "vary": "Accept",
        "cache-control": "public",
    }
    if headers.get("if-none-match") == tag:
        return Answer(304, found, b"")
    return Answer(200, found, body)


@cache
def _aggregated_document(path: str, version: str) -> tuple[bytes, str]:
    """Returns the aggregated form of /api or /apis, with its ETag."""
    wanted = [group for group in groups() if bool(group) == (path == "/apis")]
    document = {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"apidiscovery.k8s.io/{version}",
        "metadata": {},
        "items": [_group_discovery(group) for group in wanted],
    }
    body = msgspec.json.encode(document)
    return body, f'"{hashlib.sha512(body).hexdigest().upper()}"'


def groups() -> tuple[str, ...]:
    """Returns the API groups, "" for the core group, in discovery's order."""
    return tuple(dict.fromkeys(resource.group for resource in RESOURCES))


def versions(group: str) -> tuple[str, ...]:
    """Returns the versions of a group, the preferred one first."""
    return tuple(dict.fromkeys(one.version for one in RESOURCES if one.group == group))


def _of(group: str, version: str) -> list[Resource]:
    return [one for one in RESOURCES if (one.group, one.version) == (group, version)]


def _group_discovery(group: str) -> dict[str, Any]:
    return {
        "metadata": {"name": group} if group else {},
        "versions": [
            {
                "version": version,
                "resources": [_resource_discovery(one) for one in _of(group, version)],
                "freshness": "Current",
            }
            for version in versions(group)
        ],
    }


def _resource_discovery(resource: Resource) -> dict[str, Any]:
    found: dict[str, Any] = {
        "resource": resource.name,
        "responseKind": {"group": "", "version": "", "kind": resource.kind},
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        found["shortNames"] = list(resource.short_names)
    if resource.categories:
        found["categories"] = list(resource.categories)
    if resource.subresources:
        found["subresources"] = [
            {
                "subresource": part.name,
                "responseKind": {
                    "group": part.group,
                    "version": part.version,
                    "kind": part.kind or resource.kind,
                },
                "verbs": list(part.verbs),
            }
            for part in resource.subresources
        ]
    return found


@cache
def _documents() -> dict[str, bytes]:
    """Returns every document of the old form, and /version and the index, by path."""
    found: dict[str, Any] = {
        "/api": {
            "kind": "APIVersions",
            "versions": list(versions("")),
            "serverAddressByClientCIDRs": [],
        },
        "/apis": {
            "kind": "APIGroupList",
            "apiVersion": "v1",
            "groups": [_group(group) for group in groups() if group],
        },
        "/version": _version(),
    }
    for group in groups():
        if group:
            found[f"/apis/{group}"] = {"kind": "APIGroup", "apiVersion": "v1", **_group(group)}
        for version in versions(group):
            root = f"/apis/{group}/{version}" if group else f"/api/{version}"
            found[root] = _resource_list(group, version)
    found["/"] = {"paths": sorted([*found, *HEALTH_PATHS, *_OPENAPI_PATHS])}
    return {path: msgspec.json.encode(document) for path, document in found.items()}


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


def _group(group: str) -> dict[str, Any]:
    known = [
        {"groupVersion": f"{group}/{version}", "version": version} for version in versions(group)
    ]
    return {"name": group, "versions": known, "preferredVersion": known[0]}


def _resource_list(group: str, version: str) -> dict[str, Any]:
    rows = [row for resource in _of(group, version) for row in _rows(resource)]
    return {
        "kind": "APIResourceList",
        # kube-apiserver leaves it out for the core group.
        **({"apiVersion": "v1"} if group else {}),
        "groupVersion": f"{group}/{version}" if group else version,
        "resources": rows,
    }


def _rows(resource: Resource) -> list[dict[str, Any]]:
    """Returns a resource and its subresources, as the old form lists them."""
    row: dict[str, Any] = {
        "name": resource.name,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        row["shortNames"] = list(resource.short_names)
    if resource.categories:
        row["categories"] = list(resource.categories)
    if resource.is_stored:
        row["storageVersionHash"] = _storage_version_hash(resource)
    return [row, *(_part_row(resource, number) for number in range(len(resource.subresources)))]


def _part_row(resource: Resource, number: int) -> dict[str, Any]:
    part = resource.subresources[number]
    row: dict[str, Any] = {
        "name": f"{resource.name}/{part.name}",
        "singularName": "",
        "namespaced": resource.namespaced,
        "kind": part.kind or resource.kind,
        "verbs": list(part.verbs),
    }
    if part.group:
        row["group"] = part.group
    if part.version:
        row["version"] = part.version
    return row


def _storage_version_hash(resource: Resource) -> str:
    """Tells clients whether the form in which objects are stored has changed."""
    usual = f"{resource.group}/{resource.version}/{resource.kind}"
    stored = _STORED_ELSEWHERE.get((resource.group, resource.name), usual)
    return base64.b64encode(hashlib.sha256(stored.encode()).digest()[:8]).decode("ascii")
