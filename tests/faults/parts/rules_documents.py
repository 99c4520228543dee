"""Documents of nodes, pods and volumes that are drawn for the run ``rules``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from mooring.clock import Rng
from tests.faults.parts.rules_model import BETA_CLASS, FEATURES, MIB
from tests.faults.parts.rules_objects import BETA_REGION, BETA_ZONE, REGION, ZONE, Document

NAMESPACES: Final = ("default", "team")
NODES: Final = tuple(f"node-{number}" for number in range(7))
CLAIMS: Final = ("data", "logs", "spare")
VOLUMES: Final = ("pv-1", "pv-2", "pv-3")
CLASSES: Final = ("fast", "slow")
#: The labels of nodes, and their values.
LABELS: Final = {
    BETA_ZONE: ("a", "b"),
    BETA_REGION: ("r",),
    ZONE: ("a", "b", "c"),
    REGION: ("r", "s"),
    "disk": ("ssd", "hdd", ""),
    "size": ("1", "5", "0", "x", "07"),
}
TAINT_KEYS: Final = ("red", "blue", "node.kubernetes.io/unschedulable")
VALUES: Final = ("", "5", "7", "-1", "07", "x")
EFFECTS: Final = ("NoSchedule", "NoExecute", "PreferNoSchedule", "PreferNoSchedule")
ADDRESSES: Final = ("", "0.0.0.0", "10.0.0.1", "10.0.0.2")
IMAGES: Final = ("web", "web:latest", "hub.local:5000/web", "hub.local:5000/web:latest", "db:2")
SIZES: Final = (10 * MIB, 400 * MIB, 900 * MIB, 1234 * MIB + 1, 40 * 1024 * MIB)


class Drawn:
    """Draws documents.

    Args:
        rng: The source of all draws.
    """

    def __init__(self, rng: Rng) -> None:
        self._rng = rng
        self._label_rate = rng.choice((0.0, 0.4, 0.8))
        self._is_fixed = rng.random() < 0.7
        self._fields: dict[str, Callable[[Document], None]] = {
            "nodeName": self._node_name,
            "tolerations": self._tolerations,
            "nodeSelector": self._node_selector,
            "required": self._required,
            "preferred": self._preferred,
            "containers": self._containers,
            "initContainers": self._init_containers,
            "volumes": self._volumes,
            "users": self._users,
        }

    def _is_drawn(self, share: float) -> bool:
        return self._rng.random() < share

    # -- nodes ------------------------------------------------------------------------------------

    def node(self, name: str) -> Document:
        """Returns a node."""
        rng = self._rng
        labels = {
            key: rng.choice(values)
            for key, values in LABELS.items()
            if self._is_drawn(self._label_rate)
        }
        spec: Document = {}
        if self._is_drawn(0.2):
            spec["unschedulable"] = True
        if self._is_drawn(0.5):
            spec["taints"] = [self._taint() for _ in range(rng.choice((1, 1, 2, 3)))]
        status: Document = {"allocatable": {"pods": "110"}, "images": self._images()}
        if self._is_drawn(0.5):
            declared = [*FEATURES, "Unknown", "ZUnknown"]
            status["declaredFeatures"] = sorted(it for it in declared if self._is_drawn(0.6))
        return {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": status}

    def changed_node(self, old: Document) -> Document:
        """Returns a node in which a single part is new."""
        new = self.node(old["metadata"]["name"])
        part = self._rng.choice(("metadata", "spec", "images", "declaredFeatures"))
        if part in ("metadata", "spec"):
            return {**old, part: new[part]}
        status = {key: value for key, value in old["status"].items() if key != part}
        if part in new["status"]:
            status[part] = new["status"][part]
        return {**old, "status": status}

    def _taint(self) -> Document:
        rng = self._rng
        key, effect = rng.choice(TAINT_KEYS), rng.choice(EFFECTS)
        return {"key": key, "value": rng.choice(VALUES), "effect": effect}

    def _images(self) -> list[Document]:
        rng = self._rng
        images = []
        for number, name in enumerate(IMAGES):
            if self._is_drawn(0.4):
                size = SIZES[number] if self._is_fixed else rng.choice(SIZES)
                names = [name, *(rng.choice(IMAGES) for _ in range(rng.choice((0, 0, 1))))]
                images.append({"names": names, "sizeBytes": size})
        return images

    # -- pods -------------------------------------------------------------------------------------

    def kinds(self, count: int) -> list[Document]:
        """Returns the specs of some pods; most differ from another one in a single field."""
        specs = [self._spec()]
        while len(specs) < count:
            if self._is_drawn(0.25):
                specs.append(self._spec())
                continue
            spec = {**self._rng.choice(specs)}
            self._fields[self._rng.choice(list(self._fields))](spec)
            specs.append(spec)
        return specs

    def _spec(self) -> Document:
        spec: Document = {}
        for draw in self._fields.values():
            draw(spec)
        return spec

    def _node_name(self, spec: Document) -> None:
        spec.pop("nodeName", None)
        if self._is_drawn(0.1):
            spec["nodeName"] = self._rng.choice(NODES)

    def _tolerations(self, spec: Document) -> None:
        count = self._rng.choice((0, 0, 1, 2, 4))
        spec["tolerations"] = [self.toleration() for _ in range(count)]

    def toleration(self) -> Document:
        """Returns a toleration."""
        rng = self._rng
        operator = rng.choice(("", "Equal", "Exists", "Exists", "Lt", "Gt"))
        key = rng.choice(("", *TAINT_KEYS) if operator == "Exists" else TAINT_KEYS)
        value = "" if operator == "Exists" else rng.choice(VALUES)
        effect = rng.choice(("", "", *EFFECTS))
        return {"key": key, "operator": operator, "value": value, "effect": effect}

    def _node_selector(self, spec: Document) -> None:
        key = self._rng.choice(list(LABELS))
        has_any = self._is_drawn(0.2)
        spec["nodeSelector"] = {key: self._rng.choice(LABELS[key])} if has_any else {}

    def affinity(self) -> Document:
        """Returns an affinity to nodes."""
        rng = self._rng
        affinity: Document = {}
        if self._is_drawn(0.4):
            terms = [self._term() for _ in range(rng.choice((1, 1, 2)))]
            if self._is_drawn(0.3):
                for term in terms:
                    _set_fields(term, [self._field() for _ in range(rng.choice((1, 1, 2)))])
            affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {
                "nodeSelectorTerms": terms
            }
        if self._is_drawn(0.5):
            affinity["preferredDuringSchedulingIgnoredDuringExecution"] = [
                {"weight": rng.randint(1, 100), "preference": self._term()}
                for _ in range(rng.choice((1, 2, 3)))
            ]
        return affinity

    def _required(self, spec: Document) -> None:
        self._part_of_affinity(spec, "requiredDuringSchedulingIgnoredDuringExecution")

    def _preferred(self, spec: Document) -> None:
        self._part_of_affinity(spec, "preferredDuringSchedulingIgnoredDuringExecution")

    def _part_of_affinity(self, spec: Document, key: str) -> None:
        old = spec.get("affinity", {}).get("nodeAffinity", {})
        affinity = {name: value for name, value in old.items() if name != key}
        new = self.affinity()
        if key in new:
            affinity[key] = new[key]
        spec["affinity"] = {"nodeAffinity": affinity} if affinity else {}

    def _term(self) -> Document:
        count = self._rng.choice((0, 1, 1, 1, 2))
        return {"matchExpressions": [self._expression() for _ in range(count)]}

    def _field(self) -> Document:
        operator = self._rng.choice(("In", "In", "NotIn"))
        return {
            "key": "metadata.name",
            "operator": operator,
            "values": [self._rng.choice(NODES[:4])],
        }

    def _expression(self) -> Document:
        rng = self._rng
        key = rng.choice(list(LABELS))
        operator = rng.choice(("In", "In", "NotIn", "Exists", "DoesNotExist"))
        if key == "size":
            operator = rng.choice((operator, "Gt", "Lt"))
        values: Sequence[str] = ()
        if operator in ("In", "NotIn"):
            values = rng.sample(LABELS[key], rng.choice((1, len(LABELS[key]))))
        elif operator in ("Gt", "Lt"):
            values = [rng.choice(("0", "1", "4"))]
        return {"key": key, "operator": operator, "values": list(values)}

    def _containers(self, spec: Document) -> None:
        spec["containers"] = [self._container(f"main-{n}") for n in range(self._rng.choice((1, 2)))]

    def _init_containers(self, spec: Document) -> None:
        spec["initContainers"] = []
        for number in range(self._rng.choice((0, 0, 1, 2))):
            container = self._container(f"init-{number}")
            if self._is_drawn(0.5):
                container["restartPolicy"] = "Always"
            spec["initContainers"].append(container)

    def _container(self, name: str) -> Document:
        rng = self._rng
        container: Document = {"name": name, "image": rng.choice((*IMAGES, "absent"))}
        if self._is_drawn(0.3):
            container["ports"] = [
                {
                    "containerPort": 80,
                    "hostPort": rng.choice((0, 80, 80, 81)),
                    "protocol": rng.choice(("TCP", "TCP", "UDP")),
                    "hostIP": rng.choice(ADDRESSES),
                }
                for _ in range(rng.choice((1, 2)))
            ]
        if self._is_drawn(0.25):
            action = rng.choice(("Restart", "RestartAllContainers"))
            container["restartPolicyRules"] = [{"action": action}]
        return container

    def _volumes(self, spec: Document) -> None:
        rng = self._rng
        spec["volumes"] = [
            {"name": name, "persistentVolumeClaim": {"claimName": name}}
            for name in rng.sample((*CLAIMS, *CLAIMS, ""), rng.choice((0, 0, 0, 1, 2)))
        ]
        if self._is_drawn(0.15):
            spec["volumes"].append({"name": "model", "image": {"reference": rng.choice(IMAGES)}})

    def _users(self, spec: Document) -> None:
        spec["hostNetwork"] = self._is_drawn(0.4)
        spec.pop("hostUsers", None)
        if self._is_drawn(0.6):
            spec["hostUsers"] = self._is_drawn(0.3)

    # -- volumes ----------------------------------------------------------------------------------

    def claim(self, namespace: str, name: str) -> Document:
        """Returns a claim: bound, to be bound by its pod or at once, or without a class."""
        rng = self._rng
        metadata: Document = {"name": name, "namespace": namespace, "uid": f"{namespace}-{name}"}
        spec: Document = {}
        if self._is_drawn(0.7):
            spec["volumeName"] = rng.choice(VOLUMES)
        if self._is_drawn(0.8):
            spec["storageClassName"] = rng.choice(CLASSES)
        if self._is_drawn(0.2):
            metadata["annotations"] = {BETA_CLASS: rng.choice(CLASSES)}
        return {"metadata": metadata, "spec": spec, "status": {}}

    def volume(self, name: str) -> Document:
        """Returns a volume in some zones and regions."""
        rng = self._rng
        values = ("a", "a", "b", "a__b", "c", "a__", "__")
        labels = {key: rng.choice(values) for key in (BETA_ZONE, ZONE) if self._is_drawn(0.4)}
        labels |= {
            key: rng.choice(("r", "s", "r__s", ""))
            for key in (BETA_REGION, REGION)
            if self._is_drawn(0.2)
        }
        if self._is_drawn(0.2):
            labels["other"] = rng.choice("ab")
        return {"metadata": {"name": name, "labels": labels}, "spec": {}, "status": {}}

    def storage_class(self, name: str) -> Document:
        """Returns a class."""
        mode = self._rng.choice((*("WaitForFirstConsumer",) * 3, "Immediate", None))
        storage_class = {"metadata": {"name": name}, "provisioner": "example.com/disks"}
        # No API server stores one without a mode.
        return storage_class if mode is None else {**storage_class, "volumeBindingMode": mode}


def _set_fields(term: Document, fields: list[Document]) -> None:
    """Adds requirements of fields; some nodes are named alone."""
    term["matchFields"] = fields
    if fields[0]["values"][0] in NODES[:2]:
        del term["matchExpressions"]
