"""Pods with affinity and anti-affinity, and a cluster full of others that have it too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from mooring.objects.meta import Namespace, ObjectMeta
from mooring.objects.pod import Pod
from mooring.testing import make_pod

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"

#: Running pods belong to so many Deployments, in so many namespaces.
DEPLOYMENTS = 400
TEAMS = 20

#: The namespaces of running pods; half of them are of one unit.
NAMESPACES = tuple(
    Namespace(metadata=ObjectMeta(name=f"team-{number}", labels={"unit": f"unit-{number % 2}"}))
    for number in range(TEAMS)
)

#: Part of the affinity, topology key, whether it is required, whether it selects namespaces.
Sort = tuple[str, str, bool, bool]

ANTI_AFFINITY: Sort = ("podAntiAffinity", HOSTNAME, True, False)
AFFINITY: Sort = ("podAffinity", ZONE, True, False)
PREFERRED_AFFINITY: Sort = ("podAffinity", ZONE, False, False)
PREFERRED_ANTI_AFFINITY: Sort = ("podAntiAffinity", HOSTNAME, False, False)
NAMESPACE_SELECTOR: Sort = ("podAntiAffinity", HOSTNAME, True, True)


def affine_pod(number: int, *, sort: Sort) -> Pod:
    """100m cpu, 500Mi, and a term that means all pods like it."""
    return make_pod(
        f"pod-{number}",
        requests={"cpu": "100m", "memory": "500Mi"},
        labels={"app": "web"},
        affinity=_affinity(sort, "web"),
    )


def running_pods(sort: Sort, nodes: int) -> Callable[[int], Pod]:
    """Makes the pod with a number: of one of 400 Deployments, each with a term of this sort.

    The pods of a Deployment are on different nodes.
    """
    templates = [
        make_pod(
            "template",
            namespace=f"team-{number % TEAMS}",
            requests={"cpu": "1m", "memory": "1Mi"},
            labels={"app": f"running-{number}", "tier": "frontend"},
            node="somewhere",
            affinity=_affinity(sort, f"running-{number}"),
        )
        for number in range(DEPLOYMENTS)
    ]

    def running_pod(number: int) -> Pod:
        template = templates[number // nodes * 17 % DEPLOYMENTS + number % 17]
        name = f"running-{number}"
        return replace(
            template,
            metadata=replace(template.metadata, name=name, uid=name),
            spec=replace(template.spec, node_name=f"node-{number % nodes:05}"),
        )

    return running_pod


def _affinity(sort: Sort, app: str) -> dict[str, Any]:
    part, key, is_required, selects_namespaces = sort
    term: dict[str, Any] = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
    if selects_namespaces:
        term["namespaceSelector"] = {"matchLabels": {"unit": "unit-0"}}
        term["namespaces"] = ["default"]
    if is_required:
        return {part: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    weighted = {"weight": 10, "podAffinityTerm": term}
    return {part: {"preferredDuringSchedulingIgnoredDuringExecution": [weighted]}}
