"""Reads Kubernetes' protobuf messages into src/mooring/apiserver/data/protobuf.json.

client-go and kubectl send some requests as protobuf; the embedded API server turns them into
JSON, for which it must know each field's number, type and name. The numbers and types stand in
generated.proto, the names of the JSON fields in the tags of the Go structs::

    python tools/protobuf_messages.py [GO_MODULE_CACHE]

The module cache needs k8s.io/api, k8s.io/apimachinery and k8s.io/apiextensions-apiserver v0.36.3
(``make controlplane`` fetches them). Every field is "NUMBER": [JSON name, type]; a type is a
scalar, a message such as "core.PodSpec", "[]T" or "{}T" (a map whose keys are strings). An empty
name says that the fields of the message stand in the object itself.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
TARGET = ROOT / "src/mooring/apiserver/data/protobuf.json"
PACKAGES = {
    "admissionregistration": "api@v0.36.3/admissionregistration/v1",
    "apiextensions": "apiextensions-apiserver@v0.36.3/pkg/apis/apiextensions/v1",
    "core": "api@v0.36.3/core/v1",
    "apps": "api@v0.36.3/apps/v1",
    "authentication": "api@v0.36.3/authentication/v1",
    "authorization": "api@v0.36.3/authorization/v1",
    # The later folder wins: Scale has version v1, HorizontalPodAutoscaler v2.
    "autoscaling": "api@v0.36.3/autoscaling/v1 api@v0.36.3/autoscaling/v2",
    "batch": "api@v0.36.3/batch/v1",
    "certificates": "api@v0.36.3/certificates/v1",
    "coordination": "api@v0.36.3/coordination/v1",
    "discovery": "api@v0.36.3/discovery/v1",
    "events": "api@v0.36.3/events/v1",
    "networking": "api@v0.36.3/networking/v1",
    "node": "api@v0.36.3/node/v1",
    "policy": "api@v0.36.3/policy/v1",
    "rbac": "api@v0.36.3/rbac/v1",
    # The beta version for the kinds that only it has.
    "resource": "api@v0.36.3/resource/v1beta2 api@v0.36.3/resource/v1",
    "scheduling": "api@v0.36.3/scheduling/v1",
    "storage": "api@v0.36.3/storage/v1",
    "meta": "apimachinery@v0.36.3/pkg/apis/meta/v1",
}
#: What requests carry, besides the kinds of the resources.
OTHER_ROOTS = (
    "core.Binding",
    "policy.Eviction",
    "autoscaling.Scale",
    "meta.DeleteOptions",
    "authentication.TokenRequest",
)
SCALARS = {"string", "bool", "bytes", "double", "int32", "int64", "uint32"}
#: Messages that are one value in JSON.
SPECIAL = {
    "meta.Time": "Time",
    "meta.MicroTime": "MicroTime",
    "meta.Duration": "Duration",
    "meta.FieldsV1": "FieldsV1",
    "apiextensions.JSON": "JSON",
    "authentication.ExtraValue": "Strings",
    "authorization.ExtraValue": "Strings",
    "certificates.ExtraValue": "Strings",
    ".k8s.io.apimachinery.pkg.api.resource.Quantity": "Quantity",
    ".k8s.io.apimachinery.pkg.util.intstr.IntOrString": "IntOrString",
    ".k8s.io.apimachinery.pkg.runtime.RawExtension": "RawExtension",
}
#: Messages of which one field is the value in JSON: the fields have no names there.
UNIONS = {
    "apiextensions.JSONSchemaPropsOrArray",
    "apiextensions.JSONSchemaPropsOrBool",
    "apiextensions.JSONSchemaPropsOrStringArray",
}
MESSAGE = re.compile(r"^message (\w+) \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
FIELD = re.compile(
    r"^  (?:optional|repeated|required)?\s*"
    r"(map<string, (?P<value>[\w.]+)>|[\w.]+) (?P<name>\w+) = (?P<number>\d+);",
    re.MULTILINE,
)
STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
TAG = re.compile(r'`json:"([^",]*)[^"]*"[^`]*protobuf:"\w+,(\d+)')
QUALIFIED = re.compile(
    r"\.k8s\.io\.(?:api\.(\w+)\.v1(?:beta2)?|apimachinery\.pkg\.apis\.(meta)\.v1)\.(\w+)"
)

Fields = dict[str, list[str]]


class Source(NamedTuple):
    """One package: the bodies of its messages, and JSON names by message and field number."""

    messages: dict[str, str]
    names: dict[str, dict[str, str]]


def main() -> None:
    """Write the file."""
    sys.path[:0] = [str(ROOT / "src")]
    from mooring.apiserver.resources import GATED_BY_PATH, RESOURCES

    cache = Path(sys.argv[1] if len(sys.argv) > 1 else Path.home() / "go/pkg/mod") / "k8s.io"
    sources = {}
    for name, folders in PACKAGES.items():
        found = [read_package(cache / folder) for folder in folders.split()]
        messages = {key: body for one in found for key, body in one.messages.items()}
        names = {key: of for one in found for key, of in one.names.items()}
        sources[name] = Source(messages, names)
    resources = [*RESOURCES, *GATED_BY_PATH.values()]
    roots = [f"{one.group.split('.')[0] or 'core'}.{one.kind}" for one in resources]
    waiting = sorted({*roots, *OTHER_ROOTS})
    table: dict[str, Fields] = {}
    while waiting:
        name = waiting.pop()
        if name not in table:
            table[name] = fields_of(name, sources)
            types = [
                type_name.removeprefix("[]").removeprefix("{}")
                for _, type_name in table[name].values()
            ]
            waiting += [type_name for type_name in types if "." in type_name]
    lines = [f" {json.dumps(name)}: {json.dumps(table[name])}" for name in sorted(table)]
    body = ",\n".join(lines)
    TARGET.write_text(f'{{"version": "v1.36.3", "messages": {{\n{body}\n}}}}\n')
    print(f"{len(table)} messages in {TARGET}")


def read_package(folder: Path) -> Source:
    """The messages of generated.proto and the JSON names of the Go files beside it."""
    proto = (folder / "generated.proto").read_text()
    names: dict[str, dict[str, str]] = {}
    for path in sorted(folder.glob("*.go")):
        if path.name.startswith("generated"):
            continue
        for struct, body in STRUCT.findall(path.read_text()):
            names[struct] = {number: name for name, number in TAG.findall(body)}
    return Source(dict(MESSAGE.findall(proto)), names)


def fields_of(name: str, sources: dict[str, Source]) -> Fields:
    """The fields of one message by number."""
    package, _, message = name.partition(".")
    source = sources[package]
    found: Fields = {}
    for match in FIELD.finditer(source.messages[message]):
        number = match["number"]
        inner = match.group("value")
        type_name = typed(inner or match.group(1), package)
        if inner:
            type_name = f"{{}}{type_name}"
        elif match.group(0).strip().startswith("repeated"):
            type_name = f"[]{type_name}"
        names = source.names.get(message, {})
        if number not in names and name not in UNIONS:
            sys.exit(f"{name}: field {number} has no name in JSON")
        found[number] = [names.get(number, match["name"]), type_name]
    return found


def typed(name: str, package: str) -> str:
    """A type of generated.proto in the words of the table."""
    if name in SCALARS:
        return name
    qualified = QUALIFIED.fullmatch(name)
    if qualified:
        name = f"{qualified.group(1) or qualified.group(2)}.{qualified.group(3)}"
    elif not name.startswith("."):
        name = f"{package}.{name}"
    if name in SPECIAL:
        return SPECIAL[name]
    if name.startswith("."):
        sys.exit(f"a type that is not known: {name}")
    return name


if __name__ == "__main__":
    main()
