"""Default objects of every cluster: namespaces and system priority classes.

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


def create_defaults(registry: Registry) -> None:
    """Creates the default objects that do not exist yet."""
    resource = resource_named("", "namespaces")
    for name in NAMESPACES:
        _create_if_missing(registry, Target(resource, "", name), {"metadata": {"name": name}})
    classes = resource_named("scheduling.k8s.io", "priorityclasses")
    for obj in system_classes():
        _create_if_missing(registry, Target(classes, "", obj["metadata"]["name"]), obj)


def _create_if_missing(registry: Registry, target: Target, obj: dict[str, object]) -> None:
    if registry.collection(target.resource).get(target.key) is None:
        resource = target.resource
        new = reader_of(struct_of(resource)).read(obj)
        new["kind"], new["apiVersion"] = resource.kind, resource.api_version
        registry.create(target, new, manager="kube-apiserver")
