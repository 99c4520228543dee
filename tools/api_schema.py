"""Reads the Go types of the Kubernetes API into src/mooring/data/api_schema.json.

The embedded API server must know, for every field of the objects that it serves: its type,
whether an empty value is left out, and how patches merge it. All of this stands in the struct
tags and markers of k8s.io/api, so the file is generated from them and never written by hand::

    python tools/api_schema.py [GO_MODULE_CACHE]

The module cache needs k8s.io/api and k8s.io/apimachinery v0.36.3 (``make controlplane`` fetches
them). Every field is an array without its empty end: type, presence, patch strategy, patch merge
key, list or map type for apply, keys of a list that is a map. Types are scalars, names of other
structs ("core.PodSpec"), "[]T" and "{}T". Presence is what Go's encoder does with an empty value:
"pointer" (left out if nil), "empty" (left out if empty), "zero" (a struct, left out if all of it
is empty), "always" (written), "null" (written as null if nil).
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

#: Go's names of the types of fields, where they differ from those that the table implies.
GO_NAMES = Path(__file__).parent.parent / "src/mooring/apiserver/data/go_type_names.json"
#: Which fields stand in embedded structs: messages name these, too.
EMBEDDED = Path(__file__).parent.parent / "src/mooring/apiserver/data/embedded_fields.json"
TARGET = Path(__file__).parent.parent / "src/mooring/data/api_schema.json"
VERSION = "v0.36.3"
PACKAGES = {
    "admissionregistration": "api@{}/admissionregistration/v1",
    "apiextensions": "apiextensions-apiserver@{}/pkg/apis/apiextensions/v1",
    "core": "api@{}/core/v1",
    "apps": "api@{}/apps/v1",
    "authentication": "api@{}/authentication/v1",
    "authorization": "api@{}/authorization/v1",
    # The later folder wins: Scale has version v1, HorizontalPodAutoscaler v2.
    "autoscaling": "api@{0}/autoscaling/v1 api@{0}/autoscaling/v2",
    "batch": "api@{}/batch/v1",
    "certificates": "api@{}/certificates/v1",
    "coordination": "api@{}/coordination/v1",
    "discovery": "api@{}/discovery/v1",
    "events": "api@{}/events/v1",
    "networking": "api@{}/networking/v1",
    "node": "api@{}/node/v1",
    "policy": "api@{}/policy/v1",
    "rbac": "api@{}/rbac/v1",
    # The beta version for the kinds that only it has.
    "resource": "api@{0}/resource/v1beta2 api@{0}/resource/v1",
    "scheduling": "api@{}/scheduling/v1",
    "storage": "api@{}/storage/v1",
    "meta": "apimachinery@{}/pkg/apis/meta/v1",
}
#: What the server reads from requests, in addition to the kinds of its resources.
OTHER_ROOTS = (
    "core.Binding",
    "policy.Eviction",
    "autoscaling.Scale",
    "meta.DeleteOptions",
    "authentication.TokenRequest",
    "resource.DeviceTaintRule",
)
#: How packages are called where they are imported.
IMPORT_NAMES = {"v1": "core", "apiv1": "core", "corev1": "core", "metav1": "meta"}
SCALARS = {
    "string": "string",
    "bool": "bool",
    "int": "int64",
    "int8": "int32",
    "int32": "int32",
    "int64": "int64",
    "uint32": "int64",
    "float64": "float64",
    "[]byte": "bytes",
    "resource.Quantity": "Quantity",
    "intstr.IntOrString": "IntOrString",
    "types.UID": "string",
    "types.NodeName": "string",
    "types.NamespacedName": "string",
    "runtime.RawExtension": "any",
    "runtime.Object": "any",
    # Unions of apiextensions, each with an encoder of its own. An array of item schemas is refused.
    "JSON": "any",
    "JSONSchemaPropsOrBool": "any",
    "JSONSchemaPropsOrStringArray": "any",
    "JSONSchemaURL": "string",
    "CustomResourceSubresourceStatus": "any",
    "JSONSchemaPropsOrArray": "apiextensions.JSONSchemaProps",
}
META_SCALARS = {
    "Time": "Time",
    "MicroTime": "MicroTime",
    "Duration": "Duration",
    "FieldsV1": "any",
}
STRUCT = re.compile(r"type (\w+) struct \{$")
NAMED = re.compile(r"type (\w+) =?\s*([\w.\[\]*]+)(?:\s*//.*)?$")
FIELD = re.compile(r"\t(?:(\w+)\s+)?([\w.*\[\]]+)\s+`(.*)`")
MARKER = re.compile(r"\s*//\s*\+(listType|mapType|structType|listMapKey)=(\S+)")
TAG = re.compile(r'(\w+):"([^"]*)"')


class Package:
    """The structs and named types of one Go package, as they stand in its files."""

    def __init__(self, name: str, folders: list[Path]) -> None:
        self.name = name
        self.structs: dict[str, list[tuple[str, str, dict[str, str], dict[str, list[str]]]]] = {}
        self.named: dict[str, str] = {}
        self.markers: dict[str, dict[str, list[str]]] = {}
        #: Type -> the version of its package, as in "v1.Pod".
        self.versions: dict[str, str] = {}
        self._version = ""
        for file in (file for folder in folders for file in sorted(folder.glob("*.go"))):
            if not file.name.startswith(("zz_", "generated")) and "_test" not in file.name:
                self._version = file.parent.name
                self._read(file.read_text().splitlines())

    def _read(self, lines: list[str]) -> None:
        current: str | None = None
        markers: dict[str, list[str]] = {}
        for line in lines:
            if marker := MARKER.match(line):
                markers.setdefault(marker[1], []).append(marker[2])
            elif start := STRUCT.match(line):
                current = start[1]
                self.versions[current] = self._version
                self.structs[current] = []
                self.markers[current], markers = markers, {}
            elif line == "}":
                current, markers = None, {}
            elif current and (field := FIELD.match(line)):
                tags = dict(TAG.findall(field[3]))
                self.structs[current].append((field[1] or "", field[2], tags, markers))
                markers = {}
            elif named := NAMED.match(line):
                self.named[named[1]] = named[2]
                self.versions[named[1]] = self._version
                markers = {}
            elif not line.strip():
                markers = markers if current is None else {}


class Reader:
    """Turns the types that are reachable from some kinds into the table."""

    def __init__(self, packages: dict[str, Package]) -> None:
        self.packages = packages
        self.table: dict[str, dict[str, list[object]]] = {}
        #: "core.Toleration.operator" -> "v1.TolerationOperator".
        self.go_names: dict[str, str] = {}
        #: "core.Volume.hostPath" -> "VolumeSource".
        self.embedded: dict[str, str] = {}

    def read(self, name: str) -> None:
        """Add a struct such as "core.Pod" and everything below it."""
        if name in self.table:
            return
        self.table[name] = {}
        self.table[name] = fields = self._fields(name)
        for field in fields.values():
            below = re.sub(r"^(\[\]|\{\})+", "", str(field[0]))
            if "." in below:
                self.read(below)

    def _fields(self, name: str) -> dict[str, list[object]]:
        package, struct = name.split(".")
        found: dict[str, list[object]] = {}
        for go_field, written, tags, markers in self.packages[package].structs[struct]:
            json_name, *options = tags["json"].split(",")
            if json_name == "-":
                continue
            type_name = self.type_of(written.removeprefix("*"), package)
            if "inline" in options and not json_name:
                inlined = self._fields(type_name)
                found.update(inlined)
                own = go_field or written.removeprefix("*").rpartition(".")[2]
                for inner in inlined:
                    self._note_embedded(f"{name}.{inner}", own, f"{type_name}.{inner}")
                continue
            found[json_name] = self._row(written, type_name, options, tags, markers)
            go_name = self.go_name_of(written, package)
            if go_name != implied_go_name(type_name):
                self.go_names[f"{name}.{json_name}"] = go_name
        return found

    def _note_embedded(self, field: str, struct: str, declared: str) -> None:
        """Note a field of an embedded struct, which is declared there."""
        below = self.embedded.get(declared)
        self.embedded[field] = f"{struct}.{below}" if below else struct
        if go_name := self.go_names.get(declared):
            self.go_names[field] = go_name

    def go_name_of(self, written: str, package: str) -> str:
        """A Go type as messages write it: the package's name, and no pointers."""
        written = written.removeprefix("*")
        if written == "[]byte":
            return "[]uint8"
        if written.startswith("[]"):
            return "[]" + self.go_name_of(written[2:], package)
        if written.startswith("map["):
            key, _, value = written.removeprefix("map[").partition("]")
            return f"map[{self.go_name_of(key, package)}]{self.go_name_of(value, package)}"
        if "." in written:
            imported, name = written.split(".")
            if imported not in IMPORT_NAMES:
                return written
            package, written = IMPORT_NAMES[imported], name
        version = self.packages[package].versions.get(written)
        return f"{version}.{written}" if version else written

    def _row(
        self,
        written: str,
        type_name: str,
        options: list[str],
        tags: dict[str, str],
        markers: dict[str, list[str]],
    ) -> list[object]:
        own = self._struct_markers(type_name)
        kind = {**own, **markers}
        merge = "".join(kind.get("listType", kind.get("mapType", kind.get("structType", []))))
        row: list[object] = [
            type_name,
            presence(written, type_name, options),
            tags.get("patchStrategy", ""),
            tags.get("patchMergeKey", ""),
            "" if merge == "granular" else merge,
            markers.get("listMapKey", []),
        ]
        while not row[-1]:
            row.pop()
        return row

    def _struct_markers(self, type_name: str) -> dict[str, list[str]]:
        if "." not in type_name or type_name.startswith(("[]", "{}")):
            return {}
        package, struct = type_name.split(".")
        return self.packages[package].markers.get(struct, {})

    def type_of(self, written: str, package: str) -> str:
        """The table's word for a Go type as it is written in a package."""
        if written in SCALARS:
            return SCALARS[written]
        if written.startswith("[]"):
            return "[]" + self.type_of(written[2:].removeprefix("*"), package)
        if written.startswith("map["):
            return "{}" + self.type_of(written.partition("]")[2].removeprefix("*"), package)
        if "." in written:
            imported, written = written.split(".")
            package = IMPORT_NAMES[imported]
        if package == "meta" and written in META_SCALARS:
            return META_SCALARS[written]
        home = self.packages[package]
        if written in home.structs:
            return f"{package}.{written}"
        return self.type_of(home.named[written], package)


def presence(written: str, type_name: str, options: list[str]) -> str:
    """What Go's encoder does with the field when it is empty."""
    if written.startswith("*") and "omitempty" in options:
        return "pointer"
    if written.startswith("*") and "omitzero" not in options:
        return "null"
    scalars = ("Time", "MicroTime", "Quantity", "IntOrString")
    is_struct = "." in type_name or type_name in scalars or written == "runtime.RawExtension"
    is_struct = is_struct and not written.startswith(("[]", "map[", "*"))
    if type_name.startswith(("[]", "{}")):
        is_struct = False
    if "omitzero" in options:
        return "zero" if is_struct else "empty"
    if is_struct or "omitempty" not in options:
        return "always"
    return "empty"


def implied_go_name(type_name: str) -> str:
    """What the server writes for a type of the table."""
    if type_name.startswith("[]"):
        return "[]" + implied_go_name(type_name[2:])
    if type_name.startswith("{}"):
        return "map[string]" + implied_go_name(type_name[2:])
    return "v1." + type_name.partition(".")[2] if "." in type_name else type_name


def main() -> None:
    """Write the table."""
    sys.path.insert(0, str(TARGET.parents[2]))
    from mooring.apiserver.resources import RESOURCES

    cache = Path(sys.argv[1] if len(sys.argv) > 1 else Path.home() / "go/pkg/mod") / "k8s.io"
    packages = {
        name: Package(name, [cache / path for path in paths.format(VERSION).split()])
        for name, paths in PACKAGES.items()
    }
    reader = Reader(packages)
    roots = {}
    for resource in RESOURCES:
        package = resource.group.split(".")[0] or "core"
        roots[f"{resource.api_version} {resource.kind}"] = f"{package}.{resource.kind}"
    for name in (*roots.values(), *OTHER_ROOTS):
        reader.read(name)
    table = {name: reader.table[name] for name in sorted(reader.table)}
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(row)}" for name, row in table.items())
    TARGET.write_text(f'{{"version": "{VERSION}", "types": {{\n{lines}\n}}}}\n')
    names = dict(sorted(reader.go_names.items()))
    GO_NAMES.write_text(json.dumps(names, indent=0) + "\n")
    embedded = {key: value for key, value in sorted(reader.embedded.items()) if value != "TypeMeta"}
    EMBEDDED.write_text(json.dumps(embedded, indent=0) + "\n")
    print(f"{len(table)} types, {TARGET.stat().st_size} bytes; {len(names)} names of types")


if __name__ == "__main__":
    main()
