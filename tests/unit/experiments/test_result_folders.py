"""Folders of results: what was written is read back, one report over several, odd folders."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import mooring
from mooring.errors import ConfigError
from mooring.experiments.result_folders import StoredRun, StoredSweep, read_folder, read_run_to_play
from mooring.experiments.sweep_file import read_sweep
from mooring.scenario.results import FORMATS, Columns, Result, write_results
from tests.helpers.command_line import run_command
from tests.helpers.scenario_files import nodes, pod, run, write
from tests.unit.experiments.test_sweep import swept, write_sweep

SPEC: dict[str, Any] = {
    "end": {"at": "1h"},
    "cluster": {"nodes": [nodes(1)]},
    "workload": [
        {
            "name": "a",
            "arrive": {"interval": {"every": "1m", "count": 9}},
            "object": pod("2"),
            "duration": "150s",
        },
        {"name": "large", "at": "30m", "create": {**pod("40"), "metadata": {"name": "large"}}},
    ],
    "expect": [{"wait.p99": "< 1s"}, {"pods.pending": "== 1"}],
}


@pytest.fixture
def result(tmp_path: Path) -> Result:
    return run(tmp_path, SPEC)


@pytest.mark.parametrize("table_format", FORMATS)
def test_what_was_written_is_read_back(tmp_path: Path, result: Result, table_format: str) -> None:
    folder = str(tmp_path / "out")
    write_results(result, folder, table_format=table_format)
    stored = read_folder(folder)
    assert isinstance(stored, StoredRun)
    own = stored.result
    assert (stored.digest, own.name, own.seed) == (result.digest, result.name, result.seed)
    assert own.summary == result.summary
    assert own.tables == result.tables
    assert (own.pending, own.resources, own.source) == (
        result.pending,
        result.resources,
        result.source,
    )
    checks = [(item.text, item.holds(value), value) for item, value in own.checks]
    assert checks == [(item.text, item.holds(value), value) for item, value in result.checks]
    assert own.holds is False


@pytest.mark.parametrize("table_format", FORMATS)
@pytest.mark.parametrize("old_format", FORMATS)
def test_a_run_replaces_all_tables_of_another(
    tmp_path: Path, result: Result, old_format: str, table_format: str
) -> None:
    folder = tmp_path / "out"
    old = run(tmp_path, {**SPEC, "workload": SPEC["workload"][1:], "seed": 9})
    write_results(old, str(folder), table_format=old_format)
    own = folder / "pods.txt"
    own.write_text("of the user", encoding="utf-8")
    names = write_results(result, str(folder), table_format=table_format)
    assert sorted(path.name for path in folder.iterdir()) == sorted([*names, own.name])
    stored = read_run_to_play(folder)
    assert stored.result.tables == result.tables
    assert stored.result.events == result.events

    write_results(old._replace(events=None), str(folder), table_format=table_format)
    with pytest.raises(ConfigError, match="has no table events"):
        read_run_to_play(folder)


def test_an_earlier_run_stays_if_the_next_cannot_be_written(tmp_path: Path, result: Result) -> None:
    write_results(result, str(tmp_path / "out"))
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    tables: dict[str, Columns] = {
        **result.tables,
        "nodes": {"node": [1, "two"]},
    }  # no column of one type
    with pytest.raises(pa.ArrowException):
        write_results(
            result._replace(seed=9, tables=tables), str(tmp_path / "out"), table_format="arrow"
        )
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before


def test_a_report_has_every_run_and_sweep(
    tmp_path: Path, result: Result, capsys: pytest.CaptureFixture[str]
) -> None:
    write_results(result, str(tmp_path / "first"))
    write_results(result._replace(seed=7), str(tmp_path / "second"))
    sweep = write_sweep(tmp_path, grid={"cluster.nodes[0].count": [1, 2]})
    swept(tmp_path, read_sweep(sweep), jobs=1)
    folders = [str(tmp_path / name) for name in ("first", "second/", "out")]
    page = tmp_path / "page.html"
    words = ("report", *folders, "--out", str(page), "--title", "Three folders")
    assert run_command(capsys, *words) == (0, f"report in {page}\n", "")
    text = page.read_text()
    assert "<title>Three folders</title>" in text
    for part in (
        "2 runs beside each other",
        "Their seeds differ",
        "first: Verdict",
        "second: Verdict",
    ):
        assert part in text
    assert "out: Cells" in text
    assert "2 runs of 2 cells" in text
    assert result.digest in text


def test_python_writes_the_same_report(tmp_path: Path) -> None:
    scenario = mooring.Scenario.read(write(tmp_path, SPEC))
    runs = {"one": scenario.run(seed=1), "two": scenario.run(seed=2)}
    page = tmp_path / "page.html"
    mooring.write_report(runs, str(page), title="Python")
    assert "one: Verdict" in page.read_text()
    folders = []
    for name, own in runs.items():
        own.write(str(tmp_path / name))
        folders.append(str(tmp_path / name))
    other = tmp_path / "other.html"
    mooring.write_report(folders, str(other), title="Python")
    own_text = page.read_text()
    for name in runs:
        own_text = own_text.replace(f">{name}", f">{tmp_path / name}")
    assert f"{tmp_path / 'one'}: Verdict" in other.read_text()


def changed(folder: Path, **fields: Any) -> None:
    """Changes fields of run.json; None takes one away."""
    file = folder / "run.json"
    document = {**json.loads(file.read_text()), **fields}
    document = {name: value for name, value in document.items() if value is not None}
    file.write_text(json.dumps(document))


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"seed": "x"}, "is not the run.json of a run"),
        ({"summary": {"wait.p50": "long"}}, "is not the run.json of a run"),
        ({"summary": {}}, "has no measure allocated.cpu"),
        ({"resources": None}, "missing required field `resources`"),
        ({"expect": [{"line": "soon"}]}, "is no expectation"),
        ({"expect": 3}, "is not the run.json of a run"),
        ({"digest": None}, "missing required field `digest`"),
    ],
)
def test_an_odd_run_json_is_an_error(
    tmp_path: Path, result: Result, fields: dict[str, Any], problem: str
) -> None:
    write_results(result, str(tmp_path / "out"))
    changed(tmp_path / "out", **fields)
    with pytest.raises(ConfigError) as caught:
        read_folder(tmp_path / "out")
    assert problem in str(caught.value)
    assert "run.json" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"", "has no header"),
        (b"pod,pod\n", "has no header of different names"),
        (b"pod\na\n", "has no column group"),
        (b"pod,group\na\n", "line 2: has 1 cells, and 2 columns"),
        (b"pod,attempts\na,many\n", "line 2: attempts: must be a number, got 'many'"),
        (b"pod\n\xff\n", "is no CSV"),
        (b'pod\n"a\n', "is no CSV"),
        (b"pod\n" + b"x" * 200_000, "is no CSV: field larger"),
    ],
)
def test_an_odd_table_is_an_error(
    tmp_path: Path, result: Result, text: bytes, problem: str
) -> None:
    write_results(result, str(tmp_path / "out"))
    with gzip.open(tmp_path / "out" / "pods.csv.gz", "wb") as file:
        file.write(text)
    with pytest.raises(ConfigError) as caught:
        read_folder(tmp_path / "out")
    assert problem in str(caught.value)
    assert "pods.csv.gz" in str(caught.value)


def test_a_file_that_is_not_packed_and_one_that_is_cut_are_errors(
    tmp_path: Path, result: Result
) -> None:
    write_results(result, str(tmp_path / "out"))
    table = tmp_path / "out" / "series.csv.gz"
    table.write_bytes(table.read_bytes()[:-20])
    with pytest.raises(ConfigError, match=r"series\.csv\.gz: cannot be read"):
        read_folder(tmp_path / "out")
    table.write_bytes(b"measure,time_s,value\n")
    with pytest.raises(ConfigError, match=r"series\.csv\.gz: cannot be read"):
        read_folder(tmp_path / "out")
    table.write_bytes(b"\x1f\x8b\x08" + bytes(7) + b"\xff" * 99)
    with pytest.raises(ConfigError, match=r"series\.csv\.gz: cannot be read: .*invalid block"):
        read_folder(tmp_path / "out")
    table.unlink()
    with pytest.raises(ConfigError, match="has no table series"):
        read_folder(tmp_path / "out")


def test_other_folders_are_refused(
    tmp_path: Path, result: Result, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ConfigError, match=r"has no results: neither run\.json nor runs\.jsonl"):
        read_folder(tmp_path)
    with pytest.raises(ConfigError, match="is no folder"):
        read_folder(tmp_path / "nowhere")
    write_results(result, str(tmp_path / "out"))
    code, _, err = run_command(capsys, "report", *[str(tmp_path / "out")] * 2)
    assert (code, "two results have one name" in err) == (2, True)


def test_a_torn_last_line_of_a_sweep_is_left_out_and_left_as_it_is(tmp_path: Path) -> None:
    sweep = write_sweep(tmp_path, grid={"cluster.nodes[0].count": [1, 2]})
    swept(tmp_path, read_sweep(sweep), jobs=1)
    runs = tmp_path / "out" / "runs.jsonl"
    runs.write_bytes(runs.read_bytes() + b'{"key": "x')
    before = runs.read_bytes()
    stored = read_folder(tmp_path / "out")
    assert isinstance(stored, StoredSweep)
    assert (len(stored.runs), runs.read_bytes()) == (2, before)
