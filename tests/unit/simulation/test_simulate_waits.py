"""Simulating pods that a Permit plugin holds back: they count as placed until that fails."""

from __future__ import annotations

from mooring.framework import Cycle, Wait
from mooring.simulation.progress import Silent
from mooring.simulation.report import OutcomeCounts
from mooring.simulation.simulate import simulate
from mooring.simulation.utilization import Utilization
from mooring.testing import make_node, make_pod
from tests.helpers.drivers import Scripted, driver, usage


def hold(cycle: Cycle) -> Wait | None:
    return Wait(3.0) if cycle.pod.metadata.name.startswith("slow") else None


def test_a_pod_that_nobody_lets_go_is_refused_in_the_end() -> None:
    node = make_node("a", allocatable={"cpu": "2"})
    names = ("slow-1", "fast-1", "fast-2")
    pods = [make_pod(name, requests={"cpu": "1"}) for name in names]
    found = driver([node], Scripted("Holds", [], permit=hold))
    utilization, counts = Utilization([node]), OutcomeCounts()

    simulate(pods, found, counts, utilization, Silent())

    # While the slow one waits it holds its room, so the second fast one finds none.
    assert (counts.pods, counts.bound) == (3, 1)
    assert counts.refused == {
        "Insufficient cpu": 1,
        "rejected due to timeout after waiting 3s at plugin Holds": 1,
    }
    assert utilization.nodes["a"].requested["cpu"] == 1000
    assert usage(found, "a") == (1, 1000)
    assert found.time.monotonic_s() == 3.0
