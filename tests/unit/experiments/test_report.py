"""Reports of runs and comparisons: what they say, and the command's option."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest

from mooring.experiments.compare import compare
from mooring.experiments.report import comparison_report, result_report, verdict
from mooring.experiments.trials import Variant, run_trials
from mooring.scenario.read import read_scenario
from mooring.scenario.run import ScenarioRun
from tests.helpers.command_line import run_command
from tests.helpers.scenario_files import nodes, pod, write
from tests.unit.experiments.test_compare import PACK, SPEC

#: Limit of a report, with some data.
BYTES_MAX = 1_500_000


def text_of(page: str) -> str:
    """Returns the words of a page, without scripts and styles."""
    without = re.sub(r"<(script|style).*?</\1>", " ", page, flags=re.DOTALL)
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", without)))


def test_a_report_has_the_verdict_measures_reasons_and_inputs(tmp_path: Path) -> None:
    spec = {**SPEC, "expect": [{"wait.p50": "< 1h"}]}
    huge = {"name": "huge", "arrive": {"at": ["1h"]}, "object": pod("9")}
    spec["workload"] = [*SPEC["workload"], huge]
    result = ScenarioRun(read_scenario(write(tmp_path, spec, "queue"))).run()
    page = result_report(result)
    assert len(page) < BYTES_MAX
    words = text_of(page)
    for sentence in verdict(result):
        assert sentence in words
    assert "1 had no node" in words
    assert "wait.p99" in words
    assert "Insufficient cpu" in words
    assert "default/huge-0" in words
    assert result.digest in words
    assert '"kind": "Scenario"' in words
    assert not re.search(r'(src|href)="http', page)


def test_a_run_without_a_pod_has_a_report(tmp_path: Path) -> None:
    path = write(tmp_path, {"cluster": {"nodes": [nodes(1)]}})
    words = text_of(result_report(ScenarioRun(read_scenario(path)).run()))
    assert "0 pods came" in words
    assert "Allocated on average: nothing." in words


def test_a_name_with_markup_stays_text(tmp_path: Path) -> None:
    name = "<script>alert(1)</script>"
    path = write(tmp_path, {"cluster": {"nodes": [nodes(1)]}}, "x")
    path.write_text(path.read_text("utf-8").replace('"x"', f'"{name}"', 1), "utf-8")
    page = result_report(ScenarioRun(read_scenario(path)).run())
    assert name not in page.partition("<script type")[0]
    assert html.escape(name) in page


def test_a_report_of_a_comparison(tmp_path: Path) -> None:
    (tmp_path / "pack.yaml").write_text(PACK, encoding="utf-8")
    path = str(write(tmp_path, SPEC))
    variants = [Variant("spread", path), Variant("pack", path, str(tmp_path / "pack.yaml"))]
    trials = run_trials(variants, range(1, 7), jobs=1)
    comparison = compare(trials[0], trials[1])
    page = comparison_report([comparison], [None])
    words = text_of(page)
    assert "pack beside spread" in words
    assert "Better: wait.p99" in words
    assert "No difference shown: " in words
    assert "Differences, as a share of the baseline" in words
    assert len(page) < BYTES_MAX


def test_the_commands_write_reports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pack.yaml").write_text(PACK, encoding="utf-8")
    path, report = str(write(tmp_path, SPEC)), tmp_path / "out.html"
    code, out, _ = run_command(capsys, "simulate", path, "--report", str(report))
    assert (code, out.splitlines()[-1]) == (0, f"report in {report}")
    assert "<!doctype html>" in report.read_text("utf-8").lower()
    words = ["compare", path, "--config", str(tmp_path / "pack.yaml"), "--jobs", "1"]
    code, out, _ = run_command(capsys, *words, "--report", str(report))
    assert (code, out.splitlines()[-1]) == (0, f"report in {report}")
    assert "The first decision that differs" in text_of(report.read_text("utf-8"))
    assert "NodeResourcesFit" in text_of(report.read_text("utf-8"))
    code, _, err = run_command(capsys, "simulate", path, "--report", str(tmp_path / "no" / "x"))
    assert code == 2
    assert "cannot be written: no such file or directory" in err
    code, _, err = run_command(capsys, "simulate", "--report", "x.html")
    assert code == 2
    assert "--report needs a scenario" in err
