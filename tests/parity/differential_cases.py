"""Cases for ``chance``: clusters in which everything that decides occurs, in odd combinations."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from mooring.clock import Rng
from mooring.objects.codec.decode import encode
from mooring.state.kinds.device_classes import RESOURCE_PREFIX
from mooring.testing.random_cluster import random_node, random_pod
from tests.parity.differential_devices import (
    IMPLICIT_RESOURCE,
    RESOURCES,
    SliceMaker,
    classes,
    give_claims,
    shared_claims,
)
from tests.parity.differential_themes import (
    APPS,
    KEYS,
    NAMESPACES,
    Document,
    Theme,
    volumes,
)
from tests.parity.differential_themes import THEMES as PLAIN_THEMES
from tests.parity.differential_volumes import (
    add_aws_disks,
    attachments,
    csi_driver,
    give_unbound_claims,
    inline,
    new_object,
)

#: Parts of pods, by name.
THEMES = {**PLAIN_THEMES, "inline": inline}

KIND: Document = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
}


class Case(NamedTuple):
    """A cluster, and pods to be scheduled one after another; some of them twice."""

    name: str
    config: Document | None
    objects: list[Document]
    pods: list[Document]
    #: percentageOfNodesToScore: 100 = all nodes are looked at, 0 = as many as the default is.
    percentage: int = 100

    def waiting(self) -> list[Document]:
        """Returns the pods to be scheduled, each once: they are there from the start."""
        return list({key_of(pod): pod for pod in self.pods}.values())


def random_case(rng: Rng) -> Case:
    """Returns a case about one theme, or about all of them."""
    name = rng.choice([*THEMES, "all", "all"])
    themes = list(THEMES.values()) if name == "all" else [THEMES[name]]
    return CaseMaker(rng, themes, rng.choice(("odd", "crowded", "roomy", "roomy"))).case(name)


def random_device_case(rng: Rng) -> Case:
    """Returns a case about devices; the pods of some have all other themes, too."""
    themes = list(THEMES.values()) if rng.random() < 0.15 else []
    maker = CaseMaker(rng, themes, rng.choice(("crowded", "roomy", "roomy", "roomy")))
    maker.sizes = (1, 2, 3, 5, 9)
    maker.with_devices = True
    return maker.case("devices and all" if themes else "devices")


def random_device_score_case(rng: Rng) -> Case:
    """Returns a case in which NodeResourcesFit scores nodes by their devices."""
    maker = CaseMaker(rng, [], "roomy")
    maker.sizes = (3, 5, 9)
    maker.with_devices = True
    case = maker.case("scores by devices")
    return case._replace(config=_scoring_devices(rng, case.config))


def random_device_balance_case(rng: Rng) -> Case:
    """Returns a case in which NodeResourcesBalancedAllocation counts devices.

    The class has no selectors: with some, kube-scheduler ends with a nil pointer.
    """
    case = random_device_score_case(rng)
    plain = f"{RESOURCE_PREFIX}all"
    text = msgspec.json.encode([case.config, case.objects, case.pods]).decode()
    config, objects, pods = msgspec.json.decode(text.replace(IMPLICIT_RESOURCE, plain))
    resources = [{"name": name, "weight": 1} for name in ("cpu", "memory", plain)]
    args = {"name": "NodeResourcesBalancedAllocation", "args": {"resources": resources}}
    config["profiles"][0]["pluginConfig"].append(args)
    return case._replace(config=config, objects=objects, pods=pods)


class CaseMaker:
    """Makes cases with these themes; ``room`` says how much the nodes have."""

    def __init__(self, rng: Rng, themes: list[Theme], room: str) -> None:
        self.rng = rng
        self.themes = themes
        self.room = room
        self.starts = 12 * 3600
        self.sizes: tuple[int, ...] = (1, 2, 5, 9, 16, 30)
        #: How many pods wait: from, to (exclusive).
        self.pods = (4, 16)
        self.with_devices = False
        self.with_unbound_claims = volumes in themes and rng.random() < 0.5

    def case(self, name: str) -> Case:
        rng = self.rng
        percentage = rng.choice((0, 5, 40, 90)) if rng.random() < 0.1 else 100
        size = rng.choice(self.sizes) if percentage == 100 else rng.choice((101, 160, 300))
        nodes = [self.node(f"node-{number:02}") for number in range(size)]
        namespaces = [self.namespace(each) for each in NAMESPACES]
        volumes = self.volumes([node["metadata"]["name"] for node in nodes])
        running = [
            self.pod(f"run-{number:02}", node=rng.choice(nodes)["metadata"]["name"])
            for number in range(rng.randrange(0, 30))
        ]
        _keep_ports_apart(running)
        pods = [self.pod(f"pod-{number:02}") for number in range(rng.randrange(*self.pods))]
        names = [node["metadata"]["name"] for node in nodes]
        devices = self.devices(names, pods) if self.with_devices else []
        claims = self.unbound_claims(names, pods) if self.with_unbound_claims else []
        again = [pod for pod in pods if rng.random() < 0.4]
        others = [*self.owners(), *self.budgets(), *devices, *claims]
        objects = [*namespaces, *nodes, *volumes, *others, *running]
        config = self.config()
        if percentage != 100:
            name = f"{name}, {percentage} %"
            # Of a profile: for the whole file mooring takes 0 as "all".
            config = config or {**KIND, "profiles": [{"schedulerName": "default-scheduler"}]}
            config["profiles"][0]["percentageOfNodesToScore"] = percentage
        return Case(name, config, objects, [*pods, *again], percentage)

    def node(self, name: str) -> Document:
        rng = self.rng
        node = _plain(random_node(rng, name))
        labels = node["metadata"].setdefault("labels", {})
        if rng.random() < 0.95:
            labels["kubernetes.io/hostname"] = name
        if rng.random() < 0.7:
            labels["topology.kubernetes.io/region"] = rng.choice(("r1", "r2"))
        if self.room == "crowded":
            node["status"]["allocatable"] |= {"cpu": "2", "memory": "2Gi", "pods": "4"}
        elif self.room == "roomy":
            cpu, memory = rng.choice(("8", "16")), rng.choice(("16Gi", "64G"))
            node["status"]["allocatable"] |= {"cpu": cpu, "memory": memory, "pods": "110"}
            if rng.random() < 0.8:
                node["spec"] = {}
        return node

    def namespace(self, name: str) -> Document:
        labels = {"kubernetes.io/metadata.name": name}
        if self.rng.random() < 0.5:
            labels["team"] = self.rng.choice(("a", "b"))
        return new_object("v1", "Namespace", name, labels=labels)

    def pod(self, name: str, *, node: str = "") -> Document:
        rng = self.rng
        pod = _plain(random_pod(rng, name, node=node))
        metadata, spec = pod["metadata"], pod["spec"]
        metadata["namespace"] = rng.choice(NAMESPACES) if rng.random() < 0.4 else "default"
        metadata["uid"] = f"uid-{metadata['namespace']}-{name}"
        metadata["labels"] = {"app": rng.choice(APPS)} if rng.random() < 0.9 else {}
        if rng.random() < 0.3:
            metadata["labels"]["tier"] = rng.choice(("1", "2"))
        spec["schedulerName"] = "default-scheduler"
        spec["priority"] = rng.choice((0, 0, 5, 10, 100))
        if rng.random() < 0.1:
            spec["preemptionPolicy"] = "Never"
        for container in spec["containers"]:
            for port in container.get("ports", ()):
                port["protocol"] = rng.choice(("TCP", "TCP", "UDP"))
                if rng.random() < 0.3:
                    port["hostIP"] = rng.choice(("127.0.0.1", "0.0.0.0"))
        if self.with_devices and not self.themes:
            # Devices are to decide, not what the plugins before refuse.
            spec.pop("affinity", None)
            for container in spec["containers"]:
                container.pop("resources", None)
                container.pop("ports", None)
        if self.room == "roomy" and (self.with_devices or rng.random() < 0.7):
            for name in ("nodeSelector", "affinity"):
                spec.pop(name, None)
        if self.room == "crowded":
            spec["containers"][0]["resources"] = {
                "requests": {"cpu": rng.choice(("400m", "900m")), "memory": "100Mi"}
            }
        pod["status"] = {}
        for theme in self.themes:
            if rng.random() < 0.6:
                theme(rng, pod)
        if node:
            # No two start at once: kube-scheduler sorts those of equal importance in any order.
            self.starts -= 1 + rng.randrange(60)
            minute, second = divmod(self.starts, 60)
            started = f"2026-01-01T{minute // 60:02}:{minute % 60:02}:{second:02}Z"
            pod["status"] |= {"phase": "Running", "startTime": started}
            if rng.random() < 0.08:
                metadata["deletionTimestamp"] = "2026-01-02T00:00:00Z"
        else:
            pod["status"] |= {"phase": "Pending"}
        return pod

    def devices(self, nodes: list[str], pods: list[Document]) -> list[Document]:
        """Gives the pods claims; returns these, and classes and slices."""
        rng = self.rng
        slices = SliceMaker(rng, nodes).all()
        claims = [claim for pod in pods for claim in give_claims(rng, pod)]
        return [*classes(rng), *slices, *shared_claims(rng, nodes, slices), *claims]

    def unbound_claims(self, nodes: list[str], pods: list[Document]) -> list[Document]:
        """Gives most pods claims that are not bound; returns these, classes and volumes."""
        rng = self.rng
        chosen = [pod for pod in pods if rng.random() < 0.7]
        return [made for pod in chosen for made in give_unbound_claims(rng, pod, nodes)]

    def owners(self) -> list[Document]:
        found = []
        for number, app in enumerate(APPS):
            if self.rng.random() < 0.4:
                spec: Document = {"selector": {"app": app}}
                found.append(new_object("v1", "Service", f"s-{number}", "default", spec=spec))
            if self.rng.random() < 0.2:
                spec = {"selector": {"matchLabels": {"app": app}}, "template": {}}
                found.append(
                    new_object("apps/v1", "ReplicaSet", f"r-{number}", "default", spec=spec)
                )
        return found

    def budgets(self) -> list[Document]:
        found = []
        for number, app in enumerate(APPS):
            if self.rng.random() < 0.3:
                spec = {"selector": _budget_selector(self.rng, app), "minAvailable": 1}
                status: Document = {"disruptionsAllowed": self.rng.choice((0, 0, 1, 2))}
                if self.rng.random() < 0.3:
                    gone = {
                        f"run-{number:02}": "2026-01-01T00:00:00Z" for number in range(0, 30, 4)
                    }
                    status["disruptedPods"] = gone
                budget = new_object(
                    "policy/v1", "PodDisruptionBudget", f"b-{number}", "default", spec=spec
                )
                found.append({**budget, "status": status})
        return found

    def volumes(self, nodes: list[str]) -> list[Document]:
        """Claims c-0 to c-5 of every namespace, most of them bound, and limits of one driver."""
        rng = self.rng
        found = [
            new_object("storage.k8s.io/v1", "CSIDriver", "disk.example", spec=csi_driver(rng)),
            {
                **new_object("storage.k8s.io/v1", "StorageClass", "later"),
                "provisioner": "kubernetes.io/no-provisioner",
                "volumeBindingMode": "WaitForFirstConsumer",
            },
        ]
        for name in nodes:
            driver: Document = {"name": "disk.example", "nodeID": name, "topologyKeys": None}
            if rng.random() < 0.6:
                driver["allocatable"] = {"count": rng.choice((0, 1, 2, 5))}
            csi_node = new_object("storage.k8s.io/v1", "CSINode", name, spec={"drivers": [driver]})
            add_aws_disks(rng, csi_node)
            found += [csi_node, *attachments(rng, name)]
        for namespace in NAMESPACES:
            for number in range(6):
                found += self.claim(namespace, f"c-{number}", nodes)
        return found

    def claim(self, namespace: str, name: str, nodes: list[str]) -> list[Document]:
        rng = self.rng
        modes = [rng.choice(("ReadWriteOnce", "ReadWriteOncePod", "ReadWriteMany"))]
        resources = {"requests": {"storage": "1Gi"}}
        spec: Document = {"accessModes": modes, "resources": resources, "storageClassName": ""}
        claim = new_object("v1", "PersistentVolumeClaim", name, namespace, spec=spec)
        if rng.random() < 0.1:
            return [{**claim, "status": {"phase": "Pending"}}] if rng.random() < 0.5 else []
        volume = f"{namespace}-{name}"
        spec["volumeName"] = volume
        claim["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
        source: Document = {"csi": {"driver": "disk.example", "volumeHandle": volume}}
        labels = {}
        if rng.random() < 0.15:
            disk = rng.choice(("vol-1", "vol-2", "aws://us-east-1a/vol-3"))
            source = {"awsElasticBlockStore": {"volumeID": disk}}
        if rng.random() < 0.2:
            source = {"hostPath": {"path": "/data"}}
            labels = {"topology.kubernetes.io/zone": rng.choice(("a", "b", "a__b"))}
        made = {
            **source,
            "capacity": {"storage": "1Gi"},
            "accessModes": modes,
            "claimRef": {"kind": "PersistentVolumeClaim", "namespace": namespace, "name": name}
            | {"uid": claim["metadata"]["uid"]},
        }
        if rng.random() < 0.4 and nodes:
            where = {
                "key": "kubernetes.io/hostname",
                "operator": rng.choice(("In", "NotIn")),
                "values": rng.sample(nodes, min(len(nodes), 3)),
            }
            made["nodeAffinity"] = {
                "required": {"nodeSelectorTerms": [{"matchExpressions": [where]}]}
            }
        return [
            {**claim, "status": {"phase": "Bound"}},
            new_object("v1", "PersistentVolume", volume, labels=labels, spec=made),
        ]

    def config(self) -> Document | None:
        rng = self.rng
        if rng.random() < 0.5:
            return None
        args: list[tuple[str, Document]] = []
        if rng.random() < 0.5:
            args.append(("NodeResourcesFit", {"scoringStrategy": _strategy(rng)}))
        if rng.random() < 0.4:
            weight = {"hardPodAffinityWeight": rng.choice((0, 1, 7, 100))}
            weight["ignorePreferredTermsOfExistingPods"] = rng.random() < 0.5
            args.append(("InterPodAffinity", weight))
        if rng.random() < 0.3:
            constraint = {"maxSkew": rng.choice((1, 2)), "topologyKey": rng.choice(KEYS[:3])}
            how = rng.choice(("ScheduleAnyway", "DoNotSchedule"))
            given = {"defaultConstraints": [{**constraint, "whenUnsatisfiable": how}]}
            args.append(("PodTopologySpread", {**given, "defaultingType": "List"}))
        if rng.random() < 0.2:
            args.append(("NodeAffinity", {"addedAffinity": _added_affinity(rng)}))
        plugins: Document = {}
        if rng.random() < 0.4:
            name = rng.choice(("TaintToleration", "PodTopologySpread", "InterPodAffinity"))
            weighed = [{"name": name, "weight": rng.choice((1, 5, 50))}]
            plugins["score"] = {"disabled": [{"name": name}], "enabled": weighed}
        if rng.random() < 0.2:
            name = rng.choice(("ImageLocality", "NodePorts", "NodeAffinity", "VolumeZone"))
            plugins["multiPoint"] = {"disabled": [{"name": name}]}
        profile = {
            "schedulerName": "default-scheduler",
            "plugins": plugins,
            "pluginConfig": [{"name": name, "args": given} for name, given in args],
        }
        return {**KIND, "profiles": [profile]}


def _budget_selector(rng: Rng, app: str) -> Document:
    """Returns a selector of some pods, of all, or of none."""
    if rng.random() < 0.7:
        return {"matchLabels": {"app": app}}
    operator = rng.choice(("Exists", "DoesNotExist"))
    return rng.choice(({}, {"matchExpressions": [{"key": "tier", "operator": operator}]}))


def _added_affinity(rng: Rng) -> Document:
    """Returns affinity of a profile: required, preferred, or both."""
    expression: Document = {"key": "disk", "operator": "Exists"}
    if rng.random() < 0.5:
        expression = {"key": "disk", "operator": "NotIn", "values": ["1", "2"]}
    of_disk = {"matchExpressions": [expression]}
    of_rack = {"matchExpressions": [{"key": "rack", "operator": "Exists"}]}
    made: Document = {}
    if rng.random() < 0.6:
        terms = {"nodeSelectorTerms": [of_disk]}
        made["requiredDuringSchedulingIgnoredDuringExecution"] = terms
    if not made or rng.random() < 0.5:
        preferred = [{"weight": rng.choice((1, 50)), "preference": of_rack}]
        made["preferredDuringSchedulingIgnoredDuringExecution"] = preferred
    return made


def _keep_ports_apart(running: list[Document]) -> None:
    """Removes ports used twice on a node: kube-scheduler releases them with the first pod."""
    held: set[tuple[str, int, str]] = set()
    for pod in running:
        for container in pod["spec"]["containers"]:
            ports = {
                (pod["spec"]["nodeName"], port["hostPort"], port["protocol"]): port
                for port in container.pop("ports", ())
            }
            kept = [port for at, port in ports.items() if at not in held]
            held |= set(ports)
            if kept:
                container["ports"] = kept


def _scoring_devices(rng: Rng, config: Document | None) -> Document:
    """Returns the configuration with scores of the extended resources that stand for classes."""
    config = config or {**KIND, "profiles": [{"schedulerName": "default-scheduler"}]}
    names = ("cpu", "memory", *RESOURCES, IMPLICIT_RESOURCE)
    args = {"NodeResourcesFit": {"scoringStrategy": _strategy(rng, names, 3)}}
    profile = config["profiles"][0]
    others = [entry for entry in profile.get("pluginConfig", ()) if entry["name"] not in args]
    profile["pluginConfig"] = [*others, *({"name": name, "args": args[name]} for name in args)]
    return config


def _strategy(
    rng: Rng,
    choices: tuple[str, ...] = ("cpu", "memory", "example.com/gpu", "ephemeral-storage"),
    count: int = 2,
) -> Document:
    names = rng.sample(choices, count)
    resources = [{"name": name, "weight": rng.choice((1, 3, 10))} for name in names]
    kind = rng.choice(("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"))
    found: Document = {"type": kind, "resources": resources}
    if kind == "RequestedToCapacityRatio":
        scores = rng.choice(((0, 10), (10, 0), (3, 8)))
        shape = [
            {"utilization": at, "score": score} for at, score in zip((0, 80), scores, strict=True)
        ]
        found["requestedToCapacityRatio"] = {"shape": shape}
    return found


def _plain(obj: Any) -> Document:
    found: Document = msgspec.json.decode(encode(obj))
    return {"apiVersion": "v1", "kind": type(obj).__name__, **found}


def key_of(pod: Document) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
