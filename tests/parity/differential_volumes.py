"""Random claims that are not bound yet, and volumes without a claim.

Every pod has claims, classes of volumes and volumes of its own: kube-scheduler assumes what it
chose, and the recordings of ``bench/peer`` do not say what that was. So no pod depends on what an
earlier one chose.
"""

from __future__ import annotations

from typing import Any

from mooring.clock import Rng
from tests.parity.differential_themes import Document

DRIVER = "disk.example"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
MIGRATED = "storage.alpha.kubernetes.io/migrated-plugins"
SIZES = ("1Gi", "2Gi", "2Gi", "5Gi", "1500M")
MODES = ("ReadWriteOnce", "ReadWriteMany", "ReadOnlyMany", "ReadWriteOncePod")
ZONE = "topology.kubernetes.io/zone"

#: Volumes of which some must not be used twice on a node; the names are few.
_INLINE: tuple[Document, ...] = (
    {"gcePersistentDisk": {"pdName": "disk-1"}},
    {"gcePersistentDisk": {"pdName": "disk-1", "readOnly": True}},
    {"awsElasticBlockStore": {"volumeID": "vol-1"}},
    {"awsElasticBlockStore": {"volumeID": "vol-2", "readOnly": True}},
    {"iscsi": {"targetPortal": "10.0.0.1:3260", "iqn": "iqn.2001-04.example:a", "lun": 0}},
    {"iscsi": {"targetPortal": "10.0.0.2:3260", "iqn": "iqn.2001-04.example:a", "lun": 0}
     | {"readOnly": True}},
    {"rbd": {"monitors": ["a", "b"], "pool": "p", "image": "i"}},
    {"rbd": {"monitors": ["b", "c"], "pool": "p", "image": "i", "readOnly": True}},
    {"rbd": {"monitors": ["c"], "pool": "q", "image": "i"}},
    {"azureDisk": {"diskName": "az-1", "diskURI": "/az-1"}},
    {"csi": {"driver": DRIVER}},
    {"emptyDir": {}},
    {"configMap": {"name": "settings"}},
)  # fmt: skip


def inline(rng: Rng, pod: Document) -> None:
    """Adds volumes without a claim."""
    volumes = pod["spec"].setdefault("volumes", [])
    for number in range(rng.choice((1, 1, 2, 3))):
        volumes.append({"name": f"inline-{number}", **rng.choice(_INLINE)})


def csi_driver(rng: Rng) -> Document:
    """Returns the spec of a driver, which may publish how much room it has."""
    return rng.choice(({}, {"storageCapacity": True}, {"storageCapacity": False}))


def add_aws_disks(rng: Rng, csi_node: Document) -> None:
    """Adds the driver of AWS disks to a node, which may stand for the plugin in the tree."""
    if rng.random() < 0.4:
        csi_node["metadata"]["annotations"] = {MIGRATED: "kubernetes.io/aws-ebs"}
    if rng.random() < 0.6:
        driver = {"name": "ebs.csi.aws.com", "nodeID": "aws", "topologyKeys": None}
        limit = {"allocatable": {"count": rng.choice((0, 1, 2))}} if rng.random() < 0.8 else {}
        csi_node["spec"]["drivers"].append({**driver, **limit})


def attachments(rng: Rng, node: str) -> list[Document]:
    """Returns attachments of volumes to a node: of some that its pods use, and of others."""
    made = []
    for number in range(rng.choice((0, 0, 0, 1, 2))):
        volume = rng.choice(("default-c-0", "default-c-1", "shop-c-2", "no-such-volume"))
        spec = {"attacher": DRIVER, "nodeName": node, "source": {"persistentVolumeName": volume}}
        name = f"attached-{node}-{number}"
        found = new_object("storage.k8s.io/v1", "VolumeAttachment", name, spec=spec)
        made.append({**found, "status": {"attached": rng.random() < 0.8}})
    return made


def give_unbound_claims(rng: Rng, pod: Document, nodes: list[str]) -> list[Document]:
    """Adds volumes to the pod; returns their claims, and classes and volumes for these."""
    made: list[Document] = []
    volumes = pod["spec"].setdefault("volumes", [])
    for number in range(rng.choice((1, 1, 2))):
        volume = f"own-{number}"
        is_ephemeral = rng.random() < 0.2
        claim = f"{pod['metadata']['name']}-{volume}"
        if is_ephemeral:
            volumes.append({"name": volume, "ephemeral": {"volumeClaimTemplate": {"spec": {}}}})
        else:
            volumes.append({"name": volume, "persistentVolumeClaim": {"claimName": claim}})
        if rng.random() < 0.03:
            continue  # a claim that is not there
        objects = _ClaimMaker(rng, pod["metadata"], claim, nodes).all()
        if is_ephemeral and rng.random() < 0.9:
            owner = {"apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"]}
            uid = pod["metadata"]["uid"] if rng.random() < 0.9 else "another"
            owners = [{**owner, "uid": uid, "controller": True}]
            objects[0]["metadata"]["ownerReferences"] = owners
        made += objects
    return made


class _ClaimMaker:
    """Makes one claim, with what it may be bound to."""

    def __init__(self, rng: Rng, owner: Document, name: str, nodes: list[str]) -> None:
        self.rng = rng
        self.name = name
        self.namespace = owner["namespace"]
        self.nodes = nodes
        self.class_name = f"class-{name}"

    def all(self) -> list[Document]:
        """Returns the claim first."""
        roll = self.rng.random()
        if roll < 0.5:
            return [self.claim(), self.storage_class("kubernetes.io/no-provisioner"), *self.some()]
        if roll < 0.85:
            provisioned = self.storage_class(DRIVER)
            self._limit_topologies(provisioned)
            claim = self.claim()
            if self.rng.random() < 0.1:
                claim["metadata"]["annotations"] = {SELECTED_NODE: self.rng.choice(self.nodes)}
            return [claim, provisioned, *self.capacities(), *self.some()[:1]]
        if roll < 0.9:
            immediate = self.storage_class(DRIVER)
            immediate["volumeBindingMode"] = "Immediate"
            return [self.claim(), immediate]
        if roll < 0.94:
            self.class_name = self.rng.choice(("", "no-such-class"))
            return [self.claim(), *self.some()]
        return self.named()

    def storage_class(self, provisioner: str) -> Document:
        return {
            **new_object("storage.k8s.io/v1", "StorageClass", self.class_name),
            "provisioner": provisioner,
            "volumeBindingMode": "WaitForFirstConsumer",
        }

    def _limit_topologies(self, storage_class: Document) -> None:
        rng = self.rng
        if rng.random() < 0.35:
            zones = rng.sample(["a", "b", "c"], rng.choice((1, 2)))
            terms = [{"matchLabelExpressions": [{"key": ZONE, "values": zones}]}]
            if rng.random() < 0.3:
                terms.append({"matchLabelExpressions": [{"key": "rack", "values": ["1"]}]})
            storage_class["allowedTopologies"] = terms

    def claim(self) -> Document:
        rng = self.rng
        spec: Document = {
            "accessModes": [rng.choice(MODES)],
            "resources": {"requests": {"storage": rng.choice(SIZES)}},
            "storageClassName": self.class_name,
        }
        if rng.random() < 0.3:
            spec["volumeMode"] = rng.choice(("Block", "Filesystem"))
        if rng.random() < 0.2:
            spec["selector"] = {"matchLabels": {"speed": rng.choice(("fast", "slow"))}}
        if rng.random() < 0.1:
            spec["volumeAttributesClassName"] = "gold"
        made = new_object("v1", "PersistentVolumeClaim", self.name, self.namespace, spec=spec)
        if rng.random() < 0.03:
            made["metadata"]["deletionTimestamp"] = "2026-01-02T00:00:00Z"
        phase = "Lost" if rng.random() < 0.03 else "Pending"
        return {**made, "status": {"phase": phase}}

    def some(self) -> list[Document]:
        """Volumes that the claim might be bound to."""
        made = [self.volume(number) for number in range(self.rng.choice((0, 1, 2, 4)))]
        # Of several volumes for this claim kube-scheduler takes the first in the order of a Go map,
        # which differs from run to run.
        for_claim = [volume for volume in made if self.is_for_claim(volume)]
        for volume in for_claim[1:]:
            del volume["spec"]["claimRef"]
        return made

    def is_for_claim(self, volume: Document) -> bool:
        """Returns whether a volume refers to the claim, with its UID or without any."""
        reference: Document = volume["spec"].get("claimRef", {})
        return bool(reference.get("name") == self.name and reference.get("uid") != "another")

    def volume(self, number: int) -> Document:
        rng = self.rng
        spec: Document = {
            **rng.choice(
                ({"hostPath": {"path": "/data"}}, {"csi": _handle(f"{self.name}-{number}")})
            ),
            "capacity": {"storage": rng.choice(SIZES)},
            "accessModes": rng.sample(MODES, rng.choice((1, 2, 3))),
            "storageClassName": self.class_name,
        }
        if rng.random() < 0.2:
            spec["volumeMode"] = rng.choice(("Block", "Filesystem"))
        if rng.random() < 0.6:
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [self.where()]}}
        if rng.random() < 0.1:
            spec["volumeAttributesClassName"] = "gold"
        roll = rng.random()
        if roll < 0.1:
            spec["claimRef"] = self.reference()
        elif roll < 0.15:
            spec["claimRef"] = {**self.reference(), "uid": "another"}
        elif roll < 0.2:
            spec["claimRef"] = {**self.reference(), "name": "another"}
        labels = {"speed": rng.choice(("fast", "slow"))}
        if rng.random() < 0.15:
            labels[ZONE] = rng.choice(("a", "b", "a__b"))
        made = new_object(
            "v1", "PersistentVolume", f"v-{self.name}-{number}", labels=labels, spec=spec
        )
        if rng.random() < 0.05:
            made["metadata"]["deletionTimestamp"] = "2026-01-02T00:00:00Z"
        phase = rng.choice(("Available",) * 8 + ("Released", "Failed"))
        return {**made, "status": {"phase": phase}}

    def where(self) -> Document:
        rng = self.rng
        if rng.random() < 0.4:
            return {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["a", "b"]}]}
        some = rng.sample(self.nodes, min(len(self.nodes), rng.choice((1, 3, 8))))
        operator = rng.choice(("In", "In", "NotIn"))
        expression = {"key": "kubernetes.io/hostname", "operator": operator, "values": some}
        return {"matchExpressions": [expression]}

    def reference(self) -> Document:
        uid = f"uid-PersistentVolumeClaim-{self.namespace}-{self.name}"
        named = {"kind": "PersistentVolumeClaim", "namespace": self.namespace, "name": self.name}
        return {**named, "uid": uid} if self.rng.random() < 0.7 else named

    def capacities(self) -> list[Document]:
        """Returns how much room the driver says that it has."""
        return [self.capacity(number) for number in range(self.rng.choice((0, 1, 1, 3)))]

    def capacity(self, number: int) -> Document:
        rng = self.rng
        found = new_object(
            "storage.k8s.io/v1", "CSIStorageCapacity", f"{self.class_name}-{number}", "default"
        )
        found["storageClassName"] = self.class_name if rng.random() < 0.9 else "no-such-class"
        selectors: tuple[Document, ...] = ({}, {"matchLabels": {ZONE: "a"}})
        if rng.random() < 0.9:
            found["nodeTopology"] = rng.choice(selectors)
        if rng.random() < 0.9:
            found["capacity"] = rng.choice(SIZES)
        if rng.random() < 0.3:
            found["maximumVolumeSize"] = rng.choice(SIZES)
        return found

    def named(self) -> list[Document]:
        """Returns a claim that names its volume, with or without the volume."""
        rng = self.rng
        claim, volume = self.claim(), self.volume(0)
        claim["spec"]["volumeName"] = volume["metadata"]["name"]
        if rng.random() < 0.5:
            claim["metadata"]["annotations"] = {BIND_COMPLETED: "yes"}
        made = [claim, self.storage_class(DRIVER)]
        return [*made, volume] if rng.random() < 0.7 else made


def _handle(name: str) -> Document:
    return {"driver": DRIVER, "volumeHandle": name}


def new_object(
    api_version: str,
    kind: str,
    name: str,
    namespace: str = "",
    *,
    labels: dict[str, str] | None = None,
    spec: Any = None,
) -> Document:
    """Returns an object with a UID that follows from its kind and name."""
    metadata: Document = {"name": name, "uid": f"uid-{kind}-{namespace}-{name}"}
    if namespace:
        metadata["namespace"] = namespace
    if labels:
        metadata["labels"] = labels
    found: Document = {"apiVersion": api_version, "kind": kind, "metadata": metadata}
    return found if spec is None else {**found, "spec": spec}
