"""Random scenarios: no node has more than it can hold, and the tables say what has happened."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from mooring.objects.node import Node
from mooring.objects.pod import FINISHED_PHASES, Pod
from mooring.scenario.hooks import RunHooks
from mooring.scenario.read import read_scenario
from mooring.scenario.results import Result
from mooring.scenario.run import ScenarioRun
from tests.helpers.random_scenarios import write_random
from tests.helpers.scenario_files import rows

SEEDS = range(12)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_scenario(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    path = write_random(tmp_path, rng)
    scenario = read_scenario(path)
    checks = Checks()
    run = ScenarioRun(scenario, RunHooks(on_instant=lambda now_s: checks.at(run, now_s)))
    result = run.run()
    assert checks.problems == []
    check_tables(result)
    assert ScenarioRun(read_scenario(path)).run().digest == result.digest


class Checks:
    """Looks at the objects of a run at every instant, without its own counts."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self._bound: dict[str, str] = {}
        #: Nodes that are gone, and when that was first seen: their pods go in the same instant.
        self._gone_s: dict[str, float] = {}

    def at(self, run: ScenarioRun, now_s: float) -> None:
        table = run._table  # the test reads what the scheduler writes
        nodes_: dict[str, Node] = table.objects("Node")
        used: Counter[str] = Counter()
        for key, live in table.objects("Pod").items():
            assert isinstance(live, Pod)
            on = live.spec.node_name
            if live.metadata.uid in self._bound and on != self._bound[live.metadata.uid]:
                self.problems.append(f"{now_s}: {key} moved to {on}")
            if on:
                self._bound[live.metadata.uid] = on
                if live.status.phase not in FINISHED_PHASES:
                    used[on] += milli(live.spec.containers[0].resources.requests["cpu"])
        for name, amount in used.items():
            if name not in nodes_:
                if self._gone_s.setdefault(name, now_s) == now_s:
                    continue
                self.problems.append(f"{now_s}: pods on {name}, which is not there")
            elif amount > milli(nodes_[name].status.allocatable["cpu"]):
                self.problems.append(f"{now_s}: {name} has {amount}m")


def milli(quantity: object) -> int:
    text = str(quantity)
    return int(text[:-1]) if text.endswith("m") else int(text) * 1000


def check_tables(result: Result) -> None:
    """Compares the summary with sums over the tables."""
    summary, table = result.summary, rows(result, "pods")
    end = summary["length"]
    assert summary["pods.created"] == len(table)
    lives = {
        row["node"]: (row["added_s"], row["removed_s"] or end) for row in rows(result, "nodes")
    }
    for row in table:
        times = [row["submission_time_s"], row["starting_time_s"], row["finish_time_s"]]
        known = [at_s for at_s in times if at_s is not None]
        assert known == sorted(known), row
        assert 0 <= row["lost_time_s"] <= end * 10
        assert (row["node"] == "") == (row["starting_time_s"] is None)
        ended = row["final_state"] not in ("Pending", "Running")
        assert ended == (row["finish_time_s"] is not None), row
        if row["node"]:
            added, removed = lives[row["node"]]
            assert added <= row["starting_time_s"]
            assert (row["finish_time_s"] or end) <= removed + 1e-6, row
    used = sum(
        row["cpu_milli"] * ((row["finish_time_s"] or end) - row["starting_time_s"])
        for row in table
        if row["starting_time_s"] is not None
    )
    whole = sum(
        (b - a) * (16000 if name.startswith("g-") and is_big(result) else 4000)
        for name, (a, b) in lives.items()
    )
    if whole:
        assert summary["allocated.cpu"] == pytest.approx(used / whole, rel=1e-6)


def is_big(result: Result) -> bool:
    """Returns whether the nodes of the group have 16 cpus."""
    groups = result.source["spec"]["cluster"].get("groups") or [{}]
    cpu = groups[0].get("template", {}).get("status", {}).get("allocatable", {}).get("cpu")
    return bool(cpu == "16")
