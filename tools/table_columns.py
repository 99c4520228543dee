"""Reads the columns of kubectl's tables into src/mooring/apiserver/data/table_columns.json.

kube-apiserver, not kubectl, says which columns a table has. They stand in its Go source, their
descriptions partly in the comments of the API types, so the file is generated and never written by
hand::

    python tools/table_columns.py [GO_MODULE_CACHE]

The module cache needs k8s.io/kubernetes v1.36.3 and k8s.io/api v0.36.3 (``make controlplane``
fetches them). The file maps kinds to columns, each with exactly the fields that are served.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
TARGET = ROOT / "src/mooring/apiserver/data/table_columns.json"
PRINTERS = "kubernetes@v1.36.3/pkg/printers/internalversion/printers.go"
#: How the printers call the packages whose comments they quote.
PACKAGES = {
    "apiv1": "api@v0.36.3/core/v1",
    "appsv1": "api@v0.36.3/apps/v1",
    "autoscalingv1": "api@v0.36.3/autoscaling/v1",
    "autoscalingv2": "api@v0.36.3/autoscaling/v2",
    "batchv1": "api@v0.36.3/batch/v1",
    "certificatesv1beta1": "api@v0.36.3/certificates/v1beta1",
    "coordinationv1": "api@v0.36.3/coordination/v1",
    "discoveryv1": "api@v0.36.3/discovery/v1",
    "metav1": "apimachinery@v0.36.3/pkg/apis/meta/v1",
    "networkingv1": "api@v0.36.3/networking/v1",
    "policyv1": "api@v0.36.3/policy/v1",
    "rbacv1beta1": "api@v0.36.3/rbac/v1beta1",
    "resourceapi": "api@v0.36.3/resource/v1",
    "schedulingv1": "api@v0.36.3/scheduling/v1",
    "storagev1": "api@v0.36.3/storage/v1",
}
#: Kinds whose printer upstream does not use: they get a name and the time of their creation.
UNPRINTED = (
    "CSIStorageCapacity",
    "ClusterRole",
    "CustomResourceDefinition",
    "LimitRange",
    "Role",
)
NAME = (
    'Name: "Name", Type: "string", Format: "name",'
    ' Description: metav1.ObjectMeta{}.SwaggerDoc()["name"]'
)
CREATED_AT = (
    'Name: "Created At", Type: "date",'
    ' Description: metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"]'
)
#: A table, or more columns for one.
BLOCK = re.compile(
    r"\t(\w+) :?= (?:append\(\w+, )?\[\]metav1\.TableColumnDefinition\{\n(.*?)\n\t\}", re.DOTALL
)
COLUMN = re.compile(r"^\t\t\{(.*)\},$", re.MULTILINE)
HANDLER = re.compile(r"h\.TableHandler\((\w+), (print\w+)\)")
PRINTER = re.compile(r"^func (print\w+)\(\w+ \*\w+\.(\w+),", re.MULTILINE)
TEXT_FIELD = re.compile(r'(Name|Type|Format|Description): ("(?:[^"\\]|\\.)*")')
QUOTED_FIELD = re.compile(r'Description: (\w+)\.(\w+)\{\}\.SwaggerDoc\(\)\["(\w+)"\]')
PRIORITY = re.compile(r"Priority: (\d+)")


def main() -> None:
    """Write the file."""
    sys.path[:0] = [str(ROOT / "src")]
    from mooring.apiserver.resources import GATED_BY_PATH, RESOURCES

    cache = Path(sys.argv[1] if len(sys.argv) > 1 else Path.home() / "go/pkg/mod") / "k8s.io"
    found = read_columns((cache / PRINTERS).read_text(), cache)
    resources = [*RESOURCES, *GATED_BY_PATH.values()]
    wanted = sorted({one.kind for one in resources if "get" in one.verbs} | {"Scale"})
    for kind in UNPRINTED:
        found[kind] = [column(NAME, cache), column(CREATED_AT, cache)]
    missing = [kind for kind in wanted if kind not in found]
    if missing:
        sys.exit(f"no table for {', '.join(missing)}")
    document = {"version": "v1.36.3", "columns": {kind: found[kind] for kind in wanted}}
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    print(f"{len(wanted)} kinds in {TARGET}")


def read_columns(source: str, cache: Path) -> dict[str, list[dict[str, Any]]]:
    """Kind -> columns, for all kinds that the printers know and whose comments we can quote."""
    kinds = dict(PRINTER.findall(source))
    source = source.replace("Event{}.InvolvedObject", "ObjectReference{}")
    blocks: dict[str, str] = {}
    for variable, block in BLOCK.findall(source):
        blocks[variable] = blocks.get(variable, "") + block + "\n"
    found = {}
    for variable, printer in HANDLER.findall(source):
        kind = kinds[printer]
        rows = [line.group(1) for line in COLUMN.finditer(blocks[variable])]
        if kind.endswith("List") or not all(is_readable(row) for row in rows):
            continue
        found[kind] = [column(row, cache) for row in rows]
    return found


def is_readable(row: str) -> bool:
    """Whether the description is a text, or in a package of the table."""
    quoted = QUOTED_FIELD.search(row)
    return quoted is None or quoted.group(1) in PACKAGES


def column(row: str, cache: Path) -> dict[str, Any]:
    """One column as it is served."""
    fields: dict[str, Any] = {
        "name": "",
        "type": "",
        "format": "",
        "description": "",
        "priority": 0,
    }
    fields.update({name.lower(): json.loads(text) for name, text in TEXT_FIELD.findall(row)})
    quoted = QUOTED_FIELD.search(row)
    if quoted:
        package, struct, field = quoted.groups()
        fields["description"] = comment(cache / PACKAGES[package], struct, field)
    priority = PRIORITY.search(row)
    if priority:
        fields["priority"] = int(priority.group(1))
    return fields


def comment(package: Path, struct: str, field: str) -> str:
    """What the API's own documentation says of a field; "" if there is nothing."""
    source = (package / "types_swagger_doc_generated.go").read_text()
    block = re.search(
        rf"^var map_{struct} = map\[string\]string\{{\n(.*?)^\}}", source, re.DOTALL | re.MULTILINE
    )
    if block is None:
        sys.exit(f"{package}: no {struct}")
    line = re.search(rf'^\t"{field}":\s+("(?:[^"\\]|\\.)*"),$', block.group(1), re.MULTILINE)
    return json.loads(line.group(1)) if line else ""


if __name__ == "__main__":
    main()
