"""The pods of the ladder's preemption rungs: full nodes, and pods that make room for themselves."""

from __future__ import annotations

from typing import Final

from mooring.objects.meta import LabelSelector, ObjectMeta
from mooring.objects.node import Node
from mooring.objects.pod import Pod
from mooring.objects.workloads import (
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
)
from mooring.testing import make_node, make_pod

#: Running pods per node; with 5 000 nodes that is 100 000.
PODS_PER_NODE: Final = 20

#: Kinds of running pods, each with a budget of its own in the rung about budgets.
APPS: Final = 100


def full_node(number: int) -> Node:
    """4 cpu, all of which its running pods have."""
    room = {"cpu": "4", "memory": "32Gi", "pods": "110"}
    return make_node(f"node-{number:05}", zone=f"zone-{number % 10}", allocatable=room)


def victim(number: int, node_count: int) -> Pod:
    """A running pod of one of five priorities, started at one of many times."""
    return make_pod(
        f"running-{number}",
        node=f"node-{number % node_count:05}",
        requests={"cpu": "200m", "memory": "500Mi"},
        # Of a node's pods each is of another kind.
        labels={"app": f"app-{(number + number // node_count) % APPS}"},
        priority=number % 5,
        status={"startTime": f"2026-01-{1 + number % 28:02}T00:{number % 60:02}:00Z"},
    )


def urgent_pod(number: int) -> Pod:
    """Needs a quarter of a node: five of the running pods have to go."""
    return make_pod(f"pod-{number}", requests={"cpu": "1", "memory": "1Gi"}, priority=100)


def spread_pod(number: int) -> Pod:
    """As the urgent one, and evenly over the zones with one kind of the running pods."""
    constraint = {
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "app-1"}},
    }
    return make_pod(
        f"pod-{number}",
        requests={"cpu": "1", "memory": "1Gi"},
        labels={"app": "app-1"},
        priority=100,
        spec={"topologySpreadConstraints": [constraint]},
    )


def budgets() -> tuple[PodDisruptionBudget, ...]:
    """One for each kind of running pods; a third of them allow nobody to go."""
    return tuple(
        PodDisruptionBudget(
            metadata=ObjectMeta(name=f"budget-{number}", namespace="default"),
            spec=PodDisruptionBudgetSpec(
                selector=LabelSelector(match_labels={"app": f"app-{number}"})
            ),
            status=PodDisruptionBudgetStatus(disruptions_allowed=number % 3),
        )
        for number in range(APPS)
    )
