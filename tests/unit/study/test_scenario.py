"""Scenarios from Python."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from mooring import ConfigError, Reject, Scenario, per_node
from mooring.config import default_configuration
from mooring.errors import ConfigErrors
from tests.helpers.scenario_files import nodes, pod, run, write

SPEC: dict[str, Any] = {
    "seed": 2,
    "cluster": {"nodes": [nodes(3, cpu="2")]},
    "workload": [
        {
            "name": "p",
            "arrive": {"poisson": {"rate": "6/min", "count": 60}},
            "object": pod("1"),
            "duration": {"exponential": {"mean": "50s"}},
        }
    ],
}


class OnlyFirst:
    """Refuses all nodes but one."""

    name = "OnlyFirst"

    @per_node
    def filter(self, pod: Any, node: Any) -> Any:
        return None if node.name == "node-0" else Reject("not the first")


def test_values_and_a_file_are_the_same(tmp_path: Path) -> None:
    path = write(tmp_path, SPEC, "x")
    digests = {
        Scenario(name="x", **SPEC).run().digest,
        Scenario.read(path).run().digest,
        run(tmp_path, SPEC).digest,
    }
    assert len(digests) == 1


def test_a_scenario_runs_many_times() -> None:
    scenario = Scenario(**SPEC)
    first, other, again = scenario.run(), scenario.run(seed=3), scenario.run(seed=2)
    assert first.digest == again.digest != other.digest


def test_tables_are_frames() -> None:
    result = Scenario(**SPEC).run()
    frame = result.pods.to_polars()
    assert isinstance(frame, pl.DataFrame)
    assert frame.height == 60
    assert frame["waiting_time_s"].mean() == pytest.approx(result.summary["wait.mean"], abs=1e-5)
    assert result.series.where(measure="pending")["time_s"][0] == 0


def test_plugins_are_objects() -> None:
    result = Scenario(**{**SPEC, "end": {"at": "5m"}}).run(plugins=[OnlyFirst()])
    assert {node for node in result.pods["node"] if node} == {"node-0"}
    assert result.summary["refused.OnlyFirst"] > 0
    assert any("not the first" in why for why in result.pending.values())


def test_configurations(tmp_path: Path) -> None:
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": {"multiPoint": {"disabled": [{"name": "NodeResourcesFit"}]}}}],
    }
    path = tmp_path / "config.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    scenario = Scenario(**SPEC)
    without = scenario.run(config=document)
    assert without.summary["wait.max"] == 0
    assert without.digest == scenario.run(config=str(path)).digest
    assert scenario.run(config=default_configuration()).digest == scenario.run().digest


def test_expectations_and_files(tmp_path: Path) -> None:
    scenario = Scenario(**SPEC, expect=[{"pods.succeeded": "== 60"}])
    result = scenario.run()
    assert result.holds
    names = result.write(str(tmp_path / "out"))
    assert "pods.csv.gz" in names
    assert "pods      60 created: 60 succeeded" in repr(result)
    assert result._repr_html_().startswith("<pre>")
    assert "Poisson, 6/min, at most 60" in repr(scenario)


def test_errors_name_the_place() -> None:
    with pytest.raises(ConfigErrors) as raised:
        Scenario(name="bad", cluster={}, workload=[{"at": "1s"}])
    first = raised.value.errors[0]
    assert (first.file, first.path) == ("<bad>", "spec.cluster")
    with pytest.raises(ConfigError, match="unknown field"):
        Scenario(clusters={})


def test_it_runs_inside_a_running_loop() -> None:
    import asyncio

    async def inside() -> str:
        return Scenario(**SPEC).run().digest

    assert asyncio.run(inside()) == Scenario(**SPEC).run().digest
