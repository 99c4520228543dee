"""Sweeps: grids, seeds until an interval is narrow, runs that outlive their processes."""

from __future__ import annotations

import gzip
import html
import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mooring.errors import ConfigError
from mooring.experiments.report_of_folders import folders_report
from mooring.experiments.result_folders import read_folder
from mooring.experiments.sweep import Run, Store, main_effects, results_of, run_sweep
from mooring.experiments.sweep_file import Sweep, read_sweep
from mooring.statistics import mean_interval
from tests.helpers.command_line import run_command
from tests.helpers.full_disk import full_disk
from tests.helpers.scenario_files import Spec, nodes, pod, write
from tests.unit.experiments.test_compare import PACK

SCENARIO: Spec = {
    "seed": 5,
    "cluster": {"nodes": [nodes(2)]},
    "workload": [
        {
            "name": "p",
            "arrive": {"poisson": {"rate": "30/h", "count": 40}},
            "object": pod("2"),
            "duration": {"exponential": {"mean": "10m"}},
        }
    ],
}
#: Kills its process once, with the seed of the scenario + 2: its 40 pods take 40 attempts at least.
KILLER = """
import os, signal
from pathlib import Path

class Kill:
    name = "Kill"
    def pre_filter(self, cycle):
        if cycle.pod.key == "default/p-39" and cycle.pod.pod.spec.priority == 7:
            marker = Path({marker!r})
            if {always} or not marker.exists():
                marker.touch()
                os.kill(os.getpid(), signal.SIGKILL)
"""


def write_sweep(folder: Path, scenario: Spec = SCENARIO, **spec: Any) -> Path:
    """Writes a sweep and its scenario."""
    write(folder, scenario)
    (folder / "pack.yaml").write_text(PACK, encoding="utf-8")
    document = {
        "apiVersion": "mooring.dev/v1alpha1",
        "kind": "Sweep",
        "spec": {"scenario": "test.yaml", **spec},
    }
    path = folder / "sweep.yaml"
    path.write_text(json.dumps(document, indent=1), encoding="utf-8")
    return path


def swept(folder: Path, sweep: Sweep, **options: Any) -> Store:
    """Runs a sweep; its runs are in ``folder / "out"``."""
    with Store(str(folder / "out")) as store:
        run_sweep(sweep, store, **options)
    return store


GRID = {"cluster.nodes[0].count": {"range": [2, 4, 2]}, "scheduler.config": ["", "pack.yaml"]}


def lines_of(folder: Path) -> list[dict[str, Any]]:
    text = (folder / "runs.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def test_every_cell_runs_with_every_seed(tmp_path: Path) -> None:
    sweep = read_sweep(write_sweep(tmp_path, grid=GRID, seeds=3))
    done: list[tuple[int, int]] = []
    store = swept(tmp_path, sweep, jobs=1, on_done=lambda *own: done.append(own))
    lines = lines_of(tmp_path / "out")
    assert len(lines) == len({line["key"] for line in lines}) == 12
    assert {line["seed"] for line in lines} == {5, 6, 7}
    counts = [(line["values"]["cluster.nodes[0].count"], line["seed"]) for line in lines]
    assert all(counts.count(own) == 2 for own in counts)
    assert done[0] == (0, 12)
    assert done[-1] == (12, 12)
    # More nodes, less waiting: main effects are means over the cells.
    results = results_of(sweep, store)
    effects = dict(main_effects(results, sweep.paths, "wait.mean")["cluster.nodes[0].count"])
    assert effects[2] > effects[4]
    by_hand = [own.interval("wait.mean") for own in results[:2]]
    assert effects[2] == pytest.approx(sum(own.mean for own in by_hand if own) / 2)


def test_a_seed_without_refusals_counts_as_0(tmp_path: Path) -> None:
    measure = "refused.NodeResourcesFit"
    counts = {"cluster.nodes[0].count": [4, 40]}
    sweep = read_sweep(write_sweep(tmp_path, grid=counts, seeds=8, measures=[measure]))
    store = swept(tmp_path, sweep, jobs=1)
    tight, wide = results_of(sweep, store)
    own = tight.values_of(measure)
    assert (len(own), 0 in own, max(own) > 0) == (8, True, True)
    assert wide.values_of(measure) == [0] * 8
    assert wide.values_of("refused.NoPlugin") == []
    # Runs of earlier versions have no zeros.
    earlier = [
        msgspec.structs.replace(run, summary={k: v for k, v in run.summary.items() if v})
        for run in tight.runs
    ]
    assert replace(tight, runs=earlier).values_of(measure) == own


def test_a_second_call_makes_only_what_is_missing(tmp_path: Path) -> None:
    path = write_sweep(tmp_path, grid={"scheduler.config": [""]}, seeds=2)
    swept(tmp_path, read_sweep(path), jobs=1)
    before = (tmp_path / "out" / "runs.jsonl").read_bytes()
    more = write_sweep(tmp_path, grid={"scheduler.config": ["", "pack.yaml"]}, seeds=3)
    swept(tmp_path, read_sweep(more), jobs=1)
    after = (tmp_path / "out" / "runs.jsonl").read_bytes()
    assert after.startswith(before)
    assert len(after.splitlines()) == 6


def test_another_content_of_a_file_is_another_run(tmp_path: Path) -> None:
    path = write_sweep(tmp_path, grid={"scheduler.config": ["pack.yaml"]}, seeds=1)
    before = read_sweep(path).cells[0].key(1)
    config = tmp_path / "pack.yaml"
    config.write_text(config.read_text("utf-8").replace("weight: 1", "weight: 2"), "utf-8")
    assert read_sweep(path).cells[0].key(1) != before


def test_another_content_of_a_distribution_is_another_run(tmp_path: Path) -> None:
    runs = tmp_path / "runs.csv"
    runs.write_text("seconds\n60\n", "utf-8")
    [item] = SCENARIO["workload"]
    duration = {"empirical": {"file": "runs.csv", "column": "seconds"}}
    path = write_sweep(tmp_path, {**SCENARIO, "workload": [{**item, "duration": duration}]})
    before = read_sweep(path).cells[0].key(1)
    runs.write_text("seconds\n90\n", "utf-8")
    assert read_sweep(path).cells[0].key(1) != before


def test_runs_of_earlier_files_are_no_part_of_a_report(tmp_path: Path) -> None:
    swept(tmp_path, read_sweep(write_sweep(tmp_path, seeds=3)), jobs=1)
    other = {**SCENARIO, "cluster": {"nodes": [nodes(40)]}}
    swept(tmp_path, read_sweep(write_sweep(tmp_path, other, seeds=2)), jobs=1)
    stored = read_folder(tmp_path / "out")
    html = folders_report([stored])
    assert "2 runs of 1 cells. 3 runs of earlier files are left out." in html


def test_two_sweeps_do_not_write_into_one_folder(tmp_path: Path) -> None:
    with (
        Store(str(tmp_path)),
        pytest.raises(ConfigError, match="another sweep writes there"),
    ):
        Store(str(tmp_path))
    Store(str(tmp_path)).close()


def test_a_full_disk_is_an_error_and_the_sweep_goes_on_later(tmp_path: Path) -> None:
    sweep = read_sweep(write_sweep(tmp_path, seeds=3))
    whole = tmp_path / "whole"
    with Store(str(whole)) as store:
        run_sweep(sweep, store, jobs=1)
    room = len((whole / "runs.jsonl").read_bytes()) // 2
    problem = "cannot be written: file too large"
    with full_disk(after_bytes=room), pytest.raises(ConfigError, match=problem):
        swept(tmp_path, sweep, jobs=1)
    assert (tmp_path / "out" / "runs.jsonl").stat().st_size == room
    swept(tmp_path, sweep, jobs=1)
    assert lines_of(tmp_path / "out") == lines_of(whole)


def test_a_torn_last_line_is_dropped(tmp_path: Path) -> None:
    path = write_sweep(tmp_path, seeds=2)
    swept(tmp_path, read_sweep(path), jobs=1)
    file = tmp_path / "out" / "runs.jsonl"
    whole = file.read_bytes()
    file.write_bytes(whole[:-40])
    with Store(str(tmp_path / "out")) as store:
        assert len(store.runs) == 1
    swept(tmp_path, read_sweep(path), jobs=1)
    assert file.read_bytes() == whole


def test_a_broken_line_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "runs.jsonl").write_text('{"no": 1}\n', encoding="utf-8")
    with pytest.raises(ConfigError) as raised:
        Store(str(tmp_path / "out"))
    assert raised.value.line == 1


def test_seeds_until_the_interval_is_narrow(tmp_path: Path) -> None:
    until = {"measure": "wait.mean", "halfWidth": "2m", "maxSeeds": 200, "minSeeds": 3}
    sweep = read_sweep(write_sweep(tmp_path, grid={"scheduler.config": [""]}, until=until))
    store = swept(tmp_path, sweep, jobs=1)
    [result] = results_of(sweep, store)
    values = result.values_of("wait.mean")
    assert 3 < len(values) < 200
    assert mean_interval(values).half_width <= 120
    # One round of seeds less was not enough.
    assert mean_interval(values[: len(values) * 2 // 3]).half_width > 120


def test_seeds_end_at_their_limit(tmp_path: Path) -> None:
    until = {"measure": "wait.mean", "halfWidth": "1ms", "maxSeeds": 7}
    sweep = read_sweep(write_sweep(tmp_path, until=until))
    store = swept(tmp_path, sweep, jobs=1)
    assert len(store.runs) == 7


# -- processes that are killed ------------------------------------------------------------------


def killing_sweep(folder: Path, *, always: bool) -> Path:
    """Writes a sweep of two cells; one of them kills the process that runs it."""
    marker = str(folder / "killed")
    (folder / "killer.py").write_text(KILLER.format(marker=marker, always=always), "utf-8")
    priority = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "seven"},
        "value": 7,
    }
    (folder / "classes.json").write_text(json.dumps(priority), encoding="utf-8")
    scenario = {**SCENARIO, "scheduler": {"plugins": ["killer:Kill"]}}
    scenario["cluster"] = {**SCENARIO["cluster"], "files": ["classes.json"]}
    grid = {"workload[0].object.spec.priorityClassName": ["seven", ""]}
    return write_sweep(folder, scenario, grid=grid, seeds=2)


def test_a_worker_that_is_killed_loses_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    sweep = read_sweep(killing_sweep(tmp_path, always=False))
    swept(tmp_path, sweep, jobs=2)
    assert (tmp_path / "killed").exists()
    lines = lines_of(tmp_path / "out")
    assert len(lines) == len({line["key"] for line in lines}) == 4
    assert not any(line.get("error") for line in lines)


class BreaksOnce(Executor):
    """Makes some runs, and breaks with all that follow."""

    def __init__(self, runs: float) -> None:
        self._left = runs

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self._left -= 1
        if self._left < 0:
            future.set_exception(BrokenExecutor("killed"))
        else:
            future.set_result(fn(*args, **kwargs))
        return future


def test_after_a_kill_only_the_runs_that_were_under_way_are_made_one_at_a_time(
    tmp_path: Path,
) -> None:
    runs_of_pools = iter([3, math.inf, math.inf, math.inf])
    sizes: list[int] = []

    @contextmanager
    def pools(workers: int) -> Iterator[Executor]:
        sizes.append(workers)
        yield BreaksOnce(next(runs_of_pools))

    sweep = read_sweep(write_sweep(tmp_path, grid={}, seeds=8))
    store = swept(tmp_path, sweep, jobs=2, pools=pools)
    assert sizes == [2, 1, 1, 2]
    assert len(store.runs) == 8


def test_a_run_that_always_kills_its_worker_fails_and_the_others_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    sweep = read_sweep(killing_sweep(tmp_path, always=True))
    store = swept(tmp_path, sweep, jobs=2)
    failed = [run for run in store.runs.values() if run.error]
    assert len(store.runs) == 4
    assert {run.error for run in failed} == {"its worker was killed 3 times"}
    assert [*failed[0].values.values()] == ["seven"]


def test_a_parent_that_is_killed_loses_no_run_and_none_is_made_twice(tmp_path: Path) -> None:
    path = killing_sweep(tmp_path, always=False)
    words = [sys.executable, "-m", "mooring", "sweep", str(path), "--jobs", "1", "-o", "json"]
    env = {**os.environ, "PYTHONPATH": ":".join([str(tmp_path), *sys.path])}
    runs = [
        subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, check=False)
        for _ in range(2)
    ]
    assert [own.returncode for own in runs] == [-signal.SIGKILL, 0], runs[1].stderr
    lines = lines_of(tmp_path / "sweep.yaml.runs")
    assert len(lines) == len({line["key"] for line in lines}) == 4


#: Kills processes of a sweep when its runs draw it: a worker, or worker and parent.
DRAWN_KILLER = """
import os, random, signal
from pathlib import Path

class Kill:
    name = "Kill"
    def __init__(self):
        self.attempts = 0
    def pre_filter(self, cycle):
        self.attempts += 1
        plans = sorted(Path({plans!r}).iterdir())
        if not plans or self.attempts != int(plans[0].read_text().split()[0]):
            return
        victim = plans[0].read_text().split()[1]
        try:
            plans[0].unlink()  # of several workers one carries it out
        except FileNotFoundError:
            return
        if victim == "parent":
            os.kill(int(Path({parent!r}).read_text()), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)
"""
#: So many times the parent is killed; before each, up to two of its workers.
PARENTS_KILLED = 3
CALLS_MAX = 8
WORKERS_END_S = 240


def drawn_sweep(folder: Path, rng: random.Random) -> Path:
    """Writes a sweep of eight runs, and when which of its processes are killed."""
    plans = folder / "plans"
    plans.mkdir()
    victims = [
        victim
        for _ in range(PARENTS_KILLED)
        for victim in (*["worker"] * rng.randint(0, 2), "parent")
    ]
    for number, victim in enumerate(victims):
        (plans / str(number)).write_text(f"{rng.randint(1, 40)} {victim}", encoding="utf-8")
    killer = DRAWN_KILLER.format(plans=str(plans), parent=str(folder / "parent"))
    (folder / "killer.py").write_text(killer, encoding="utf-8")
    scenario = {**SCENARIO, "scheduler": {"plugins": ["killer:Kill"]}}
    return write_sweep(folder, scenario, grid={"cluster.nodes[0].count": [2, 3]}, seeds=4)


def sweep_in_process(folder: Path, path: Path) -> int:
    """Runs ``mooring sweep`` in a process whose id the killer knows; returns its exit code."""
    words = [sys.executable, "-m", "mooring", "sweep", str(path), "--jobs", "2", "-o", "json"]
    env = {**os.environ, "PYTHONPATH": ":".join([str(folder), *sys.path])}
    with subprocess.Popen(
        words, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        (folder / "parent").write_text(str(process.pid), encoding="utf-8")
        # Workers have this pipe, too: it ends when the last of them has.
        process.communicate(timeout=WORKERS_END_S)
    return process.returncode


@pytest.mark.parametrize("seed", range(2))
def test_kills_at_drawn_moments_lose_no_run_and_change_no_result(tmp_path: Path, seed: int) -> None:
    path = drawn_sweep(tmp_path, random.Random(seed))
    codes = []
    before: list[dict[str, Any]] = []
    while any((tmp_path / "plans").iterdir()):
        codes.append(sweep_in_process(tmp_path, path))
        assert len(codes) <= CALLS_MAX
        text = (tmp_path / "sweep.yaml.runs" / "runs.jsonl").read_bytes()
        whole = [json.loads(line) for line in text[: text.rfind(b"\n") + 1].splitlines()]
        assert whole[: len(before)] == before  # what was there stays as it is
        before = whole
    assert codes.count(-signal.SIGKILL) == PARENTS_KILLED
    assert sweep_in_process(tmp_path, path) == 0
    lines = lines_of(tmp_path / "sweep.yaml.runs")
    assert len(lines) == len({line["key"] for line in lines}) == 8

    undisturbed = Path(shutil.copytree(tmp_path, tmp_path / "undisturbed"))
    shutil.rmtree(undisturbed / "sweep.yaml.runs")
    assert sweep_in_process(undisturbed, undisturbed / "sweep.yaml") == 0
    others = lines_of(undisturbed / "sweep.yaml.runs")
    assert sorted(lines, key=by_key) == sorted(others, key=by_key)


def by_key(line: dict[str, Any]) -> str:
    return str(line["key"])


# -- reading ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"measures": ["wait.p98"]}, "unknown measure"),
        ({"until": {"measure": "waits", "halfWidth": 1}}, "unknown measure"),
        ({"grid": {"cluster.nodes[0].cuont": [1]}}, "unknown field"),
        ({"grid": {"cluster.nodes[3].count": [1]}}, "leads nowhere: the scenario has no such item"),
        ({"grid": {"seed.x": [1]}}, "leads nowhere"),
        ({"grid": {"cluster..nodes": [1]}}, "is no path"),
        ({"grid": {"seed": []}}, "must be a list of values"),
        ({"grid": {"seed": {"range": [5, 1]}}}, "must be [first, last, step]"),
        ({"grid": {"seed": {"range": [0, 99999]}}}, "must be [first, last, step]"),
        ({"grid": {"scheduler.config": ["none.yaml"]}}, "cannot be read"),
        ({"seeds": 0}, "must be an integer from 1"),
        ({"seeds": 3, "until": {"measure": "x", "halfWidth": 1}}, "must have one of seeds and"),
        ({"until": {"measure": "x", "halfWidth": "wide"}}, "must be a number, duration or share"),
        ({"until": {"measure": "x", "halfWidth": "nan"}}, "must be a number, duration or share"),
        ({"until": {"measure": "x", "halfWidth": math.inf}}, "must be a number, duration or share"),
        ({"until": {"measure": "x", "halfWidth": 1, "maxSeeds": 3}}, "must be at most maxSeeds"),
        ({"sceds": 3}, "unknown field"),
        ({"grid": {"cluster.nodes[0].count": [3, 3]}}, "makes two equal cells"),
        ({"grid": {"seed": [1, 2]}}, "makes two equal cells"),
    ],
)
def test_errors(tmp_path: Path, spec: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError) as raised:
        read_sweep(write_sweep(tmp_path, **spec))
    assert problem in str(raised.value)
    assert raised.value.file


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"spec": ', "test.yaml"),
        ("spec: [1]", "spec"),
        ("[]", "must be a mapping"),
        ('{"spec": {"scheduler": [1]}}', "spec.scheduler"),
        ('{"spec": {"cluster": {"files": 5}}}', "spec.cluster.files"),
        ('{"spec": {"workload": 5, "seed": "x"}}', "spec.workload"),
    ],
)
def test_errors_of_the_scenario_name_it(tmp_path: Path, text: str, problem: str) -> None:
    path = write_sweep(tmp_path)
    scenario = tmp_path / "test.yaml"
    scenario.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as raised:
        read_sweep(path)
    assert problem in str(raised.value)
    assert str(scenario) in str(raised.value)


def test_a_path_makes_the_mappings_on_its_way(tmp_path: Path) -> None:
    sweep = read_sweep(write_sweep(tmp_path, grid={"pods.start": ["1s", "5s"]}))
    assert [cell.scenario(0).defaults.start.mean() for cell in sweep.cells] == [1.0, 5.0]


# -- the command --------------------------------------------------------------------------------


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, report = write_sweep(tmp_path, grid=GRID, seeds=3), tmp_path / "out.html"
    words = ["sweep", str(path), "--jobs", "1", "--report", str(report)]
    assert run_command(capsys, *words, "--check")[1] == f"{path}: ok, 4 cells with 3 seeds\n"
    code, out, err = run_command(capsys, *words)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "sweep.yaml: 4 cells, 12 runs"
    assert lines[-1] == f"report in {report}"
    assert lines[2].split()[:3] == ["nodes[0].count", "scheduler.config", "runs"]
    assert sum("default" in line.split() for line in lines) == 2
    assert any(line.startswith("scheduler.config=pack.yaml ") for line in lines)
    assert "What one value does" in report.read_text(encoding="utf-8")
    code, out, _ = run_command(capsys, *words, "-o", "json")
    document = json.loads(out)
    assert (code, len(document["cells"]), document["cells"][0]["runs"]) == (0, 4, 3)


def test_failed_runs_are_named_and_can_be_made_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_sweep(tmp_path, seeds=1)
    key = read_sweep(path).cells[0].key(5)
    with Store(str(tmp_path / "out")) as store:
        store.add(Run(key=key, values={}, seed=5, error="it rained"))
    words = ["sweep", str(path), "--jobs", "1", "--out", str(tmp_path / "out")]
    code, out, err = run_command(capsys, *words)
    assert code == 1
    assert "1 failed" in out
    assert "failed with seed 5: it rained" in err
    code, out, err = run_command(capsys, *words, "--retry-failed")
    assert (code, err) == (0, "")
    assert out.startswith("sweep.yaml: 1 cell, 1 run\n")


@pytest.mark.parametrize("encode", [gzip.compress, lambda text: text.decode().encode("utf-16")])
def test_a_report_shows_a_sweep_file_that_is_packed_or_in_utf_16(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], encode: Callable[[bytes], bytes]
) -> None:
    path, report = write_sweep(tmp_path, grid=GRID, seeds=2), tmp_path / "out.html"
    text = path.read_text(encoding="utf-8")
    path.write_bytes(encode(text.encode()))
    code, _, err = run_command(capsys, "sweep", str(path), "--jobs", "1", "--report", str(report))
    assert (code, err) == (0, "")
    shown = html.unescape(report.read_text(encoding="utf-8"))
    assert text.strip() in shown
