"""Simulations with pods that a Permit plugin delays."""

from __future__ import annotations

from typing import Any

from mooring.framework import Cycle, Wait
from mooring.objects.pod import Pod
from mooring.simulation.results import PLACED, REFUSED
from mooring.simulation.run import Simulation, SimulationOptions, run_simulation
from mooring.simulation.workload import workload_of
from mooring.testing import make_node, make_pod


class Holds:
    """Delays pods whose name begins with "slow"; nothing allows them."""

    name = "Holds"

    def permit(self, cycle: Cycle, node_name: str) -> Wait | None:
        return Wait(3.0) if cycle.pod.metadata.name.startswith("slow") else None

    def events(self) -> list[Any]:
        return []


def simulated(*names: str) -> Simulation:
    node = make_node("a", allocatable={"cpu": "2"})
    pods: list[Pod] = [make_pod(name, requests={"cpu": "1"}) for name in names]
    options = SimulationOptions(plugins=[Holds()])
    return run_simulation(workload_of("waits", [node, *pods]), options)


def test_a_pod_gets_the_room_of_one_that_no_plugin_allows() -> None:
    simulation = simulated("slow-1", "fast-1", "fast-2")

    slow, first, second = simulation.results
    assert slow.outcome == REFUSED
    assert "rejected due to timeout after waiting 3s at plugin Holds" in slow.message
    assert (first.outcome, first.time_s) == (PLACED, 0.0)
    # The room of the slow pod is free after 3 s, and the second one ends its backoff then.
    assert (second.outcome, second.attempts) == (PLACED, 2)
    assert second.time_s is not None
    assert second.time_s >= 3.0


def test_the_simulation_ends_although_a_pod_waits_again_and_again() -> None:
    simulation = simulated("slow-1")

    assert [result.outcome for result in simulation.results] == [REFUSED]
