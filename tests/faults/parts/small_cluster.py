"""A small cluster for hints: each pod waits for one or two things, and single things change.

Pods have constraints of spreading, affinity, labels of nodes, taints, ports, cpu, volumes and
devices; of the objects that these need some are missing. Documents are as an API server has them.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any, Final

from mooring.clock import Rng
from tests.parity.differential_themes import Document
from tests.parity.requeue_cases import ADD, DELETE, UPDATE, Change

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
KEYS: Final = (HOST, ZONE, "rack")
APPS: Final = ("x", "y")
DRIVER: Final = "csi.example.com"
MAKER: Final = "gpu.example.com"
WAITING: Final = 6
PLACED: Final = 4
#: Claims that are bound to volumes of a driver with limits.
DISKS: Final = 6
CLASSES: Final = {"static": "WaitForFirstConsumer", "immediate": "Immediate"}
#: What changes, and how often.
WEIGHTS: Final = {
    "label": 6,
    "taint": 3,
    "cordon": 2,
    "cpu": 2,
    "new_node": 2,
    "drop_node": 1,
    "gone": 4,
    "relabel": 3,
    "place": 3,
    "wait": 5,
    "volume": 3,
    "drop_volume": 1,
    "claim": 2,
    "storage_class": 1,
    "limit": 2,
    "slice": 2,
    "drop_slice": 1,
    "device_class": 1,
}


class SmallCluster:
    """The objects, and their changes.

    Attributes:
        objects: By kind, and namespace and name.
    """

    def __init__(self, rng: Rng) -> None:
        self.objects: dict[tuple[str, str], Document] = {}
        self._rng = rng
        self._numbers = dict.fromkeys(("node", "pod", "volume", "slice"), 0)
        self._features = rng.sample(sorted(FEATURES), rng.choice((1, 2, 3)))
        for _ in range(rng.choice((1, 2, 3))):
            self._new_node()
        for name in CLASSES:
            if rng.random() < 0.5:
                self._storage_class(name)
        for number in range(DISKS):
            self._disk(f"disk-{number}")
        for _ in range(PLACED):
            self._place()
        for _ in range(WAITING):
            self._wait()

    def change(self) -> Change | None:
        """Makes a change; None = there was nothing to change."""
        name = self._rng.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        change: Change | None = getattr(self, f"_{name}")()
        return change

    def bind(self, key: str, node: str) -> Change:
        """Binds a pod."""
        return self._update("Pod", key, lambda pod: pod["spec"].update(nodeName=node))

    # -- writing ----------------------------------------------------------------------------------

    def _add(self, kind: str, name: str, namespace: str = "", **fields: Any) -> Change | None:
        key = f"{namespace}/{name}" if namespace else name
        if (kind, key) in self.objects:
            return None
        metadata = {"name": name, "uid": f"uid-{kind}-{name}", **fields.pop("metadata", {})}
        if namespace:
            metadata["namespace"] = namespace
        new = self.objects[kind, key] = {"kind": kind, "metadata": metadata, **fields}
        return Change(ADD, None, new)

    def _update(self, kind: str, key: str, edit: Callable[[Document], Any]) -> Change:
        old = self.objects[kind, key]
        new = deepcopy(old)
        edit(new)
        self.objects[kind, key] = new
        return Change(UPDATE, old, new)

    def _drop(self, kind: str, key: str) -> Change:
        return Change(DELETE, self.objects.pop((kind, key)), None)

    def _any(self, kind: str, selects: Callable[[Document], bool] = bool) -> str | None:
        keys = [key for (of, key), it in self.objects.items() if of == kind and selects(it)]
        return self._rng.choice(keys) if keys else None

    # -- nodes ------------------------------------------------------------------------------------

    def _new_node(self) -> Change | None:
        rng, number = self._rng, self._numbers["node"]
        self._numbers["node"] += 1
        name = f"node-{number}"
        labels = {HOST: name, **{key: rng.choice("ab") for key in KEYS[1:] if rng.random() < 0.7}}
        amounts = {"cpu": rng.choice(("2", "4")), "memory": "8Gi", "pods": "20"}
        return self._add(
            "Node",
            name,
            metadata={"labels": labels},
            spec={"taints": [TAINT]} if rng.random() < 0.3 else {},
            status={"capacity": amounts, "allocatable": amounts},
        )

    def _drop_node(self) -> Change | None:
        used = {
            pod["spec"].get("nodeName") for (kind, _), pod in self.objects.items() if kind == "Pod"
        }
        name = self._any("Node", lambda node: node["metadata"]["name"] not in used)
        return self._drop("Node", name) if name else None

    def _label(self) -> Change | None:
        key, value = self._rng.choice(KEYS[1:]), self._rng.choice(("a", "b", None))

        def edit(node: Document) -> None:
            node["metadata"]["labels"].pop(key, None)
            node["metadata"]["labels"] |= {key: value} if value else {}

        name = self._any("Node")
        return self._update("Node", name, edit) if name else None

    def _taint(self) -> Change | None:
        taints = self._rng.choice(([], [TAINT], [{**TAINT, "value": "other"}]))
        name = self._any("Node")
        return (
            self._update("Node", name, lambda it: it["spec"].update(taints=taints))
            if name
            else None
        )

    def _cordon(self) -> Change | None:
        value = self._rng.random() < 0.3
        name = self._any("Node")
        return (
            self._update("Node", name, lambda it: it["spec"].update(unschedulable=value))
            if name
            else None
        )

    def _cpu(self) -> Change | None:
        cpu = self._rng.choice(("1", "2", "4", "6"))
        name = self._any("Node")
        return (
            self._update("Node", name, lambda it: it["status"]["allocatable"].update(cpu=cpu))
            if name
            else None
        )

    # -- pods -------------------------------------------------------------------------------------

    def _pod(self, node: str) -> Change | None:
        rng, number = self._rng, self._numbers["pod"]
        self._numbers["pod"] += 1
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}
        spec: Document = {"schedulerName": "default-scheduler", "containers": [container]}
        metadata = {"labels": {"app": rng.choice(APPS)}}
        for name in self._features:
            if rng.random() < (0.3 if node else 0.8):
                FEATURES[name](rng, spec)
        if node:
            spec.pop("resourceClaims", None)
            if spec.get("volumes") == DATA:
                del spec["volumes"]
            spec["nodeName"] = node
        name = f"pod-{number}"
        return self._add(
            "Pod", name, "default", metadata=metadata, spec=spec, status={"phase": "Pending"}
        )

    def _place(self) -> Change | None:
        node = self._any("Node")
        return self._pod(node) if node else None

    def _wait(self) -> Change | None:
        return self._pod("")

    def _gone(self) -> Change | None:
        key = self._any("Pod", lambda pod: bool(pod["spec"].get("nodeName")))
        return self._drop("Pod", key) if key else None

    def _relabel(self) -> Change | None:
        key, app = self._any("Pod"), self._rng.choice(APPS)
        return (
            self._update("Pod", key, lambda it: it["metadata"].update(labels={"app": app}))
            if key
            else None
        )

    # -- volumes ----------------------------------------------------------------------------------

    def _storage_class(self, name: str = "") -> Change | None:
        name = name or self._rng.choice(sorted(CLASSES))
        return self._add(
            "StorageClass",
            name,
            provisioner="kubernetes.io/no-provisioner",
            volumeBindingMode=CLASSES[name],
        )

    def _volume(self) -> Change | None:
        rng, number = self._rng, self._numbers["volume"]
        self._numbers["volume"] += 1
        spec = _volume_spec(rng)
        status = {"phase": "Available"}
        return self._add("PersistentVolume", f"volume-{number}", spec=spec, status=status)

    def _disk(self, name: str) -> None:
        claim: Document = {
            "volumeName": name,
            "storageClassName": "",
            "accessModes": [self._rng.choice(("ReadWriteOnce", "ReadWriteOncePod"))],
            "resources": {"requests": {"storage": "1Gi"}},
        }
        volume = {
            "capacity": {"storage": "1Gi"},
            "accessModes": claim["accessModes"],
            "csi": {"driver": DRIVER, "volumeHandle": name},
            "claimRef": {
                "namespace": "default",
                "name": name,
                "uid": f"uid-PersistentVolumeClaim-{name}",
            },
        }
        bound = {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
        self._add("PersistentVolume", name, spec=volume, status={"phase": "Bound"})
        self._add("PersistentVolumeClaim", name, "default", spec=claim, metadata=bound)

    def _drop_volume(self) -> Change | None:
        name = self._any("PersistentVolume", lambda it: "csi" not in it["spec"])
        return self._drop("PersistentVolume", name) if name else None

    def _claim(self) -> Change | None:
        if self._rng.random() < 0.5:
            spec = {
                "storageClassName": self._rng.choice(("static", "static", "immediate")),
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            }
            status = {"phase": "Pending"}
            return self._add("PersistentVolumeClaim", "data", "default", spec=spec, status=status)
        request = {
            "name": "r",
            "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1},
        }
        return self._add(
            "ResourceClaim", "gpu", "default", spec={"devices": {"requests": [request]}}
        )

    def _limit(self) -> Change | None:
        count = self._rng.choice((0, 1, 3))
        driver = {"name": DRIVER, "nodeID": "n", "allocatable": {"count": count}}
        node = self._any("Node")
        if node is None:
            return None
        spec = {"drivers": [driver]}
        if ("CSINode", node) in self.objects:
            return self._update("CSINode", node, lambda it: it.update(spec=spec))
        return self._add("CSINode", node, spec=spec)

    # -- devices ----------------------------------------------------------------------------------

    def _slice(self) -> Change | None:
        node, number = self._any("Node"), self._numbers["slice"]
        if node is None:
            return None
        self._numbers["slice"] += 1
        pool = {"name": f"pool-{number}", "generation": 1, "resourceSliceCount": 1}
        devices = [{"name": "d", "attributes": {"model": {"string": "m"}}}]
        spec = {"driver": MAKER, "nodeName": node, "pool": pool, "devices": devices}
        return self._add("ResourceSlice", f"slice-{number}", spec=spec)

    def _drop_slice(self) -> Change | None:
        name = self._any("ResourceSlice")
        return self._drop("ResourceSlice", name) if name else None

    def _device_class(self) -> Change | None:
        if ("DeviceClass", "gpu") in self.objects:
            return self._drop("DeviceClass", "gpu")
        expression = f'device.driver == "{MAKER}"'
        return self._add(
            "DeviceClass", "gpu", spec={"selectors": [{"cel": {"expression": expression}}]}
        )


DATA: Final = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
TAINT: Final = {"key": "old", "value": "yes", "effect": "NoSchedule"}


def _volume_spec(rng: Rng) -> Document:
    """Returns the spec of a local volume, which a zone may be able to use alone."""
    term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [rng.choice("ab")]}]}
    spec: Document = {
        "storageClassName": "static",
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": "/data"},
    }
    if rng.random() < 0.7:
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
    return spec


def _selector(rng: Rng) -> Document:
    return {"matchLabels": {"app": rng.choice(APPS)}}


def _spread(rng: Rng, spec: Document) -> None:
    spec["topologySpreadConstraints"] = [
        {
            "maxSkew": 1,
            "topologyKey": key,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": _selector(rng),
            "nodeTaintsPolicy": rng.choice(("Honor", "Ignore")),
        }
        for key in rng.sample(KEYS, rng.choice((1, 2)))
    ]


def _affinity(kind: str) -> Callable[[Rng, Document], None]:
    def add(rng: Rng, spec: Document) -> None:
        terms = [
            {"topologyKey": key, "labelSelector": _selector(rng)}
            for key in rng.sample(KEYS, rng.choice((1, 1, 2)))
        ]
        required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
        spec.setdefault("affinity", {})[kind] = required

    return add


def _labels(rng: Rng, spec: Document) -> None:
    spec["nodeSelector"] = {rng.choice(KEYS[1:]): rng.choice("ab")}


def _toleration(rng: Rng, spec: Document) -> None:
    spec["tolerations"] = [
        {"key": "old", "operator": "Equal", "value": rng.choice(("yes", "other"))}
    ]


def _port(rng: Rng, spec: Document) -> None:
    port = rng.choice((80, 81))
    spec["containers"][0]["ports"] = [{"containerPort": port, "hostPort": port, "protocol": "TCP"}]


def _much_cpu(rng: Rng, spec: Document) -> None:
    spec["containers"][0]["resources"] = {"requests": {"cpu": rng.choice(("1", "2", "3"))}}


def _data(rng: Rng, spec: Document) -> None:
    del rng
    spec["volumes"] = deepcopy(DATA)


def _disk(rng: Rng, spec: Document) -> None:
    claim = {"claimName": f"disk-{rng.randrange(DISKS)}"}
    spec["volumes"] = [{"name": "disk", "persistentVolumeClaim": claim}]


def _gpu(rng: Rng, spec: Document) -> None:
    del rng
    spec["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "gpu"}]


#: What pods need -> adds it to a spec.
FEATURES: Final[dict[str, Callable[[Rng, Document], None]]] = {
    "spread": _spread,
    "affinity": _affinity("podAffinity"),
    "anti_affinity": _affinity("podAntiAffinity"),
    "labels": _labels,
    "toleration": _toleration,
    "port": _port,
    "cpu": _much_cpu,
    "data": _data,
    "disk": _disk,
    "gpu": _gpu,
}
