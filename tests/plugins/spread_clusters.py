"""Small random clusters for spreading: domains with holes, pods that match or nearly do."""

from __future__ import annotations

from typing import Any, NamedTuple

from mooring.clock import Rng, seeded_random
from mooring.config.types import PodTopologySpreadArgs
from mooring.objects.codec.decode import convert
from mooring.objects.node import Node
from mooring.objects.pod import Pod, TopologySpreadConstraint
from mooring.plugins.pod_topology_spread.plugin import PodTopologySpread
from mooring.testing import Harness, make_node, make_pod
from tests.plugins.spread_twin import SpreadTwin

ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
KEYS = (ZONE, HOSTNAME, "rack")
NAMESPACES = ("default", "default", "other")
APPS = ("web", "db")
OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
DELETED = "2026-01-01T00:00:00Z"


class Case(NamedTuple):
    """A cluster, the pod to be spread, and what the defaults are (None = the system's)."""

    objects: list[Node | Pod]
    workloads: list[Any]
    pod: Pod
    defaults: tuple[TopologySpreadConstraint, ...] | None

    def ours(self) -> Harness:
        """Returns the plugin over the cluster."""
        args = PodTopologySpreadArgs()
        if self.defaults is not None:
            args = PodTopologySpreadArgs(default_constraints=self.defaults, defaulting_type="List")
        return self.harness(PodTopologySpread(args))

    def theirs(self) -> Harness:
        """Returns the scalar twin over the same cluster."""
        return self.harness(SpreadTwin(self.defaults, self.workloads))

    def harness(self, plugin: Any) -> Harness:
        """Returns a plugin over the cluster."""
        harness = Harness(self.objects, [plugin], cache_results=False)
        for each in self.workloads:
            harness.cache.workloads.put(each)
        return harness


def case(seed: int) -> Case:
    """Returns the same for the same seed."""
    rng = seeded_random(seed)
    nodes = rng.choice((1, 3, 6, 9))
    objects: list[Node | Pod] = [node(rng, f"node-{number}") for number in range(nodes)]
    objects += [
        pod(rng, f"placed-{number}", node=f"node-{rng.randrange(nodes)}")
        for number in range(rng.choice((0, 4, 12)))
    ]
    is_own = rng.random() < 0.7
    incoming = pod(rng, "incoming", constraints=rng.choice((1, 1, 2, 3)) if is_own else 0)
    defaults = None
    if rng.random() < 0.5:
        written = [constraint(rng, with_selector=False) for _ in range(rng.choice((0, 1, 2)))]
        listed = make_pod(spec={"topologySpreadConstraints": written})
        defaults = listed.spec.topology_spread_constraints
    return Case(objects, workloads(rng), incoming, defaults)


def node(rng: Rng, name: str) -> Node:
    """Returns a node that may lack a zone or a rack, or have an empty one; some are tainted."""
    labels = {"disk": rng.choice(("ssd", "hdd"))}
    if rng.random() < 0.8:
        labels["rack"] = rng.choice(("1", "2", ""))
    taints = ["gpu=yes:NoSchedule"] if rng.random() < 0.25 else []
    return make_node(name, labels=labels, zone=rng.choice(("a", "b", "c", "", None)), taints=taints)


def pod(rng: Rng, name: str, *, node: str = "", constraints: int = 0) -> Pod:
    """Returns a pod of one of two apps, perhaps terminating, owned, or with node affinity."""
    metadata: dict[str, Any] = {}
    if node and rng.random() < 0.2:
        metadata["deletionTimestamp"] = DELETED
    if rng.random() < 0.4:
        metadata["ownerReferences"] = [owner(rng)]
    written = [constraint(rng, with_selector=True) for _ in range(constraints)]
    return make_pod(
        name,
        namespace=rng.choice(NAMESPACES),
        labels=labels(rng),
        node=node,
        node_selector={"disk": "ssd"} if rng.random() < 0.25 else None,
        tolerations=["gpu"] if rng.random() < 0.3 else (),
        metadata=metadata,
        spec={"topologySpreadConstraints": written},
    )


def labels(rng: Rng) -> dict[str, str]:
    """Returns some of app and tier."""
    found = {"app": rng.choice(APPS)} if rng.random() < 0.85 else {}
    return {**found, "tier": rng.choice(("1", "2"))} if rng.random() < 0.6 else found


def owner(rng: Rng) -> dict[str, Any]:
    """Returns a controller that exists, or not, or is of a kind that tells nothing."""
    version, kind = rng.choice(
        (
            ("apps/v1", "ReplicaSet"),
            ("apps/v1", "StatefulSet"),
            ("v1", "ReplicationController"),
            ("apps/v2", "ReplicaSet"),
            ("batch/v1", "Job"),
        )
    )
    name = rng.choice(("one", "two"))
    is_controller = rng.random() < 0.9
    return {
        "apiVersion": version,
        "kind": kind,
        "name": name,
        "uid": f"{kind}-{name}",
        "controller": is_controller,
    }


def constraint(rng: Rng, *, with_selector: bool) -> dict[str, Any]:
    """Returns a constraint as the API writes it."""
    written: dict[str, Any] = {
        "maxSkew": rng.choice((1, 1, 2, 5)),
        "topologyKey": rng.choice((*KEYS, ZONE)),
        "whenUnsatisfiable": rng.choice(("DoNotSchedule", "ScheduleAnyway")),
    }
    if rng.random() < 0.3:
        written["minDomains"] = rng.choice((1, 2, 4))
    for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        if rng.random() < 0.5:
            written[policy] = rng.choice(("Honor", "Ignore"))
    if with_selector and rng.random() < 0.9:
        written["labelSelector"] = selector(rng)
    if with_selector and rng.random() < 0.3:
        written["matchLabelKeys"] = ["tier"]
    return written


def selector(rng: Rng) -> dict[str, Any]:
    """Returns a label selector; sometimes one without a condition."""
    written: dict[str, Any] = {}
    if rng.random() < 0.7:
        written["matchLabels"] = {"app": rng.choice(APPS)}
    if rng.random() < 0.3:
        operator = rng.choice(OPERATORS)
        values = ["1"] if operator in ("In", "NotIn") else []
        written["matchExpressions"] = [{"key": "tier", "operator": operator, "values": values}]
    return written


def workloads(rng: Rng) -> list[Any]:
    """Services and owners called one and two, in both namespaces, or some of them."""
    kinds = ("Service", "ReplicaSet", "StatefulSet", "ReplicationController")
    return [
        workload(rng, kind, name) for kind in kinds for name in ("one", "two") if rng.random() < 0.5
    ]


def workload(rng: Rng, kind: str, name: str) -> Any:
    """Returns one of them."""
    is_plain = kind in ("Service", "ReplicationController")
    selects: Any = rng.choice(({"app": "web"}, {"app": "web", "tier": "1"}, {"app": "db"}, {}))
    if not is_plain:
        selects = rng.choice((selector(rng), None))
    document = {
        "metadata": {"name": name, "namespace": rng.choice(NAMESPACES)},
        "spec": {"selector": selects},
    }
    return convert(document, kind)


# ---------------------------------------------------------------- written by hand

WEB = {"matchLabels": {"app": "web"}}


def spread(key: str = ZONE, *, action: str = "DoNotSchedule", **more: Any) -> dict[str, Any]:
    """Returns a constraint on pods of app web, as the API writes it."""
    return {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": action,
        "labelSelector": WEB,
        **more,
    }


def soft(key: str = ZONE, **more: Any) -> dict[str, Any]:
    return spread(key, action="ScheduleAnyway", **more)


def web(name: str = "new", *constraints: dict[str, Any], **more: Any) -> Pod:
    """Returns a pod of app web with these constraints."""
    labels = more.pop("labels", {"app": "web"})
    spec = {"topologySpreadConstraints": list(constraints)}
    return make_pod(name, labels=labels, spec=spec, **more)


def zones(**pods_in: int) -> list[Node | Pod]:
    """Returns a node per zone, called as the zone, with so many pods of app web."""
    made: list[Node | Pod] = [make_node(zone, zone=zone) for zone in pods_in]
    for zone, count in pods_in.items():
        made += [web(f"{zone}-{number}", node=zone) for number in range(count)]
    return made


def service(name: str = "web", **selector: str) -> Any:
    return convert(
        {"metadata": {"name": name, "namespace": "default"}, "spec": {"selector": selector}},
        "Service",
    )


def with_services(harness: Harness, *services: Any) -> Harness:
    for each in services:
        harness.cache.workloads.put(each)
    return harness


def listed(*constraints: dict[str, Any]) -> PodTopologySpread:
    found: tuple[TopologySpreadConstraint, ...] = (
        make_pod(spec={"topologySpreadConstraints": list(constraints)})
    ).spec.topology_spread_constraints
    return PodTopologySpread(
        PodTopologySpreadArgs(default_constraints=found, defaulting_type="List")
    )
