"""The state of a simulation at the first attempt at a pod."""

from __future__ import annotations

from typing import Any

from mooring.objects.pod import Pod
from mooring.simulation.before_attempt import BeforeAttempt, before_attempt
from mooring.simulation.run import run_simulation
from mooring.simulation.utilization import Utilization
from mooring.simulation.workload import Workload, workload_of
from mooring.testing import make_node, make_pod

NODES = [make_node(name, allocatable={"cpu": "2"}) for name in "ab"]


def pod(name: str, priority: int = 0, **more: Any) -> Pod:
    return make_pod(name, requests={"cpu": "2"}, priority=priority, **more)


def reached(workload: Workload, name: str, utilization: Utilization | None = None) -> BeforeAttempt:
    return before_attempt(
        workload,
        f"default/{name}",
        utilization=utilization or Utilization(workload.objects),
    )


def test_the_pods_before_it_are_bound_and_it_is_not() -> None:
    workload = workload_of("w", [*NODES, pod("one"), pod("two", 5), pod("three")])
    utilization = Utilization(workload.objects)

    driver, decision, _ = reached(workload, "three", utilization)

    assert decision is not None
    assert (decision.node, decision.message) == (
        None,
        "0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, preemption:"
        " 0/2 nodes are available: 2 No preemption victims found for incoming pod.",
    )
    assert {placed.info.key for placed in driver.cache.pods} == {"default/one", "default/two"}
    assert utilization.requested["cpu"] == 4000


def test_a_nominated_pod_waits_for_its_victim_which_is_still_there() -> None:
    there = [pod("low", node="a", spec={"terminationGracePeriodSeconds": 30})]
    busy = pod("busy", 50, node="b")
    workload = workload_of("w", [*NODES, *there, busy, pod("high", 10), pod("other", 5)])

    driver, decision, _ = reached(workload, "other")

    assert [(info.key, node) for info, node in driver.cache.nominator.pods()] == [
        ("default/high", "a")
    ]
    terminating = [
        placed.info.key
        for placed in driver.cache.pods
        if placed.info.metadata.deletion_timestamp is not None
    ]
    assert terminating == ["default/low"]
    assert decision is not None
    assert decision.node is None
    assert decision.preemption is None or not decision.preemption.victims


def test_ties_are_broken_as_in_a_simulation() -> None:
    nodes = [make_node(f"n{number}", allocatable={"cpu": "64"}) for number in range(6)]
    pods = [make_pod(f"p{number}", requests={"cpu": "1"}) for number in range(12)]
    workload = workload_of("w", [*nodes, *pods])
    simulated = {result.pod: result.node for result in run_simulation(workload).results}

    for name, node in simulated.items():
        driver, decision, _ = reached(workload, name.rpartition("/")[2])
        assert decision is not None
        assert decision.node == node
        again = next(pod for pod in pods if f"default/{pod.metadata.name}" == name)
        assert driver.attempt(again).node == node


def test_a_gated_pod_meets_the_cluster_at_the_end() -> None:
    gated = pod("gated", 10, spec={"schedulingGates": [{"name": "later"}]})
    workload = workload_of("w", [*NODES, gated, pod("one"), pod("two")])

    driver, decision, _ = reached(workload, "gated")

    assert decision is None
    assert len(driver.cache.pods) == 2
    assert driver.attempt(gated).result == "gated"
