"""Reads the roles that every cluster has into src/mooring/apiserver/data/bootstrap_policy.json.

kube-apiserver creates these roles and bindings when it starts. Upstream's tests have them as YAML,
so the file is generated from there and never written by hand::

    python tools/bootstrap_policy.py [GO_MODULE_CACHE]

The module cache needs k8s.io/kubernetes v1.36.3 (``make controlplane`` fetches it). The roles of
the user ``mooring`` are added: those of the tests' control plane, as ``system:mooring``, so that a
cluster's own objects named ``mooring`` do not replace them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parent.parent
TARGET = ROOT / "src/mooring/apiserver/data/bootstrap_policy.json"
SOURCE = (
    "k8s.io/kubernetes@v1.36.3/plugin/pkg/auth/authorizer/rbac/bootstrappolicy/testdata/{}.yaml"
)
#: In this order they are created.
FILES = (
    "cluster-roles",
    "controller-roles",
    "cluster-role-bindings",
    "controller-role-bindings",
    "namespace-roles",
    "namespace-role-bindings",
)
OWN = ROOT / "src/mooring/testing/controlplane/mooring-rbac.yaml"
RBAC = "rbac.authorization.k8s.io/v1"


def main() -> None:
    """Write the file."""
    cache = Path(sys.argv[1] if len(sys.argv) > 1 else Path.home() / "go/pkg/mod")
    objects = [
        obj for name in FILES for obj in documents((cache / SOURCE.format(name)).read_text())
    ]
    objects += [of_the_user(obj) for obj in documents(OWN.read_text())]
    rows = ",\n".join(json.dumps(cleaned(obj), separators=(",", ":")) for obj in objects)
    TARGET.write_text(f'{{"version": "v1.36.3", "objects": [\n{rows}\n]}}\n')
    print(f"{len(objects)} objects, {TARGET.stat().st_size} bytes")


def documents(text: str) -> list[dict[str, Any]]:
    """The objects of the RBAC group in a text with documents or lists."""
    found: list[dict[str, Any]] = []
    for document in yaml.safe_load_all(text):
        found += document.get("items", [document])
    return [obj for obj in found if obj["apiVersion"] == RBAC]


def of_the_user(obj: dict[str, Any]) -> dict[str, Any]:
    """A role or binding of the tests' control plane with another name, for the user alone."""
    obj["metadata"]["name"] = f"system:{obj['metadata']['name']}"
    if "subjects" in obj:
        obj["subjects"] = [one for one in obj["subjects"] if one["kind"] == "User"]
        if obj["roleRef"]["name"] == "mooring":
            obj["roleRef"]["name"] = "system:mooring"
    return obj


def cleaned(value: Any) -> Any:
    """The same without null fields."""
    if isinstance(value, list):
        return [cleaned(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {key: cleaned(item) for key, item in value.items() if item is not None}


if __name__ == "__main__":
    main()
