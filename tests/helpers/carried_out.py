"""Carries out the sentences that explanations propose, as a user would: objects are edited by hand.

Nothing of the code that searches the changes is used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any

import msgspec

from mooring import Cluster
from mooring.objects.codec.decode import convert, to_builtins
from mooring.testing.random_cluster import EXTENDED

_VERBS = "add|uncordon|set|remove|request|give|let|require|spread|bind|create|name|tolerate|prefer"
_PARTS = re.compile(rf"(?:, | and )(?=(?:{_VERBS}) )")
_RESOURCES = {"cpu": "cpu", "memory": "memory", "gpu": EXTENDED}
_UNITS = {unit: str(2**power) for unit, power in (("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40))}
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

Objects = dict[tuple[str, str], dict[str, Any]]


class Reader:
    """Carries out sentences on a cluster of JSON objects, whose pending pod has the name "pod"."""

    def __init__(self, objects: Iterable[Any]) -> None:
        self.objects: Objects = {
            (type(obj).__name__, obj.metadata.name): _copy(to_builtins(obj)) for obj in objects
        }

    def carry_out(self, sentence: str) -> bool:
        """Makes the changes of a sentence; returns False if it has a change that is not read."""
        return all(self._carry_out(part) for part in parts(sentence))

    def cluster(self) -> Cluster:
        return Cluster([convert(obj, kind) for (kind, _), obj in self.objects.items()])

    def _carry_out(self, sentence: str) -> bool:
        for pattern, change in _CHANGES.items():
            match = re.fullmatch(pattern, sentence)
            if match is not None:
                change(self, *match.groups())
                return True
        return False

    @property
    def pod(self) -> dict[str, Any]:
        return self.objects["Pod", "pod"]

    # ---- the pod ----

    def tolerate(self, key: str, value: str | None, effect: str) -> None:
        spec = self.pod["spec"]
        operator = "Exists" if value is None else "Equal"
        toleration = {"key": key, "operator": operator, "value": value or "", "effect": effect}
        spec["tolerations"] = [*spec.get("tolerations", ()), toleration]

    def request(self, amount: str, resource: str) -> None:
        (container,) = self.pod["spec"]["containers"]
        resource = _RESOURCES[resource]
        container["resources"]["requests"][resource] = str(units(amount))

    def open_gates(self, _names: str) -> None:
        self.pod["spec"]["schedulingGates"] = []

    def name_claim(self, new: str, old: str) -> None:
        for volume in self.pod["spec"]["volumes"]:
            source = volume.get("persistentVolumeClaim")
            if source is not None and source["claimName"] == old:
                source["claimName"] = new

    def name_resource_claim(self, new: str, old: str) -> None:
        for entry in self.pod["spec"]["resourceClaims"]:
            if entry.get("resourceClaimName") == old:
                entry["resourceClaimName"] = new

    def require_pods(self, key: str, value: str, _key: str, old: str) -> None:
        for term in self.pod["spec"]["affinity"]["podAffinity"][_REQUIRED]:
            labels = term["labelSelector"]["matchLabels"]
            if labels.get(key) == old:
                labels[key] = value
                return

    def prefer_pods(self, kind: str, key: str, value: str, topology_key: str) -> None:
        """Moves the first such term; a term may be required twice."""
        name = {"affinity": "podAffinity", "anti-affinity": "podAntiAffinity"}[kind]
        terms = self.pod["spec"]["affinity"][name]
        for term in terms[_REQUIRED]:
            is_same = term["labelSelector"]["matchLabels"] == {key: value}
            if is_same and term["topologyKey"] == topology_key:
                terms[_REQUIRED].remove(term)
                terms.setdefault(_PREFERRED, []).append({"weight": 100, "podAffinityTerm": term})
                return

    def spread_over(self, new: str, old: str) -> None:
        for constraint in self.pod["spec"]["topologySpreadConstraints"]:
            if constraint["topologyKey"] == old:
                constraint["topologyKey"] = new

    def weaken(self, key: str) -> None:
        for constraint in self.pod["spec"]["topologySpreadConstraints"]:
            if constraint["topologyKey"] == key:
                constraint["whenUnsatisfiable"] = "ScheduleAnyway"

    # ---- nodes and pods ----

    def uncordon(self, name: str) -> None:
        self.objects["Node", name]["spec"]["unschedulable"] = False

    def set_label(self, key: str, value: str, name: str) -> None:
        self.objects["Node", name]["metadata"].setdefault("labels", {})[key] = value

    def remove_label(self, key: str, name: str) -> None:
        del self.objects["Node", name]["metadata"]["labels"][key]

    def remove_pod(self, name: str, _node: str) -> None:
        """Removes a pod; the controller of resource claims removes it from their users."""
        uid = self.objects.pop(("Pod", name))["metadata"]["uid"]
        for (kind, _), obj in self.objects.items():
            users = obj.get("status", {}).get("reservedFor", []) if kind == "ResourceClaim" else []
            if users and all(user["uid"] == uid for user in users):
                obj["status"] = {}

    def add_node(self, like: str, _group: str, more: str | None) -> None:
        node = _copy(self.objects["Node", like])
        node["metadata"] |= {"name": "another", "uid": "uid-another"}
        labels = node["metadata"].get("labels", {})
        if "kubernetes.io/hostname" in labels:
            labels["kubernetes.io/hostname"] = "another"
        labels |= dict(item.split("=") for item in (more or "").split(", ") if item)
        node["spec"]["unschedulable"] = False
        self.objects["Node", "another"] = node

    def enlarge(self, name: str, amount: str, resource: str) -> None:
        allocatable = self.objects["Node", name]["status"]["allocatable"]
        resource = _RESOURCES[resource]
        allocatable[resource] = str(units(allocatable.get(resource, "0")) + units(amount))

    def let_run(self, name: str, count: str) -> None:
        allocatable = self.objects["Node", name]["status"]["allocatable"]
        allocatable["pods"] = str(int(allocatable["pods"]) + int(count))

    # ---- volumes ----

    def create_claim(self, name: str) -> None:
        metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
        requests = {"requests": {"storage": "1Gi"}}
        spec = {"accessModes": ["ReadWriteOnce"], "resources": requests, "storageClassName": ""}
        claim = {"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}
        self.objects["PersistentVolumeClaim", name] = claim
        self.bind_claim(name, "1Gi", None)

    def bind_claim(self, name: str, size: str, storage_class: str | None) -> None:
        claim, volume = self.objects["PersistentVolumeClaim", name], f"bound-{name}"
        self.objects["PersistentVolume", volume] = {
            "metadata": {"name": volume, "uid": f"uid-{volume}"},
            "spec": {
                "capacity": {"storage": size},
                "accessModes": claim["spec"]["accessModes"],
                "storageClassName": storage_class or "",
                "claimRef": {
                    "namespace": "default",
                    "name": name,
                    "uid": claim["metadata"]["uid"],
                },
            },
            "status": {"phase": "Bound"},
        }
        annotations = claim["metadata"].setdefault("annotations", {})
        annotations["pv.kubernetes.io/bind-completed"] = "yes"
        claim["spec"]["volumeName"] = volume
        claim["status"]["phase"] = "Bound"

    def create_class(self, name: str) -> None:
        self.objects["StorageClass", name] = {
            "metadata": {"name": name},
            "provisioner": "any.csi.test",
            "volumeBindingMode": "WaitForFirstConsumer",
        }

    # ---- devices: the specs of claims are immutable ----

    def request_class(self, new: str, claim: str, old: str) -> None:
        for request in self._created_again(claim):
            if request["exactly"]["deviceClassName"] == old:
                request["exactly"]["deviceClassName"] = new

    def request_devices(self, count: str, request: str, claim: str, _old: str) -> None:
        for item in self._created_again(claim):
            if item["name"] == request:
                item["exactly"]["count"] = int(count)

    def tolerate_device(
        self, key: str, value: str | None, effect: str, request: str, claim: str
    ) -> None:
        operator = "Exists" if value is None else "Equal"
        toleration = {"key": key, "operator": operator, "effect": effect}
        if value is not None:
            toleration["value"] = value
        for item in self._created_again(claim):
            if item["name"] == request:
                item["exactly"].setdefault("tolerations", []).append(toleration)

    def _created_again(self, name: str) -> list[dict[str, Any]]:
        """Deletes a claim and creates it again; returns the requests of the new one."""
        old = self.objects.pop(("ResourceClaim", name))
        metadata = {"name": name, "namespace": "default", "uid": f"{old['metadata']['uid']}-new"}
        new = {"metadata": metadata, "spec": _copy(old["spec"])}
        self.objects["ResourceClaim", name] = new
        requests: list[dict[str, Any]] = new["spec"]["devices"]["requests"]
        return requests


def _copy(document: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(document))


def units(text: str) -> Decimal:
    """Returns the amount of a quantity in cores, bytes or devices."""
    number, suffix = re.fullmatch(r"(-?[0-9.]+)(\w*)", text).groups()  # type: ignore[union-attr]
    factors = {"": "1", "m": "1e-3", "u": "1e-6", "G": "1e9", **_UNITS}
    return Decimal(number) * Decimal(factors[suffix])


_TAINT = r"([^=:]+)(?:=([^:]*))?:(\w+)"
_AGAIN = "; the claim must be deleted and created again"
_CHANGES: dict[str, Callable[..., None]] = {
    rf"add a toleration of {_TAINT} to the pod": Reader.tolerate,
    r"uncordon node (\S+)": Reader.uncordon,
    r"set the label ([^=]+)=(\S*) on node (\S+)": Reader.set_label,
    r"remove the label (\S+) from node (\S+)": Reader.remove_label,
    r"remove pod default/(\S+) from node (\S+)": Reader.remove_pod,
    r"remove the scheduling gates? (.+) from the pod": Reader.open_gates,
    r"add a node like (\S+) \((.*)\)(?: with (.*))?": Reader.add_node,
    r"give node (\S+) (\S+) (\S+) more": Reader.enlarge,
    r"let node (\S+) run (\d+) more pods?": Reader.let_run,
    r"request \S+ (?P<resource>\S+) less in the pod \((\S+) instead of \S+\)": (
        lambda reader, resource, amount: reader.request(amount, resource)
    ),
    r"name claim (\S+) in the pod \(instead of (\S+)\)": Reader.name_claim,
    r"name resource claim (\S+) in the pod \(instead of (\S+)\)": Reader.name_resource_claim,
    r"require pods with ([^=]+)=(\S*) in the pod's affinity \(instead of ([^=]+)=(\S*)\)": (
        Reader.require_pods
    ),
    r"prefer instead of require the (affinity|anti-affinity) to pods with ([^=]+)=(\S*) by (\S+)"
    r" in the pod": Reader.prefer_pods,
    r"spread over (\S+) in the pod \(instead of (\S+)\)": Reader.spread_over,
    r"set whenUnsatisfiable: ScheduleAnyway for the spread over (\S+) in the pod": Reader.weaken,
    r"create claim default/(\S+), bound to a volume that all nodes reach": Reader.create_claim,
    r"create class (\S+) with a provisioner and WaitForFirstConsumer": Reader.create_class,
    r"bind claim default/(\S+) to a volume of (\S+?)(?: of class (\S+))? that all nodes reach": (
        Reader.bind_claim
    ),
    rf"request class (\S+) in resource claim default/(\S+) \(instead of (\S+)\){_AGAIN}": (
        Reader.request_class
    ),
    r"request (\d+) devices? in request (\S+) of resource claim default/(\S+)"
    rf" \(instead of (\d+)\){_AGAIN}": Reader.request_devices,
    rf"tolerate {_TAINT} in request (\S+) of resource claim default/([^;]+){_AGAIN}": (
        Reader.tolerate_device
    ),
}


def proposals(text: str) -> list[str]:
    """Returns the sentences at the end of an explanation."""
    *_, end = re.split(r"\(each (?:set )?was decided again\):\n", text)
    if end == text:
        return []
    lines = " ".join(line.strip() for line in end.splitlines())
    return [item.rpartition(": the pod goes to ")[0] for item in lines.split("- ")[1:]]


def parts(sentence: str) -> list[str]:
    """Returns the single changes of a sentence."""
    return _PARTS.split(sentence)
