"""Equal runs, common chance, expectations, results and their files."""

from __future__ import annotations

import csv
import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from mooring.errors import ConfigError
from mooring.scenario.expectations import limit_of
from mooring.scenario.hooks import RunHooks
from mooring.scenario.measures import MEASURES, measure_names, quantiles
from mooring.scenario.results import write_results
from mooring.scenario.run import ScenarioRun
from mooring.scenario.text import result_text, unit_of
from tests.helpers.command_line import run_command
from tests.helpers.scenario_files import (
    Spec,
    by_pod,
    deployment,
    job,
    nodes,
    pod,
    read,
    rows,
    run,
    write,
)

BUSY: Spec = {
    "seed": 11,
    "end": {"at": "2h"},
    "cluster": {
        "nodes": [nodes(4)],
        "groups": [{"name": "g", "max": 3, "price": 1.0, "template": nodes(1)["template"]}],
    },
    "pods": {"start": "1s", "duration": {"exponential": {"mean": "8m"}}, "failure": 0.05},
    "workload": [
        {"name": "a", "arrive": {"poisson": {"rate": "2/min", "until": "1h"}}, "object": pod("1")},
        {
            "name": "j",
            "arrive": {"interval": {"every": "15m", "until": "1h"}},
            "object": job("j", parallelism=2, completions=3),
        },
        {"name": "web", "at": "5m", "create": deployment("web", 3, "500m")},
        {"name": "d", "at": "30m", "drain": {"node": "node-1"}},
    ],
    "failures": [{"mtbf": "3h", "mttr": "10m"}],
}


def test_equal_runs_have_equal_digests_in_every_process(tmp_path: Path) -> None:
    path = write(tmp_path, BUSY)
    code = (
        "import sys; from mooring.scenario.read import read_scenario;"
        "from mooring.scenario.run import ScenarioRun;"
        "print(ScenarioRun(read_scenario(sys.argv[1])).run().digest)"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", code, str(path)],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "random")
    }
    digests.add(run(tmp_path, BUSY).digest + "\n")
    assert len(digests) == 1


def test_another_seed_is_another_run(tmp_path: Path) -> None:
    assert run(tmp_path, BUSY).digest != run(tmp_path, {**BUSY, "seed": 12}).digest


def draws(result: Any, group: str) -> list[tuple[str, Any, Any]]:
    """Returns name, creation and run time of the pods of a group that have succeeded."""
    return [
        (row["pod"], row["submission_time_s"], row["execution_time_s"])
        for row in rows(result, "pods")
        if row["group"] == group and row["final_state"] == "Succeeded"
    ]


def test_a_further_item_leaves_the_draws_of_the_others(tmp_path: Path) -> None:
    quiet = {
        **BUSY,
        "cluster": {"nodes": [nodes(50)]},
        "failures": [],
        "workload": BUSY["workload"][:1],
    }
    further = {
        "name": "b",
        "arrive": {"poisson": {"rate": "1/min", "until": "1h"}},
        "object": pod(),
    }
    before = run(tmp_path, quiet)
    after = run(tmp_path, {**quiet, "workload": [further, *quiet["workload"]]})
    assert draws(before, "a") == draws(after, "a")
    assert len(draws(before, "a")) > 80


def test_another_configuration_sees_the_same_pods(tmp_path: Path) -> None:
    config = tmp_path / "pack.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\n"
        "kind: KubeSchedulerConfiguration\n"
        "profiles:\n"
        "- pluginConfig:\n"
        "  - name: NodeResourcesFit\n"
        "    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}\n",
        encoding="utf-8",
    )
    quiet = {**BUSY, "workload": BUSY["workload"][:1], "failures": []}
    quiet["cluster"] = {"nodes": [nodes(50)]}
    spread = run(tmp_path, quiet)
    packed = run(tmp_path, {**quiet, "scheduler": {"config": "pack.yaml"}})
    assert draws(spread, "a") == draws(packed, "a")
    used = [len({row["node"] for row in rows(result, "pods")}) for result in (spread, packed)]
    assert used[0] > used[1]


@pytest.mark.parametrize(
    "item",
    [
        {"trace": "openb:default", "limit": 2},
        {"arrive": {"at": ["0s", "1s"]}, "object": {**pod(), "metadata": {"name": "own"}}},
        {"at": "0s", "create": {**pod(), "metadata": {"name": "own"}}},
    ],
    ids=["trace", "arrive", "at"],
)
def test_two_items_with_pods_of_one_name_name_the_second(tmp_path: Path, item: Spec) -> None:
    items = [{**item, "name": "first"}, {**item, "name": "second"}]
    spec = {"cluster": {"nodes": [nodes(1)]}, "workload": items}
    with pytest.raises(ConfigError, match=r"item 'second' of the workload: pods \".*\" already"):
        run(tmp_path, spec)


def test_actions_without_an_object_are_noted(tmp_path: Path) -> None:
    actions: list[Spec] = [
        {"drain": {"node": "no"}},
        {"fail": {"matchLabels": {"rack": "no"}, "duration": "10s"}},
        {"scale": {"name": "no", "replicas": 3}},
        {"delete": {"name": "no"}},
        {"delete": {"kind": "Node", "name": "no"}},
        {"delete": {"kind": "Deployment", "name": "no"}},
        {"delete": {"matchLabels": {"app": "no"}}},
        {"cordon": {"node": "node-0"}},
    ]
    workload = [{"at": "10s", **action} for action in actions]
    result = run(tmp_path, {"cluster": {"nodes": [nodes(1)]}, "workload": workload})
    assert [note.partition("at 10 s: ")[2] for note in result.notes] == [
        "no node 'no' to drain",
        "no node with labels rack=no to fail",
        "no Deployment 'default/no' to scale",
        "no Pod 'default/no' to delete",
        "no Node 'no' to delete",
        "no Deployment 'default/no' to delete",
        "no pod with labels app=no in 'default' to delete",
    ]
    assert result.notes[0].startswith("item 'at-0', ")
    assert f"\n\n  {result.notes[0]}\n" in result_text(result)


def test_the_pods_of_a_trace(tmp_path: Path) -> None:
    result = run(
        tmp_path,
        {
            "cluster": {"files": ["openb:gpu"]},
            "workload": [
                {"name": "t", "trace": "openb:default", "stretch": 0.001, "limit": 50, "copies": 2}
            ],
        },
    )
    table = by_pod(result)
    assert len(table) == 50
    assert table["openb-pod-0000-0"]["cpu_milli"] == table["openb-pod-0000-1"]["cpu_milli"] == 12000
    assert table["openb-pod-0001-0"]["submission_time_s"] == 427.061
    assert table["openb-pod-0000-0"]["execution_time_s"] == 12_537_496


# -- expectations -------------------------------------------------------------------------------


@pytest.mark.parametrize(("limit", "code"), [("< 1h", 0), ("< 1s", 1)])
def test_a_scenario_is_a_test(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], limit: str, code: int
) -> None:
    path = write(tmp_path, {**BUSY, "expect": [{"turnaround.p99": limit}]})
    got, out, err = run_command(capsys, "simulate", str(path))
    assert got == code
    assert ("ok" if code == 0 else "FAILED") in out
    assert err.startswith(f"FAILED turnaround.p99 {limit}: " if code else "")


@pytest.mark.parametrize(
    ("text", "limit"), [("80%", 0.8), ("10m", 600.0), ("-3", -3.0), ("1e3", 1000.0), ("x", None)]
)
def test_limits(text: str, limit: float | None) -> None:
    assert limit_of(text) == limit


def test_a_measure_without_a_value_does_not_hold(tmp_path: Path) -> None:
    spec = {"cluster": {"nodes": [nodes(1)]}, "expect": [{"wait.p99": "< 1h"}]}
    result = run(tmp_path, spec)
    assert not result.holds
    assert "there is no such value" in result_text(result)


def test_a_plugin_that_refused_nothing_has_the_value_0(tmp_path: Path) -> None:
    measures = ("refused.NodeResourcesFit", "refused.NoPlugin")
    small = {**pod("1"), "metadata": {"name": "a"}}
    spec = {
        "cluster": {"nodes": [nodes(1)]},
        "workload": [{"name": "small", "at": "0s", "create": small}],
        "expect": [{measure: "== 0"} for measure in measures],
    }
    result = run(tmp_path, spec)
    assert [(item.measure, value) for item, value in result.checks] == [
        ("refused.NodeResourcesFit", 0),
        ("refused.NoPlugin", None),
    ]
    assert not result.holds
    # The summary, and so the digest, has only those that refused.
    assert not [measure for measure in result.summary if measure.startswith("refused.")]
    assert result.measures.items() >= result.summary.items()
    large = {"name": "large", "at": "0s", "create": {**small, "spec": pod("5")["spec"]}}
    refused = run(tmp_path, {**spec, "workload": [large]})
    assert refused.checks[0][1] == refused.summary["refused.NodeResourcesFit"] > 0


# -- results ------------------------------------------------------------------------------------


def test_every_value_of_a_summary_is_a_measure(tmp_path: Path) -> None:
    result = run(tmp_path, BUSY)
    names = measure_names(result.resources.values())
    unknown = [n for n in result.summary if n not in names and not n.startswith("refused.")]
    assert unknown == []
    assert {name for name in names if name not in result.summary} == set()
    assert all(unit_of(name) for name in result.summary)


def test_quantiles_are_values_that_were_there() -> None:
    values = quantiles([float(n) for n in range(1, 101)])
    assert values == {"mean": 50.5, "p50": 50.0, "p90": 90.0, "p99": 99.0, "max": 100.0}
    assert quantiles([7.0]) == {"mean": 7, "p50": 7, "p90": 7, "p99": 7, "max": 7}
    assert quantiles([]) == {}


def test_sums_of_the_tables_are_those_of_the_summary(tmp_path: Path) -> None:
    result = run(tmp_path, BUSY)
    table, summary = rows(result, "pods"), result.summary
    assert len(table) == summary["pods.created"]
    for state in ("Succeeded", "Failed", "Evicted", "Deleted", "Running", "Pending"):
        own = sum(row["final_state"] == state for row in table)
        assert own == summary[f"pods.{state.lower()}"], state
    waits = [row["waiting_time_s"] for row in table if row["waiting_time_s"] is not None]
    assert summary["wait.mean"] == pytest.approx(sum(waits) / len(waits), abs=1e-5)
    assert summary["wait.max"] == pytest.approx(max(waits), abs=1e-5)
    # What was allocated is what the pods asked for while they were on a node.
    end = summary["length"]
    used = sum(
        row["cpu_milli"] * ((row["finish_time_s"] or end) - row["starting_time_s"])
        for row in table
        if row["starting_time_s"] is not None
    )
    hours = sum((row["removed_s"] or end) - row["added_s"] for row in rows(result, "nodes"))
    assert summary["nodes.hours"] == pytest.approx(hours / 3600)
    assert summary["allocated.cpu"] == pytest.approx(used / (4000 * hours), rel=1e-6)


@pytest.mark.parametrize("table_format", ["csv", "arrow", "parquet"])
def test_tables_are_written_and_read_back(tmp_path: Path, table_format: str) -> None:
    result = run(tmp_path, BUSY)
    folder = tmp_path / "out" / "deep"
    names = write_results(result, str(folder), table_format=table_format)
    assert sorted(names) == sorted(path.name for path in folder.iterdir())
    document = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    assert document["digest"] == result.digest
    assert document["summary"]["pods.created"] == len(result.tables["pods"]["pod"])
    assert json.loads((folder / "scenario.json").read_text(encoding="utf-8")) == result.source
    if table_format == "csv":
        with gzip.open(folder / "pods.csv.gz", "rt", encoding="utf-8") as file:
            pods = [row["pod"] for row in csv.DictReader(file)]
    elif table_format == "arrow":
        with (folder / "pods.arrows").open("rb") as stream:
            pods = pa.ipc.open_stream(stream).read_all()["pod"].to_pylist()
    else:
        pods = pl.read_parquet(folder / "pods.parquet")["pod"].to_list()
    assert pods == result.tables["pods"]["pod"]


def test_equal_runs_write_equal_files(tmp_path: Path) -> None:
    contents = []
    for name in ("a", "b"):
        write_results(run(tmp_path, BUSY), str(tmp_path / name))
        contents.append({p.name: p.read_bytes() for p in (tmp_path / name).iterdir()})
    assert contents[0] == contents[1]


# -- the command --------------------------------------------------------------------------------


def test_the_command_prints_a_summary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, BUSY)
    out_folder = tmp_path / "out"
    code, out, err = run_command(capsys, "simulate", str(path), "--out", str(out_folder))
    assert (code, err) == (0, "")
    assert out.startswith("test: seed 11, 2h0m0s of virtual time\n")
    assert max(map(len, out.splitlines())) <= 100
    assert (out_folder / "run.json").exists()


def test_the_command_prints_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, BUSY)
    code, out, _ = run_command(capsys, "simulate", str(path), "-o", "json", "--seed", "4")
    document = json.loads(out)
    assert (code, document["seed"]) == (0, 4)
    assert document["digest"] == run(tmp_path, {**BUSY, "seed": 4}).digest


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--cluster", "x.yaml"], "--cluster does not go with a scenario"),
        (["--order", "shuffle"], "--order does not go with a scenario"),
        (["-o", "csv"], "-o csv does not go with a scenario"),
    ],
)
def test_options_that_do_not_go_with_a_scenario(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], problem: str
) -> None:
    code, out, err = run_command(capsys, "simulate", str(write(tmp_path, BUSY)), *words)
    assert (code, out) == (2, "")
    assert problem in err


@pytest.mark.parametrize(
    "words", [("--out", "x"), ("--report", "x"), ("--stages", "x"), ("--format", "csv")]
)
def test_options_that_need_a_scenario(
    capsys: pytest.CaptureFixture[str], words: tuple[str, str]
) -> None:
    code, _, err = run_command(capsys, "simulate", *words)
    assert code == 2
    assert f"{words[0]} needs a scenario" in err


def test_scenario_check_show_and_schema(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, BUSY)
    assert run_command(capsys, "scenario", "check", str(path))[:2] == (0, f"{path}: ok\n")
    code, out, _ = run_command(capsys, "scenario", "show", str(path))
    assert code == 0
    assert "Poisson, 2/min, until 1h0m0s" in out
    assert "drain node node-1" in out
    code, out, _ = run_command(capsys, "scenario", "schema")
    assert (code, json.loads(out)["title"]) == (0, "Scenario")
    (tmp_path / "bad.yaml").write_text("kind: Scenario\n", encoding="utf-8")
    code, out, err = run_command(capsys, "scenario", "check", str(tmp_path / "bad.yaml"))
    assert (code, out) == (2, "")
    assert "apiVersion: is required" in err


def test_every_file_is_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = write(tmp_path, BUSY)
    texts = {
        "first.yaml": "kind: Scenario\n",
        "second.yaml": "a: [",
        "third.yaml": "apiVersion: kwok.x-k8s.io/v1alpha1\nkind: Stage\nspec: 5\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    first, second, third, missing = (str(tmp_path / name) for name in (*texts, "missing.yaml"))
    words = ("scenario", "check", first, second, str(good), third, missing)
    code, out, err = run_command(capsys, *words)
    assert (code, out) == (2, f"{good}: ok\n")
    lines = err.splitlines()
    problems = (
        (first, "apiVersion: is required"),
        (second, "line 2: is not YAML"),
        (third, "spec: "),
        (missing, "cannot be read"),
    )
    for file, problem in problems:
        assert any(file in line and problem in line for line in lines), (file, err)


def test_show_draws_the_arrivals_of_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, BUSY)
    _, out, _ = run_command(capsys, "scenario", "show", str(path))
    arrived = sum(row["group"] == "a" for row in rows(run(tmp_path, BUSY), "pods"))
    line = next(line for line in out.splitlines() if line.startswith("  a "))
    assert line.endswith(f" {arrived}")


def test_the_page_of_measures_names_them_all() -> None:
    page = Path(__file__, "../../../../docs/reference/measures.md").resolve()
    lines = page.read_text(encoding="utf-8").partition("## How to read")[0].splitlines()
    table = [line.split("|")[1:4] for line in lines if line.startswith("| `")]
    assert [[cell.strip() for cell in row] for row in table] == [
        [f"`{item.name}`", item.unit, item.formula] for item in MEASURES
    ]


def test_objects_of_kinds_that_only_plugins_know_arrive_under_their_own_names(
    tmp_path: Path,
) -> None:
    group = {"apiVersion": "example.com/v1", "kind": "Group", "metadata": {"name": "g"}}
    scenario = read(
        tmp_path,
        {
            "cluster": {"nodes": [nodes(1)]},
            "workload": [
                {
                    "arrive": {"interval": {"every": "1m", "count": 2}},
                    "object": [{**group, "spec": {"size": 2}}, pod()],
                }
            ],
        },
    )
    stored: list[tuple[str, Any]] = []

    def on_change(kind: str, change: Any) -> None:
        if kind.endswith(".example.com"):
            stored.append((change.new.metadata.name, change.new.spec))

    ScenarioRun(scenario, RunHooks(on_change=on_change)).run()

    assert stored == [("g-0", {"size": 2}), ("g-1", {"size": 2})]
