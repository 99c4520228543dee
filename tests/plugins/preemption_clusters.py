"""Clusters in which preemption has something to do: full nodes, priorities, budgets, rivals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mooring.clock import Rng, VirtualClock, seeded_random
from mooring.config.types import DefaultPreemptionArgs
from mooring.framework import Attempt, Cycle, Diagnosis, PostFilterResult, schedule_pod
from mooring.objects.meta import LabelSelector, LabelSelectorRequirement, ObjectMeta
from mooring.objects.node import Node
from mooring.objects.pod import Pod
from mooring.objects.workloads import (
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
)
from mooring.plugins import (
    DefaultPreemption,
    NodePorts,
    NodeResourcesFit,
    PodTopologySpread,
    TaintToleration,
)
from mooring.simulation.offline import OfflineHandle
from mooring.state import PodInfo
from mooring.testing import Harness, make_node, make_pod

ZONE = "topology.kubernetes.io/zone"
APPS = ("web", "db", "")
PRIORITIES = (None, 0, 1, 1, 2, 7, -5)

#: Preemption looks at every node.
ALL_NODES = DefaultPreemptionArgs(min_candidate_nodes_percentage=100)


def filters() -> list[Any]:
    return [TaintToleration(), NodePorts(), NodeResourcesFit(), PodTopologySpread()]


def budget(
    name: str, allowed: int, *, disrupted: tuple[str, ...] = (), **selector: str
) -> PodDisruptionBudget:
    """Returns a budget of namespace default for pods with these labels."""
    return budget_of(LabelSelector(match_labels=selector), name, allowed, disrupted)


def budget_of(
    selector: LabelSelector | None,
    name: str = "budget",
    allowed: int = 0,
    disrupted: tuple[str, ...] = (),
    namespace: str = "default",
) -> PodDisruptionBudget:
    return PodDisruptionBudget(
        metadata=ObjectMeta(name=name, namespace=namespace),
        spec=PodDisruptionBudgetSpec(selector=selector),
        status=PodDisruptionBudgetStatus(
            disruptions_allowed=allowed, disrupted_pods=dict.fromkeys(disrupted)
        ),
    )


@dataclass
class Case:
    nodes: list[Node]
    pods: list[Pod]
    budgets: list[PodDisruptionBudget]
    pod: Pod


class Bench:
    """A cluster, its filters, and DefaultPreemption, without a scheduler around them."""

    def __init__(
        self,
        objects: list[Any],
        *,
        plugins: list[Any] | None = None,
        args: DefaultPreemptionArgs = ALL_NODES,
        seed: int = 0,
    ) -> None:
        budgets = [each for each in objects if isinstance(each, PodDisruptionBudget)]
        others = [each for each in objects if not isinstance(each, PodDisruptionBudget)]
        self.harness = Harness(others, filters() if plugins is None else plugins)
        self.cache = self.harness.cache
        for each in budgets:
            self.cache.put_object("PodDisruptionBudget", each)
        self.handle = OfflineHandle(self.cache, VirtualClock(), seeded_random(seed))
        self.plugin = DefaultPreemption(args, self.handle)

    def diagnosed(self, pod: Pod) -> tuple[Cycle, Diagnosis]:
        """Returns an attempt that found no node."""
        snapshot = self.cache.snapshot()
        cycle = self.harness.framework.new_cycle(PodInfo(pod), snapshot)
        found = schedule_pod(self.harness.framework, cycle, Attempt(snapshot))
        assert isinstance(found, Diagnosis), found
        return cycle, found

    def preempt(self, pod: Pod) -> PostFilterResult:
        """Returns what DefaultPreemption makes of it."""
        result: PostFilterResult = self.plugin.post_filter(*self.diagnosed(pod))
        return result


def start_time(rng: Rng) -> str | None:
    minute = rng.choice((None, 0, 1, 1, 2, 3, 30))
    return None if minute is None else f"2026-01-01T00:{minute:02}:00Z"


def case(seed: int) -> Case:
    """Returns a few full nodes, and a pod that may make room for itself."""
    rng = seeded_random(seed)
    n_nodes = rng.randint(1, 5)
    nodes = [
        make_node(
            f"node-{number}",
            zone=rng.choice(("a", "b")),
            allocatable={"cpu": rng.choice(("1", "2")), "pods": rng.choice(("3", "9"))},
            taints=["dedicated=infra:NoSchedule"] * (rng.random() < 0.1),
        )
        for number in range(n_nodes)
    ]
    pods = [_placed(rng, number, n_nodes) for number in range(rng.randint(n_nodes, 6 * n_nodes))]
    for number in range(rng.choice((0, 0, 1, 2))):
        name, node = f"rival-{number}", f"node-{rng.randrange(n_nodes)}"
        pods.append(_pod(rng, name, priority=rng.choice((1, 3, 9)), nominated_node=node))
    budgets = [_budget(rng, number, pods) for number in range(rng.choice((0, 0, 1, 2, 3)))]
    pod = _pod(rng, "new", priority=rng.choice((0, 2, 3, 8)), cpu=rng.choice(("500m", "1", "2")))
    return Case(nodes, pods, budgets, _spread(rng, pod))


def _placed(rng: Rng, number: int, n_nodes: int) -> Pod:
    return _pod(
        rng,
        f"pod-{number}",
        node=f"node-{rng.randrange(n_nodes)}",
        priority=rng.choice(PRIORITIES),
        # Each its own: upstream frees a port that two pods hold when one of them goes.
        host_ports=[1000 + number] if rng.random() < 0.2 else (),
        status={"startTime": start_time(rng)},
    )


def _pod(rng: Rng, name: str, *, cpu: str = "", **more: Any) -> Pod:
    app = rng.choice(APPS)
    cpu = cpu or rng.choice(("0", "250m", "500m", "1", "1500m"))
    labels = {"app": app} if app else {}
    return make_pod(name, requests={"cpu": cpu}, labels=labels, **more)


def _spread(rng: Rng, pod: Pod) -> Pod:
    if rng.random() < 0.6:
        return pod
    constraint = {
        "maxSkew": rng.choice((1, 2)),
        "topologyKey": rng.choice((ZONE, "kubernetes.io/hostname")),
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": rng.choice(("web", "db"))}},
    }
    return make_pod(
        "new",
        requests={"cpu": rng.choice(("500m", "1", "2"))},
        labels=pod.metadata.labels,
        priority=pod.spec.priority,
        host_ports=[rng.randint(1000, 1006)] if rng.random() < 0.5 else (),
        spec={"topologySpreadConstraints": [constraint]},
    )


def _budget(rng: Rng, number: int, pods: list[Pod]) -> PodDisruptionBudget:
    exists, unknown = (
        LabelSelector(match_expressions=(LabelSelectorRequirement(key="app", operator=operator),))
        for operator in ("Exists", "Perhaps")
    )
    labels = [LabelSelector(match_labels={"app": app}) for app in ("web", "db")]
    selector = rng.choice((*labels, *labels, exists, unknown, LabelSelector(), None))
    names = [pod.metadata.name for pod in pods]
    disrupted = (rng.choice(names),) if names and rng.random() < 0.3 else ()
    namespace = "default" if rng.random() < 0.9 else "other"
    return budget_of(selector, f"budget-{number}", rng.choice((0, 0, 1, 2)), disrupted, namespace)
