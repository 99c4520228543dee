"""Random small clusters with a pending pod, for explanations: a theme decides what rejects it.

Each theme returns objects of the cluster and parts of the pod. The clusters are small, so that a
single obvious change often helps, and all of them can be tried.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mooring.clock import Rng
from mooring.objects.pod import Pod
from mooring.testing import make_node, make_pod
from tests.helpers.devices import (
    exactly,
    make_claim,
    make_class,
    make_device,
    make_slice,
    result_of,
)
from tests.helpers.volume_objects import (
    HOSTNAME,
    LATE,
    ZONE,
    capacity,
    claim,
    csi,
    csi_driver,
    csi_node,
    storage_class,
    volume,
)

NODES = ("n-0", "n-1", "n-2")
ZONES = ("a", "b")
APPS = ("web", "db")
KEYS = (ZONE, ZONE, HOSTNAME, "rack", "nowhere")
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
DRIVER = "disk.csi.test"

Document = dict[str, Any]


class Cluster:
    """A cluster that is being made.

    Attributes:
        objects: All objects but the pending pod.
        spec: Parts of the spec of the pending pod.
        more: Arguments of ``make_pod`` for the pending pod.
    """

    def __init__(self, rng: Rng) -> None:
        self.rng = rng
        self.objects: list[Any] = [_node(rng, name) for name in NODES]
        self.spec: Document = {"volumes": [], "resourceClaims": []}
        self.more: Document = {"labels": {"app": rng.choice(APPS)}, "priority": -10}

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def place(self, name: str, **more: Any) -> None:
        """Adds a pod on a random node."""
        node = more.pop("node", self.rng.choice(NODES))
        self.objects.append(make_pod(name, node=node, **more))

    def pod(self) -> Pod:
        return make_pod("pod", spec=self.spec, **self.more)


def _node(rng: Rng, name: str) -> Any:
    labels = {"rack": rng.choice(("r1", "r2"))} if rng.random() < 0.6 else {}
    return make_node(
        name,
        allocatable={"cpu": "1", "pods": "20"},
        labels=labels,
        zone=rng.choice(ZONES) if rng.random() < 0.9 else None,
        taints=["team=db:NoSchedule"] if rng.random() < 0.25 else [],
        unschedulable=rng.random() < 0.25,
    )


# ---- volumes ----


def _volume_of(cluster: Cluster, name: str, **more: Any) -> Any:
    """Returns a volume that all nodes reach, or those of a zone, or one node, or none."""
    roll, rng = cluster.rng.random(), cluster.rng
    if roll < 0.3:
        more["near"] = {HOSTNAME: rng.choice(NODES)}
    elif roll < 0.5:
        more["near"] = {ZONE: rng.choice((*ZONES, "c"))}
    elif roll < 0.7:
        more["labels"] = {ZONE: rng.choice((*ZONES, "c", "a__b"))}
    return volume(name, **more)


def _bound(cluster: Cluster, name: str, **more: Any) -> None:
    """Adds a claim that is bound."""
    extra = {"csi": csi(name)} if cluster.chance(0.4) else {}
    modes = more.get("accessModes", ["ReadWriteOnce"])
    cluster.objects += [
        _volume_of(
            cluster,
            f"pv-{name}",
            claim=f"default/{name}",
            phase="Bound",
            accessModes=modes,
            **extra,
        ),
        claim(name, volume_name=f"pv-{name}", **more),
    ]


def _half_bound(cluster: Cluster, name: str) -> None:
    """Adds a claim that names a volume, but is not bound to it."""
    cluster.objects.append(claim(name, volume_name=f"pv-{name}", is_bound=cluster.chance(0.3)))
    if cluster.chance(0.5):
        cluster.objects.append(_volume_of(cluster, f"pv-{name}"))


def _local(cluster: Cluster, name: str) -> None:
    """Adds a claim that waits for its first consumer, and volumes that are made by hand."""
    rng = cluster.rng
    cluster.objects.append(storage_class("local", mode=rng.choice((LATE, LATE, "Immediate"))))
    cluster.objects.append(claim(name, size=rng.choice(("1Gi", "5Gi"))))
    for number in range(rng.choice((0, 1, 2))):
        more: Document = {"phase": rng.choice(("Available", "Available", "Released"))}
        if cluster.chance(0.2):
            more |= {"claim": "default/other", "phase": "Bound"}
        cluster.objects.append(
            _volume_of(cluster, f"local-{name}-{number}", size=rng.choice(("1Gi", "10Gi")), **more)
        )


def _dynamic(cluster: Cluster, name: str) -> None:
    """Adds a claim whose class makes volumes, perhaps only in some zones or with some capacity."""
    rng = cluster.rng
    topologies = None
    if cluster.chance(0.6):
        zones = [rng.choice((*ZONES, "c"))]
        topologies = [{"matchLabelExpressions": [{"key": ZONE, "values": zones}]}]
    mode = rng.choice((LATE, LATE, LATE, "Immediate"))
    cluster.objects += [
        storage_class("made", provisioner=DRIVER, mode=mode, topologies=topologies),
        claim(name, storage_class="made", size=rng.choice(("1Gi", "5Gi"))),
    ]
    if cluster.chance(0.4):
        cluster.objects.append(csi_driver(DRIVER))
        zone = {"matchLabels": {ZONE: rng.choice(ZONES)}}
        cluster.objects.append(capacity(near=zone, capacity="2Gi"))


def _odd(cluster: Cluster, name: str) -> None:
    """Adds a claim that does not exist, is lost, has no class, or one that does not exist."""
    rng = cluster.rng
    match rng.randrange(5):
        case 0:
            if cluster.chance(0.5):
                _bound(cluster, f"{name}x")
        case 1:
            cluster.objects.append(claim(name, volume_name="gone", phase="Lost"))
        case 2:
            cluster.objects.append(claim(name, storage_class=""))
        case 3:
            cluster.objects += [claim(name, storage_class="locl"), storage_class("local")]
        case _:
            deleted = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a/b"]}
            cluster.objects.append(claim(name, metadata=deleted))


def _once(cluster: Cluster, name: str) -> None:
    """Adds a claim of one pod only, which another pod may use."""
    _bound(cluster, name, accessModes=["ReadWriteOncePod"])
    if cluster.chance(0.8):
        volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]
        cluster.place(f"user-of-{name}", spec={"volumes": volumes})


def volumes(cluster: Cluster) -> None:
    """Adds one or two claims."""
    for number in range(cluster.rng.choice((1, 1, 2))):
        name = f"claim-{number}"
        kinds = (_bound, _bound, _half_bound, _local, _local, _dynamic, _odd, _once)
        cluster.rng.choice(kinds)(cluster, name)
        cluster.spec["volumes"].append(
            {"name": f"v{number}", "persistentVolumeClaim": {"claimName": name}}
        )
    if cluster.chance(0.15):
        disk = {"gcePersistentDisk": {"pdName": "disk"}}
        cluster.spec["volumes"].append({"name": "disk", **disk})
        cluster.place("disk-user", spec={"volumes": [{"name": "disk", **disk}]})


def limits(cluster: Cluster) -> None:
    """Adds a bound volume of a driver with attach limits; other pods use some of them."""
    rng = cluster.rng
    for name in NODES:
        cluster.objects.append(csi_node(name, disk_csi_test=rng.choice((0, 1, 1, 2))))
    for number in range(rng.choice((1, 2, 3, 4))):
        name = f"other-{number}"
        cluster.objects += [
            volume(f"pv-{name}", claim=f"default/{name}", phase="Bound", csi=csi(name)),
            claim(name, volume_name=f"pv-{name}"),
        ]
        volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]
        cluster.place(name, spec={"volumes": volumes})
    cluster.objects += [
        volume("pv-own", claim="default/own", phase="Bound", csi=csi("own")),
        claim("own", volume_name="pv-own"),
    ]
    cluster.spec["volumes"].append({"name": "v", "persistentVolumeClaim": {"claimName": "own"}})


# ---- other pods ----


def _term(cluster: Cluster) -> Document:
    rng = cluster.rng
    app = rng.choice((*APPS, "webb"))
    return {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": rng.choice(KEYS)}


def affinity(cluster: Cluster) -> None:
    """Adds required affinity and anti-affinity, of the pod and against it."""
    rng = cluster.rng
    for number in range(rng.randrange(5)):
        more: Document = {}
        if cluster.chance(0.3):
            more["affinity"] = {"podAntiAffinity": {REQUIRED: [_term(cluster)]}}
        cluster.place(f"placed-{number}", labels={"app": rng.choice(APPS)}, **more)
    terms: Document = {}
    for kind in ("podAffinity", "podAntiAffinity"):
        if cluster.chance(0.6):
            terms[kind] = {REQUIRED: [_term(cluster) for _ in range(rng.choice((1, 1, 2)))]}
    cluster.more["affinity"] = terms


def spread(cluster: Cluster) -> None:
    """Adds one or two constraints; other pods are in some domains."""
    rng = cluster.rng
    for number in range(rng.randrange(6)):
        cluster.place(f"placed-{number}", labels={"app": rng.choice(APPS)})
    constraints: dict[str, Document] = {}
    for _ in range(rng.choice((1, 1, 2))):
        key = rng.choice((*KEYS, "rac"))
        constraint: Document = {
            "maxSkew": rng.choice((1, 1, 2)),
            "topologyKey": key,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": rng.choice(APPS)}},
        }
        if cluster.chance(0.3):
            constraint["minDomains"] = rng.choice((2, 3))
        if cluster.chance(0.3):
            constraint["nodeTaintsPolicy"] = "Honor"
        constraints[key] = constraint
    cluster.spec["topologySpreadConstraints"] = list(constraints.values())


# ---- devices ----


def devices(cluster: Cluster) -> None:
    """Adds one or two claims for devices; other claims have some of the devices."""
    rng = cluster.rng
    cluster.objects.append(make_class("gpu", 'device.driver == "gpu.test"'))
    free: list[tuple[str, str]] = []
    for node in NODES:
        made = []
        for number in range(rng.choice((0, 1, 2, 2))):
            name = f"d-{number}"
            taint = [{"key": "broken", "value": "x", "effect": "NoSchedule"}]
            more: Document = {"taints": taint} if cluster.chance(0.2) else {}
            made.append(make_device(name, model=rng.choice(("big", "small")), **more))
            free.append((node, name))
        cluster.objects.append(make_slice(node, made, node=node))
    for number, (node, device) in enumerate(free):
        if cluster.chance(0.5):
            name = f"taken-{number}"
            user = {"resource": "pods", "name": name, "uid": f"pod-default-{name}"}
            allocated = [result_of(device, node)]
            cluster.objects.append(
                make_claim(
                    name,
                    exactly(),
                    allocated=allocated,
                    on=node,
                    status={"reservedFor": [user]},
                    finalizers=["resource.kubernetes.io/delete-protection"],
                )
            )
            entry = [{"name": "d", "resourceClaimName": name}]
            cluster.place(name, node=node, spec={"resourceClaims": entry})
    for number in range(rng.choice((1, 1, 2))):
        name = f"device-{number}"
        more = {}
        if cluster.chance(0.2):
            model = rng.choice(("big", "small"))
            expression = f'device.attributes["gpu.test"].model == "{model}"'
            more["selectors"] = [{"cel": {"expression": expression}}]
        device_class = rng.choice(("gpu",) * 5 + ("gpuu",))
        count = rng.choice((1, 1, 1, 2))
        request = exactly(device_class=device_class, count=count, **more)
        if cluster.chance(0.9):
            cluster.objects.append(make_claim(name, request))
        elif cluster.chance(0.5):
            cluster.objects.append(make_claim(f"{name}x", request))
        cluster.spec["resourceClaims"].append({"name": f"e{number}", "resourceClaimName": name})


# ---- the rest ----


def others(cluster: Cluster) -> None:
    """Adds pods that have the resources or the port; a pod that never preempts, or is gated."""
    rng = cluster.rng
    for number in range(rng.randrange(1, 5)):
        cluster.place(
            f"full-{number}",
            requests={"cpu": rng.choice(("500m", "1"))},
            priority=rng.choice((0, 5)),
            labels={"app": rng.choice(APPS)},
            host_ports=[80] if cluster.chance(0.3) else [],
        )
    cluster.more |= {"requests": {"cpu": rng.choice(("400m", "1", "2"))}}
    if cluster.chance(0.4):
        cluster.more["priority"] = 10
        cluster.spec["preemptionPolicy"] = "Never"
    if cluster.chance(0.3):
        cluster.more["host_ports"] = [80]
    if cluster.chance(0.1):
        cluster.more["gates"] = ["wait"]


#: Name -> the theme.
THEMES: dict[str, Callable[[Cluster], None]] = {
    "volumes": volumes,
    "limits": limits,
    "affinity": affinity,
    "spread": spread,
    "devices": devices,
    "others": others,
}


def random_cluster(rng: Rng, theme: str) -> tuple[list[Any], Pod]:
    """Returns the objects of a cluster and a pending pod; a quarter has a second theme."""
    cluster = Cluster(rng)
    THEMES[theme](cluster)
    if rng.random() < 0.25:
        second = rng.choice([name for name in THEMES if name != theme])
        THEMES[second](cluster)
    unique = {(type(obj).__name__, obj.metadata.name): obj for obj in cluster.objects}
    return list(unique.values()), cluster.pod()
