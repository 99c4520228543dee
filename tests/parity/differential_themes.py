"""Random parts of pods: affinity terms, spread constraints, volumes, odd containers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mooring.clock import Rng

Document = dict[str, Any]

NAMESPACES = ("default", "shop", "lab")
APPS = ("web", "db", "cache")
KEYS = ("topology.kubernetes.io/zone", "kubernetes.io/hostname", "rack", "nowhere")

#: Adds something to a pod.
Theme = Callable[[Rng, Document], None]


def _selector(rng: Rng) -> Document | None:
    roll = rng.random()
    if roll < 0.05:
        return None
    if roll < 0.12:
        return {}
    if roll < 0.6:
        return {"matchLabels": {"app": rng.choice(APPS)}}
    operator = rng.choice(("In", "NotIn", "Exists", "DoesNotExist"))
    values = rng.sample(APPS, 2) if operator in ("In", "NotIn") else None
    key = rng.choice(("app", "app", "tier"))
    expression: Document = {"key": key, "operator": operator}
    return {"matchExpressions": [expression | ({"values": values} if values else {})]}


def _term(rng: Rng) -> Document:
    found: Document = {"topologyKey": rng.choice(KEYS)}
    selector = _selector(rng)
    if selector is not None:
        found["labelSelector"] = selector
    if rng.random() < 0.25:
        found["namespaces"] = rng.sample(NAMESPACES, 1 + rng.randrange(2))
    if rng.random() < 0.25:
        choices: tuple[Document, ...] = ({}, {"matchLabels": {"team": rng.choice(("a", "b"))}})
        found["namespaceSelector"] = rng.choice(choices)
    return found


def affinity(rng: Rng, pod: Document) -> None:
    """Terms about other pods, of all four kinds."""
    made = pod["spec"].setdefault("affinity", {})
    for kind in ("podAffinity", "podAntiAffinity"):
        if rng.random() < 0.5:
            terms = made.setdefault(kind, {})
            if rng.random() < 0.5:
                terms["requiredDuringSchedulingIgnoredDuringExecution"] = [
                    _term(rng) for _ in range(rng.choice((1, 1, 2)))
                ]
            if rng.random() < 0.6:
                terms["preferredDuringSchedulingIgnoredDuringExecution"] = [
                    {"weight": rng.choice((1, 10, 100)), "podAffinityTerm": _term(rng)}
                    for _ in range(rng.choice((1, 1, 2)))
                ]


def spread(rng: Rng, pod: Document) -> None:
    """Constraints of its own; no two alike."""
    found = {}
    for _ in range(rng.choice((1, 1, 2, 3))):
        constraint: Document = {
            "maxSkew": rng.choice((1, 1, 2, 5)),
            "topologyKey": rng.choice(KEYS),
            "whenUnsatisfiable": rng.choice(("DoNotSchedule", "ScheduleAnyway")),
        }
        selector = _selector(rng)
        if selector is not None:
            constraint["labelSelector"] = selector
        if constraint["whenUnsatisfiable"] == "DoNotSchedule" and rng.random() < 0.3:
            constraint["minDomains"] = rng.choice((1, 2, 4))
        for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if rng.random() < 0.4:
                constraint[policy] = rng.choice(("Honor", "Ignore"))
        found[constraint["topologyKey"], constraint["whenUnsatisfiable"]] = constraint
    pod["spec"]["topologySpreadConstraints"] = list(found.values())


def volumes(rng: Rng, pod: Document) -> None:
    """Adds one or two claims of its namespace."""
    pod["spec"]["volumes"] = [
        {"name": f"v{number}", "persistentVolumeClaim": {"claimName": name}}
        for number, name in enumerate(
            rng.sample([f"c-{each}" for each in range(6)], rng.choice((1, 1, 2)))
        )
    ]


def containers(rng: Rng, pod: Document) -> None:
    """Adds init containers, sidecars, overhead, pod-level requests."""
    spec = pod["spec"]
    if rng.random() < 0.6:
        init: Document = {
            "name": "first",
            "image": "web:1",
            "resources": {"requests": {"cpu": rng.choice(("1", "1500m", "10m")), "memory": "1Mi"}},
        }
        if rng.random() < 0.4:
            init["restartPolicy"] = "Always"
        spec["initContainers"] = [init]
    if rng.random() < 0.3:
        spec["resources"] = {"requests": {"cpu": rng.choice(("2", "3500m")), "memory": "600Mi"}}
    if rng.random() < 0.2:
        spec["containers"][0].setdefault("resources", {}).setdefault("requests", {})[
            "hugepages-2Mi"
        ] = "4Mi"


def named(rng: Rng, pod: Document) -> None:
    """Adds affinity to some nodes by name: PreFilter excludes the others."""
    terms = []
    for _ in range(rng.choice((1, 1, 2))):
        operator = rng.choice(("In", "In", "In", "NotIn"))
        name = f"node-{rng.randrange(12):02}"
        fields = [{"key": "metadata.name", "operator": operator, "values": [name]}]
        term: Document = {"matchFields": fields}
        if rng.random() < 0.3:
            term["matchExpressions"] = [{"key": "rack", "operator": "Exists"}]
        terms.append(term)
    kind = "requiredDuringSchedulingIgnoredDuringExecution"
    made = pod["spec"].setdefault("affinity", {}).setdefault("nodeAffinity", {})
    made[kind] = {"nodeSelectorTerms": terms}


def resized(rng: Rng, pod: Document) -> None:
    """Adds resources that the kubelet has allocated or put in force: larger or smaller ones."""
    status = pod.setdefault("status", {})
    containers = [*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]]
    statuses: dict[str, list[Document]] = {"initContainerStatuses": [], "containerStatuses": []}
    for container in containers:
        requests = {"cpu": rng.choice(("50m", "1", "2500m")), "memory": rng.choice(("1Mi", "1Gi"))}
        said: Document = {"name": container["name"]}
        if rng.random() < 0.6:
            said["allocatedResources"] = requests
        if rng.random() < 0.6:
            said["resources"] = {"requests": {"cpu": rng.choice(("10m", "700m", "3"))}}
        of_init = container in pod["spec"].get("initContainers", ())
        statuses["initContainerStatuses" if of_init else "containerStatuses"].append(said)
    status |= {name: some for name, some in statuses.items() if some}
    if "resources" in pod["spec"] and rng.random() < 0.7:
        status["allocatedResources"] = {"cpu": rng.choice(("1", "5")), "memory": "64Mi"}
        status["resources"] = {"requests": {"cpu": rng.choice(("1", "4"))}}
    if rng.random() < 0.4:
        reason = rng.choice(("Infeasible", "Deferred"))
        condition = {"type": "PodResizePending", "status": "True", "reason": reason}
        status["conditions"] = [condition]


def odd_requests(rng: Rng, pod: Document) -> None:
    """Adds resources that no node has, or that mean something else: storage, pages, prefixes."""
    names = ("ephemeral-storage", "hugepages-1Gi", "kubernetes.io/batch", "example.com/none")
    container = rng.choice(pod["spec"]["containers"])
    requests = container.setdefault("resources", {}).setdefault("requests", {})
    requests[rng.choice(names)] = rng.choice(("0", "1", "3"))


def label_keys(rng: Rng, pod: Document) -> None:
    """Adds keys of labels to constraints and terms; the API server merges them into selectors."""
    keys = [rng.choice(("app", "tier", "nowhere"))]
    for constraint in pod["spec"].get("topologySpreadConstraints", ()):
        if rng.random() < 0.6:
            constraint["matchLabelKeys"] = keys
    for kind in ("podAffinity", "podAntiAffinity"):
        terms = pod["spec"].get("affinity", {}).get(kind, {})
        for term in terms.get("requiredDuringSchedulingIgnoredDuringExecution", ()):
            if rng.random() < 0.6:
                term[rng.choice(("matchLabelKeys", "mismatchLabelKeys"))] = keys


def plain(rng: Rng, pod: Document) -> None:
    """Adds nothing."""
    del rng, pod


THEMES: dict[str, Theme] = {
    "affinity": affinity,
    "spread": spread,
    "volumes": volumes,
    "containers": containers,
    "named": named,
    "resized": resized,
    "odd requests": odd_requests,
    "label keys": label_keys,
    "plain": plain,
}
