"""Random device classes, slices and claims, and pods that use them.

Slices have all kinds of pools: of a node or of several, old, incomplete and contradictory ones,
with counters, taints, shared devices and binding conditions. Claims have all kinds of requests and
constraints. Some are allocated, and some are shared by pods.
"""

from __future__ import annotations

from typing import Any

from mooring.clock import Rng
from tests.parity.differential_themes import NAMESPACES, Document

API = "resource.k8s.io/v1"
DRIVERS = ("gpu.example", "nic.example", "any.example")
#: Resources that no node has by a device plugin; two classes stand for the first.
RESOURCES = ("example.com/card", "example.com/port")
IMPLICIT_RESOURCE = "deviceclass.resource.kubernetes.io/nic"
CLASSES = ("gpu", "nic", "all", "big", "fast", "card", "card-2", "port")
ATTRIBUTES = ("example.org/rack", "gpu.example/model", "nic.example/model", "gpu.example/numa")
SHARED_CLAIMS = 5

#: Selectors; some fail for devices without the attribute, which ends the attempt.
SELECTORS = (
    'device.driver == "gpu.example"',
    'device.attributes["gpu.example"].model == "a"',
    'device.attributes["gpu.example"].?model.orValue("") == "b"',
    '"model" in device.attributes["gpu.example"] && device.attributes["gpu.example"].numa > 0',
    'device.attributes["example.org"].?rack.orValue("") in ["r1", "r2"]',
    "device.allowMultipleAllocations",
    "!device.allowMultipleAllocations",
    'has(device.capacity["gpu.example"].memory) && '
    'device.capacity["gpu.example"].memory.compareTo(quantity("10Gi")) >= 0',
    'device.driver == "gpu.example" && '
    'device.attributes["gpu.example"].?version.orValue(semver("0.0.1")).isGreaterThan('
    'semver("1.5.0"))',
    'device.attributes["nic.example"].exists(k, k == "model")',
)
#: Selectors that may fail are rare: an error hides all that follows.
SAFE = tuple(each for index, each in enumerate(SELECTORS) if index not in (1, 3))

TAINTS = ("bad", "worse")
SIZES = ("4Gi", "8Gi", "10Gi", "16Gi")
#: Before the virtual clock of simulations starts: what has a time limit has passed it.
OLD = "2025-06-01T00:00:00Z"


def _named(kind: str, name: str, namespace: str = "") -> Document:
    metadata: Document = {"name": name, "uid": f"uid-{kind}-{namespace}-{name}"}
    metadata["resourceVersion"] = "1"
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": API, "kind": kind, "metadata": metadata}


def _selectors(rng: Rng) -> list[Document]:
    choices = SELECTORS if rng.random() < 0.1 else SAFE
    return [{"cel": {"expression": rng.choice(choices)}} for _ in range(rng.choice((1, 1, 2)))]


def _opaque(rng: Rng) -> Document:
    return {"driver": rng.choice(DRIVERS), "parameters": {"level": rng.randrange(3)}}


# -- classes ---------------------------------------------------------------------------------------


def classes(rng: Rng) -> list[Document]:
    """Returns all classes, with selectors, configs and extended resources by chance."""
    made = []
    for number, name in enumerate(CLASSES):
        spec: Document = {}
        if name in ("gpu", "card", "card-2", "big"):
            spec["selectors"] = [{"cel": {"expression": SELECTORS[0]}}]
        elif name in ("nic", "port"):
            spec["selectors"] = [{"cel": {"expression": 'device.driver == "nic.example"'}}]
        if name == "big":
            spec["selectors"].append({"cel": {"expression": SELECTORS[7]}})
        if name == "fast":
            spec["selectors"] = _selectors(rng)
        if rng.random() < 0.3:
            spec["config"] = [{"opaque": _opaque(rng)} for _ in range(rng.choice((1, 2)))]
        if name.startswith("card"):
            spec["extendedResourceName"] = RESOURCES[0]
        if name == "port":
            spec["extendedResourceName"] = RESOURCES[1]
        metadata = _named("DeviceClass", name)
        metadata["metadata"]["creationTimestamp"] = f"2026-01-0{1 + number}T00:00:00Z"
        made.append({**metadata, "spec": spec})
    return made


# -- slices ----------------------------------------------------------------------------------------


class SliceMaker:
    """Makes the slices of a cluster."""

    def __init__(self, rng: Rng, nodes: list[str]) -> None:
        """Starts without slices."""
        self.rng = rng
        self.nodes = nodes
        self.made: list[Document] = []
        # One pool that cannot be used decides for many nodes, so these are in few clusters.
        self.odds = 0.2 if rng.random() < 0.1 else 0.0

    def all(self) -> list[Document]:
        """Returns slices of every node, and some for several nodes."""
        rng = self.rng
        for node in self.nodes:
            for driver in DRIVERS:
                if rng.random() < 0.55:
                    pool = node if rng.random() < 0.8 else f"{node}-{driver}"
                    self.pool(driver, pool, {"nodeName": node})
        for number in range(rng.choice((0, 0, 1, 2))):
            self.pool(rng.choice(DRIVERS), f"net-{number}", self.several())
        return self.made

    def several(self) -> Document:
        """Returns a choice of several nodes."""
        rng = self.rng
        roll = rng.random()
        if roll < 0.35:
            return {"allNodes": True}
        if roll < 0.75:
            return {"nodeSelector": self.selector()}
        return {"perDeviceNodeSelection": True}

    def selector(self) -> Document:
        """Returns a node selector of one term."""
        rng = self.rng
        if rng.random() < 0.6:
            values = rng.sample(self.nodes, min(len(self.nodes), rng.choice((1, 2, 4))))
            expression: Document = {"key": "kubernetes.io/hostname", "operator": "In"}
            expression["values"] = values
        else:
            values = rng.sample(("1", "2", "ssd"), 2)
            expression = {"key": "disk", "operator": rng.choice(("In", "NotIn")), "values": values}
        return {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}

    def pool(self, driver: str, pool: str, where: Document) -> None:
        """Adds the slices of one pool."""
        rng = self.rng
        has_counters = rng.random() < 0.25
        parts = rng.choice((1, 1, 1, 2))
        count = parts + has_counters
        if rng.random() < self.odds / 2:
            count += 1  # incomplete
        generation = rng.choice((1, 1, 3))
        if rng.random() < 0.06:
            self.add(driver, pool, 0, 1, where, {"devices": self.devices("old", 2, where)})
        counters = {}
        if has_counters:
            counters = {
                f"set-{number}": {
                    "slots": {"value": str(rng.choice((2, 4, 7)))},
                    "memory": {"value": rng.choice(("20Gi", "32Gi"))},
                }
                for number in range(rng.choice((1, 2)))
            }
            sets = [{"name": name, "counters": of} for name, of in counters.items()]
            self.add(driver, pool, generation, count, where, {"sharedCounters": sets})
        for number in range(parts):
            prefix = "d0" if rng.random() < self.odds else f"d{number}"
            devices = self.devices(prefix, rng.choice((1, 2, 3, 4, 6)), where)
            for device in devices if counters else ():
                self.consume(device, sorted(counters))
            self.add(driver, pool, generation, count, where, {"devices": devices})

    def add(
        self, driver: str, pool: str, generation: int, count: int, where: Document, what: Document
    ) -> None:
        """Adds one slice; names are not in the order of the slices."""
        name = f"s-{self.rng.randrange(1000):03}-{len(self.made):03}"
        of = {"name": pool, "generation": generation, "resourceSliceCount": count}
        spec = {"driver": driver, "pool": of, **where, **what}
        self.made.append({**_named("ResourceSlice", name), "spec": spec})

    def consume(self, device: Document, sets: list[str]) -> None:
        """Makes a device consume counters; rarely one that does not exist."""
        rng = self.rng
        if rng.random() < 0.2:
            return
        names = rng.sample(sets, rng.choice((1, len(sets))))
        if rng.random() < self.odds / 10:
            names = ["no-such-set"]
        device["consumesCounters"] = [
            {
                "counterSet": name,
                "counters": {
                    "slots": {"value": str(rng.choice((1, 1, 2)))},
                    "memory": {"value": rng.choice(("4Gi", "8Gi", "10Gi"))},
                },
            }
            for name in names
        ]

    def devices(self, prefix: str, count: int, where: Document) -> list[Document]:
        """Returns devices; with selection by device, each has its own nodes."""
        rng = self.rng
        bound = rng.random() < 0.12
        made = []
        for number in range(count):
            device = self.device(f"{prefix}-{number}")
            if where.get("perDeviceNodeSelection"):
                roll = rng.random()
                if roll < 0.5:
                    device["nodeName"] = rng.choice(self.nodes)
                elif roll < 0.8:
                    device["nodeSelector"] = self.selector()
                else:
                    device["allNodes"] = True
            if bound and rng.random() < 0.7:
                device["bindingConditions"] = ["ready.example"]
                device["bindingFailureConditions"] = ["broken.example"]
                if rng.random() < 0.4:
                    device["bindsToNode"] = True
            made.append(device)
        return made

    def device(self, name: str) -> Document:
        """Returns a device with attributes, capacity and taints by chance."""
        rng = self.rng
        attributes: Document = {}
        if rng.random() < 0.9:
            attributes["model"] = {"string": rng.choice(("a", "a", "b"))}
        if rng.random() < 0.8:
            attributes["numa"] = {"int": rng.randrange(3)}
        if rng.random() < 0.5:
            attributes["version"] = {"version": rng.choice(("1.2.0", "1.10.0", "2.0.0-rc.1"))}
        if rng.random() < 0.7:
            attributes["example.org/rack"] = {"string": rng.choice(("r1", "r2", "r3"))}
        device: Document = {"name": name, "attributes": attributes}
        if rng.random() < 0.25:
            device["allowMultipleAllocations"] = True
        if rng.random() < 0.7:
            memory: Document = {"value": rng.choice(SIZES)}
            if "allowMultipleAllocations" in device and rng.random() < 0.6:
                memory["requestPolicy"] = self.policy()
                memory["value"] = "16Gi"
            device["capacity"] = {"memory": memory}
            if rng.random() < 0.2:
                device["capacity"]["lanes"] = {"value": rng.choice(("1", "2", "8"))}
        if rng.random() < 0.12:
            device["taints"] = [
                {
                    "key": rng.choice(TAINTS),
                    "value": rng.choice(("x", "y")),
                    "effect": rng.choice(("NoSchedule", "NoExecute", "None")),
                    "timeAdded": OLD,
                }
            ]
        return device

    def policy(self) -> Document:
        """Returns a request policy for 16Gi."""
        rng = self.rng
        if rng.random() < 0.4:
            return {"default": "2Gi", "validValues": ["2Gi", "4Gi", "8Gi"]}
        limits: Document = {"min": "1Gi"}
        if rng.random() < 0.6:
            limits["step"] = "1Gi"
        if rng.random() < 0.6:
            limits["max"] = "8Gi"
        return {"default": "2Gi", "validRange": limits}


# -- claims ----------------------------------------------------------------------------------------


def _exact(rng: Rng, *, is_alternative: bool = False) -> Document:
    made: Document = {"deviceClassName": rng.choice(CLASSES[:5])}
    if rng.random() < 0.4:
        made["selectors"] = _selectors(rng)
    if rng.random() < 0.12:
        made["allocationMode"] = "All"
    else:
        made["allocationMode"] = "ExactCount"
        made["count"] = rng.choice((1, 1, 1, 1, 1, 2, 3))
    if not is_alternative and rng.random() < 0.08:
        made["adminAccess"] = True
    if rng.random() < 0.3:
        toleration: Document = {"operator": "Exists"}
        if rng.random() < 0.6:
            toleration = {"key": rng.choice(TAINTS), "operator": "Equal", "value": "x"}
        if rng.random() < 0.3:
            toleration["effect"] = "NoSchedule"
        made["tolerations"] = [toleration]
    if rng.random() < 0.2:
        wanted = {"memory": rng.choice(("1Gi", "1500Mi", "3Gi", "8Gi", "9Gi"))}
        if rng.random() < 0.1:
            wanted["lanes"] = "2"
        made["capacity"] = {"requests": wanted}
    return made


def _constraint(rng: Rng, names: list[str]) -> Document:
    made: Document = {}
    if rng.random() < 0.6:
        made["requests"] = rng.sample(names, 1 + rng.randrange(len(names)))
    key = "matchAttribute" if rng.random() < 0.6 else "distinctAttribute"
    return made | {key: rng.choice(ATTRIBUTES)}


def claim_spec(rng: Rng) -> Document:
    """Returns the spec of a claim: requests, alternatives, constraints, configs."""
    requests: list[Document] = []
    names: list[str] = []
    for number in range(rng.choice((1, 1, 1, 1, 2, 2, 3))):
        name = f"r{number}"
        names.append(name)
        if rng.random() < 0.2:
            alternatives: list[Document] = []
            for index in range(rng.choice((2, 3))):
                one = _exact(rng, is_alternative=True)
                alternatives.append({"name": f"s{index}", **one})
                names.append(f"{name}/s{index}")
            requests.append({"name": name, "firstAvailable": alternatives})
        else:
            requests.append({"name": name, "exactly": _exact(rng)})
    devices: Document = {"requests": requests}
    if rng.random() < 0.3:
        devices["constraints"] = [_constraint(rng, names) for _ in range(rng.choice((1, 1, 2)))]
    if rng.random() < 0.25:
        config: Document = {"opaque": _opaque(rng)}
        if rng.random() < 0.6:
            config["requests"] = rng.sample(names, 1 + rng.randrange(len(names)))
        devices["config"] = [config]
    return {"devices": devices}


def shared_claims(rng: Rng, nodes: list[str], slices: list[Document]) -> list[Document]:
    """Returns claims that pods name, in every namespace; some have devices already."""
    taken: set[tuple[str, str, str]] = set()
    made = []
    for namespace in NAMESPACES:
        for number in range(SHARED_CLAIMS):
            claim = {**_named("ResourceClaim", f"d-{number}", namespace), "spec": claim_spec(rng)}
            allocation = _allocation(rng, nodes, slices, taken) if rng.random() < 0.4 else None
            if allocation is not None:
                claim["status"] = _status(rng, allocation)
                claim["metadata"]["finalizers"] = ["resource.kubernetes.io/delete-protection"]
            made.append(claim)
    return made


def _allocation(
    rng: Rng, nodes: list[str], slices: list[Document], taken: set[tuple[str, str, str]]
) -> Document | None:
    """Returns one or two devices of one slice, which no other claim has."""
    slice_ = rng.choice(slices) if slices else None
    if slice_ is None or not slice_["spec"].get("devices"):
        return None
    spec = slice_["spec"]
    results: list[Document] = []
    for device in rng.sample(spec["devices"], min(len(spec["devices"]), rng.choice((1, 2)))):
        at = (spec["driver"], spec["pool"]["name"], device["name"])
        if at in taken and not device.get("allowMultipleAllocations"):
            continue
        taken.add(at)
        result: Document = {"request": "r0", "driver": at[0], "pool": at[1], "device": at[2]}
        if device.get("allowMultipleAllocations"):
            result["shareID"] = f"00000000-0000-0000-0000-{rng.randrange(10**12):012}"
            if device.get("capacity"):
                consumed = {name: "1Gi" if name == "memory" else "1" for name in device["capacity"]}
                result["consumedCapacity"] = consumed
        elif rng.random() < 0.05:
            result["adminAccess"] = True
        for name in ("bindingConditions", "bindingFailureConditions"):
            if name in device:
                result[name] = device[name]
        results.append(result)
    if not results:
        return None
    allocation: Document = {"devices": {"results": results}, "allocationTimestamp": OLD}
    node = spec.get("nodeName", rng.choice(nodes) if rng.random() < 0.5 else None)
    if node is not None:
        field = {"key": "metadata.name", "operator": "In", "values": [node]}
        allocation["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return allocation


def _status(rng: Rng, allocation: Document) -> Document:
    status: Document = {"allocation": allocation}
    if rng.random() < 0.4:
        users = [f"user-{number}" for number in range(rng.choice((1, 2)))]
        status["reservedFor"] = [{"resource": "pods", "name": one, "uid": one} for one in users]
    states: list[Document] = []
    for result in allocation["devices"]["results"]:
        if "bindingConditions" not in result or rng.random() < 0.3:
            continue
        name = "ready.example" if rng.random() < 0.7 else "broken.example"
        condition = {"type": name, "status": "True", "reason": "Any", "message": ""}
        condition["lastTransitionTime"] = OLD
        of = {key: result[key] for key in ("driver", "pool", "device")}
        states.append({**of, "conditions": [condition]})
    if states:
        status["devices"] = states
    return status


# -- pods ------------------------------------------------------------------------------------------


def give_claims(rng: Rng, pod: Document) -> list[Document]:
    """Makes a pod use devices; returns the claims that were made for it from templates."""
    roll = rng.random()
    if roll < 0.1:
        return []
    made = _enter_claims(rng, pod) if roll < 0.85 else []
    if roll > 0.75:
        _request_resources(rng, pod["spec"])
    return made


def _enter_claims(rng: Rng, pod: Document) -> list[Document]:
    """Enters claims in a pod: shared ones by name, others as if made from a template."""
    made: list[Document] = []
    entries: list[Document] = []
    statuses: list[Document] = []
    names = rng.sample(range(SHARED_CLAIMS), 2)
    for number in range(rng.choice((1, 1, 1, 2))):
        entry: Document = {"name": f"e{number}"}
        if rng.random() < 0.4:
            entry["resourceClaimName"] = f"d-{names[number]}"
        else:
            entry["resourceClaimTemplateName"] = "any"
            made.append(_generated(rng, pod["metadata"], number))
            name = made[-1]["metadata"]["name"]
            statuses.append({"name": entry["name"], "resourceClaimName": name})
        entries.append(entry)
    if rng.random() < 0.05:
        entries.append({"name": "none", "resourceClaimTemplateName": "any"})
        statuses.append({"name": "none"})
    pod["spec"]["resourceClaims"] = entries
    pod["status"]["resourceClaimStatuses"] = statuses
    return made


def _generated(rng: Rng, owner: Document, number: int) -> Document:
    claim = _named("ResourceClaim", f"{owner['name']}-e{number}", owner["namespace"])
    reference: Document = {"apiVersion": "v1", "kind": "Pod", "controller": True}
    reference |= {key: owner[key] for key in ("name", "uid")}
    claim["metadata"]["ownerReferences"] = [reference]
    return {**claim, "spec": claim_spec(rng)}


def _request_resources(rng: Rng, spec: Document) -> None:
    for container in spec["containers"]:
        if rng.random() < 0.8:
            resource = rng.choice((*RESOURCES, IMPLICIT_RESOURCE))
            amount = str(rng.choice((1, 1, 2)))
            resources: dict[str, Any] = container.setdefault("resources", {})
            resources.setdefault("requests", {})[resource] = amount
            resources.setdefault("limits", {})[resource] = amount
