"""Comparisons of variants over seeds: the numbers, the words, and the command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mooring.errors import ConfigError
from mooring.experiments.compare import (
    better_of,
    broken_limits,
    compare,
    limit_from,
    moves_of,
)
from mooring.experiments.text import signed
from mooring.experiments.trials import Trial, Variant, run_trials
from mooring.statistics import paired_difference
from tests.helpers.command_line import run_command
from tests.helpers.scenario_files import Spec, job, nodes, pod, write

PACK = (
    "apiVersion: kubescheduler.config.k8s.io/v1\n"
    "kind: KubeSchedulerConfiguration\n"
    "profiles:\n"
    "- pluginConfig:\n"
    "  - name: NodeResourcesFit\n"
    "    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}\n"
)
#: Small pods on every node leave no room for the large ones, unless they are packed.
SPEC: Spec = {
    "seed": 1,
    "end": {"at": "4h"},
    "cluster": {"nodes": [nodes(4)]},
    "workload": [
        {
            "name": "small",
            "arrive": {"poisson": {"rate": "10/h", "until": "3h"}},
            "object": pod("500m"),
            "duration": {"exponential": {"mean": "30m"}},
        },
        {
            "name": "large",
            "arrive": {"interval": {"every": "30m", "until": "3h"}},
            "object": job("large", "4", completions=1),
            "duration": "20m",
        },
    ],
}


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    """Returns a scenario and a configuration."""
    (tmp_path / "pack.yaml").write_text(PACK, encoding="utf-8")
    return str(write(tmp_path, SPEC)), str(tmp_path / "pack.yaml")


def trial(variant: str, seed: int, **summary: float) -> Trial:
    values = {name.replace("_", "."): value for name, value in summary.items()}
    return Trial(variant, seed, values, {"cpu": "cpu"}, {}, "")


def test_differences_are_paired_by_seed() -> None:
    # Large chance from seed to seed, and always two less.
    old = [trial("a", n, wait_p99=100.0 * n) for n in range(1, 7)]
    new = [trial("b", n, wait_p99=100.0 * n - 2 - 0.1 * (n % 2)) for n in range(1, 7)]
    [row] = compare(old, new, ["wait.p99"]).rows
    assert row.difference.verdict == "better"
    assert row.difference.interval.mean == pytest.approx(-2.05)
    assert (row.difference.n_better, row.difference.n) == (6, 6)


def test_chance_is_called_chance() -> None:
    old = [trial("a", n, cost=10.0) for n in range(6)]
    new = [trial("b", n, cost=10.0 + (1 if n % 2 else -1)) for n in range(6)]
    [row] = compare(old, new, ["cost"]).rows
    assert row.difference.verdict == "no difference shown"


@pytest.mark.parametrize(
    ("measure", "better"),
    [
        ("wait.p99", "lower"),
        ("allocated.cpu", "higher"),
        ("throughput", "higher"),
        ("stranded.gpu", "lower"),
        ("fragmentation.gpu", "lower"),
        ("pods.pending", "lower"),
        ("jobs.complete", "higher"),
        ("cost", "lower"),
    ],
)
def test_the_better_direction(measure: str, better: str) -> None:
    assert better_of(measure) == better


@pytest.mark.parametrize(
    ("text", "old", "new", "is_broken"),
    [
        ("wait.p99 +5%", 100.0, 104.0, False),
        ("wait.p99 +5%", 100.0, 106.0, True),
        ("wait.p99 +30s", 100.0, 131.0, True),
        ("wait.p99 +1m", 100.0, 131.0, False),
        ("allocated.cpu -2%", 0.5, 0.4, True),
        ("allocated.cpu -2%", 0.5, 0.495, False),
        ("allocated.cpu -2%", 0.5, 0.6, False),
        ("pods.pending +0", 3.0, 3.0, False),
        ("pods.pending +0", 3.0, 4.0, True),
    ],
)
def test_limits(text: str, old: float, new: float, is_broken: bool) -> None:
    limit = limit_from(text)
    own = {limit.measure.replace(".", "_"): old}
    other = {limit.measure.replace(".", "_"): new}
    comparison = compare([trial("a", 0, **own)], [trial("b", 0, **other)], [limit.measure])
    assert bool(broken_limits(comparison, [limit])) is is_broken


def test_the_measure_of_a_limit_is_compared_also_if_it_is_0_everywhere() -> None:
    runs = [trial(name, 0, wait_mean=3.0, evictions=0) for name in ("a", "b")]
    limits = [limit_from("evictions +0")]
    comparison = compare(runs[:1], runs[1:], limits=limits)
    assert [row.measure for row in comparison.rows] == ["wait.mean", "evictions"]
    assert broken_limits(comparison, limits) == []


@pytest.mark.parametrize("text", ["wait.p99", "wait.p99 5%", "wait.p99 +soon", "+5%"])
def test_a_limit_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(ConfigError) as raised:
        limit_from(text)
    assert raised.value.value == text


@pytest.mark.parametrize(
    ("text", "unit"),
    [("pods.bound +30s", "pods"), ("cost -1h", "price"), ("allocated.cpu +1m", "1")],
)
def test_a_duration_is_no_limit_of_a_count(text: str, unit: str) -> None:
    with pytest.raises(ConfigError) as raised:
        limit_from(text)
    problem = f"must be a number or a share: the unit of {text.split()[0]} is {unit}, not seconds"
    assert (raised.value.problem, raised.value.value) == (problem, text)
    assert limit_from("lost.pods +30s").change == limit_from("wait.mean +30").change == 30.0


def test_a_limit_within_chance_is_not_broken() -> None:
    old = [trial("a", n, cost=10.0) for n in range(6)]
    new = [trial("b", n, cost=10.0 + (9 if n % 2 else -8)) for n in range(6)]
    comparison = compare(old, new, ["cost"])
    assert broken_limits(comparison, [limit_from("cost +1%")]) == []


def test_moves() -> None:
    a = Trial(
        "a", 0, {}, {}, {"x": (1.0, "n"), "y": (2.0, "n"), "z": (None, ""), "w": (4, "m")}, ""
    )
    b = Trial(
        "b", 0, {}, {}, {"x": (1.0, "n"), "y": (3.0, "n"), "z": (9.0, "n"), "w": (4, "n")}, ""
    )
    moves = moves_of(a, b)
    assert (moves.retimed, moves.newly_bound, moves.moved) == (["y"], ["z"], ["w"])
    assert (moves.first, moves.at_s) == ("y", 2.0)
    back = moves_of(b, a)
    assert back.newly_unbound == ["z"]


@pytest.mark.parametrize(
    ("measure", "value", "text"),
    [
        ("wait.mean", 90.0, "+1m30s"),
        ("wait.mean", -0.25, "-250ms"),
        ("allocated.cpu", -0.123, "-12.3 %"),
        ("allocated.cpu", 1e-5, "0"),
        ("cost", 2.5, "+2.5"),
    ],
)
def test_signed(measure: str, value: float, text: str) -> None:
    assert signed(measure, value) == text


def test_runs_in_other_processes_are_the_same_runs(files: tuple[str, str]) -> None:
    variants = [Variant("a", files[0]), Variant("b", files[0], files[1])]
    done: list[tuple[int, int]] = []
    beside = run_trials(variants, [1, 2], jobs=2, on_done=lambda *own: done.append(own))
    here = run_trials(variants, [1, 2], jobs=1)
    assert beside == here
    assert done == [(n, 4) for n in range(1, 5)]


def test_an_error_of_a_worker_is_the_users(files: tuple[str, str], tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("kind: Nonsense\n", encoding="utf-8")
    variants = [Variant("a", files[0]), Variant("b", files[0], str(tmp_path / "bad.yaml"))]
    with pytest.raises(ConfigError, match=r"bad\.yaml"):
        run_trials(variants, [1, 2], jobs=2)


# -- the command --------------------------------------------------------------------------------


def test_the_command(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    words = ["compare", files[0], "--config", files[1], "--seeds", "6", "--jobs", "2"]
    code, out, err = run_command(capsys, *words)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "pack.yaml beside as written: 6 seeds, 1 to 6"
    [row] = [line.split() for line in lines if line.startswith("jobs.turnaround.mean")]
    assert row[-3:] == ["6", "of", "6"]
    assert any(line.startswith("first difference: default/small-") for line in lines)
    assert any(line.split()[0] == "NodeResourcesFit" for line in lines if line.strip())


def test_a_broken_limit_fails(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    words = ["compare", files[0], "--config", files[1], "--seeds", "6", "--jobs", "1"]
    code, _, err = run_command(capsys, *words, "--fail-if", "wait.p99 -1%")
    assert code == 1
    assert err.startswith("FAILED pack.yaml: wait.p99 -1%: wait.p99: better")
    code, _, err = run_command(capsys, *words, "--fail-if", "wait.p99 +5%")
    assert (code, err) == (0, "")


def test_a_plugin_that_refused_nothing_is_compared(
    files: tuple[str, str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    tainted = nodes(4, "tainted-")
    tainted["template"]["spec"] = {"taints": [{"key": "a", "effect": "NoSchedule"}]}
    other = str(write(tmp_path, {**SPEC, "cluster": {"nodes": [nodes(4), tainted]}}, "tainted"))
    measure = "refused.TaintToleration"
    words = ["compare", files[0], other, "--jobs", "1", "-o", "json", "--measure", measure]
    code, out, err = run_command(capsys, *words, "--fail-if", f"{measure} +5%")
    assert code == 1
    assert err.startswith(f"FAILED tainted.yaml: {measure} +5%")
    [document] = json.loads(out)
    assert document["measures"][measure]["baseline"] == 0
    assert document["measures"][measure]["candidate"] > 0
    code, _, err = run_command(capsys, *words, "--fail-if", "refused.NoPlugin +5%")
    assert code == 2
    assert "is not compared, got 'refused.NoPlugin'" in err
    code, _, err = run_command(capsys, *words, "--measure", "refused.NoPlugin")
    assert code == 2
    assert "has no such value, got 'refused.NoPlugin'" in err


def test_json(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    words = ["compare", files[0], "--config", files[1], "-o", "json", "--measure", "wait.max"]
    code, out, _ = run_command(capsys, *words)
    [document] = json.loads(out)
    assert code == 0
    assert list(document["measures"]) == ["wait.max"]
    assert document["measures"]["wait.max"]["low"] is None
    assert document["first_difference"].startswith("default/")


def test_two_scenarios_are_variants(
    files: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = {**SPEC, "cluster": {"nodes": [nodes(8)]}}
    other = str(write(tmp_path, more, "more"))
    code, out, _ = run_command(capsys, "compare", files[0], other, "--jobs", "1")
    assert code == 0
    assert out.startswith("more.yaml beside test.yaml: seed 1\n")
    assert "One seed is one draw" in out


def test_equal_variants(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    words = ["compare", files[0], "--config", files[1], "--config", files[1], "--jobs", "1"]
    code, out, _ = run_command(capsys, *words)
    assert code == 0
    assert "every pod is bound to the same node at the same time" in out
    assert "first difference" not in out


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ([], "give a second scenario, --config or --plugin to compare with"),
        (["{other}", "--config", "a", "--config", "b"], "not both"),
        (["--config", "none.yaml"], "none.yaml: cannot be read"),
        (["--config", "{config}", "--fail-if", "wait"], "must be a measure and a change"),
        (["--config", "{config}", "--fail-if", "wait.p99 +nan%"], "must be a measure and a change"),
        (["--config", "{config}", "--fail-if", "wait.p99 +inf"], "must be a measure and a change"),
        (["--config", "{config}", "--fail-if", "wait.p99 +-5%"], "must be a measure and a change"),
        (["--config", "{config}", "--fail-if", "wait.p99 --5s"], "must be a measure and a change"),
        (["--config", "{config}", "--measure", "wait.p42"], "has no such value, got 'wait.p42'"),
    ],
)
def test_wrong_usage(
    files: tuple[str, str], capsys: pytest.CaptureFixture[str], words: list[str], problem: str
) -> None:
    filled = [word.format(other=files[0], config=files[1]) for word in words]
    code, out, err = run_command(capsys, "compare", files[0], *filled, "--jobs", "1")
    assert (code, out) == (2, "")
    assert problem in err


@pytest.mark.parametrize(
    ("text", "candidate", "is_broken"),
    [
        ("allocated.cpu -0%", 0.7, True),
        ("allocated.cpu -0%", 0.9, False),
        ("wait.mean +0s", 0.9, True),
        ("wait.mean +0s", 0.7, False),
        ("allocated.cpu -5%", 0.77, False),
        ("allocated.cpu -5%", 0.75, True),
    ],
)
def test_the_sign_of_a_limit_says_which_change_breaks_it(
    text: str, candidate: float, is_broken: bool
) -> None:
    assert limit_from(text).is_broken(paired_difference([0.8], [candidate])) == is_broken
