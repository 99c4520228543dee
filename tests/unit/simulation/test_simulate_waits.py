"""Simulations with pods that a Permit plugin delays."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mooring.errors import PluginError, SchedulerError
from mooring.framework import Cycle, Reject, Wait
from mooring.framework.interface import Handle
from mooring.framework.per_node import per_node
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


def simulated_with(plugin: Any) -> Simulation:
    options = SimulationOptions(plugins=[plugin])
    return run_simulation(workload_of("waits", [make_node("a"), make_pod("web")]), options)


@pytest.mark.parametrize("wait_s", [-5.0, 0.0, 1e-9, 1e-8, 1e-6, 1e-5])
def test_a_wait_that_is_hardly_one_ends_like_any_other(wait_s: float) -> None:
    class Hardly:
        name = "Hardly"

        def permit(self, cycle: Cycle, node_name: str) -> Wait:
            del cycle, node_name
            return Wait(wait_s)

    (result,) = simulated_with(Hardly()).results

    assert (result.outcome, result.plugins) == (REFUSED, ["Hardly"])


class Activates:
    """Puts each pod that it rejects back to the active queue."""

    name = "Activates"

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    @per_node
    def filter(self, pod: Any, node: Any) -> Reject:
        del node
        self._handle.activate(pod.uid)
        return Reject("no")


def test_a_plugin_that_requeues_the_pod_that_it_rejects_ends_the_simulation() -> None:
    with pytest.raises(SchedulerError, match=r"default/web is retried for ever: .* Activates"):
        simulated_with(f"{__name__}:Activates")


def test_a_plugin_that_awaits_what_never_comes_is_named_with_its_pod() -> None:
    class Awaits:
        name = "Awaits"

        async def pre_bind(self, cycle: Cycle, node_name: str) -> None:
            del cycle, node_name
            await asyncio.Event().wait()

    with pytest.raises(PluginError, match=r'PreBind plugin "Awaits": .*default/web: .*never'):
        simulated_with(Awaits())
