"""Small random clusters for affinity: few labels and namespaces, so that terms often meet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from mooring.clock import Rng, seeded_random
from mooring.config.types import InterPodAffinityArgs
from mooring.objects.meta import Namespace, ObjectMeta
from mooring.objects.node import Node
from mooring.objects.pod import Pod
from mooring.plugins.inter_pod_affinity.plugin import InterPodAffinity
from mooring.testing import Harness, make_node, make_pod
from tests.plugins.affinity_twin import AffinityTwin

ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
KEYS = (ZONE, ZONE, HOSTNAME, "rack", "nowhere")
NAMESPACES = ("default", "default", "red", "blue")
APPS = ("web", "db")
OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
DELETED = "2026-01-01T00:00:00Z"


class Case(NamedTuple):
    """A cluster, the labels of its namespaces, the new pod, and the plugin's arguments."""

    objects: list[Node | Pod]
    namespaces: dict[str, dict[str, str]]
    pod: Pod
    args: InterPodAffinityArgs

    def ours(self) -> Harness:
        """Returns the plugin over the cluster."""
        harness = Harness(self.objects, [InterPodAffinity(self.args)], cache_results=False)
        return with_namespaces(harness, self.namespaces)

    def theirs(self) -> Harness:
        """Returns the scalar twin over the same cluster."""
        twin = AffinityTwin(
            self.namespaces,
            hard_weight=self.args.hard_pod_affinity_weight,
            ignores_others=self.args.ignore_preferred_terms_of_existing_pods,
        )
        return Harness(self.objects, [twin], cache_results=False)


def with_namespaces(harness: Harness, namespaces: Mapping[str, Mapping[str, str]]) -> Harness:
    for name, labels in namespaces.items():
        harness.cache.put_object("Namespace", namespace(name, labels))
    return harness


def namespace(name: str, labels: Mapping[str, str]) -> Namespace:
    return Namespace(metadata=ObjectMeta(name=name, labels=dict(labels)))


def case(seed: int, *, terms: int = 3) -> Case:
    """Returns the same for the same seed."""
    rng = seeded_random(seed)
    nodes = rng.choice((1, 3, 6, 9))
    objects: list[Node | Pod] = [node(rng, f"node-{number}") for number in range(nodes)]
    objects += [
        pod(rng, f"placed-{number}", node=f"node-{rng.randrange(nodes)}", terms=terms)
        for number in range(rng.choice((0, 4, 12)))
    ]
    args = InterPodAffinityArgs(
        hard_pod_affinity_weight=rng.choice((0, 1, 1, 50)),
        ignore_preferred_terms_of_existing_pods=rng.random() < 0.2,
    )
    # Not every namespace with pods is known.
    known = {name: namespace_labels(rng) for name in sorted(set(NAMESPACES)) if rng.random() < 0.8}
    return Case(objects, dict(sorted(known.items())), pod(rng, "incoming", terms=terms), args)


def namespace_labels(rng: Rng) -> dict[str, str]:
    return {"team": rng.choice(("a", "b"))} if rng.random() < 0.7 else {}


def node(rng: Rng, name: str) -> Node:
    """Returns a node that may lack a zone or a rack, or have an empty one."""
    labels = {"rack": rng.choice(("1", "2", ""))} if rng.random() < 0.8 else {}
    return make_node(name, labels=labels, zone=rng.choice(("a", "b", "c", "", None)))


def pod(rng: Rng, name: str, *, node: str = "", terms: int = 3) -> Pod:
    """Returns a pod of some namespace with some terms, maybe being deleted."""
    metadata = {"deletionTimestamp": DELETED} if node and rng.random() < 0.2 else {}
    return make_pod(
        name,
        namespace=rng.choice(NAMESPACES),
        labels=labels(rng),
        node=node,
        affinity=affinity(rng, terms) if rng.random() < 0.7 else None,
        metadata=metadata,
    )


def labels(rng: Rng) -> dict[str, str]:
    """Returns some of app and tier."""
    found = {"app": rng.choice(APPS)} if rng.random() < 0.85 else {}
    return {**found, "tier": rng.choice(("1", "2"))} if rng.random() < 0.6 else found


def affinity(rng: Rng, terms: int) -> dict[str, Any]:
    """Terms of some of the four sorts."""
    found: dict[str, Any] = {}
    for part in ("podAffinity", "podAntiAffinity"):
        if rng.random() < 0.3:
            continue
        required = [term(rng) for _ in range(rng.choice((0, 0, 1, 2)))][:terms]
        preferred = [
            {"weight": rng.choice((1, 5, 5, 100)), "podAffinityTerm": term(rng)}
            for _ in range(rng.choice((0, 0, 1, terms)))
        ]
        found[part] = {
            "requiredDuringSchedulingIgnoredDuringExecution": required,
            "preferredDuringSchedulingIgnoredDuringExecution": preferred,
        }
    return found


def term(rng: Rng) -> dict[str, Any]:
    """Returns a term as the API writes it."""
    written: dict[str, Any] = {"topologyKey": rng.choice(KEYS)}
    if rng.random() < 0.9:
        written["labelSelector"] = selector(rng, "app", APPS, "tier")
    if rng.random() < 0.3:
        written["namespaces"] = rng.sample(sorted(set(NAMESPACES)), k=rng.choice((1, 2)))
    if rng.random() < 0.3:
        written["namespaceSelector"] = selector(rng, "team", ("a", "b"), "team")
    return written


def selector(rng: Rng, key: str, values: tuple[str, ...], other: str) -> dict[str, Any]:
    """Returns a label selector; sometimes one without a condition."""
    written: dict[str, Any] = {}
    if rng.random() < 0.6:
        written["matchLabels"] = {key: rng.choice(values)}
    if rng.random() < 0.35:
        operator = rng.choice(OPERATORS)
        chosen = rng.sample(("1", "2", "a", "b"), k=2) if operator in ("In", "NotIn") else []
        written["matchExpressions"] = [{"key": other, "operator": operator, "values": chosen}]
    return written


# ---------------------------------------------------------------- written by hand

WEB = {"matchLabels": {"app": "web"}}


def near(key: str = ZONE, **more: Any) -> dict[str, Any]:
    """Returns a term that means pods of app web, as the API writes it."""
    return {"topologyKey": key, "labelSelector": WEB, **more}


def wants(*terms: dict[str, Any], preferred: int = 0) -> dict[str, Any]:
    """Returns affinity with these terms, required or, with a weight, preferred."""
    return {"podAffinity": _part(terms, preferred)}


def avoids(*terms: dict[str, Any], preferred: int = 0) -> dict[str, Any]:
    """Returns anti-affinity with these terms, required or, with a weight, preferred."""
    return {"podAntiAffinity": _part(terms, preferred)}


def _part(terms: tuple[dict[str, Any], ...], weight: int) -> dict[str, Any]:
    if not weight:
        return {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}
    weighted = [{"weight": weight, "podAffinityTerm": each} for each in terms]
    return {"preferredDuringSchedulingIgnoredDuringExecution": weighted}


def web(name: str = "new", affinity: dict[str, Any] | None = None, **more: Any) -> Pod:
    """Returns a pod of app web."""
    labels = more.pop("labels", {"app": "web"})
    return make_pod(name, labels=labels, affinity=affinity, **more)


def zones(**pods_in: int) -> list[Node | Pod]:
    """Returns a node per zone, called as the zone, with so many pods of app web."""
    made: list[Node | Pod] = [make_node(zone, zone=zone) for zone in pods_in]
    for zone, count in pods_in.items():
        made += [web(f"{zone}-{number}", node=zone) for number in range(count)]
    return made
