"""Tests the answers of a simulation: counts, named pods, JSON and CSV."""

from __future__ import annotations

import csv
import io
from typing import Any

from mooring.objects.pod import Pod
from mooring.simulation.answers import Progress, count, csv_text, document_of, named_pods
from mooring.simulation.report import OutcomeCounts, headline, summarize
from mooring.simulation.run import Simulation, SimulationOptions, SimulationRun
from mooring.simulation.utilization import Utilization
from mooring.simulation.workload import Workload, workload_of
from mooring.testing import make_node, make_pod


def pod(name: str, cpu: str = "1", priority: int = 0, **more: Any) -> Pod:
    return make_pod(name, requests={"cpu": cpu}, priority=priority, **more)


WORKLOAD = workload_of(
    "w",
    [
        make_node("a", allocatable={"cpu": "4"}),
        make_node("b", allocatable={"cpu": "3"}),
        pod("low", "4", node="a"),
        pod("vip", "4", 10),
        pod("small"),
        pod("huge", "64"),
        pod("theirs", scheduler_name="other"),
        pod("gated", spec={"schedulingGates": [{"name": "x.io/later"}]}),
    ],
)


def simulated(workload: Workload) -> tuple[Simulation, OutcomeCounts, Utilization, list[int]]:
    counts, utilization, steps = OutcomeCounts(), Utilization(workload.objects), [0]

    class View:
        def step(self) -> None:
            steps[0] += 1

    progress = Progress(counts, utilization)
    progress.view = View()
    options = SimulationOptions(
        on_change=progress.on_change, on_result=progress.on_result, with_scores=True
    )
    return SimulationRun(workload, options).run(), counts, utilization, steps


def test_every_pod_is_counted_once_and_pods_of_others_are_not() -> None:
    simulation, counts, utilization, steps = simulated(WORKLOAD)
    assert (counts.bound, counts.refused.total(), steps) == (2, 1, [3])

    count(simulation, counts)

    assert (counts.pods, counts.bound, counts.waiting, counts.evicted) == (4, 2, 0, 1)
    assert counts.not_ours == 1
    assert counts.refused == {
        "Insufficient cpu": 1,
        "waiting for scheduling gates: [x.io/later]": 1,
    }
    assert utilization.nodes["a"].requested["cpu"] == 4000
    assert utilization.nodes["b"].requested["cpu"] == 1000


def test_the_tables_name_the_pods() -> None:
    simulation = simulated(WORKLOAD)[0]

    tables = {section.title: list(section.rows) for section in named_pods(simulation)}

    assert tables["Placed"] == [("default/vip", "a"), ("default/small", "b")]
    assert tables["Refused, by name"] == [
        ("default/huge", "NodeResourcesFit", "2 Insufficient cpu"),
        ("default/gated", "SchedulingGates", "waiting for scheduling gates: [x.io/later]"),
    ]
    assert tables["Evicted"] == [("default/low", "a", "default/vip")]
    assert tables["Of other schedulers, not counted"] == [("default/theirs", "other")]
    limited = {section.title: section.rows for section in named_pods(simulation, limit=1)}
    assert limited["Placed"][1][0] == "... and 1 more"


def test_json_and_csv_have_every_pod() -> None:
    simulation, counts, utilization, _ = simulated(WORKLOAD)
    count(simulation, counts)
    summary = summarize("w", utilization, counts, duration_s=1.0, peak_rss_bytes=1)

    document = document_of(summary, simulation)

    assert [placed["node"] for placed in document["placements"]] == ["a", "b"]
    assert document["evictions"] == [
        {"pod": "default/low", "node": "a", "by": "default/vip", "time_s": 0.0}
    ]
    assert document["not_ours_pods"] == ["default/theirs"]
    assert (document["pods"], document["bound"], document["evicted"]) == (4, 2, 1)
    rows = {row["pod"]: row for row in csv.DictReader(io.StringIO(csv_text(simulation.results)))}
    assert rows["default/vip"]["victims"] == "default/low"
    assert float(rows["default/vip"]["time_s"]) == 30.0
    assert rows["default/huge"]["reasons"] == "2 Insufficient cpu"
    assert rows["default/theirs"]["outcome"] == "not ours"


def test_the_headline_says_who_was_evicted_and_who_waits() -> None:
    counts = OutcomeCounts()
    counts.bound, counts.waiting, counts.evicted = 3, 1, 2
    summary = summarize("w", Utilization(), counts, duration_s=1.0, peak_rss_bytes=1)

    assert headline(summary).startswith(
        "3 of 4 pods placed on 0 nodes, 0 refused, 1 waits for victims to leave, 2 pods evicted,"
    )


def test_a_score_has_its_runner_up() -> None:
    simulation = simulated(workload_of("w", [make_node("a"), make_node("b"), pod("web")]))[0]

    (result,) = simulation.results
    assert {result.node, result.runner_up} == {"a", "b"}
    assert result.score is not None
    assert result.score == result.runner_up_score
