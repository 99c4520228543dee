"""Pods with volumes for the ladder: bound ones, free local disks, and disks that have to be made.

Every running pod has a bound volume of a driver with limits, so that there are as many claims and
volumes as pods.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from mooring.clock import SystemClock
from mooring.objects.codec.decode import convert
from mooring.objects.node import Node
from mooring.objects.pod import Pod
from mooring.simulation.driver import Driver
from mooring.testing import make_node, make_pod

DRIVER = "disk.csi.example.com"
HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
ZONES = 10

#: Local disks of each node; the pods of a run take a part of them.
DISKS_PER_NODE = 2


#: What the claims of the pods to be placed are like.
Sort = str
BOUND: Sort = "bound"
FREE: Sort = "local"
MADE: Sort = "made"


def storage(sort: Sort, node_count: int, pod_count: int, running_count: int) -> list[Any]:
    """Everything that is neither a node nor a pod."""
    found = base(node_count) + bound("run", running_count, nodes=node_count)
    if sort == BOUND:
        return found + bound("claim", pod_count, nodes=node_count)
    if sort == FREE:
        found += local_disks(node_count)
    return found + unbound("claim", pod_count, sort)


def running_pods(node_count: int) -> Callable[[int], Pod]:
    """Makes the running pod with a number."""
    return partial(_running_pod, node_count=node_count)


def _running_pod(number: int, *, node_count: int) -> Pod:
    return pod(number, prefix="run", node_name=f"node-{number % node_count:05}")


def time_writes(driver: Driver, clock: SystemClock) -> list[float]:
    """Notes the seconds of each write from now on: what a volume controller does is no decision."""
    spent_s: list[float] = []
    write = driver.handle.patch

    async def timed(kind: str, key: str, patch: Mapping[str, Any]) -> Any:
        started_s = clock.cpu_s()
        answer = await write(kind, key, patch)
        spent_s.append(clock.cpu_s() - started_s)
        return answer

    driver.handle.patch = timed  # type: ignore[method-assign]
    return spent_s


def node(number: int) -> Node:
    """4 cpu, 32Gi, 110 pods, one of ten zones."""
    return make_node(f"node-{number:05}", zone=f"zone-{number % ZONES}")


def base(node_count: int) -> list[Any]:
    """Classes, the driver, its limits on each node, and its room in each zone."""
    classes = (
        ("bound", DRIVER, "Immediate"),
        ("made", DRIVER, "WaitForFirstConsumer"),
        ("local", "kubernetes.io/no-provisioner", "WaitForFirstConsumer"),
    )
    found = [
        _object("StorageClass", name, top={"provisioner": provisioner, "volumeBindingMode": mode})
        for name, provisioner, mode in classes
    ]
    found.append(_object("CSIDriver", DRIVER, spec={"storageCapacity": True}))
    for number in range(node_count):
        driver = {"name": DRIVER, "topologyKeys": [ZONE], "allocatable": {"count": 64}}
        found.append(_object("CSINode", f"node-{number:05}", spec={"drivers": [driver]}))
    for zone in range(ZONES):
        room = {
            "storageClassName": "made",
            "nodeTopology": {"matchLabels": {ZONE: f"zone-{zone}"}},
            "capacity": "100Ti" if zone % 2 else "1Gi",
        }
        found.append(_object("CSIStorageCapacity", f"zone-{zone}", namespace="default", top=room))
    return found


def bound(prefix: str, count: int, *, nodes: int) -> list[Any]:
    """Claims and their volumes, each in the zone of one of the nodes."""
    found = []
    for number in range(count):
        name = f"{prefix}-{number}"
        volume = {
            "capacity": {"storage": "10Gi"},
            "accessModes": ["ReadWriteOnce"],
            "csi": {"driver": DRIVER, "volumeHandle": name},
            "storageClassName": "bound",
            "claimRef": {"namespace": "default", "name": name, "uid": name},
            "nodeAffinity": _near(ZONE, f"zone-{number % nodes % ZONES}"),
        }
        found.append(_object("PersistentVolume", name, spec=volume, status={"phase": "Bound"}))
        found.append(_claim(name, "bound", volume=name))
    return found


def unbound(prefix: str, count: int, class_name: str) -> list[Any]:
    """Claims that wait for their pods."""
    return [_claim(f"{prefix}-{number}", class_name) for number in range(count)]


def local_disks(node_count: int) -> list[Any]:
    """Free disks of the nodes, of different sizes."""
    found = []
    for number in range(node_count * DISKS_PER_NODE):
        volume = {
            "capacity": {"storage": f"{20 + number % 50}Gi"},
            "accessModes": ["ReadWriteOnce"],
            "local": {"path": f"/mnt/{number}"},
            "storageClassName": "local",
            "nodeAffinity": _near(HOSTNAME, f"node-{number % node_count:05}"),
        }
        name, status = f"local-{number}", {"phase": "Available"}
        found.append(_object("PersistentVolume", name, spec=volume, status=status))
    return found


def pod(number: int, *, prefix: str = "claim", node_name: str = "") -> Pod:
    """100m cpu, 500Mi, and one claim."""
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": f"{prefix}-{number}"}}
    return make_pod(
        f"{prefix}-{number}",
        requests={"cpu": "10m", "memory": "50Mi"},
        node=node_name,
        spec={"volumes": [volume]},
    )


def _claim(name: str, class_name: str, *, volume: str = "") -> Any:
    spec: dict[str, Any] = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "10Gi"}},
        "storageClassName": class_name,
    }
    annotations = {}
    if volume:
        spec["volumeName"] = volume
        annotations["pv.kubernetes.io/bind-completed"] = "yes"
    return _object(
        "PersistentVolumeClaim",
        name,
        namespace="default",
        annotations=annotations,
        spec=spec,
        status={"phase": "Bound" if volume else "Pending"},
    )


def _near(key: str, value: str) -> dict[str, Any]:
    expression = {"key": key, "operator": "In", "values": [value]}
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}


def _object(
    kind: str,
    name: str,
    *,
    namespace: str = "",
    annotations: dict[str, str] | None = None,
    top: dict[str, Any] | None = None,
    **parts: Any,
) -> Any:
    metadata = {
        "name": name,
        "namespace": namespace,
        "uid": name,
        "resourceVersion": "1",
        "annotations": annotations or {},
    }
    return convert({"metadata": metadata, **(top or {}), **parts}, kind)
