"""Small random clusters with volumes: all kinds of claims, volumes, classes, drivers, and users."""

from __future__ import annotations

from typing import Any, NamedTuple

from mooring.clock import Rng, seeded_random
from mooring.objects.codec.decode import convert
from mooring.objects.node import Node
from mooring.objects.pod import Pod
from mooring.testing import Harness, make_node, make_pod
from tests.plugins.volume_twins import Facts

ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
MIGRATED = "storage.alpha.kubernetes.io/migrated-plugins"
NET, DISK, EBS = "net.csi.test", "disk.csi.test", "ebs.csi.aws.com"

CLASSES = ("local", "net", "disk", "now", "ebs", "absent")
NODES = tuple(f"node-{number}" for number in range(5))
NAMESPACES = ("default", "default", "other")
CLAIMS = tuple(f"claim-{number}" for number in range(6))
VOLUMES = tuple(f"volume-{number}" for number in range(9))
SIZES = ("1Gi", "2Gi", "2Gi", "5Gi", "500m")


class Case(NamedTuple):
    """A cluster with volumes, and the pod that is to be placed."""

    objects: list[Node | Pod]
    storage: list[Any]
    pod: Pod

    def harness(self, plugin: Any) -> Harness:
        """Returns a plugin over the cluster; storage objects come last, or first."""
        harness = Harness(self.objects, [plugin], cache_results=False)
        for obj in self.storage:
            harness.cache.put_object(type(obj).__name__, obj)
        return harness

    def facts(self) -> Facts:
        """Returns the same objects, for a twin."""
        facts = Facts()
        for obj in self.storage:
            facts.put(obj)
        return facts


def case(seed: int) -> Case:
    """Returns the same for the same seed."""
    rng = seeded_random(seed)
    names = NODES[: rng.choice((1, 3, 5))]
    objects: list[Node | Pod] = [node(rng, name) for name in names]
    objects += [
        pod(rng, f"placed-{number}", node=rng.choice(names))
        for number in range(rng.choice((0, 3, 8)))
    ]
    return Case(objects, storage(rng), pod(rng, "incoming", is_whole=True))


def node(rng: Rng, name: str) -> Node:
    """Returns a node in a zone or in none, maybe with the labels of drivers."""
    labels = {HOSTNAME: name} if rng.random() < 0.9 else {}
    if rng.random() < 0.3:
        labels[BETA_ZONE] = rng.choice("ab")
    if rng.random() < 0.3:
        labels["topology.ebs.csi.aws.com/zone"] = rng.choice("ab")
    found = make_node(name, zone=rng.choice(("a", "b", None)))
    document = {
        "metadata": {"name": name, "labels": {**found.metadata.labels, **labels}},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
    }
    node_found: Node = convert(document, "Node")
    return node_found


def storage(rng: Rng) -> list[Any]:
    """Returns some of everything."""
    found = [storage_class(rng, name) for name in CLASSES if name != "absent"]
    found += [volume(rng, name) for name in VOLUMES if rng.random() < 0.8]
    found += [
        claim(rng, name, namespace)
        for namespace in ("default", "other")
        for name in CLAIMS
        if rng.random() < 0.85
    ]
    for name in ("incoming", "placed-0", "placed-1", "extra"):
        if rng.random() < 0.6:
            found.append(ephemeral_claim(rng, name))
    found += [csi_node(rng, name) for name in NODES if rng.random() < 0.7]
    found += [csi_driver(rng, name) for name in (NET, DISK) if rng.random() < 0.8]
    found += [capacity(rng, f"capacity-{number}") for number in range(rng.choice((0, 2, 4)))]
    found += [attachment(rng, f"attached-{number}") for number in range(rng.choice((0, 2, 5)))]
    return found


def storage_class(rng: Rng, name: str) -> Any:
    """Returns a class: of volumes made by hand, by a driver, or by an in-tree plugin."""
    provisioner = {
        "local": "kubernetes.io/no-provisioner",
        "ebs": "kubernetes.io/aws-ebs",
        "disk": DISK,
    }.get(name, NET)
    mode = "Immediate" if name == "now" else "WaitForFirstConsumer"
    top: dict[str, Any] = {"provisioner": provisioner, "volumeBindingMode": mode}
    if rng.random() < 0.4:
        key, values = rng.choice(((ZONE, ["a"]), (ZONE, ["a", "b"]), (HOSTNAME, ["node-1"])))
        expressions = [{"key": key, "values": values}] if rng.random() < 0.8 else []
        top["allowedTopologies"] = [{"matchLabelExpressions": expressions}]
    return made("StorageClass", name, top=top)


def volume(rng: Rng, name: str) -> Any:
    """Returns a volume: available, bound, pre-bound, or terminating."""
    spec: dict[str, Any] = {
        "capacity": {"storage": rng.choice(SIZES)},
        "accessModes": rng.choice((["ReadWriteOnce"], ["ReadWriteOnce", "ReadOnlyMany"], [])),
        "storageClassName": rng.choice(("local", "local", "net", "disk", "ebs")),
        **source(rng, name),
    }
    if rng.random() < 0.2:
        spec["volumeMode"] = rng.choice(("Block", "Filesystem"))
    if rng.random() < 0.1:
        spec["volumeAttributesClassName"] = "gold"
    if rng.random() < 0.7:
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms(rng)}}
    if rng.random() < 0.4:
        namespace, of = rng.choice(NAMESPACES), rng.choice(CLAIMS)
        uid = rng.choice((f"uid-{namespace}-{of}", f"uid-{namespace}-{of}", "", "of-another"))
        spec["claimRef"] = {"namespace": namespace, "name": of, "uid": uid}
    labels = {"tier": rng.choice(("gold", "iron"))} if rng.random() < 0.5 else {}
    if rng.random() < 0.4:
        key = rng.choice((ZONE, BETA_ZONE, "topology.kubernetes.io/region"))
        labels[key] = rng.choice(("a", "b", "a__b", "a__", "us-x1-a__us-x1-b"))
    metadata = {"labels": labels}
    if rng.random() < 0.05:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"  # type: ignore[assignment]
    phase = rng.choice(("Available", "Available", "Available", "Bound", "Pending", "Released"))
    return made("PersistentVolume", name, metadata=metadata, spec=spec, status={"phase": phase})


def source(rng: Rng, name: str) -> dict[str, Any]:
    """Returns where a volume's data is: with a driver, on a disk of old, or elsewhere."""
    return rng.choice(
        (
            {"csi": {"driver": NET, "volumeHandle": name}},
            {"csi": {"driver": DISK, "volumeHandle": rng.choice((name, "shared"))}},
            {"awsElasticBlockStore": {"volumeID": f"aws://a/vol-{name}"}},
            {"awsElasticBlockStore": {"volumeID": "aws://a/disk-1"}},
            {"gcePersistentDisk": {"pdName": name}},
            {"azureDisk": {"diskName": name, "diskURI": name, "kind": "Dedicated"}},
            {"local": {"path": "/mnt"}},
        )
    )


def terms(rng: Rng) -> list[dict[str, Any]]:
    """Returns node selector terms as volumes have them; some say nothing, some only name nodes."""
    found = []
    for _ in range(rng.choice((1, 1, 1, 2))):
        term: dict[str, Any] = {"matchExpressions": [expression(rng)]}
        if rng.random() < 0.2:
            term["matchExpressions"].append(expression(rng))
        if rng.random() < 0.15:
            names = [rng.choice(NODES)]
            term["matchFields"] = [{"key": "metadata.name", "operator": "In", "values": names}]
        if rng.random() < 0.1:
            term["matchExpressions"] = []
        found.append(term)
    return found


def expression(rng: Rng) -> dict[str, Any]:
    key = rng.choice((ZONE, HOSTNAME, HOSTNAME, BETA_ZONE))
    values = {HOSTNAME: NODES}.get(key, ("a", "b"))
    operator = rng.choice(("In", "In", "In", "NotIn", "Exists", "DoesNotExist"))
    some = rng.sample(values, k=rng.choice((1, 1, 2)))
    return {
        "key": key,
        "operator": operator,
        "values": some if operator in ("In", "NotIn") else [],
    }


def claim(rng: Rng, name: str, namespace: str) -> Any:
    """Returns a claim: bound or not, placed or not, sometimes lost or leaving."""
    spec: dict[str, Any] = {
        "accessModes": rng.choice((["ReadWriteOnce"], ["ReadWriteOncePod"], ["ReadWriteOnce"])),
        "resources": {"requests": {"storage": rng.choice(SIZES)}},
        "storageClassName": rng.choice(CLASSES),
    }
    if rng.random() < 0.1:
        spec["resources"] = {}
    if rng.random() < 0.1:
        spec["volumeMode"] = "Block"
    if rng.random() < 0.1:
        spec["volumeAttributesClassName"] = "gold"
    if rng.random() < 0.2:
        spec["selector"] = selector(rng)
    annotations = {}
    if rng.random() < 0.4:
        spec["volumeName"] = rng.choice((*VOLUMES, "gone"))
        if rng.random() < 0.85:
            annotations["pv.kubernetes.io/bind-completed"] = "yes"
    elif rng.random() < 0.15:
        annotations["volume.kubernetes.io/selected-node"] = rng.choice((*NODES, "gone"))
    if rng.random() < 0.05:
        annotations["volume.beta.kubernetes.io/storage-class"] = rng.choice(("net", ""))
    metadata: dict[str, Any] = {"annotations": annotations, "namespace": namespace}
    if rng.random() < 0.04:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    phase = "Lost" if rng.random() < 0.04 else "Pending"
    metadata["uid"] = f"uid-{namespace}-{name}"
    return made(
        "PersistentVolumeClaim", name, metadata=metadata, spec=spec, status={"phase": phase}
    )


def selector(rng: Rng) -> dict[str, Any]:
    if rng.random() < 0.5:
        return {"matchLabels": {"tier": "gold"}}
    operator = rng.choice(("In", "NotIn", "Exists", "DoesNotExist"))
    values = ["iron"] if operator in ("In", "NotIn") else []
    return {"matchExpressions": [{"key": "tier", "operator": operator, "values": values}]}


def ephemeral_claim(rng: Rng, pod_name: str) -> Any:
    """Returns the claim of a pod's ephemeral volume, owned by it or by another pod."""
    found = claim(rng, f"{pod_name}-scratch", "default")
    uid = rng.choice((f"pod-default-{pod_name}", f"pod-default-{pod_name}", "another"))
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod_name, "uid": uid, "controller": True}
    document = {
        "metadata": {
            "name": found.metadata.name,
            "namespace": "default",
            "uid": found.metadata.uid,
            "annotations": found.metadata.annotations,
            "ownerReferences": [owner],
        },
        "spec": {"storageClassName": "net", "resources": {"requests": {"storage": "1Gi"}}},
        "status": {"phase": "Pending"},
    }
    return convert(document, "PersistentVolumeClaim")


def csi_node(rng: Rng, name: str) -> Any:
    """Returns what drivers say of a node: limits, and what they have taken over."""
    drivers = []
    for driver in (NET, DISK, EBS):
        if rng.random() < 0.3:
            continue
        entry: dict[str, Any] = {"name": driver, "nodeID": name}
        if rng.random() < 0.7:
            entry["allocatable"] = {"count": rng.choice((0, 1, 2, 3))}
        drivers.append(entry)
    annotations = {}
    if rng.random() < 0.6:
        annotations[MIGRATED] = rng.choice(
            ("kubernetes.io/aws-ebs,kubernetes.io/gce-pd", "kubernetes.io/azure-disk", "")
        )
    return made("CSINode", name, metadata={"annotations": annotations}, spec={"drivers": drivers})


def csi_driver(rng: Rng, name: str) -> Any:
    return made("CSIDriver", name, spec={"storageCapacity": rng.choice((True, True, False))})


def capacity(rng: Rng, name: str) -> Any:
    """Returns a capacity of a class: of a zone, a host, all nodes, or without topology."""
    top: dict[str, Any] = {"storageClassName": rng.choice(("net", "disk"))}
    where = rng.choice(("zone", "host", "not", "anywhere", "unknown"))
    if where == "zone":
        top["nodeTopology"] = {"matchLabels": {ZONE: rng.choice("ab")}}
    elif where == "host":
        top["nodeTopology"] = {"matchLabels": {HOSTNAME: rng.choice(NODES)}}
    elif where == "not":
        wanted = {"key": ZONE, "operator": "NotIn", "values": ["a"]}
        top["nodeTopology"] = {"matchExpressions": [wanted]}
    elif where == "anywhere":
        top["nodeTopology"] = {}
    if rng.random() < 0.9:
        top["capacity"] = rng.choice(("1Gi", "3Gi", "0"))
    if rng.random() < 0.3:
        top["maximumVolumeSize"] = rng.choice(("1Gi", "2Gi"))
    return made("CSIStorageCapacity", name, metadata={"namespace": "default"}, top=top)


def attachment(rng: Rng, name: str) -> Any:
    spec: dict[str, Any] = {
        "attacher": rng.choice((NET, DISK, "")),
        "nodeName": rng.choice((*NODES, "gone")),
        "source": {"persistentVolumeName": rng.choice((*VOLUMES, "gone"))},
    }
    if rng.random() < 0.1:
        spec["source"] = {}
    return made("VolumeAttachment", name, spec=spec)


def pod(rng: Rng, name: str, *, node: str = "", is_whole: bool = False) -> Pod:
    """Returns a pod with some volumes; ``is_whole``: mostly with claims that exist."""
    namespace = "default" if is_whole else rng.choice(NAMESPACES)
    count = rng.choice((1, 1, 2, 3)) if is_whole else rng.choice((0, 1, 2))
    volumes = [pod_volume(rng, number) for number in range(count)]
    if rng.random() < 0.15:
        template = {"spec": {"storageClassName": "net"}}
        volumes.append({"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}})
    return make_pod(name, namespace=namespace, node=node, spec={"volumes": volumes})


def pod_volume(rng: Rng, number: int) -> dict[str, Any]:
    """Returns one volume: mostly a claim."""
    read_only = rng.random() < 0.4
    disks: tuple[dict[str, Any], ...] = (
        {"gcePersistentDisk": {"pdName": rng.choice("xy"), "readOnly": read_only}},
        {"awsElasticBlockStore": {"volumeID": rng.choice(("vol-1", "vol-2", "aws://z/bad"))}},
        {"iscsi": {"targetPortal": "p", "iqn": rng.choice("xy"), "readOnly": read_only}},
        {
            "rbd": {
                "monitors": rng.sample("abc", k=rng.choice((0, 1, 2))),
                "image": "i",
                "pool": rng.choice(("p", "q")),
                "readOnly": read_only,
            }
        },
        {"azureDisk": {"diskName": "d", "diskURI": "d", "kind": rng.choice(("Managed", "Shared"))}},
        {"cinder": {"volumeID": "c"}},
        {"emptyDir": {}},
    )
    if rng.random() < 0.65:
        what = {"persistentVolumeClaim": {"claimName": rng.choice(CLAIMS)}}
    else:
        what = rng.choice(disks)
    return {"name": f"volume-{number}", **what}


def made(
    kind: str,
    name: str,
    *,
    metadata: dict[str, Any] | None = None,
    top: dict[str, Any] | None = None,
    **parts: Any,
) -> Any:
    """Returns an object of a kind, as the API writes it."""
    return convert({"metadata": {"name": name, **(metadata or {})}, **(top or {}), **parts}, kind)
