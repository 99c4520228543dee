"""Kubernetes objects as structs, and the parsers of their small languages.

Here are the structs (``meta``, ``pod``, ``node``, ``storage``, ``workloads``, ``resource``), the
table of kinds, decoding, quantities, selectors, tolerations, and what a pod asks for. Only the
fields that a scheduler reads are decoded. Nothing here knows of nodes' state, plugins or networks.
"""

from __future__ import annotations

from mooring.objects.kinds import KINDS, KINDS_BY_RESOURCE, KINDS_BY_STRUCT, Kind
from mooring.objects.meta import (
    Event,
    KubernetesObject,
    LabelSelector,
    Lease,
    Namespace,
    ObjectMeta,
    PriorityClass,
    key,
)
from mooring.objects.node import Node
from mooring.objects.pod import Pod
from mooring.objects.resource import DeviceClass, ResourceClaim, ResourceSlice
from mooring.objects.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from mooring.objects.workloads import (
    PodDisruptionBudget,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
)

__all__ = [
    "KINDS",
    "KINDS_BY_RESOURCE",
    "KINDS_BY_STRUCT",
    "CSIDriver",
    "CSINode",
    "CSIStorageCapacity",
    "DeviceClass",
    "Event",
    "Kind",
    "KubernetesObject",
    "LabelSelector",
    "Lease",
    "Namespace",
    "Node",
    "ObjectMeta",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "Pod",
    "PodDisruptionBudget",
    "PriorityClass",
    "ReplicaSet",
    "ReplicationController",
    "ResourceClaim",
    "ResourceSlice",
    "Service",
    "StatefulSet",
    "StorageClass",
    "VolumeAttachment",
    "key",
]
