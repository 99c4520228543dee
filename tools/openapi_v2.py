"""Writes OpenAPI v2 of the embedded API server: v2.pb.gz and v2.definitions.gz.

kubectl checks documents of the kind List by the old OpenAPI, and takes it as protobuf only; the
other file has the definitions as JSON, by name::

    python tools/openapi_v2.py [GO_MODULE_CACHE]

The module cache needs k8s.io/kubernetes v1.36.3 (``make controlplane`` fetches it). Of its
swagger.json remain the types of what is served, without their descriptions and without paths. The
types that only gated resources need are in a second file: appended to the first, it adds them, as
protobuf merges a message that occurs twice.
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
TARGET = ROOT / "src/mooring/apiserver/data/openapi/v2.pb.gz"
GATED_TARGET = TARGET.with_name("v2_gated.pb.gz")
SOURCE = "k8s.io/kubernetes@v1.36.3/api/openapi-spec/swagger.json"
GVK = "x-kubernetes-group-version-kind"
OTHER_KINDS = ("Binding", "Eviction", "Scale", "TokenRequest", "DeleteOptions", "Status")
PREFIX = "#/definitions/"


def main() -> None:
    """Write the documents."""
    sys.path[:0] = [str(ROOT / "src")]
    from mooring.apiserver.custom.openapi_message import definitions_field
    from mooring.apiserver.resources import GATED_BY_PATH, RESOURCES

    source = Path(sys.argv[1] if len(sys.argv) > 1 else Path.home() / "go/pkg/mod") / SOURCE
    definitions = json.loads(source.read_text())["definitions"]
    versions = {(one.group, one.version) for one in RESOURCES} | {("autoscaling", "v1")}
    kinds = {kind for one in RESOURCES for kind in (one.kind, one.list_kind)}
    kept = reachable(definitions, versions, kinds | set(OTHER_KINDS))
    write(TARGET, document(kept), kept)
    gated = GATED_BY_PATH.values()
    gated_versions = {(one.group, one.version) for one in gated}
    gated_kinds = {kind for one in gated for kind in (one.kind, one.list_kind)}
    needed = reachable(definitions, gated_versions, gated_kinds)
    added = {name: one for name, one in needed.items() if name not in kept}
    write(GATED_TARGET, definitions_field(added), added)


def write(target: Path, body: bytes, definitions: dict[str, Any]) -> None:
    """Write a document and the JSON beside it, compressed, without a name or a time."""
    target.write_bytes(gzip.compress(body, 9, mtime=0))
    text = json.dumps(without_descriptions(definitions), separators=(",", ":"))
    json_target = target.with_name(target.name.replace(".pb.gz", ".definitions.gz"))
    json_target.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    print(f"{len(definitions)} definitions, {len(body)} bytes in {target}, {len(text)} as JSON")


def without_descriptions(definitions: dict[str, Any]) -> dict[str, Any]:
    """The definitions without their texts; a property may be named "description"."""
    return {name: without_description(one) for name, one in definitions.items()}


def without_description(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema without texts."""
    kept = {key: value for key, value in schema.items() if key != "description"}
    if "properties" in kept:
        kept["properties"] = without_descriptions(kept["properties"])
    for key in ("items", "additionalProperties"):
        if isinstance(kept.get(key), dict):
            kept[key] = without_description(kept[key])
    return kept


def reachable(
    definitions: dict[str, Any], versions: set[tuple[str, str]], kinds: set[str]
) -> dict[str, Any]:
    """The definitions of these kinds, and those that they refer to, and so on."""
    waiting = [name for name, one in definitions.items() if is_served(one, versions, kinds)]
    found: dict[str, Any] = {}
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = definitions[name]
            waiting += references(definitions[name])
    return dict(sorted(found.items()))


def is_served(definition: dict[str, Any], versions: set[tuple[str, str]], kinds: set[str]) -> bool:
    """Whether a definition is that of a kind that is served."""
    return any(
        (one["group"], one["version"]) in versions and one["kind"] in kinds
        for one in definition.get(GVK, ())
    )


def references(value: Any) -> list[str]:
    """The names of all definitions that something refers to."""
    if isinstance(value, list):
        return [name for item in value for name in references(item)]
    if not isinstance(value, dict):
        return []
    found = [name for item in value.values() for name in references(item)]
    reference = value.get("$ref")
    return [*found, reference.removeprefix(PREFIX)] if isinstance(reference, str) else found


# ---------------------------------------------------------------------- encoding


def document(definitions: dict[str, Any]) -> bytes:
    """A Document with these definitions."""
    from mooring.apiserver.custom.openapi_message import definitions_field

    info = field(1, "Kubernetes") + field(2, "v1.36.3")
    return field(1, "2.0") + field(2, info) + field(8, b"") + definitions_field(definitions)


def field(number: int, value: str | bytes) -> bytes:
    """One field of wire type 2."""
    from mooring.objects.codec.protobuf import bytes_field

    return bytes_field(number, value.encode() if isinstance(value, str) else value)


if __name__ == "__main__":
    main()
