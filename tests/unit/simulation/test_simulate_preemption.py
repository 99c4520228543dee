"""A simulation in which pods make room for others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mooring.framework import Wait
from mooring.objects.pod import Pod
from mooring.recordings.format import RecordingReader, RecordingWriter, read_recording
from mooring.simulation.build import driver_of, make_driver
from mooring.simulation.progress import View
from mooring.simulation.replay import replay
from mooring.simulation.report import OutcomeCounts
from mooring.simulation.simulate import PREEMPTED, decide_until, recording_header, simulate
from mooring.simulation.utilization import Utilization
from mooring.simulation.workload import Workload
from mooring.testing import make_node, make_pod

NODES = [make_node(name, allocatable={"cpu": "2"}) for name in ("a", "b")]


def pod(name: str, priority: int = 0, **more: Any) -> Pod:
    return make_pod(name, requests={"cpu": "2"}, priority=priority, **more)


class Quiet(View):
    def __init__(self) -> None:
        """Ignores the progress."""

    def step(self) -> None:
        pass


def simulated(
    pending: list[Pod], *placed: Pod, plugins: Any = (), writer: RecordingWriter | None = None
) -> tuple[OutcomeCounts, Utilization, Any]:
    driver = make_driver([*NODES, *placed], plugins=plugins)
    counts, utilization = OutcomeCounts(), Utilization([*NODES, *placed])
    simulate(pending, driver, counts, utilization, Quiet(), writer=writer)
    return counts, utilization, driver


def test_a_pod_that_others_made_room_for_gets_its_node_and_they_have_none() -> None:
    counts, utilization, driver = simulated([pod("one"), pod("two"), pod("high", 10)])

    assert (counts.bound, dict(counts.refused), counts.pods) == (2, {PREEMPTED: 1}, 3)
    assert [node.requested["cpu"] for node in utilization.nodes.values()] == [2000, 2000]
    assert len(driver.cache.pods) == 2
    assert len(driver.cache.nominator) == 0


def test_pods_that_were_there_before_are_not_counted_among_those_of_the_simulation() -> None:
    there = [pod("there", node="a"), pod("too", node="b", priority=99)]
    counts, utilization, _ = simulated([pod("high", 10)], *there)

    assert (counts.bound, dict(counts.refused)) == (1, {})
    assert utilization.requested["cpu"] == 4000


def test_a_pod_is_told_about_as_it_meets_the_cluster() -> None:
    utilization = Utilization(NODES)
    pending = [pod("one"), pod("two"), pod("high", 10), pod("last")]

    decision = decide_until(pending, make_driver(NODES), utilization, "default/last")

    assert decision.node is None
    assert utilization.requested["cpu"] == 4000
    told = "No preemption victims found for incoming pod"
    assert told in (decision.message or "")


def test_its_recording_has_both_attempts_and_replays_without_a_difference(tmp_path: Path) -> None:
    file = str(tmp_path / "simulated.json.gz")
    pending = [pod("one"), pod("two"), pod("high", 10), pod("other", 5)]
    workload = Workload("w", list(NODES), pending)
    order = ("a", "b")
    header = recording_header(workload, upstream="mooring", seed=0, node_order=order, config=None)
    with RecordingWriter(file, header) as writer:
        simulated(pending, writer=writer)

    steps = read_recording(file).steps
    assert [(step.pod_key, step.attempt, step.decision.result) for step in steps] == [
        ("default/one", 1, "scheduled"),
        ("default/two", 1, "scheduled"),
        ("default/high", 1, "unschedulable"),
        ("default/high", 2, "scheduled"),
        ("default/other", 1, "unschedulable"),
        ("default/other", 2, "scheduled"),
    ]
    first = steps[2]
    assert first.effects is not None
    assert first.decision.preemption is not None
    (deleted,) = first.effects.deleted
    assert deleted.removeprefix("pods ") in first.decision.preemption.victims
    assert steps[3].decision.choice == "nominated"
    with RecordingReader(file) as reader:
        driver = driver_of(reader.header, config=None)
        again = list(replay(reader, driver, objects=reader.header.objects))
    assert [each.differences for each in again] == [[]] * 6


class Holds:
    name = "Holds"

    def permit(self, cycle: Any, node_name: str) -> Any:
        return Wait(60.0) if cycle.pod.priority == 0 else None


@pytest.mark.parametrize("priority", [0, 10])
def test_a_pod_that_waits_in_permit_is_turned_back(priority: int) -> None:
    driver = make_driver(NODES[:1])
    driver = type(driver)(NODES[:1], plugins=[Holds()], rng=driver.handle._rng, clock=driver.time)
    counts, utilization = OutcomeCounts(), Utilization(NODES[:1])

    simulate([pod("waits"), pod("next", priority)], driver, counts, utilization, Quiet())

    if priority:
        assert (counts.bound, dict(counts.refused)) == (1, {PREEMPTED: 1})
        assert [placed.info.key for placed in driver.cache.pods] == ["default/next"]
    else:
        assert counts.refused.total() == 2  # its wait timed out
    assert len(driver.handle.waiting) == 0
