"""Sweeps on Dask and Ray: the same runs as by processes, and none lost when workers are killed.

Each sweep is a command of its own: the libraries start threads and processes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mooring.errors import ConfigError
from mooring.experiments.executors import pools_of
from mooring.experiments.trials import executor
from tests.unit.experiments.test_sweep import killing_sweep, lines_of, write_sweep

OTHERS = ("dask", "ray")


def sweep_on(place: str, file: Path) -> str:
    """Runs a sweep with two workers; returns its output."""
    words = [sys.executable, "-m", "mooring", "sweep", file.name, "--on", place, "--jobs", "2"]
    done = subprocess.run(
        [*words, "--out", f"out-{place}"],
        cwd=file.parent,
        env={**os.environ, "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("place", OTHERS)
def test_runs_are_those_of_processes_and_a_second_call_makes_only_what_is_missing(
    tmp_path: Path, place: str
) -> None:
    sweep_on(place, write_sweep(tmp_path, grid={"cluster.nodes[0].count": [1, 2]}))
    first = lines_of(tmp_path / f"out-{place}")
    file = write_sweep(tmp_path, grid={"cluster.nodes[0].count": [1, 2, 3]})
    output = sweep_on(place, file)
    lines = lines_of(tmp_path / f"out-{place}")
    assert (len(first), lines[:2]) == (2, first)
    assert [line["values"] for line in lines[2:]] == [{"cluster.nodes[0].count": 3}]
    assert output == sweep_on("processes", file)
    assert sorted(lines, key=str) == sorted(lines_of(tmp_path / "out-processes"), key=str)


@pytest.mark.slow
@pytest.mark.parametrize("place", OTHERS)
def test_a_worker_that_is_killed_loses_no_run(tmp_path: Path, place: str) -> None:
    sweep_on(place, killing_sweep(tmp_path, always=False))
    assert (tmp_path / "killed").exists()
    lines = lines_of(tmp_path / f"out-{place}")
    assert len(lines) == len({line["key"] for line in lines}) == 4
    assert not any(line.get("error") for line in lines)


@pytest.mark.parametrize(("place", "module"), [("dask", "distributed"), ("ray:auto", "ray")])
def test_a_library_that_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch, place: str, module: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    extra = place.partition(":")[0]
    with pytest.raises(
        ConfigError, match=rf"{extra} is not installed: pip install mooring\[{extra}\]"
    ):
        pools_of(place)


@pytest.mark.parametrize("text", ["", "threads", "processes:4", "daskk"])
def test_other_names_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="must be processes, dask"):
        pools_of(text)


def test_processes_are_the_default() -> None:
    assert pools_of("processes") is executor
