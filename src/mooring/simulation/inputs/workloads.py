"""Changes of the workloads of an input: Deployments and the like, as JSON with defaults."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from mooring.errors import ConfigError
from mooring.objects.files.limits import WORKLOAD_PODS_MAX
from mooring.objects.types import Object
from mooring.simulation.workload import Workload

#: Kind in lower case -> kind, for workloads with replicas.
SCALED = {
    kind.lower(): kind
    for kind in ("Deployment", "ReplicaSet", "StatefulSet", "ReplicationController")
}


def merged(existing: Sequence[Object], new: Iterable[Object]) -> list[Object]:
    """Returns workloads with new ones, which replace the spec of an existing one.

    An existing workload keeps its metadata: its pods refer to its UID.
    """
    by_key = {_key(raw): raw for raw in existing}
    for raw in new:
        before = by_key.get(_key(raw))
        by_key[_key(raw)] = raw if before is None else {**before, "spec": raw["spec"]}
    return list(by_key.values())


def scaled(workloads: Sequence[Object], name: str, replicas: int) -> list[Object]:
    """Returns the workloads with other replicas of one of them.

    Args:
        workloads: The workloads.
        name: "KIND/NAME" or "KIND/NAMESPACE/NAME": "deployment/web", "statefulset/shop/db".
        replicas: How many.

    Raises:
        ConfigError: there is no such workload, it has no replicas, or there are too many.

    Example:
        >>> web = {"kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"}}
        >>> scaled([{**web, "spec": {"replicas": 1}}], "deployment/web", 3)[0]["spec"]
        {'replicas': 3}
    """
    if replicas > WORKLOAD_PODS_MAX:
        problem = f"is more than {WORKLOAD_PODS_MAX} pods of one workload"
        raise ConfigError(problem, path=f"scale {name}", value=replicas)
    kind, _, rest = name.partition("/")
    if kind.lower() not in SCALED or not rest:
        expected = "must be KIND/NAME or KIND/NAMESPACE/NAME of a Deployment, ReplicaSet,"
        problem = f"{expected} StatefulSet or ReplicationController"
        raise ConfigError(problem, path="scale", value=name)
    namespace, _, own = rest.rpartition("/")
    matches = [
        raw
        for raw in workloads
        if raw["kind"] == SCALED[kind.lower()]
        and raw["metadata"]["name"] == own
        and namespace in ("", raw["metadata"]["namespace"])
    ]
    if len(matches) != 1:
        names = [_shown(raw) for raw in workloads if raw["kind"].lower() in SCALED]
        near = get_close_matches(name, names, n=1)
        problem = "several workloads have this name" if matches else "no such workload"
        raise ConfigError(problem, path="scale", value=name, suggestion=near[0] if near else None)
    (chosen,) = matches
    changed = {**chosen, "spec": {**chosen["spec"], "replicas": replicas}}
    return [changed if raw is chosen else raw for raw in workloads]


def with_replicas(workload: Workload, scale: Iterable[tuple[str, int]]) -> Workload:
    """Returns a workload with other replicas of some of its workloads, as for ``scaled``.

    Raises:
        ConfigError: there is no such workload.
    """
    controlled = workload.controlled
    for name, replicas in scale:
        controlled = scaled(controlled, name, replicas)
    return workload._replace(controlled=controlled)


def _key(raw: Object) -> tuple[str, str, str]:
    metadata = raw["metadata"]
    return raw["kind"], metadata.get("namespace", ""), metadata["name"]


def _shown(raw: Object) -> str:
    return f"{raw['kind'].lower()}/{raw['metadata']['namespace']}/{raw['metadata']['name']}"
