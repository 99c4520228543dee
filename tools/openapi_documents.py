"""Reduces Kubernetes' own OpenAPI v3 documents to what the embedded API server serves.

kubectl reads them to check objects, to explain fields, and to compute patches::

    python tools/openapi_documents.py [GO_MODULE_CACHE]

The module cache needs k8s.io/kubernetes v1.36.3 (``make controlplane`` fetches it). Out go the
paths and methods of what is not served, the encodings that are not spoken, and the schemas that
nothing refers to any more. Resources that need a feature gate count as served. Written are one
compressed document for each group and version, and an index with their hashes, in
src/mooring/apiserver/data/openapi.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mooring.apiserver.resources import ResourcePath

ROOT = Path(__file__).parent.parent
TARGET = ROOT / "src/mooring/apiserver/data/openapi"
SOURCE = "k8s.io/kubernetes@v1.36.3/api/openapi-spec/v3"
#: Encodings of bodies that are not read, or not written.
UNSPOKEN = re.compile(r"protobuf|cbor|yaml;|^application/yaml$|;stream=")
#: The words of OpenAPI's actions and of discovery's verbs that differ.
VERBS = {"post": "create", "put": "update"}
REFERENCE = re.compile(r'"#/components/schemas/([^"]+)"')
#: kubectl asks for the schema of what it sends, also where no path takes it.
ALWAYS_KEPT = ("DeleteOptions",)


def main() -> None:
    """Write the documents."""
    sys.path[:0] = [str(ROOT / "src")]
    from mooring.apiserver.resources import GATED_BY_PATH, RESOURCES

    source = Path(sys.argv[1] if len(sys.argv) > 1 else Path.home() / "go/pkg/mod") / SOURCE
    TARGET.mkdir(parents=True, exist_ok=True)
    for old in TARGET.glob("*.json*"):
        old.unlink()
    roots = {one.root.strip("/") for one in (*RESOURCES, *GATED_BY_PATH.values())}
    groups = {root.rpartition("/")[0] for root in roots}
    index = {}
    for name in sorted(roots | groups | {"apis", "version"}):
        stem = name.replace("/", "__")
        document = reduced(json.loads((source / f"{stem}_openapi.json").read_text()))
        body = json.dumps(document, separators=(",", ":"), sort_keys=True).encode()
        index[name] = hashlib.sha512(body).hexdigest().upper()
        # No name and no time inside, so that the same input gives the same file.
        (TARGET / f"{stem}.json.gz").write_bytes(gzip.compress(body, 9, mtime=0))
        print(f"{name}: {len(document['paths'])} paths, {len(body)} bytes")
    (TARGET / "index.json").write_text(json.dumps(index, indent=1) + "\n")


def reduced(document: dict[str, Any]) -> dict[str, Any]:
    """The document without what is not served."""
    paths = {}
    for path, item in document["paths"].items():
        kept = _reduced_path(path, item)
        if kept is not None:
            paths[path] = kept
    components = document.get("components", {})
    schemas = _reachable(paths, components.get("schemas", {}))
    return {**document, "paths": paths, "components": {**components, "schemas": schemas}}


def _reduced_path(path: str, item: dict[str, Any]) -> dict[str, Any] | None:
    from mooring.apiserver.resources import GATED_BY_PATH, custom_resource_at, resource_at

    found = resource_at(path) or custom_resource_at(path, GATED_BY_PATH)
    if found is None:
        return _spoken(item) if _is_discovery(path) else None
    verbs = _verbs(found)
    kept = {key: value for key, value in item.items() if _is_kept(value, verbs)}
    has_methods = any("operationId" in value for value in kept.values() if isinstance(value, dict))
    return _spoken(kept) if has_methods else None


def _is_discovery(path: str) -> bool:
    return path.endswith("/") and "{" not in path


def _verbs(found: ResourcePath) -> tuple[str, ...]:
    if not found.subresource:
        return found.resource.verbs
    part = found.resource.subresource(found.subresource)
    return part.verbs if part is not None else ()


def _is_kept(value: Any, verbs: tuple[str, ...]) -> bool:
    """Whether it is a method that is served, or no method at all."""
    if not isinstance(value, dict) or "operationId" not in value:
        return True
    action = value.get("x-kubernetes-action", "")
    return VERBS.get(action, action) in verbs


def _spoken(value: Any) -> Any:
    """The same without the encodings that are not spoken here."""
    if isinstance(value, list):
        return [_spoken(item) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {key: _spoken(item) for key, item in value.items() if key != "content"}
    if "content" in value:
        spoken = {key: item for key, item in value["content"].items() if not UNSPOKEN.search(key)}
        kept["content"] = spoken
    return kept


def _reachable(paths: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    """The schemas that the paths refer to, and those that these refer to, and so on."""
    always = [name for name in schemas if name.rpartition(".")[2] in ALWAYS_KEPT]
    waiting = [*_references(paths), *always]
    found: dict[str, Any] = {}
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = schemas[name]
            waiting += _references(schemas[name])
    return dict(sorted(found.items()))


def _references(value: Any) -> Iterator[str]:
    return (match.group(1) for match in REFERENCE.finditer(json.dumps(value)))


if __name__ == "__main__":
    main()
