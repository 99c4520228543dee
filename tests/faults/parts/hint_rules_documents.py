"""The objects of the run ``hint_rules``, as documents with plain numbers."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, Final

from mooring.clock import Rng
from tests.faults.parts.hint_rules_model import CLASS_PREFIX, DISKS, MIGRATED, Document

NAMES: Final = ("a", "b", "c")
#: The last one has no object.
NAMESPACES: Final = ("default", "team", "lab")
LABELS: Final = ("app", "tier")
VALUES: Final = ("x", "y")
KEYS: Final = ("zone", "rack", "kubernetes.io/hostname")
RESOURCES: Final = (
    "cpu", "memory", "example.com/gpu", "example.com/fpga", "vendor.io/nic", f"{CLASS_PREFIX}a",
)  # fmt: skip
#: Millicores, and bytes.
UNITS: Final = {"cpu": "m"}
AMOUNTS: Final = (0, 1, 2, 3)
OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")
DRIVERS: Final = ("pd.csi.storage.gke.io", "ebs.csi.aws.com", "disk.csi.azure.com", "one.csi")
VOLUMES: Final = ("ephemeral", "csi", "csi", "emptyDir", *DISKS)
#: The resource that a class of devices may stand for; no two classes have the same one.
OF_CLASS: Final = dict(zip(NAMES, RESOURCES[2:5], strict=True))


#: What most pods of a run have: nothing in particular, or one of these.
MIXED, VOLUMED, WITH_DEVICES, SPREAD = "mixed", "volumed", "with devices", "spread"
FOCUSES: Final = (MIXED, VOLUMED, WITH_DEVICES, SPREAD)


class Parts:
    """Draws the parts of pods.

    Args:
        rng: Draws them.
        focus: What most pods have.
    """

    def __init__(self, rng: Rng, focus: str) -> None:
        self._rng = rng
        self._focus = focus
        self._count = 0
        #: Few, so that pods have the same ones.
        self._volumes = ("claim", *rng.sample(VOLUMES, 2))

    def _has(self, part: str) -> bool:
        """Returns whether a pod has a part."""
        shares = {MIXED: 0.5, part: 0.95}
        return self._rng.random() < shares.get(self._focus, 0.2)

    # -- parts ------------------------------------------------------------------------------------

    def labels(self) -> dict[str, str]:
        """Returns up to two labels."""
        rng = self._rng
        return {key: rng.choice(VALUES) for key in LABELS if rng.random() < 0.6}

    def selector(self) -> Document:
        """Returns a selector of labels."""
        rng = self._rng
        match rng.choice(("labels", "labels", "expression", "both", "empty")):
            case "labels":
                return {"matchLabels": {rng.choice(LABELS): rng.choice(VALUES)}}
            case "expression":
                return {"matchExpressions": [self._expression()]}
            case "both":
                labels = {rng.choice(LABELS): rng.choice(VALUES)}
                return {"matchLabels": labels, "matchExpressions": [self._expression()]}
        return {}

    def _expression(self) -> Document:
        rng = self._rng
        expression: Document = {"key": rng.choice(LABELS), "operator": rng.choice(OPERATORS)}
        if expression["operator"].endswith("In"):
            expression["values"] = rng.sample(VALUES, rng.randint(1, 2))
        return expression

    def _term(self) -> Document:
        rng = self._rng
        term: Document = {"topologyKey": rng.choice(KEYS)}
        if rng.random() < 0.95:
            term["labelSelector"] = self.selector()
        if rng.random() < 0.3:
            term["namespaces"] = rng.sample(NAMESPACES, rng.randint(1, 2))
        if rng.random() < 0.3:
            term["namespaceSelector"] = self.selector()
        return term

    def _affinity(self) -> Document:
        rng, key = self._rng, "requiredDuringSchedulingIgnoredDuringExecution"
        return {
            sort: {key: [self._term() for _ in range(rng.choice((1, 1, 2)))]}
            for sort in ("podAffinity", "podAntiAffinity")
            if rng.random() < 0.5
        }

    def _constraint(self) -> Document:
        rng = self._rng
        constraint: Document = {
            "topologyKey": rng.choice(KEYS),
            "maxSkew": 1,
            "whenUnsatisfiable": rng.choice(("DoNotSchedule", "DoNotSchedule", "ScheduleAnyway")),
        }
        if rng.random() < 0.95:
            constraint["labelSelector"] = self.selector()
        if rng.random() < 0.3:
            constraint["matchLabelKeys"] = rng.sample(LABELS, rng.randint(1, 2))
        if rng.random() < 0.5:
            constraint["nodeTaintsPolicy"] = rng.choice(("Honor", "Ignore"))
        return constraint

    def _requests(self) -> dict[str, int]:
        rng = self._rng
        return {name: rng.choice(AMOUNTS) for name in RESOURCES if rng.random() < 0.3}

    def _tolerations(self) -> list[Document]:
        count = self._rng.choice((0, 0, 1, 2))
        return [{"key": f"key-{number}", "operator": "Exists"} for number in range(count)]

    def _volume(self, name: str) -> Document:
        rng = self._rng
        source = rng.choice(self._volumes)
        disk = rng.choice(NAMES)
        of_source: Any
        match source:
            case "claim":
                of_source = {"persistentVolumeClaim": {"claimName": disk}}
            case "ephemeral":
                template = {"spec": {"accessModes": ["ReadWriteOnce"]}}
                of_source = {"ephemeral": {"volumeClaimTemplate": template}}
            case "csi":
                of_source = {"csi": {"driver": rng.choice(NAMES)}}
            case "emptyDir":
                of_source = {"emptyDir": {}}
            case "gcePersistentDisk":
                of_source = {source: {"pdName": disk, "readOnly": rng.random() < 0.5}}
            case "awsElasticBlockStore":
                of_source = {source: {"volumeID": disk}}
            case "azureDisk":
                kind = rng.choice(("Managed", "Dedicated"))
                of_source = {source: {"diskName": disk, "diskURI": disk, "kind": kind}}
            case "azureFile":
                of_source = {source: {"secretName": "x", "shareName": disk}}
            case _:
                of_source = {source: {"volumePath": disk}}
        return {"name": name, **of_source}

    def claim_name(self, pod: Document) -> str:
        """Returns the name of a claim, also of one that is made for a pod's volume."""
        made = f"{pod['metadata']['name']}-{self._rng.choice(NAMES[:2])}"
        return self._rng.choice((*NAMES, made, made))


class Drawn(Parts):
    """Draws objects."""

    @staticmethod
    def written(obj: Document) -> Document:
        """Returns an object as the API server has it: its amounts are texts."""
        if "containers" not in obj.get("spec", {}) and "allocatable" not in obj.get("status", {}):
            return obj
        obj = deepcopy(obj)
        holders = [it["resources"] for it in obj["spec"].get("containers", ())]
        for holder, key in (*((it, "requests") for it in holders), (obj["status"], "allocatable")):
            if key in holder:
                holder[key] = {
                    name: f"{amount}{UNITS.get(name, '')}" for name, amount in holder[key].items()
                }
        return obj

    # -- pods and nodes ---------------------------------------------------------------------------

    def pod(self, name: str) -> Document:
        """Returns a pod that waits; about half of its fields are there."""
        rng = self._rng
        spec: Document = {
            "containers": [{"name": "main", "resources": {"requests": self._requests()}}],
            "tolerations": self._tolerations(),
        }
        if self._has(SPREAD):
            spec["affinity"] = self._affinity()
        if self._has(SPREAD):
            count = rng.randint(1, 2)
            spec["topologySpreadConstraints"] = [self._constraint() for _ in range(count)]
        if self._has(VOLUMED):
            spec["volumes"] = [self._volume(it) for it in NAMES[: rng.randint(1, 2)]]
        status: Document = {}
        if self._has(WITH_DEVICES):
            spec["resourceClaims"] = [self._entry(it) for it in NAMES[: rng.randint(1, 2)]]
            status["resourceClaimStatuses"] = self._statuses()
        metadata = {
            "name": name,
            "namespace": rng.choice((*NAMESPACES[:2], NAMESPACES[0])),
            "uid": name,
            "labels": self.labels(),
        }
        return {"metadata": metadata, "spec": spec, "status": status}

    def other_pod(self) -> Document:
        """Returns a pod that is placed, nominated, or neither."""
        self._count += 1
        pod = self.pod(f"other-{self._count}")
        pod["metadata"]["namespace"] = self._rng.choice((*NAMESPACES, NAMESPACES[0]))
        match self._rng.choice(("placed", "placed", "nominated", "neither")):
            case "placed":
                pod["spec"]["nodeName"] = self._rng.choice(NAMES)
            case "nominated":
                pod["status"]["nominatedNodeName"] = self._rng.choice(NAMES)
        return pod

    def variant(self, pod: Document) -> Document:
        """Returns another pod, which differs in one part."""
        rng, new, other = self._rng, deepcopy(pod), self.pod("variant")
        new["metadata"] |= {"name": "variant", "uid": "variant"}
        match rng.choice(("namespace", "labels", "spec", "spec", "volume", "volume", "nothing")):
            case "namespace" | "labels" as part:
                new["metadata"][part] = other["metadata"][part]
            case "spec":
                part = rng.choice(sorted(other["spec"]))
                new["spec"][part] = other["spec"][part]
            case "volume" if new["spec"].get("volumes"):
                new["spec"]["volumes"][0] = self._volume(new["spec"]["volumes"][0]["name"])
        return new

    def changed_pod(self, old: Document) -> Document:
        """Returns a pod of which one part has changed, as the API server lets it change."""
        rng, new = self._rng, deepcopy(old)
        match rng.choice(("labels", "labels", "requests", "tolerations", "claims", "nothing")):
            case "labels":
                new["metadata"]["labels"] = self.labels()
                if rng.random() < 0.3:
                    new["status"]["nominatedNodeName"] = rng.choice((*NAMES, ""))
            case "requests":
                requests = new["spec"]["containers"][0]["resources"]["requests"]
                for name in requests:
                    requests[name] = rng.choice((requests[name], *AMOUNTS))
            case "tolerations":
                count = len(new["spec"]["tolerations"])
                added = {"key": f"key-{count}", "operator": "Exists"}
                new["spec"]["tolerations"].append(added)
            case "claims":
                new["status"]["resourceClaimStatuses"] = self._statuses()
            case _:
                new["metadata"]["resourceVersion"] = "2"
        return new

    def node(self, name: str) -> Document:
        """Returns a node."""
        rng = self._rng
        drawn = {"zone": rng.choice(VALUES), "rack": rng.choice(VALUES), KEYS[-1]: name}
        amounts = {it: rng.choice(AMOUNTS) for it in RESOURCES if rng.random() < 0.7}
        taints = [{"key": "key-0", "effect": "NoSchedule"}] if rng.random() < 0.3 else []
        return {
            "metadata": {
                "name": name,
                "labels": {key: it for key, it in drawn.items() if rng.random() < 0.8},
            },
            "spec": {"taints": taints},
            "status": {"allocatable": {**amounts, "pods": rng.choice((0, 1, 2, 2))}},
        }

    # -- devices ----------------------------------------------------------------------------------

    def _entry(self, name: str) -> Document:
        match self._rng.choice(("claim", "claim", "template", "nothing")):
            case "claim":
                return {"name": name, "resourceClaimName": self._rng.choice(NAMES)}
            case "template":
                return {"name": name, "resourceClaimTemplateName": "template"}
        return {"name": name}

    def _statuses(self) -> list[Document]:
        rng = self._rng
        statuses: list[Document] = []
        for name in NAMES[:2]:
            if rng.random() < 0.7:
                claim = rng.choice((*NAMES, None))
                of_claim = {} if claim is None else {"resourceClaimName": claim}
                statuses.append({"name": name, **of_claim})
        return statuses

    def claim(self, namespace: str, name: str, old: Document | None) -> Document:
        """Returns a claim for devices, or another version of one."""
        rng = self._rng
        if old is None or rng.random() < 0.2:
            self._count += 1
            metadata: Document = {"name": name, "namespace": namespace}
            metadata["uid"] = f"claim-{self._count}"
            if rng.random() < 0.5:
                pod = f"waiting-{rng.randrange(3)}"
                owner = {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": pod}
                metadata["ownerReferences"] = [{**owner, "controller": True}]
        else:
            metadata = deepcopy(old["metadata"])
        if rng.random() < 0.1:
            metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        status: Document = {}
        if rng.random() < 0.5:
            status["allocation"] = {"devices": {"results": []}}
            users = [{"resource": "pods", "name": it, "uid": it} for it in NAMES]
            status["reservedFor"] = users[: rng.randint(0, 2)]
        spec: Document = {"devices": {"requests": []}}
        return {"metadata": metadata, "spec": spec, "status": status}

    def device_class(self, name: str) -> Document:
        """Returns a class of devices; some stand for a resource."""
        resource = self._rng.choice((None, OF_CLASS[name], OF_CLASS[name], f"other.io/{name}"))
        spec: Document = {} if resource is None else {"extendedResourceName": resource}
        return {"metadata": {"name": name}, "spec": spec}

    # -- storage ----------------------------------------------------------------------------------

    def persistent_claim(self, name: str, namespace: str) -> Document:
        """Returns a claim for a volume."""
        return {"metadata": {"name": name, "namespace": namespace}, "spec": {}, "status": {}}

    def other(self, kind: str, name: str) -> Document:
        """Returns another object about storage."""
        rng = self._rng
        obj: Document = {"metadata": {"name": name}}
        match kind:
            case "PersistentVolume":
                obj["spec"] = {"capacity": {"storage": "1Gi"}}
            case "StorageClass":
                obj["provisioner"] = "one.csi"
                zones = rng.choice(([], ["x"], ["y"]))
                if zones:
                    expression = {"key": "zone", "values": zones}
                    obj["allowedTopologies"] = [{"matchLabelExpressions": [expression]}]
            case "CSINode":
                obj["metadata"]["annotations"] = rng.choice(
                    ({}, {MIGRATED: ""}, {MIGRATED: "kubernetes.io/gce-pd"})
                )
                obj["spec"] = {"drivers": [self._driver(it) for it in rng.sample(DRIVERS, 2)]}
            case "CSIDriver":
                has_capacity = rng.choice((None, True, True, False))
                obj["spec"] = {} if has_capacity is None else {"storageCapacity": has_capacity}
            case "CSIStorageCapacity":
                obj["metadata"]["namespace"] = "default"
                obj["storageClassName"] = "one"
                for key in ("capacity", "maximumVolumeSize"):
                    if rng.random() < 0.5:
                        obj[key] = rng.choice(("1Gi", "2Gi"))
            case "VolumeAttachment":
                obj["spec"] = {
                    "attacher": rng.choice(DRIVERS),
                    "nodeName": "a",
                    "source": {"persistentVolumeName": "a"},
                }
        return obj

    def _driver(self, name: str) -> Document:
        rng = self._rng
        driver: Document = {"name": name, "nodeID": "a"}
        allocatable: Any = rng.choice((None, {}, {"count": 1}, {"count": 2}))
        return driver if allocatable is None else {**driver, "allocatable": allocatable}
