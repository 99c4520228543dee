"""Every measure against a count of its own over the tables, for random scenarios."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from mooring.scenario.hooks import RunHooks
from mooring.scenario.read import read_scenario
from mooring.scenario.results import Result
from mooring.scenario.run import ScenarioRun
from tests.helpers.measure_oracle import Recount, WriteLog
from tests.helpers.random_scenarios import CLASSES
from tests.helpers.rich_scenarios import write_rich
from tests.helpers.scenario_files import Spec, nodes, pod, rows, run

SEEDS = range(10)
#: Measures of lost work, and of removals, which some pods survive to the end of the run.
OF_REMOVALS = ("evictions", "preemptions", "lost.pods", "lost.cpu")


@pytest.mark.parametrize("seed", SEEDS)
def test_the_measures_are_those_of_the_tables(tmp_path: Path, seed: int) -> None:
    path, spec = write_rich(tmp_path, random.Random(seed))
    result, log = run_logged(path)
    count = Recount(result, prices_of(spec), seconds(spec["pods"]["start"]), log)

    assert count.problems_of_tables() == []
    expected = count.measures()
    measured = {name: v for name, v in result.summary.items() if name not in OF_REMOVALS}
    assert measured.keys() == expected.keys()
    # Times of tables are to the microsecond.
    assert measured == pytest.approx(expected, rel=1e-7, abs=3e-6)
    table = rows(result, "pods")
    lost = count.lost()
    assert [row["lost_time_s"] for row in table] == pytest.approx(lost, abs=1e-5)
    assert result.summary["lost.pods"] == pytest.approx(sum(lost), abs=1e-3)
    cpu = sum(own * row["cpu_milli"] for own, row in zip(lost, table, strict=True))
    assert result.summary["lost.cpu"] == pytest.approx(cpu / 1000 / 3600, rel=1e-6)
    for name, state in (("evictions", "Evicted"), ("preemptions", "Preempted")):
        removed = sum(row["final_state"] == state for row in table)
        others = sum(
            number in log.asked_s and row["final_state"] in ("Running", "Succeeded", "Failed")
            for number, row in enumerate(table)
        )
        assert removed <= result.summary[name] <= removed + others


def test_a_pod_with_several_taints_is_evicted_once(tmp_path: Path) -> None:
    own = pod(terminationGracePeriodSeconds=60, nodeName="node-0")
    spec = graceful()
    spec["workload"] = [{"at": "0s", "create": {**own, "metadata": {"name": "web"}}}]
    taints = [{"key": key, "effect": "NoExecute"} for key in ("a", "b")]
    spec["cluster"]["nodes"][0]["template"]["spec"] = {"taints": taints}
    assert run(tmp_path, spec).summary["evictions"] == 1


def test_an_evicted_pod_is_not_evicted_again_when_its_node_leaves(tmp_path: Path) -> None:
    removal = {"at": "130s", "delete": {"kind": "Node", "name": "node-0"}}
    result = run(tmp_path, graceful(removal))
    assert [result.summary[name] for name in ("evictions", "pods.evicted")] == [1, 1]
    assert result.summary["lost.pods"] == 100


def test_a_run_that_a_crash_ends_is_lost_once(tmp_path: Path) -> None:
    crash = {"at": "130s", "fail": {"node": "node-0"}}
    result = run(tmp_path, graceful(crash))
    assert result.summary["evictions"] == 1
    assert result.summary["lost.pods"] == 130


def test_a_pod_that_succeeds_in_its_grace_period_has_lost_nothing(tmp_path: Path) -> None:
    result = run(tmp_path, {**graceful(), "pods": {"duration": "150s"}})
    assert result.summary["evictions"] == 1
    assert (result.summary["pods.succeeded"], result.summary["lost.pods"]) == (1, 0)


def test_a_victim_of_preemption_is_not_evicted_when_its_node_leaves(tmp_path: Path) -> None:
    classes = {"apiVersion": "v1", "kind": "List", "items": CLASSES}
    (tmp_path / "classes.json").write_text(json.dumps(classes), encoding="utf-8")
    spec = graceful({"at": "130s", "delete": {"kind": "Node", "name": "node-0"}})
    spec["cluster"]["files"] = ["classes.json"]
    spec["workload"][1] = {"at": "100s", "create": pod("4", priorityClassName="high")}
    spec["workload"][1]["create"]["metadata"] = {"name": "high"}
    summary = run(tmp_path, spec).summary
    names = ("preemptions", "pods.preempted", "evictions", "pods.evicted", "lost.pods")
    assert [summary[name] for name in names] == [1, 1, 0, 0, 100]


def graceful(*more: Spec) -> Spec:
    """Returns a scenario with a pod of one minute's grace, whose node is drained after 100 s."""
    own = {**pod(terminationGracePeriodSeconds=60), "metadata": {"name": "web"}}
    drain = {"at": "100s", "drain": {"node": "node-0"}}
    workload = [{"at": "0s", "create": own}, drain, *more]
    return {"end": {"at": "1h"}, "cluster": {"nodes": [nodes(1)]}, "workload": workload}


def run_logged(path: Path) -> tuple[Result, WriteLog]:
    """Runs a scenario; returns its result and its writes."""
    log = WriteLog()
    hooks = RunHooks(on_change=log.on_change, before_instant=log.move_to)
    scenario_run = ScenarioRun(read_scenario(path), hooks)
    for own in scenario_run._table.objects("Pod").values():
        log.add(own)
    return scenario_run.run(), log


def prices_of(spec: Spec) -> dict[str, float]:
    """Returns prefix -> price of an hour."""
    cluster = spec["cluster"]
    prices = {entry["name"]: entry.get("price", 0.0) for entry in cluster["nodes"]}
    return prices | {f"{own['name']}-": own["price"] for own in cluster["groups"]}


def seconds(text: str) -> float:
    return float(text.removesuffix("s"))
