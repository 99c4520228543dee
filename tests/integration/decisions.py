"""The same 200 pods, one at a time, for two schedulers: what there is, and what became of each.

Everything that could differ by chance is left out: nodes come one after another, no two volumes
have the same size, no two victims the same priority.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, NamedTuple

from mooring.client import Client, Informer, ObjectChange
from mooring.clock import SystemClock, seeded_random
from mooring.objects import Node, Pod
from mooring.objects.codec.decode import convert
from mooring.objects.meta import key
from mooring.testing import make_node, make_pod

NODES = 20
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
SMALL = {"cpu": "100m", "memory": "128Mi"}


class Fate(NamedTuple):
    """The outcome of a pod: its node, or its message, and its victims."""

    pod: str
    node: str
    message: str
    victims: tuple[str, ...]


def nodes() -> list[Node]:
    """Returns three zones; every fourth node is small, every second one has ssd."""
    return [
        make_node(
            f"node-{number:02}",
            zone=f"zone-{'abc'[number % 3]}",
            allocatable={"cpu": "2" if number % 4 == 3 else "4", "memory": "16Gi", "pods": "40"},
            labels={"disk": "ssd" if number % 2 else "hdd"},
        )
        for number in range(NODES)
    ]


def objects() -> Iterator[Any]:
    """Yields what is there before the first pod, beside the nodes."""
    yield _object("Namespace", "other", labels={"team": "blue"})
    for number in range(NODES):
        yield _object("PriorityClass", f"filler-{number}", value=10 + number)
    yield _object("PriorityClass", "urgent", value=1000)
    yield _object("PriorityClass", "polite", value=1000, preemptionPolicy="Never")
    budget = {"minAvailable": 1, "selector": {"matchLabels": {"kept": "yes"}}}
    yield _object("PodDisruptionBudget", "kept", namespace="default", spec=budget)
    yield from _classes()
    for number in range(6):
        yield _volume("now", f"now-{number}", number, 10 + number)
        # Which of them gets which volume would be chance: the controller takes them in any order.
        yield _claim("now", f"now-{number}", 10, volumeName=f"now-{number}")
    for number in range(10):
        yield _volume("local", f"local-{number}", 2 * number % NODES, 20 + number)
        yield _claim("local", f"local-{number}", 20 if number % 3 else 25)
    for number in range(10):
        yield _claim("made", f"made-{number}", 1 + number)
    for number in range(3):
        yield _volume("single", f"single-{number}", 5 + number, 40 + number, "ReadWriteOncePod")
        yield _claim("single", f"single-{number}", 40, "ReadWriteOncePod")
    yield _claim("now", "never-bound", 5000)
    yield _claim("local", "too-large", 5000)


def _classes() -> Iterator[Any]:
    wait, nobody = "WaitForFirstConsumer", "kubernetes.io/no-provisioner"
    yield _object("StorageClass", "now", provisioner=nobody, volumeBindingMode="Immediate")
    yield _object("StorageClass", "local", provisioner=nobody, volumeBindingMode=wait)
    yield _object("StorageClass", "single", provisioner=nobody, volumeBindingMode=wait)
    made = "kubernetes.io/host-path"
    yield _object("StorageClass", "made", provisioner=made, volumeBindingMode=wait)


def _object(kind: str, name: str, *, namespace: str = "", **parts: Any) -> Any:
    labels = parts.pop("labels", {})
    metadata = {"name": name, "labels": labels} | ({"namespace": namespace} if namespace else {})
    return convert({"metadata": metadata, **parts}, kind)


def _volume(
    storage_class: str, name: str, node: int, gibibytes: int, mode: str = "ReadWriteOnce"
) -> Any:
    here = {"key": HOST, "operator": "In", "values": [f"node-{node:02}"]}
    spec = {
        "capacity": {"storage": f"{gibibytes}Gi"},
        "accessModes": [mode],
        "hostPath": {"path": f"/nowhere/{name}"},
        "storageClassName": storage_class,
        "persistentVolumeReclaimPolicy": "Retain",
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
    }
    return _object("PersistentVolume", name, spec=spec)


def _claim(
    storage_class: str, name: str, gibibytes: int, mode: str = "ReadWriteOnce", **more: str
) -> Any:
    spec = {
        "accessModes": [mode],
        "storageClassName": storage_class,
        "resources": {"requests": {"storage": f"{gibibytes}Gi"}},
        **more,
    }
    return _object("PersistentVolumeClaim", name, namespace="default", spec=spec)


# ---------------------------------------------------------------- pods


def pods() -> list[Pod]:
    """Returns 200 pods in the order of creation."""
    return [*_spread(), *_affine(), *_with_volumes(), *_urgent()]


def _pod(name: str, **parts: Any) -> Pod:
    parts.setdefault("requests", SMALL)
    spec = {"terminationGracePeriodSeconds": 0, **parts.pop("spec", {})}
    return make_pod(name, spec=spec, **parts)


def _constraint(key: str, app: str, action: str, **more: Any) -> dict[str, Any]:
    return {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": action,
        "labelSelector": {"matchLabels": {"app": app}},
        **more,
    }


def _spread() -> Iterator[Pod]:
    for number in range(30):
        hard = [_constraint(key, "hard", "DoNotSchedule") for key in (ZONE, HOST)]
        labels = {"app": "hard"}
        yield _pod(f"hard-{number}", labels=labels, spec={"topologySpreadConstraints": hard})
    for number in range(24):
        soft = [_constraint(key, "soft", "ScheduleAnyway") for key in (ZONE, HOST)]
        labels = {"app": "soft"}
        yield _pod(f"soft-{number}", labels=labels, spec={"topologySpreadConstraints": soft})
    few = [_constraint(ZONE, "few", "DoNotSchedule", minDomains=4)]
    for number in range(4):  # three zones are fewer than four: one each, and no more
        labels = {"app": "few"}
        yield _pod(f"few-{number}", labels=labels, spec={"topologySpreadConstraints": few})


def _term(app: str, key: str, **more: Any) -> dict[str, Any]:
    return {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key, **more}


def _affinity(kind: str, term: dict[str, Any], weight: int = 0) -> dict[str, Any]:
    if weight:
        preferred = [{"weight": weight, "podAffinityTerm": term}]
        return {kind: {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def _affine() -> Iterator[Pod]:
    alone = _affinity("podAntiAffinity", _term("alone", HOST))
    for number in range(NODES + 3):
        yield _pod(f"alone-{number}", labels={"app": "alone"}, affinity=alone)
    together = _affinity("podAffinity", _term("together", ZONE))
    for number in range(16):
        yield _pod(f"together-{number}", labels={"app": "together"}, affinity=together)
    yield _pod("lonely", affinity=_affinity("podAffinity", _term("nobody", ZONE)))
    near = _affinity("podAffinity", _term("alone", HOST), weight=50)
    apart = _affinity("podAntiAffinity", _term("apart", ZONE), weight=80)
    for number in range(15):
        yield _pod(f"near-{number}", labels={"app": "near"}, affinity=near)
        yield _pod(f"apart-{number}", labels={"app": "apart"}, affinity=apart)
    blue = _term("guest", ZONE, namespaceSelector={"matchLabels": {"team": "blue"}})
    for number in range(2):
        yield _pod(f"guest-{number}", namespace="other", labels={"app": "guest"})
    for number in range(4):
        yield _pod(f"aloof-{number}", affinity=_affinity("podAntiAffinity", blue))


def _with_claim(name: str, claim: str, **parts: Any) -> Pod:
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": claim}}
    return _pod(name, spec={"volumes": [volume]}, **parts)


def _with_volumes() -> Iterator[Pod]:
    for number in range(6):
        yield _with_claim(f"now-{number}", f"now-{number}")
    for number in range(10):
        yield _with_claim(f"local-{number}", f"local-{number}")
    for number in range(10):
        selector = {"disk": "ssd"} if number % 2 else None
        yield _with_claim(f"made-{number}", f"made-{number}", node_selector=selector)
    for number in range(3):
        yield _with_claim(f"single-{number}", f"single-{number}")
        yield _with_claim(f"second-{number}", f"single-{number}")
    yield _with_claim("no-claim", "nowhere")
    yield _with_claim("never-bound", "never-bound")
    yield _with_claim("too-large", "too-large")


def _urgent() -> Iterator[Pod]:
    """Yields every node is filled up with a pod of a priority of its own; then urgent ones come."""
    for number in range(NODES):
        yield _pod(
            f"filler-{number}",
            labels={"kept": "yes"} if number % 5 == 0 else {},
            node_selector={HOST: f"node-{number:02}"},
            requests={"cpu": "900m" if number % 4 == 3 else "2500m"},
            spec={"priorityClassName": f"filler-{number}"},
        )
    for number in range(9):
        yield _pod(f"urgent-{number}", requests={"cpu": "2"}, spec={"priorityClassName": "urgent"})
    yield _pod("polite", requests={"cpu": "2"}, spec={"priorityClassName": "polite"})
    yield _pod("hopeless", requests={"cpu": "20"}, spec={"priorityClassName": "urgent"})


# ---------------------------------------------------------------- what became of them


class Onlooker:
    """Creates the pods one by one, and notes what becomes of each."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._changed = asyncio.Event()
        self._informer = Informer(
            client, "Pod", self._on_pod, clock=SystemClock(), rng=seeded_random(5)
        )

    async def fates(self) -> list[Fate]:
        """Puts everything there, then each pod; a refused one is taken away again."""
        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(self._informer.run())
            await self._informer.wait_until_synced()
            found = [await self._fate(pod) for pod in pods()]
            watching.cancel()
        return found

    def _on_pod(self, _: ObjectChange) -> None:
        self._changed.set()

    async def _fate(self, pod: Pod) -> Fate:
        name = key(pod)
        before = set(self._informer.objects)
        await self._client.create(pod)
        settled = await self._until(name)
        message = "" if settled.spec.node_name else _refusal(settled)
        if not settled.spec.node_name:
            await self._client.delete("Pod", pod.metadata.name, pod.metadata.namespace)
            await self._gone(name)
        victims = before - set(self._informer.objects)
        return Fate(name, settled.spec.node_name, message, tuple(sorted(victims)))

    async def _until(self, name: str) -> Pod:
        """Returns the pod, once it is on a node, or refused and not waiting for victims to go."""
        while True:
            pod = self._informer.objects.get(name)
            if pod is not None and (pod.spec.node_name or _is_refused(pod)):
                found: Pod = pod
                return found
            self._changed.clear()
            await self._changed.wait()

    async def _gone(self, name: str) -> None:
        while name in self._informer.objects:
            self._changed.clear()
            await self._changed.wait()


def _is_refused(pod: Pod) -> bool:
    return bool(_refusal(pod)) and not pod.status.nominated_node_name


def _refusal(pod: Pod) -> str:
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            return condition.message
    return ""


async def prepare(client: Client) -> None:
    """Creates the nodes one after another, and everything else; wait for the claims' volumes."""
    for node in nodes():
        await client.create(node)
    for obj in objects():
        await client.create(obj)
    for number in range(6):
        name = f"now-{number}"
        while await _phase(client, name) != "Bound":  # noqa: ASYNC110 - the controller's work
            await asyncio.sleep(0.05)


async def _phase(client: Client, claim: str) -> str:
    listed = (await client.list("PersistentVolumeClaim")).items
    phases = {found.metadata.name: str(found.status.phase) for found in listed}
    return phases[claim]
