"""Pods that an API server lets through and nobody means: everything a thousandfold.

Each is the worst that one part of a spec can be. They cost a decision, but not the cluster: none
may crash an attempt, and none may take long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

from mooring.objects.codec.decode import convert
from mooring.objects.meta import LabelSelector, Namespace, ObjectMeta
from mooring.objects.node import Node
from mooring.objects.pod import Pod
from mooring.objects.workloads import (
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
    Service,
    ServiceSpec,
)
from mooring.testing import make_node, make_pod

MANY: Final = 1_000
ZONE: Final = "topology.kubernetes.io/zone"
HOSTNAME: Final = "kubernetes.io/hostname"

#: Labels that each node has besides, so that a thousand topology keys are there.
RACKS: Final = 20

Document = dict[str, Any]


def node(number: int) -> Node:
    """A plain node with many labels, some taints and images."""
    return make_node(
        f"node-{number:05}",
        zone=f"zone-{number % 10}",
        labels={f"rack-{n}": f"{number % (n + 2)}" for n in range(RACKS)},
        taints=[f"soft-{n}:PreferNoSchedule" for n in range(3)],
        images={f"image-{n}:latest": 300 << 20 for n in range(3)},
    )


WEB: Final[Document] = {"matchLabels": {"app": "web"}}
NOBODY: Final[Document] = {"matchLabels": {"nobody": "has-it"}}
ALL_OF_THEM: Final[Document] = {}

# ---------------------------------------------------------------- pods of one kind


def _selector(number: int) -> Document:
    return {"matchLabels": {"app": f"app-{number}", f"also-{number}": "yes"}}


def _chosen(number: int) -> Document:
    values = [f"app-{n}" for n in range(number, number + 20)]
    return {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": values}]}


def _term(number: int, key: str, selector: Document, **more: Any) -> Document:
    return {"topologyKey": key.format(number), "labelSelector": selector, **more}


def affine(
    part: str,
    *,
    key: str = ZONE,
    selector: Callable[[int], Document] = _chosen,
    required: bool = True,
    **more: Any,
) -> Pod:
    """A thousand terms of one part of its affinity."""
    terms = [_term(number, key, selector(number), **more) for number in range(MANY)]
    if required:
        found = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    else:
        weighted = [{"weight": 1 + n % 100, "podAffinityTerm": t} for n, t in enumerate(terms)]
        found = {"preferredDuringSchedulingIgnoredDuringExecution": weighted}
    return make_pod("poison", labels={"app": "web"}, affinity={part: found})


def spread(action: str, *, selector: Callable[[int], Document] = lambda _: WEB) -> Pod:
    """A thousand constraints; an API server wants another topology key for each."""
    constraints = [
        {
            "maxSkew": 1 + number,
            "topologyKey": f"rack-{number}",
            "whenUnsatisfiable": action,
            "labelSelector": selector(number),
        }
        for number in range(MANY)
    ]
    return make_pod(
        "poison", labels={"app": "web"}, spec={"topologySpreadConstraints": constraints}
    )


def picky(operator: str, *, required: bool = True) -> Pod:
    """A thousand terms of node affinity, on labels that nodes have."""
    values = ["3"] if operator in ("Gt", "Lt") else [f"v-{n}" for n in range(20)]
    terms = [
        {
            "matchExpressions": [
                {"key": f"rack-{(number + n) % RACKS}", "operator": operator, "values": values}
                for n in range(3)
            ]
        }
        for number in range(MANY)
    ]
    if required:
        part: Document = {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}
        }
    else:
        weighted = [{"weight": 1, "preference": term} for term in terms]
        part = {"preferredDuringSchedulingIgnoredDuringExecution": weighted}
    return make_pod("poison", affinity={"nodeAffinity": part})


def naming(operator: str) -> Pod:
    """A thousand terms that name a node each, and twenty thousand hosts in the last one."""
    terms: list[Document] = [
        {
            "matchFields": [
                {"key": "metadata.name", "operator": operator, "values": [f"node-{n:05}"]}
            ]
        }
        for n in range(MANY)
    ]
    hosts = [f"node-{n:05}" for n in range(20 * MANY)]
    expression = {"key": HOSTNAME, "operator": operator, "values": hosts}
    terms.append({"matchExpressions": [expression]})
    part = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return make_pod("poison", affinity={"nodeAffinity": part})


def _crowd(number: int) -> Document:
    values = [f"app-{n}" for n in range(number * 20, number * 20 + 60)]
    return {"matchExpressions": [{"key": "app", "operator": "In", "values": values}]}


def greedy() -> Pod:
    """Requests for a thousand resources of its own, and for more than there is of the others."""
    requests = {f"example.com/thing-{n}": "1" for n in range(MANY)}
    return make_pod("poison", requests={**requests, "cpu": "9999999", "memory": "8Ei"})


def crowded() -> Pod:
    """A thousand containers with an image and a host port each."""
    pod = make_pod("poison", images=[f"image-{n}:latest" for n in range(MANY)])
    containers = [
        {"name": each.name, "image": each.image, "ports": [{"containerPort": 1, "hostPort": 1 + n}]}
        for n, each in enumerate(pod.spec.containers)
    ]
    return make_pod("poison", images=(), spec={"containers": containers})


def tolerant() -> Pod:
    """A thousand tolerations, none of which is of a taint that is there."""
    return make_pod("poison", tolerations=[f"other-{n}=x:PreferNoSchedule" for n in range(MANY)])


def laden(source: Callable[[int], Document]) -> Pod:
    """A thousand volumes."""
    volumes = [{"name": f"v-{n}", **source(n)} for n in range(MANY)]
    return make_pod("poison", spec={"volumes": volumes})


def _claimed(number: int, *, name: str) -> Document:
    return {"persistentVolumeClaim": {"claimName": f"{name}-{number}"}}


def _disk(number: int) -> Document:
    return {"gcePersistentDisk": {"pdName": f"disk-{number}"}}


def _image(number: int) -> Document:
    return {"rbd": {"monitors": [f"m-{number}", "m"], "image": f"i-{number}"}}


def _ephemeral(_: int) -> Document:
    return {"ephemeral": {"volumeClaimTemplate": {"spec": {}}}}


def labelled(count: int) -> Pod:
    """So many labels."""
    return make_pod("poison", labels={"app": "web", **{f"label-{n}": "x" for n in range(count)}})


PODS: Final[dict[str, Callable[[], Pod]]] = {
    "affinity": partial(affine, "podAffinity"),
    "affinity, many keys": partial(affine, "podAffinity", key="rack-{}"),
    "anti-affinity": partial(affine, "podAntiAffinity"),
    "anti-affinity, simple": partial(affine, "podAntiAffinity", selector=_selector),
    "anti-affinity, everybody": partial(affine, "podAntiAffinity", selector=lambda _: ALL_OF_THEM),
    "anti-affinity, nobody": partial(affine, "podAntiAffinity", selector=lambda _: NOBODY),
    "anti-affinity, many values": partial(affine, "podAntiAffinity", selector=_crowd),
    "anti-affinity, many keys": partial(affine, "podAntiAffinity", key="rack-{}"),
    "anti-affinity, namespaces": partial(
        affine, "podAntiAffinity", namespaceSelector={"matchLabels": {"unit": "unit-0"}}
    ),
    "preferred affinity": partial(affine, "podAffinity", required=False),
    "preferred anti-affinity, many keys": partial(
        affine, "podAntiAffinity", key="rack-{}", required=False
    ),
    "preferred affinity, hosts": partial(affine, "podAffinity", key=HOSTNAME, required=False),
    "spread hard": partial(spread, "DoNotSchedule"),
    "spread soft": partial(spread, "ScheduleAnyway"),
    "spread hard, others": partial(spread, "DoNotSchedule", selector=_selector),
    "spread soft, others": partial(spread, "ScheduleAnyway", selector=_chosen),
    "spread hard, nobody": partial(spread, "DoNotSchedule", selector=lambda _: NOBODY),
    "node affinity": partial(picky, "In"),
    "node affinity, numbers": partial(picky, "Gt"),
    "node affinity, exclusions": partial(picky, "NotIn"),
    "node affinity, names": partial(naming, "In"),
    "node affinity, all but names": partial(naming, "NotIn"),
    "preferred node affinity": partial(picky, "NotIn", required=False),
    "resources": greedy,
    "containers": crowded,
    "tolerations": tolerant,
    "claims that are not there": partial(laden, partial(_claimed, name="missing")),
    "claims that are bound": partial(laden, partial(_claimed, name="bound")),
    "claims for free disks": partial(laden, partial(_claimed, name="free")),
    "claims for new disks": partial(laden, partial(_claimed, name="new")),
    "claims for one pod alone": partial(laden, partial(_claimed, name="alone")),
    "disks": partial(laden, _disk),
    "images of disks": partial(laden, _image),
    "ephemeral volumes": partial(laden, _ephemeral),
    "labels": partial(labelled, MANY),
}


# ---------------------------------------------------------------- what is there besides


def surroundings(node_count: int) -> list[Any]:
    """What such pods ask for: claims and volumes, a thousand namespaces and Services."""
    found: list[Any] = [
        Namespace(metadata=ObjectMeta(name=f"team-{n}", labels={"unit": f"unit-{n % 2}"}))
        for n in range(MANY)
    ]
    found += [
        Service(
            metadata=ObjectMeta(name=f"s-{n}", namespace="default"),
            spec=ServiceSpec(selector={"app": "web", f"label-{n}": "x"}),
        )
        for n in range(MANY)
    ]
    for make in PODS.values():
        found += _claims_and_volumes(make())
    return found + list(_storage(node_count))


def budgets() -> list[PodDisruptionBudget]:
    """A thousand of them for all the same pods."""
    return [
        PodDisruptionBudget(
            metadata=ObjectMeta(name=f"budget-{n}", namespace="default"),
            spec=PodDisruptionBudgetSpec(selector=LabelSelector(match_labels={"app": "web"})),
            status=PodDisruptionBudgetStatus(disruptions_allowed=n % 3),
        )
        for n in range(MANY)
    ]


def _storage(node_count: int) -> Iterable[Any]:
    made: Document = {"provisioner": "disk.csi.test", "volumeBindingMode": "WaitForFirstConsumer"}
    yield _object("StorageClass", "made", **made)
    by_hand = {**made, "provisioner": "kubernetes.io/no-provisioner"}
    yield _object("StorageClass", "local", **by_hand)
    yield _object("CSIDriver", "disk.csi.test", spec={"storageCapacity": True})
    for number in range(10):
        topology = {"matchLabels": {ZONE: f"zone-{number}"}}
        room: Document = {"storageClassName": "made", "capacity": "1Ti", "nodeTopology": topology}
        yield _object("CSIStorageCapacity", f"room-{number}", namespace="default", **room)
    for number in range(node_count):
        drivers = [{"name": "disk.csi.test", "nodeID": "x", "allocatable": {"count": 39}}]
        yield _object("CSINode", f"node-{number:05}", spec={"drivers": drivers})


def _claims_and_volumes(pod: Pod) -> Iterable[Any]:
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            yield from _claim_and_volume(volume.persistent_volume_claim.claim_name)


def _claim_and_volume(name: str) -> Iterable[Any]:
    sort, _, number = name.rpartition("-")
    if sort == "missing":
        return
    modes = ["ReadWriteOncePod" if sort == "alone" else "ReadWriteOnce"]
    class_name = "made" if sort == "new" else "local"
    size = {"storage": f"{1 + int(number)}Gi"}
    spec: Document = {"accessModes": modes, "storageClassName": class_name}
    volume_spec = {
        **spec,
        "capacity": size,
        "csi": {"driver": "disk.csi.test", "volumeHandle": name},
    }
    claim_spec = {**spec, "resources": {"requests": size}}
    marks: Document = {}
    if sort in ("bound", "alone"):
        claim_spec["volumeName"] = name
        volume_spec["claimRef"] = {"namespace": "default", "name": name, "uid": f"uid-{name}"}
        marks = {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
    yield _object("PersistentVolumeClaim", name, namespace="default", spec=claim_spec, **marks)
    if sort != "new":
        transport_factory = {
            "key": ZONE,
            "operator": "NotIn",
            "values": [f"zone-{int(number) % 5 + 20}"],
        }
        terms = [{"matchExpressions": [transport_factory]}]
        volume_spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
        status = {"phase": "Available" if sort == "free" else "Bound"}
        yield _object("PersistentVolume", name, spec=volume_spec, status=status)


def _object(
    kind: str,
    name: str,
    *,
    namespace: str = "",
    annotations: Document | None = None,
    **parts: Any,
) -> Any:
    metadata: Document = {"name": name, "uid": f"uid-{name}", "annotations": annotations or {}}
    if namespace:
        metadata["namespace"] = namespace
    return convert({"metadata": metadata, **parts}, kind)
