"""Tests that simulate, start and explain agree about preemption, on random clusters.

Several pods are pending, which compete for the room that evictions make.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mooring.clock import seeded_random
from mooring.devcluster.cluster import InMemoryCluster
from mooring.devcluster.observer import ProgressObserver
from mooring.devcluster.seeding import seeds_of_objects
from mooring.objects.meta import LabelSelector, ObjectMeta, key
from mooring.objects.workloads import (
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
)
from mooring.scheduler.service import ServiceOptions
from mooring.simulation.before_attempt import before_attempt
from mooring.simulation.results import PLACED, WAITING
from mooring.simulation.run import Simulation, run_simulation
from mooring.simulation.utilization import Utilization
from mooring.simulation.workload import Workload, workload_of
from mooring.testing import make_node, make_pod
from mooring.virtual_loop import LoopClock, run_virtually

CLUSTERS = 100
CHUNK = 20


def random_workload(seed: int) -> Workload:
    """Returns nodes that are nearly full, and pods of a higher or equal priority."""
    rng = seeded_random(seed)
    objects: list[Any] = []
    for number in range(rng.randrange(2, 5)):
        free = rng.choice((2, 4, 6))
        objects.append(make_node(f"n{number}", allocatable={"cpu": str(free)}))
        while free > 0 and rng.random() < 0.9:
            cpu = rng.randrange(1, min(3, free) + 1)
            free -= cpu
            second = len(objects)
            status = {
                "phase": "Running",
                "startTime": f"2025-12-01T00:00:{second:02}Z",
                "conditions": [{"type": "Ready", "status": "True"}],
            }
            objects.append(
                make_pod(
                    f"r{second}",
                    labels={"app": "ab"[second % 2]},
                    requests={"cpu": str(cpu)},
                    priority=rng.choice((0, 0, 5)),
                    node=f"n{number}",
                    status=status,
                    spec={"terminationGracePeriodSeconds": rng.choice((1, 5, 30))},
                )
            )
    for number in range(rng.randrange(1, 5)):
        requests = {"cpu": str(rng.randrange(1, 5))}
        name, priority = f"vip{number}", rng.choice((0, 5, 10, 20))
        objects.append(make_pod(name, requests=requests, priority=priority))
    objects += [_budget(app, rng.randrange(4)) for app in "ab" if rng.random() < 0.4]
    return workload_of(f"random {seed}", objects)


def _budget(app: str, min_available: int) -> PodDisruptionBudget:
    """Returns a budget whose status is wrong: the disruption controller corrects it."""
    selector = LabelSelector(match_labels={"app": app})
    return PodDisruptionBudget(
        metadata=ObjectMeta(name=app, namespace="default", uid=f"budget-{app}"),
        spec=PodDisruptionBudgetSpec(selector=selector, min_available=min_available),
        status=PodDisruptionBudgetStatus(disruptions_allowed=9 if app == "a" else 0),
    )


async def started(workload: Workload) -> tuple[dict[str, str], ProgressObserver]:
    """Returns the pods and their nodes after ``start --virtual``, and what it counted."""
    clock = LoopClock(asyncio.get_running_loop())
    observer = ProgressObserver(Utilization(workload.objects), clock)
    cluster = InMemoryCluster(
        clock=clock,
        rng=seeded_random(0),
        options=ServiceOptions(observer=observer),
        with_kubelets=True,
        with_volumes=True,
        with_controllers=True,
    )
    pending = await cluster.seed(seeds_of_objects([*workload.objects, *workload.pending]))
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(cluster.run())
        await cluster.service.wait_until_synced()
        await cluster.submit(pending)
        await cluster.settle()
        pods = cluster.service.informers["Pod"].objects.items()
        nodes = {name: pod.spec.node_name for name, pod in pods}
        cluster.service.stop()
        await running
    return nodes, observer


@pytest.mark.parametrize("first", range(0, CLUSTERS, CHUNK))
def test_the_commands_agree_about_who_leaves_and_who_is_placed(first: int) -> None:
    preemptions = compared = 0
    for seed in range(first, first + CHUNK):
        workload = random_workload(seed)
        simulation = run_simulation(workload)
        _check_explanation(workload, simulation.evictions)
        preemptions += bool(simulation.evictions)
        if _races(workload, simulation):
            continue
        nodes, observer = run_virtually(started(workload))
        assert {name: pod.spec.node_name for name, pod in simulation.pods.items()} == nodes, seed
        counts = observer.outcome_counts()
        assert counts.bound == len(simulation.outcome(PLACED)), seed
        assert counts.waiting == len(simulation.outcome(WAITING)) == 0, seed
        assert counts.evicted == len(simulation.evictions), seed
        compared += 1
    assert preemptions, "the clusters are full"
    assert compared > CHUNK / 2


def _races(workload: Workload, simulation: Simulation) -> bool:
    """Returns whether a pod preempts before the budgets count the victims of the pod before it.

    The scheduler of ``start`` does not wait for the disruption controller, as in a real cluster;
    that of a simulation does. ``test_lockstep`` compares such clusters, too.
    """
    preemptors = {(eviction.time_s, eviction.by) for eviction in simulation.evictions}
    instants = {time_s for time_s, _ in preemptors}
    has_budgets = any(isinstance(obj, PodDisruptionBudget) for obj in workload.objects)
    return has_budgets and len(instants) < len(preemptors)


def _check_explanation(workload: Workload, evictions: list[Any]) -> None:
    """Checks that ``explain`` names the victims of each pod's first attempt.

    A victim that is terminating already is not evicted again.
    """
    for pending in workload.pending:
        pod = key(pending)
        utilization = Utilization(workload.objects)
        driver, decision, _ = before_attempt(workload, pod, utilization=utilization)
        assert decision is not None
        victims = set() if decision.preemption is None else set(decision.preemption.victims)
        victims -= {
            placed.info.key
            for placed in driver.cache.pods
            if placed.info.metadata.deletion_timestamp is not None
        }
        evicted = {item.pod for item in evictions if item.by == pod and item.time_s == 0}
        assert victims == evicted, pod
