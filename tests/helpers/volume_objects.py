"""Builders of volumes, claims and related objects, with defaults for all other fields."""

from __future__ import annotations

from typing import Any

from mooring.objects.codec.decode import convert
from mooring.objects.pod import Pod
from mooring.objects.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from mooring.state.cache import Cache
from mooring.testing import make_pod

ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
DRIVER = "disk.csi.test"
MIGRATED = "storage.alpha.kubernetes.io/migrated-plugins"
LATE = "WaitForFirstConsumer"


def put(cache: Cache, *objects: Any) -> Cache:
    """Puts objects other than pods and nodes into the cache."""
    for obj in objects:
        cache.put_object(type(obj).__name__, obj)
    return cache


def volume(
    name: str = "volume",
    *,
    size: str = "1Gi",
    storage_class: str = "local",
    phase: str = "Available",
    claim: str = "",
    claim_uid: str | None = None,
    near: dict[str, str] | None = None,
    version: str = "1",
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    **spec: Any,
) -> PersistentVolume:
    """Returns a volume; ``claim`` is "namespace/name", ``near`` the labels of its nodes."""
    if claim:
        namespace, _, of = claim.partition("/")
        uid = claim_uid if claim_uid is not None else f"uid-{of}"
        spec["claimRef"] = {"namespace": namespace, "name": of, "uid": uid}
    if near is not None:
        expressions = [{"key": k, "operator": "In", "values": [v]} for k, v in near.items()]
        term = {"matchExpressions": expressions}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
    document = {
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "resourceVersion": version,
            "labels": labels or {},
            "annotations": annotations or {},
        },
        "spec": {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            **spec,
        },
        "status": {"phase": phase},
    }
    obj: PersistentVolume = convert(document, "PersistentVolume")
    return obj


def csi(handle: str = "handle", driver: str = DRIVER) -> dict[str, Any]:
    """Returns the source of a volume of a CSI driver."""
    return {"driver": driver, "volumeHandle": handle}


def claim(
    name: str = "claim",
    *,
    namespace: str = "default",
    size: str = "1Gi",
    storage_class: str = "local",
    volume_name: str = "",
    is_bound: bool = True,
    node: str = "",
    version: str = "1",
    owner: str = "",
    phase: str = "",
    annotations: dict[str, str] | None = None,
    metadata: dict[str, Any] | None = None,
    **spec: Any,
) -> PersistentVolumeClaim:
    """Returns a claim; with ``volume_name`` it is bound, unless ``is_bound`` is False."""
    annotations = dict(annotations or {})
    if volume_name:
        spec["volumeName"] = volume_name
        if is_bound:
            annotations["pv.kubernetes.io/bind-completed"] = "yes"
    if node:
        annotations["volume.kubernetes.io/selected-node"] = node
    head: dict[str, Any] = {
        "name": name,
        "namespace": namespace,
        "uid": f"uid-{name}",
        "resourceVersion": version,
        "annotations": annotations,
        **(metadata or {}),
    }
    if owner:
        head["ownerReferences"] = [
            {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": owner, "controller": True}
        ]
    document = {
        "metadata": head,
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": size}},
            "storageClassName": storage_class,
            **spec,
        },
        "status": {"phase": phase or ("Bound" if volume_name and is_bound else "Pending")},
    }
    made: PersistentVolumeClaim = convert(document, "PersistentVolumeClaim")
    return made


def storage_class(
    name: str = "local",
    *,
    provisioner: str = "kubernetes.io/no-provisioner",
    mode: str | None = LATE,
    topologies: list[dict[str, Any]] | None = None,
) -> StorageClass:
    """Returns a class with late binding, unless ``mode`` is another one."""
    document: dict[str, Any] = {"metadata": {"name": name}, "provisioner": provisioner}
    if mode is not None:
        document["volumeBindingMode"] = mode
    if topologies is not None:
        document["allowedTopologies"] = topologies
    obj: StorageClass = convert(document, "StorageClass")
    return obj


def csi_node(name: str, *, migrated: str = "", **limits: Any) -> CSINode:
    """Returns a CSINode with attach limits by driver; ``_`` in a name stands for ``.``."""
    drivers = []
    for driver, limit in limits.items():
        entry: dict[str, Any] = {"name": driver.replace("_", "."), "nodeID": name}
        if limit is not None:
            entry["allocatable"] = {"count": limit}
        drivers.append(entry)
    annotations = {MIGRATED: migrated} if migrated else {}
    document = {
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"drivers": drivers},
    }
    obj: CSINode = convert(document, "CSINode")
    return obj


def csi_driver(name: str = DRIVER, *, has_capacity: bool | None = True) -> CSIDriver:
    """Returns a driver, which reports its capacity or not."""
    document: dict[str, Any] = {"metadata": {"name": name}, "spec": {}}
    if has_capacity is not None:
        document["spec"]["storageCapacity"] = has_capacity
    obj: CSIDriver = convert(document, "CSIDriver")
    return obj


def capacity(
    name: str = "capacity",
    *,
    storage_class: str = "made",
    near: dict[str, Any] | None = None,
    **amounts: str,
) -> CSIStorageCapacity:
    """Returns a capacity of a class; ``near`` is the nodes' label selector, None = no node."""
    document: dict[str, Any] = {
        "metadata": {"name": name, "namespace": "default"},
        "storageClassName": storage_class,
        **amounts,
    }
    if near is not None:
        document["nodeTopology"] = near
    obj: CSIStorageCapacity = convert(document, "CSIStorageCapacity")
    return obj


def attachment(
    name: str, *, node: str, volume: str | None, attacher: str = DRIVER
) -> VolumeAttachment:
    """Returns an attachment of a volume to a node."""
    source = {} if volume is None else {"persistentVolumeName": volume}
    spec = {"attacher": attacher, "nodeName": node, "source": source}
    obj: VolumeAttachment = convert({"metadata": {"name": name}, "spec": spec}, "VolumeAttachment")
    return obj


def user(name: str = "pod", *claims: str, node: str = "", **more: Any) -> Pod:
    """Returns a pod with these claims; ``volumes`` are more volumes, as in the API."""
    volumes = [
        {"name": f"v{number}", "persistentVolumeClaim": {"claimName": of}}
        for number, of in enumerate(claims)
    ]
    volumes += more.pop("volumes", [])
    return make_pod(name, node=node, spec={"volumes": volumes}, **more)
