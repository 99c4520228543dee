"""Tests the recording of a simulation, and the decision about one of its pods."""

from __future__ import annotations

from pathlib import Path

from mooring.objects.meta import ObjectMeta, ResourceRequirements
from mooring.objects.node import Node, NodeStatus
from mooring.objects.pod import Container, Pod, PodSchedulingGate, PodSpec
from mooring.recordings.format import RecordingWriter, read_recording
from mooring.simulation.build import driver_of
from mooring.simulation.engine.recorder import StepRecorder
from mooring.simulation.replay import replay
from mooring.simulation.run import SimulationOptions, run_simulation
from mooring.simulation.simulate import (
    node_order,
    peak_rss_bytes,
    recording_header,
)
from mooring.simulation.workload import Workload, workload_of


def node(name: str, cpu: str = "4") -> Node:
    amounts: dict[str, str | int | float] = {"cpu": cpu, "memory": "8Gi", "pods": "9"}
    status = NodeStatus(allocatable=amounts, capacity=amounts)
    return Node(metadata=ObjectMeta(name=name, uid=name), status=status)


def pod(name: str, cpu: str = "1", gates: tuple[str, ...] = ()) -> Pod:
    resources = ResourceRequirements(requests={"cpu": cpu, "memory": "1Gi"})
    spec = PodSpec(
        containers=(Container(name="c", image="i", resources=resources),),
        scheduler_name="default-scheduler",
        scheduling_gates=tuple(PodSchedulingGate(name=gate) for gate in gates),
    )
    return Pod(metadata=ObjectMeta(name=name, namespace="a", uid=name), spec=spec)


def workload() -> Workload:
    pods = [pod("p0", "3"), pod("p1", "3"), pod("big", "64"), pod("p2"), pod("held", gates=("x",))]
    return workload_of("small", [node("n0"), node("n1"), *pods])


def save(path: Path) -> None:
    given = workload()
    header = recording_header(
        given, upstream="mooring", seed=0, node_order=node_order(given), config=None
    )
    with RecordingWriter(path, header) as writer:
        run_simulation(given, SimulationOptions(recorder=StepRecorder(writer)))


def test_a_saved_run_replays_without_a_difference(tmp_path: Path) -> None:
    path = tmp_path / "run.json.gz"
    save(path)
    recording = read_recording(path)
    driver = driver_of(recording, config=None)
    results = list(replay(recording.steps, driver, objects=recording.objects))
    assert len(results) == 5
    assert [str(item) for result in results for item in result.differences] == []
    assert {result.step.decision.result for result in results} == {
        "scheduled",
        "unschedulable",
        "gated",
    }


def test_a_saved_run_has_the_start_times_of_its_pods(tmp_path: Path) -> None:
    save(tmp_path / "run.json")
    steps = read_recording(tmp_path / "run.json").steps
    assert [step.effects.start_time for step in steps if step.effects] == [
        "2026-01-01T00:00:00Z"
    ] * 3
    assert [step.start_index for step in steps[:2]] == [0, 0]


def test_memory_is_reported_in_bytes() -> None:
    assert 10 << 20 < peak_rss_bytes() < 8 << 30
