"""The kinds that mooring reads, with their structs and API resources.

Plugins may follow any other resource, such as one of a CustomResourceDefinition: its kind has the
name of the resource, ``podgroups.v1alpha1.scheduling.x-k8s.io``, and its objects are
``GenericObject``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from mooring.errors import ConfigError
from mooring.objects import meta, node, pod, resource, storage, workloads
from mooring.objects.generic import RESOURCE_NAME, GenericObject, generic_class

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind: its struct and its API resource.

    Attributes:
        name: As in ``kind:``, such as "Pod"; of a kind outside the table, its resource name.
        struct: The type that its objects are decoded into.
        group: The API group, "" for the core group.
        version: The version of the group that mooring speaks.
        resource: The plural name in URLs, such as "persistentvolumeclaims".
        namespaced: True if objects of the kind are namespaced.
    """

    name: str
    struct: type[Any]
    group: str
    version: str
    resource: str
    namespaced: bool

    @property
    def api_version(self) -> str:
        """The value of ``apiVersion``: "v1", "apps/v1"."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource_name(self) -> str:
        """The resource, version and group, as plugins name them: "nodes.v1."."""
        return f"{self.resource}.{self.version}.{self.group}"

    @property
    def is_generic(self) -> bool:
        """True for a kind outside the table, whose objects have no struct."""
        return issubclass(self.struct, GenericObject)

    def has_head(self, obj: Any) -> bool:
        """Returns whether ``apiVersion`` and ``kind`` of an object are those of this kind.

        The ``kind:`` of a generic kind is not known: a plugin names its resource.
        """
        return (obj.kind == self.name or self.is_generic) and obj.api_version == self.api_version

    @property
    def path(self) -> str:
        """The URL path of the whole collection, over all namespaces."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        return f"{root}/{self.resource}"


#: Struct, API group, plural name, and whether objects are namespaced.
_TABLE: tuple[tuple[type[Any], str, str, bool], ...] = (
    (meta.Namespace, "", "namespaces", False),
    (node.Node, "", "nodes", False),
    (pod.Pod, "", "pods", True),
    (workloads.Service, "", "services", True),
    (workloads.ReplicationController, "", "replicationcontrollers", True),
    (workloads.ReplicaSet, "apps", "replicasets", True),
    (workloads.StatefulSet, "apps", "statefulsets", True),
    (workloads.PodDisruptionBudget, "policy", "poddisruptionbudgets", True),
    (meta.PriorityClass, "scheduling.k8s.io", "priorityclasses", False),
    (meta.RuntimeClass, "node.k8s.io", "runtimeclasses", False),
    (storage.PersistentVolume, "", "persistentvolumes", False),
    (storage.PersistentVolumeClaim, "", "persistentvolumeclaims", True),
    (storage.StorageClass, "storage.k8s.io", "storageclasses", False),
    (storage.CSINode, "storage.k8s.io", "csinodes", False),
    (storage.CSIDriver, "storage.k8s.io", "csidrivers", False),
    (storage.CSIStorageCapacity, "storage.k8s.io", "csistoragecapacities", True),
    (storage.VolumeAttachment, "storage.k8s.io", "volumeattachments", False),
    (resource.ResourceClaim, "resource.k8s.io", "resourceclaims", True),
    (resource.ResourceClaimTemplate, "resource.k8s.io", "resourceclaimtemplates", True),
    (resource.ResourceSlice, "resource.k8s.io", "resourceslices", False),
    (resource.DeviceClass, "resource.k8s.io", "deviceclasses", False),
    (resource.DeviceTaintRule, "resource.k8s.io", "devicetaintrules", False),
    (meta.Lease, "coordination.k8s.io", "leases", True),
    (meta.Event, "events.k8s.io", "events", True),
)
#: The versions that are not v1.
_VERSIONS: Mapping[type[Any], str] = {resource.DeviceTaintRule: "v1beta2"}

_KINDS = tuple(
    Kind(struct.__name__, struct, group, _VERSIONS.get(struct, "v1"), resource_name, namespaced)
    for struct, group, resource_name, namespaced in _TABLE
)

#: Kind name -> Kind; objects are decoded and stored in no particular order of kinds.
KINDS: Mapping[str, Kind] = MappingProxyType({kind.name: kind for kind in _KINDS})

#: Plural resource name -> Kind.
KINDS_BY_RESOURCE: Mapping[str, Kind] = MappingProxyType({kind.resource: kind for kind in _KINDS})

#: Struct type -> Kind.
KINDS_BY_STRUCT: Mapping[type[Any], Kind] = MappingProxyType({kind.struct: kind for kind in _KINDS})


#: Resource names that are cached: more than plugins follow.
_RESOURCE_NAMES_CACHED = 256

#: Kind that a scheduler reads only with a feature gate, which is off by default -> the gate.
GATED_KINDS: Mapping[str, str] = MappingProxyType({"DeviceTaintRule": "DRADeviceTaintRules"})

#: Kinds that are created first, in this order, since others refer to them.
CREATED_FIRST = (
    *("Namespace", "PriorityClass", "RuntimeClass", "StorageClass", "CSIDriver", "Node", "CSINode"),
)


def kind_named(name: str) -> Kind:
    """Returns the kind with this name: as in ``kind:``, or "RESOURCE.VERSION.GROUP".

    Raises:
        ConfigError: mooring does not read such a kind.

    Example:
        >>> kind_named("Pod").path
        '/api/v1/pods'
        >>> kind_named("podgroups.v1alpha1.scheduling.x-k8s.io").path
        '/apis/scheduling.x-k8s.io/v1alpha1/podgroups'
    """
    kind = KINDS.get(name)
    if kind is not None:
        return kind
    return _kind_of_resource_name(name) or _look_up(KINDS, name, path="kind")


@lru_cache(maxsize=_RESOURCE_NAMES_CACHED)
def _kind_of_resource_name(name: str) -> Kind | None:
    """Returns the kind of "RESOURCE.VERSION.GROUP"; None if the name is not of this form."""
    match = RESOURCE_NAME.fullmatch(name)
    if match is None:
        return None
    resource_name, version, group = match.groups()
    kind = KINDS_BY_RESOURCE.get(resource_name)
    if kind is not None and (kind.version, kind.group) == (version, group):
        return kind
    # The scope does not matter: all namespaces are listed, and objects have their namespace.
    return Kind(name, generic_class(name), group, version, resource_name, namespaced=True)


def kind_of_resource(resource_name: str) -> Kind:
    """Returns the kind with this plural resource name, as in URLs.

    Raises:
        ConfigError: mooring does not read such a resource.
    """
    return _look_up(KINDS_BY_RESOURCE, resource_name, path="resource")


def _look_up(table: Mapping[str, Kind], name: str, *, path: str) -> Kind:
    kind = table.get(name)
    if kind is None:
        by_lower = {existing.lower(): existing for existing in table}
        suggestion = by_lower.get(name.lower()) or by_lower.get(name.lower().removesuffix("s"))
        raise ConfigError("is not read by mooring", path=path, value=name, suggestion=suggestion)
    return kind
