"""The objects that every cluster has from the beginning.

Source: pkg/controlplane/controller/systemnamespaces, pkg/registry/scheduling/rest, and for the
values pkg/apis/scheduling/v1/helpers.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.apiserver.registry.registry import Target
from mooring.apiserver.resources import resource_named, struct_of
from mooring.objects.defaulting.priority import system_classes
from mooring.objects.schema.decoding import reader_of

if TYPE_CHECKING:
    from mooring.apiserver.registry.registry import Registry

NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")


def plant(registry: Registry) -> None:
    """Creates what is missing of them."""
    resource = resource_named("", "namespaces")
    for name in NAMESPACES:
        _plant_one(registry, Target(resource, "", name), {"metadata": {"name": name}})
    classes = resource_named("scheduling.k8s.io", "priorityclasses")
    for found in system_classes():
        _plant_one(registry, Target(classes, "", found["metadata"]["name"]), found)


def _plant_one(registry: Registry, target: Target, found: dict[str, object]) -> None:
    if registry.collection(target.resource).get(target.key) is None:
        typed = reader_of(struct_of(target.resource)).read(found)
        typed["kind"], typed["apiVersion"] = target.resource.kind, target.resource.api_version
        registry.create(target, typed, manager="kube-apiserver")
