"""Default objects of every cluster: namespaces and system priority classes.

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


def create_defaults(registry: Registry) -> None:
    """Creates the default objects that do not exist yet."""
    resource = resource_named("", "namespaces")
    for name in NAMESPACES:
        _create_if_missing(registry, Target(resource, "", name), {"metadata": {"name": name}})
    classes = resource_named("scheduling.k8s.io", "priorityclasses")
    for priority_class in SYSTEM_CLASSES:
        name = priority_class.metadata.name
        obj = {
            "metadata": {"name": name},
            "value": priority_class.value,
            "description": _DESCRIPTIONS[name],
        }
        _create_if_missing(registry, Target(classes, "", name), obj)


def _create_if_missing(registry: Registry, target: Target, obj: dict[str, object]) -> None:
    if registry.collection(target.resource).get(target.key) is None:
        resource = target.resource
        new = reader_of(struct_of(resource)).read(obj)
        new["kind"], new["apiVersion"] = resource.kind, resource.api_version
        registry.create(target, new, manager="kube-apiserver")
