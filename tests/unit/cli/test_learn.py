"""``mooring learn``: what it prints, what it refuses, how it ends."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from mooring.cli import main
from mooring.learn import scenarios
from mooring.learn.lessons import LESSONS
from mooring.learn.scenarios import SCENARIOS, VARIANTS
from tests.helpers.lesson_fixture import STEPS

WHATS = {
    *("queued", "popped", "refused", "unschedulable", "backoff", "active", "waiting"),
    *("allowed", "bound", "failed"),
}


def test_without_a_number_it_lists_eight_steps_a_line_each(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["learn"]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[:8]] == [str(number) for number in STEPS]
    assert lines[8:] == ["", "Start with: mooring learn 1"]


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("step", STEPS)
def test_json_is_one_object_a_line_with_five_fields(
    step: int, variant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["learn", str(step), "--fast", "--seed", "3", "--variant", variant, "-o", "json"]
    assert main(words) == 0

    captured = capsys.readouterr()
    found = [json.loads(line) for line in captured.out.splitlines()]
    assert captured.err == ""
    for each in found:
        assert list(each) == ["time_s", "pod", "what", "node", "detail"]
        assert isinstance(each["time_s"], float)
        assert each["what"] in WHATS
        assert all(isinstance(each[name], str) for name in ("pod", "node", "detail"))
        assert bool(each["node"]) is (each["what"] in {"refused", "waiting", "allowed", "bound"})
    assert [each["time_s"] for each in found] == sorted(each["time_s"] for each in found)
    bound = {each["pod"]: each["node"] for each in found if each["what"] == "bound"}
    for pod, allowed in SCENARIOS[variant][step - 1].ends.items():
        assert bound.get(f"default/{pod}", "") in (allowed or ("",))


@pytest.mark.parametrize("step", STEPS)
def test_text_begins_with_what_is_about_to_happen_and_ends_with_what_was_learnt(
    step: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["learn", str(step), "--fast", "--seed", "1"]) == 0

    text = capsys.readouterr().out
    lesson = LESSONS[step - 1]
    assert text.startswith(f"Step {step} of 8: {lesson.title}: {lesson.subject}\n\n")
    parts = [
        "are created",
        "queued",
        "popped",
        "bound to",
        " is on node",
        "What this shows:",
        "New in this step:",
    ]
    places = [text.index(part, text.index("0.000 s")) for part in parts]
    assert places == sorted(places)
    for where, source in lesson.source():
        assert f"# {where}" in text
        assert source.splitlines()[0] in text


def test_the_same_seed_prints_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    printed = []
    for seed in ("4", "4", "5"):
        assert main(["learn", "3", "--fast", "--seed", seed]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1] != printed[2]


@pytest.mark.parametrize("output", ["text", "json"])
def test_a_lesson_that_does_not_end_as_it_must_ends_with_1(
    output: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, *others = SCENARIOS["nakamasato"]
    wrong = first._replace(ends={"pod1": ("node99",)})
    broken = {**SCENARIOS, "nakamasato": (wrong, *others)}
    monkeypatch.setattr(scenarios, "SCENARIOS", broken)

    assert main(["learn", "1", "--fast", "--seed", "1", "-o", output]) == 1

    captured = capsys.readouterr()
    told = captured.out if output == "text" else captured.err
    assert "pod1 must be on node99 after" in told


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["0"], "0 is not in the range 1<=x<=8"),
        (["9"], "9 is not in the range 1<=x<=8"),
        (["one"], "'one' is not a valid integer range"),
        (["1", "--variant", "mine"], "'mine' is not one of 'nakamasato', 'sanposhiho'"),
        (["1", "--fast", "--kubeconfig", "x"], "--fast uses virtual time"),
        (["1", "--context", "x"], "--context requires --kubeconfig"),
    ],
)
def test_bad_usage_says_what_is_wrong(
    words: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["learn", *words]) == 2
    assert problem in capsys.readouterr().err


def test_a_kubeconfig_that_is_not_there_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "none.yaml")

    assert main(["learn", "1", "--kubeconfig", path]) == 2
    assert path in capsys.readouterr().err


@pytest.mark.parametrize("output", ["text", "json"])
@pytest.mark.parametrize("step", STEPS)
def test_an_output_that_cannot_be_written_is_no_mistake_in_the_step(
    step: int, output: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["learn", str(step), "--fast", "--seed", "3", "-o", output]
    reading, writing = os.pipe()
    os.close(reading)
    problem = "mooring: the output cannot be written: No space left on device\n"

    with open(writing, "w") as closed:
        monkeypatch.setattr(sys, "stdout", closed)
        assert (main(words), capsys.readouterr().err) == (141, "")
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert (main(words), capsys.readouterr().err) == (2, problem)
