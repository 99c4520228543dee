"""Clusters in which preemption has to think of everything at once.

Spread, affinity both ways, host ports, inline disks, claims for one pod alone, limits of volumes,
nominated pods and budgets. Left out is what upstream counts in a way of its own once pods leave:
ports and exclusive claims that two pods have, and pods that are being deleted.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from mooring.clock import Rng, seeded_random
from mooring.objects.node import Node
from mooring.objects.pod import Pod
from mooring.objects.workloads import PodDisruptionBudget
from mooring.plugins import (
    InterPodAffinity,
    NodePorts,
    NodeResourcesFit,
    NodeVolumeLimits,
    PodTopologySpread,
    TaintToleration,
    VolumeBinding,
    VolumeRestrictions,
    VolumeZone,
)
from mooring.testing import make_node, make_pod
from tests.helpers.volume_objects import DRIVER, claim, csi, csi_node, volume
from tests.plugins.preemption_clusters import budget, start_time

ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
APPS = ("web", "db")
#: Claims that any pod may use, each with its own volume.
SHARED = tuple(f"shared-{number}" for number in range(5))
BIND_COMPLETED = {"pv.kubernetes.io/bind-completed": "yes"}


def filters() -> list[Any]:
    """Returns all of kube-scheduler's filters that pods on nodes matter to, in its order."""
    return [
        TaintToleration(),
        NodePorts(),
        NodeResourcesFit(),
        VolumeRestrictions(),
        NodeVolumeLimits(),
        VolumeBinding(),
        VolumeZone(),
        PodTopologySpread(),
        InterPodAffinity(),
    ]


class Case(NamedTuple):
    nodes: list[Node]
    pods: list[Pod]
    budgets: list[PodDisruptionBudget]
    storage: list[Any]
    pod: Pod


class _Making:
    """Makes pods; what only one pod may have is given to one."""

    def __init__(self, rng: Rng) -> None:
        self.rng = rng
        self.free_ports = list(range(1000, 1006))
        self.exclusive = [f"alone-{number}" for number in range(4)]

    def pod(self, name: str, **more: Any) -> Pod:
        """Returns a pod that may be a victim, or conflict with the incoming pod."""
        rng = self.rng
        ports = [self.free_ports.pop()] if self.free_ports and rng.random() < 0.2 else []
        alone = [self.exclusive.pop()] if self.exclusive and rng.random() < 0.2 else []
        return self.spec(name, ports=ports, claims=[*self.shared(), *alone], **more)

    def incoming(self) -> Pod:
        """Returns the pod that is to be placed; it may want what others have."""
        rng = self.rng
        ports = rng.sample(range(1000, 1006), k=rng.choice((0, 0, 1, 2)))
        alone = [f"alone-{rng.randrange(4)}"] if rng.random() < 0.3 else []
        spread = []
        if rng.random() < 0.4:
            spread = [
                {
                    "maxSkew": rng.choice((1, 2)),
                    "topologyKey": rng.choice((ZONE, HOSTNAME)),
                    "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": {"matchLabels": {"app": rng.choice(APPS)}},
                }
            ]
        return self.spec(
            "new",
            ports=ports,
            claims=[*self.shared(), *alone],
            spread=spread,
            priority=rng.choice((2, 3, 8)),
        )

    def shared(self) -> list[str]:
        return self.rng.sample(SHARED, k=self.rng.choice((0, 0, 1, 2)))

    def spec(
        self,
        name: str,
        *,
        ports: list[int],
        claims: list[str],
        spread: list[Any] | None = None,
        **more: Any,
    ) -> Pod:
        rng = self.rng
        volumes: list[dict[str, Any]] = [
            {"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims
        ]
        if rng.random() < 0.2:
            disk = {"pdName": f"disk-{rng.randrange(3)}", "readOnly": rng.random() < 0.5}
            volumes.append({"name": "disk", "gcePersistentDisk": disk})
        app = rng.choice((*APPS, ""))
        return make_pod(
            name,
            requests={"cpu": rng.choice(("0", "250m", "500m", "1"))},
            labels={"app": app} if app else {},
            host_ports=ports,
            affinity=self.affinity() if rng.random() < 0.4 else None,
            spec={"volumes": volumes, "topologySpreadConstraints": spread or []},
            **more,
        )

    def affinity(self) -> dict[str, Any]:
        rng, found = self.rng, {}
        for part, chance in (("podAffinity", 0.3), ("podAntiAffinity", 0.8)):
            if rng.random() < chance:
                terms = [self.term() for _ in range(rng.choice((1, 1, 2)))]
                found[part] = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
        return found

    def term(self) -> dict[str, Any]:
        key = self.rng.choice((ZONE, HOSTNAME, HOSTNAME))
        return {
            "topologyKey": key,
            "labelSelector": {"matchLabels": {"app": self.rng.choice(APPS)}},
        }


def case(seed: int) -> Case:
    """Returns the same for the same seed."""
    rng = seeded_random(seed)
    making, n_nodes = _Making(rng), rng.randint(1, 4)
    nodes = [
        make_node(
            f"node-{number}",
            zone=rng.choice("ab"),
            allocatable={"cpu": rng.choice(("1", "2")), "pods": rng.choice(("3", "9"))},
        )
        for number in range(n_nodes)
    ]
    pods = [
        making.pod(
            f"pod-{number}",
            node=f"node-{rng.randrange(n_nodes)}",
            priority=rng.choice((None, 0, 1, 1, 2, 7)),
            status={"startTime": start_time(rng)},
        )
        for number in range(rng.randint(n_nodes, 4 * n_nodes))
    ]
    for number in range(rng.choice((0, 0, 1, 2))):
        node = f"node-{rng.randrange(n_nodes)}"
        priority = rng.choice((1, 3, 9))
        pods.append(making.pod(f"rival-{number}", priority=priority, nominated_node=node))
    budgets = [
        budget(f"budget-{number}", rng.choice((0, 1)), app=rng.choice(APPS))
        for number in range(rng.choice((0, 0, 1, 2)))
    ]
    return Case(nodes, pods, budgets, _storage(rng, n_nodes), making.incoming())


def _storage(rng: Rng, n_nodes: int) -> list[Any]:
    """Returns bound claims and their volumes of one driver; some nodes have a low attach limit."""
    found: list[Any] = []
    for name in (*SHARED, *(f"alone-{number}" for number in range(4))):
        mode = "ReadWriteOncePod" if name.startswith("alone") else "ReadWriteOnce"
        labels = {ZONE: rng.choice("ab")} if rng.random() < 0.1 else {}
        found += [
            claim(name, volume_name=f"v-{name}", annotations=BIND_COMPLETED, accessModes=[mode]),
            volume(f"v-{name}", claim=f"default/{name}", labels=labels, csi=csi(name)),
        ]
    for number in range(n_nodes):
        if rng.random() < 0.7:
            limit: dict[str, Any] = {DRIVER: rng.choice((1, 2, 3))}
            found.append(csi_node(f"node-{number}", **limit))
    return found
