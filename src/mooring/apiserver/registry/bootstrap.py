"""Default objects of every cluster: namespaces, the service of the API server, classes, roles.

``data/bootstrap_policy.json`` has the roles (``tools/bootstrap_policy.py`` makes it).

Source: pkg/controlplane/controller/{systemnamespaces,kubernetesservice},
pkg/registry/scheduling/rest, and for the values pkg/apis/scheduling/v1/helpers.go.
"""

from __future__ import annotations

from copy import deepcopy
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec

from mooring.apiserver.registry.registry import Target, derived_uid
from mooring.apiserver.registry.service_addresses import ADDRESSES, SERVICES
from mooring.apiserver.resources import resource_named, struct_of
from mooring.objects.defaulting.priority import system_classes
from mooring.objects.schema.decoding import reader_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mooring.apiserver.registry.registry import Registry

_RBAC = "rbac.authorization.k8s.io"
_POLICY_RESOURCES = MappingProxyType(
    {
        "ClusterRole": resource_named(_RBAC, "clusterroles"),
        "ClusterRoleBinding": resource_named(_RBAC, "clusterrolebindings"),
        "Role": resource_named(_RBAC, "roles"),
        "RoleBinding": resource_named(_RBAC, "rolebindings"),
    }
)
#: The port is kube-apiserver's default: this server does not know its own, and no pod asks it.
_API_SERVICE: dict[str, Any] = {
    "metadata": {
        "name": "kubernetes",
        "labels": {"component": "apiserver", "provider": "kubernetes"},
    },
    "spec": {
        "clusterIP": str(ADDRESSES[1]),
        "ipFamilyPolicy": "SingleStack",
        "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}],
        "sessionAffinity": "None",
        "type": "ClusterIP",
    },
}
NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")


def create_defaults(registry: Registry, *, with_taint_rules: bool = False) -> None:
    """Creates the default objects that do not exist yet.

    Args:
        registry: Stores them.
        with_taint_rules: True if DeviceTaintRules are served: kube-scheduler may read them.
    """
    resource = resource_named("", "namespaces")
    for name in NAMESPACES:
        _create_if_missing(registry, Target(resource, "", name), {"metadata": {"name": name}})
    service = Target(SERVICES, "default", "kubernetes")
    uid = derived_uid(registry, service)  # the stream of chance is as without it
    _create_if_missing(registry, service, deepcopy(_API_SERVICE), uid=uid)
    classes = resource_named("scheduling.k8s.io", "priorityclasses")
    for obj in system_classes():
        _create_if_missing(registry, Target(classes, "", obj["metadata"]["name"]), obj)
    for obj in _policy_with_taint_rules() if with_taint_rules else _policy():
        metadata = obj["metadata"]
        resource = _POLICY_RESOURCES[obj["kind"]]
        target = Target(resource, metadata.get("namespace", ""), metadata["name"])
        _create_if_missing(registry, target, obj, uid=derived_uid(registry, target))


@cache
def _policy() -> tuple[dict[str, Any], ...]:
    """Returns the roles and bindings; the caller must not change them."""
    text = files("mooring").joinpath("apiserver/data/bootstrap_policy.json").read_bytes()
    return tuple(msgspec.json.decode(text)["objects"])


def _policy_with_taint_rules() -> Iterator[dict[str, Any]]:
    for obj in _policy():
        if (obj["kind"], obj["metadata"]["name"]) != ("ClusterRole", "system:kube-scheduler"):
            yield obj
            continue
        *rules, last = obj["rules"]
        yield {**obj, "rules": [*rules, dict(_READS_TAINT_RULES), last]}


_READS_TAINT_RULES = MappingProxyType(
    {
        "apiGroups": ["resource.k8s.io"],
        "resources": ["devicetaintrules"],
        "verbs": ["get", "list", "watch"],
    }
)


def _create_if_missing(
    registry: Registry, target: Target, obj: dict[str, object], uid: str = ""
) -> None:
    if registry.collection(target.resource).get(target.key) is None:
        resource = target.resource
        new = reader_of(struct_of(resource)).read(obj)
        new["kind"], new["apiVersion"] = resource.kind, resource.api_version
        registry.create(target, new, manager="kube-apiserver", uid=uid)
