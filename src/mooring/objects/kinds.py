"""The kinds that mooring reads, with their structs and API resources."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from mooring.errors import ConfigError
from mooring.objects import meta, node, pod, resource, storage, workloads

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind: its struct and its API resource.

    Attributes:
        name: As in ``kind:``, such as "Pod".
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
    def path(self) -> str:
        """The URL path of the whole collection, over all namespaces."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        return f"{root}/{self.resource}"


_TABLE: tuple[Kind, ...] = (
    Kind("Namespace", meta.Namespace, "", "v1", "namespaces", False),
    Kind("Node", node.Node, "", "v1", "nodes", False),
    Kind("Pod", pod.Pod, "", "v1", "pods", True),
    Kind("Service", workloads.Service, "", "v1", "services", True),
    Kind(
        "ReplicationController",
        workloads.ReplicationController,
        "",
        "v1",
        "replicationcontrollers",
        True,
    ),
    Kind("ReplicaSet", workloads.ReplicaSet, "apps", "v1", "replicasets", True),
    Kind("StatefulSet", workloads.StatefulSet, "apps", "v1", "statefulsets", True),
    Kind(
        "PodDisruptionBudget",
        workloads.PodDisruptionBudget,
        "policy",
        "v1",
        "poddisruptionbudgets",
        True,
    ),
    Kind("PriorityClass", meta.PriorityClass, "scheduling.k8s.io", "v1", "priorityclasses", False),
    Kind("PersistentVolume", storage.PersistentVolume, "", "v1", "persistentvolumes", False),
    Kind(
        "PersistentVolumeClaim",
        storage.PersistentVolumeClaim,
        "",
        "v1",
        "persistentvolumeclaims",
        True,
    ),
    Kind("StorageClass", storage.StorageClass, "storage.k8s.io", "v1", "storageclasses", False),
    Kind("CSINode", storage.CSINode, "storage.k8s.io", "v1", "csinodes", False),
    Kind("CSIDriver", storage.CSIDriver, "storage.k8s.io", "v1", "csidrivers", False),
    Kind(
        "CSIStorageCapacity",
        storage.CSIStorageCapacity,
        "storage.k8s.io",
        "v1",
        "csistoragecapacities",
        True,
    ),
    Kind(
        "VolumeAttachment",
        storage.VolumeAttachment,
        "storage.k8s.io",
        "v1",
        "volumeattachments",
        False,
    ),
    Kind("ResourceClaim", resource.ResourceClaim, "resource.k8s.io", "v1", "resourceclaims", True),
    Kind("ResourceSlice", resource.ResourceSlice, "resource.k8s.io", "v1", "resourceslices", False),
    Kind("DeviceClass", resource.DeviceClass, "resource.k8s.io", "v1", "deviceclasses", False),
    Kind("Lease", meta.Lease, "coordination.k8s.io", "v1", "leases", True),
    Kind("Event", meta.Event, "events.k8s.io", "v1", "events", True),
)

#: Kind name -> Kind; objects are decoded and stored in no particular order of kinds.
KINDS: Mapping[str, Kind] = MappingProxyType({kind.name: kind for kind in _TABLE})

#: Plural resource name -> Kind.
KINDS_BY_RESOURCE: Mapping[str, Kind] = MappingProxyType({kind.resource: kind for kind in _TABLE})

#: Struct type -> Kind.
KINDS_BY_STRUCT: Mapping[type[Any], Kind] = MappingProxyType({kind.struct: kind for kind in _TABLE})


def kind_named(name: str) -> Kind:
    """Returns the kind with this name, as in ``kind:``.

    Raises:
        ConfigError: mooring does not read such a kind.
    """
    return _look_up(KINDS, name, path="kind")


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
