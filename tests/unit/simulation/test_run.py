"""Tests a simulation from the arrival of the pods to its end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mooring.errors import ConfigError
from mooring.framework import Cycle, Wait
from mooring.objects.pod import Pod
from mooring.simulation.results import GATED, PLACED, REFUSED
from mooring.simulation.run import Simulation, SimulationOptions, run_simulation
from mooring.simulation.workload import workload_of
from mooring.testing import make_node, make_pod


def pod(name: str, cpu: str = "1", **more: Any) -> Pod:
    return make_pod(name, requests={"cpu": cpu}, **more)


def simulated(*objects: Any, options: SimulationOptions | None = None) -> Simulation:
    return run_simulation(workload_of("w", list(objects)), options)


def test_a_pod_that_needs_another_one_is_placed_when_that_is_there() -> None:
    term = {
        "labelSelector": {"matchLabels": {"app": "db"}},
        "topologyKey": "kubernetes.io/hostname",
    }
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    web = pod("web", affinity=affinity, priority=10)  # scheduled first, because of its priority
    database = pod("db", labels={"app": "db"})

    simulation = simulated(make_node("a"), web, database)

    by_name = {result.pod: result for result in simulation.results}
    assert by_name["default/db"].time_s == 0.0
    first = by_name["default/web"]
    assert (first.outcome, first.node, first.attempts) == (PLACED, "a", 2)
    assert first.time_s == 0.0, "no other pod is active, so it is popped in its backoff"


def test_a_simulation_runs_inside_a_running_event_loop() -> None:
    async def notebook() -> Simulation:
        simulation = simulated(make_node("a"), pod("web"))
        await asyncio.sleep(0)
        return simulation

    assert asyncio.run(notebook()).results[0].outcome == PLACED


def test_equal_seeds_give_equal_results_and_others_another_order() -> None:
    def order(seed: int) -> list[str]:
        pods = [pod(f"p{number}", "3") for number in range(8)]
        options = SimulationOptions(seed=seed, order="shuffle")
        simulation = simulated(make_node("a"), make_node("b"), *pods, options=options)
        return [result.pod for result in simulation.outcome(PLACED)]

    assert order(1) == order(1)
    assert order(1) != order(2)
    assert len(order(1)) == 2


def test_an_unknown_order_is_an_error() -> None:
    with pytest.raises(ConfigError, match="must be one of queue, shuffle"):
        simulated(make_node("a"), options=SimulationOptions(order="random"))


def test_pods_that_wait_in_permit_in_vain_end_the_simulation() -> None:
    class Gang:
        """Its pods wait for one that never comes; it registers no events, so all requeue them."""

        name = "Gang"

        def permit(self, cycle: Cycle, node_name: str) -> Wait:
            del cycle, node_name
            return Wait(30)

    simulation = simulated(
        make_node("a"), pod("one"), pod("two"), options=SimulationOptions(plugins=[Gang()])
    )

    assert [result.outcome for result in simulation.results] == [REFUSED, REFUSED]
    assert all("timeout after waiting 30s" in str(own.reasons) for own in simulation.results)


def test_pods_that_cannot_be_scheduled_end_the_simulation() -> None:
    gates = {"schedulingGates": [{"name": "x.io/later"}]}

    simulation = simulated(make_node("a"), pod("huge", "64"), pod("held", spec=gates))

    assert [result.outcome for result in simulation.results] == [REFUSED, GATED]
    assert simulation.results[0].attempts == 1
    assert simulation.end_s == 0.0
