"""The objects that every cluster has from the beginning.

Source: pkg/controlplane/controller/systemnamespaces, pkg/registry/scheduling/rest, and for the
values pkg/apis/scheduling/v1/helpers.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.apiserver.registry.registry import Target
from mooring.apiserver.resources import resource_named
from mooring.apiserver.schema.decoding import reader_of
from mooring.apiserver.schema.schema import struct_of
from mooring.objects.defaulting.priority import SYSTEM_CLASSES

if TYPE_CHECKING:
    from mooring.apiserver.registry.registry import Registry

NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
_DESCRIPTIONS = {
    "system-node-critical": (
        "Used for system critical pods that must not be moved from their current node."
    ),
    "system-cluster-critical": (
        "Used for system critical pods that must run in the cluster, but can be moved to another "
        "node if necessary."
    ),
}


def plant(registry: Registry) -> None:
    """Creates what is missing of them."""
    resource = resource_named("", "namespaces")
    for name in NAMESPACES:
        _plant_one(registry, Target(resource, "", name), {"metadata": {"name": name}})
    classes = resource_named("scheduling.k8s.io", "priorityclasses")
    for each in SYSTEM_CLASSES:
        name = each.metadata.name
        found = {
            "metadata": {"name": name},
            "value": each.value,
            "description": _DESCRIPTIONS[name],
        }
        _plant_one(registry, Target(classes, "", name), found)


def _plant_one(registry: Registry, target: Target, found: dict[str, object]) -> None:
    if registry.collection(target.resource).get(target.key) is None:
        typed = reader_of(struct_of(target.resource)).read(found)
        typed["kind"], typed["apiVersion"] = target.resource.kind, target.resource.api_version
        registry.create(target, typed, manager="kube-apiserver")
