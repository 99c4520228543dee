"""Simulations in which pods make room for others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mooring.objects.pod import Pod
from mooring.recordings.format import RecordingReader, RecordingWriter, read_recording
from mooring.simulation.build import driver_of
from mooring.simulation.engine.recorder import StepRecorder
from mooring.simulation.replay import replay
from mooring.simulation.results import EVICTED, PLACED, REFUSED, Eviction
from mooring.simulation.run import Simulation, SimulationOptions, run_simulation
from mooring.simulation.simulate import node_order, recording_header
from mooring.simulation.workload import workload_of
from mooring.testing import make_node, make_pod

NODES = [make_node(name, allocatable={"cpu": "2"}) for name in ("a", "b")]


def pod(name: str, priority: int = 0, *, grace_s: int = 30, **more: Any) -> Pod:
    spec = {"terminationGracePeriodSeconds": grace_s}
    return make_pod(name, requests={"cpu": "2"}, priority=priority, spec=spec, **more)


def simulated(*pods: Pod, options: SimulationOptions | None = None) -> Simulation:
    return run_simulation(workload_of("w", [*NODES, *pods]), options)


def outcomes(simulation: Simulation) -> dict[str, tuple[str, float | None, int]]:
    return {
        result.pod.removeprefix("default/"): (result.outcome, result.time_s, result.attempts)
        for result in simulation.results
    }


def test_a_preemptor_is_bound_when_the_grace_period_of_its_victims_has_passed() -> None:
    there = [pod("low", node="a", grace_s=7), pod("high", 100, node="b")]

    simulation = simulated(*there, pod("vip", 10))

    assert outcomes(simulation) == {"vip": (PLACED, 7.0, 2)}
    assert simulation.results[0].victims == ["default/low"]
    assert simulation.evictions == [Eviction("default/low", "a", "default/vip", 0.0)]
    assert set(simulation.pods) == {"default/high", "default/vip"}


def test_a_pod_of_the_simulation_can_be_evicted_too() -> None:
    arrivals = [pod("one"), pod("two")]
    there = pod("there", 5, node="b", grace_s=0)

    simulation = simulated(there, *arrivals, pod("high", 10))

    # The pods with higher priority are scheduled first: one of the others has no room.
    assert outcomes(simulation)["high"][0] == PLACED
    assert sorted(outcome for outcome, _, _ in outcomes(simulation).values()) == [
        PLACED,
        REFUSED,
        REFUSED,
    ]


def test_a_recording_has_both_attempts_and_replays_without_a_difference(tmp_path: Path) -> None:
    file = str(tmp_path / "simulated.json.gz")
    there = [pod("low", node="a"), pod("lower", -5, node="b", grace_s=0)]
    workload = workload_of("w", [*NODES, *there, pod("high", 10), pod("other", 5)])
    header = recording_header(
        workload, upstream="mooring", seed=0, node_order=node_order(workload), config=None
    )
    with RecordingWriter(file, header) as writer:
        run_simulation(workload, SimulationOptions(recorder=StepRecorder(writer)))

    steps = read_recording(file).steps
    assert [(step.pod_key, step.attempt, step.decision.result) for step in steps] == [
        ("default/high", 1, "unschedulable"),
        ("default/other", 1, "unschedulable"),
        ("default/high", 2, "scheduled"),
        ("default/other", 2, "scheduled"),
    ]
    assert steps[0].effects is not None
    assert steps[0].effects.deleted == ("pods default/lower",)
    assert steps[2].decision.choice == "nominated"
    with RecordingReader(file) as reader:
        driver = driver_of(reader.header, config=None)
        again = list(replay(reader, driver, objects=reader.header.objects))
    assert [each.differences for each in again] == [[]] * 4


def test_pods_of_other_schedulers_are_in_no_count() -> None:
    simulation = simulated(pod("ours"), pod("theirs", scheduler_name="other"))

    assert [result.outcome for result in simulation.results] == [PLACED, "not ours"]
    assert EVICTED not in {result.outcome for result in simulation.results}
