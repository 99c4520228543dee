"""Tests ``learn --copy``, ``--file``, ``--check`` and ``--draw``, and how a mistake is shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mooring.cli import main
from mooring.errors import InvariantViolation, Unreachable
from mooring.learn.pupil import mistake_of
from tests.helpers.lesson_fixture import STEPS

PRIORITY = "OPTIONS = QueueOptions(pop_from_backoff=False, "

#: A solution of each exercise: what is replaced in the copy of the step, and by what.
SOLUTIONS: dict[int, list[tuple[str, str]]] = {
    1: [("return self.rng.choice(names)", "return min(names)")],
    2: [
        (
            "class Scheduler(step_1.Scheduler):",
            "class NotZero:\n"
            '    name = "NotZero"\n\n'
            "    def filter(self, pod, node):\n"
            '        return Reject("is 0") if node.metadata.name.endswith("0") else None\n\n\n'
            "class Scheduler(step_1.Scheduler):",
        ),
        ("(NodeUnschedulable(),)", "(NodeUnschedulable(), NotZero())"),
    ],
    3: [
        (
            "        return 10 if",
            "        after = str((int(digit or 0) + 1) % 10)\n"
            "        if digit and last_digit(node.metadata.name) == after:\n"
            "            return 5\n"
            "        return 10 if",
        )
    ],
    4: [
        (
            "cycle[self] = last_digit(cycle.pod.metadata.name)",
            'cycle[self] = last_digit(cycle.pod.metadata.name) or "0"',
        )
    ],
    5: [
        (
            "wait_s, uid = int(step_3.last_digit(node_name) or 0), cycle.pod.uid",
            "wait_s, uid = 2, cycle.pod.uid",
        )
    ],
    6: [
        (
            "refused_by=refused_by)",
            "refused_by=refused_by)\n"
            "            loop = asyncio.get_running_loop()\n"
            "            loop.call_later(2.0, self.queue.activate, [entry.uid])",
        )
    ],
    7: [
        (
            "class Scheduler(step_6.Scheduler):",
            "class NotZero:\n"
            '    name = "NotZero"\n\n'
            "    @per_node\n"
            "    def filter(self, pod, node):\n"
            '        return Reject("is 0") if node.name.endswith("0") else None\n\n'
            "    def events(self):\n"
            "        return [ClusterEventWithHint(ClusterEvent(EventResource.NODE,"
            " ActionType.ADD))]\n\n\n"
            "class Scheduler(step_6.Scheduler):",
        ),
        (
            "from mooring.client import ObjectChange",
            "from mooring import Reject, per_node\nfrom mooring.client import ObjectChange",
        ),
        ("NodeUnschedulable(), NodeNumber(", "NodeUnschedulable(), NotZero(), NodeNumber("),
    ],
    8: [(PRIORITY, f"{PRIORITY}max_unschedulable_s=5.0, ")],
}


@pytest.fixture
def copies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    assert main(["learn", "--copy", str(tmp_path / "my")]) == 0
    capsys.readouterr()
    return tmp_path / "my"


def change(file: Path, *replacements: tuple[str, str]) -> None:
    text = file.read_text()
    for before, after in replacements:
        assert before in text
        text = text.replace(before, after)
    file.write_text(text)


# ---- exercises ----


@pytest.mark.parametrize("seed", ["1", "2"])
@pytest.mark.parametrize("step", STEPS)
def test_a_step_as_copied_does_not_solve_its_exercise(
    step: int, seed: str, copies: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = copies / f"my_step_{step}.py"
    assert main(["learn", "--file", str(file), "--check", "--seed", seed]) == 1
    text = capsys.readouterr().out
    assert text.startswith(f"Exercise {step}: ")
    assert "Not solved yet:\n  " in text


@pytest.mark.parametrize("seed", ["1", "2"])
@pytest.mark.parametrize("step", STEPS)
def test_a_solution_is_recognized_by_what_it_does(
    step: int, seed: str, copies: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = copies / f"my_step_{step}.py"
    change(file, *SOLUTIONS[step])
    assert main(["learn", str(step), "--file", str(file), "--check", "--seed", seed]) == 0
    assert capsys.readouterr().out.endswith("\nSolved.\n")


def test_the_lesson_itself_runs_with_the_changed_file(
    copies: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = copies / "my_step_1.py"
    change(file, *SOLUTIONS[1])
    assert main(["learn", "1", "--file", str(file), "--fast", "--seed", "1"]) == 0
    text = capsys.readouterr().out
    assert "pod1 is on node0" in text
    assert "New in this step" not in text, "the learner has the file"


# ---- copies ----


def test_a_copy_overwrites_nothing(copies: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = copies / "my_step_3.py"
    file.write_text("# mine\n")
    assert main(["learn", "3", "--copy", str(copies)]) == 2
    assert f"{file}: exists already; it is not overwritten" in capsys.readouterr().err
    assert file.read_text() == "# mine\n"


def test_one_step_is_copied_and_the_next_commands_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["learn", "2", "--copy", str(tmp_path)]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["my_step_2.py"]
    assert f"mooring learn 2 --file {tmp_path / 'my_step_2.py'} --check" in capsys.readouterr().out


# ---- mistakes ----


def test_a_mistake_is_a_line_and_a_message(
    copies: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = copies / "my_step_1.py"
    change(file, ("return self.rng.choice(names)", "return sorted(nmaes)[0]"))
    line = next(n for n, text in enumerate(file.read_text().splitlines(), 1) if "nmaes" in text)

    assert main(["learn", "1", "--file", str(file), "--fast"]) == 1
    captured = capsys.readouterr()
    assert captured.err.splitlines() == [
        f"mooring learn: {file}, line {line}, in choose: NameError: name 'nmaes' is not defined",
        '    return sorted(nmaes)[0] if names else Reject("no nodes available to schedule pods")',
        "The whole traceback: --traceback",
    ]
    assert main(["learn", "1", "--file", str(file), "--fast", "--traceback"]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[-1] == "NameError: name 'nmaes' is not defined"


def test_a_syntax_error_is_shown_with_its_line(
    copies: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = copies / "my_step_1.py"
    change(file, ("class Scheduler:", "class Scheduler"))
    assert main(["learn", "1", "--file", str(file), "--fast"]) == 1
    text = capsys.readouterr().err
    assert text.startswith(f"mooring learn: {file}, line ")
    assert "SyntaxError: expected ':'\n    class Scheduler\n" in text


def test_an_error_of_the_api_server_is_no_mistake(tmp_path: Path) -> None:
    file = tmp_path / "my_step_1.py"
    file.write_text(
        "from mooring.errors import InvariantViolation, Unreachable\n\n\n"
        "def fail(kind):\n    raise kind('x')\n"
    )
    names: dict[str, Any] = {}
    exec(compile(file.read_text(), str(file), "exec"), names)
    texts: dict[Any, str] = {}
    for kind in (Unreachable, InvariantViolation):
        with pytest.raises(kind) as caught:
            names["fail"](kind)
        texts[kind] = mistake_of(caught.value, file) or ""

    assert texts[Unreachable] == ""
    # An unknown event raises it, for example.
    assert texts[InvariantViolation].startswith(f"{file}, line 5, in fail: InvariantViolation: x")


def test_a_mistake_in_a_plugin_is_shown_with_its_place(
    copies: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = copies / "my_step_4.py"
    change(file, ("digit = cycle[self]", "digit = cycle[self].upperr()"))
    assert main(["learn", "4", "--file", str(file), "--check"]) == 1
    text = capsys.readouterr().out
    assert 'running Score plugin "NodeNumber": AttributeError: ' in text
    assert f"({file}:" in text


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("my_step_1.py", None, "no such file"),
        ("my_step_1.py", "x = 1\n", "must have a class Scheduler"),
        ("my_step_1.txt", "x = 1\n", "its name must end in .py"),
        ("mine.py", "x = 1\n", "Say it: mooring learn STEP --file"),
        ("step_9.py", "x = 1\n", "Say it: mooring learn STEP --file"),
    ],
)
def test_a_file_that_is_no_step_is_refused(
    name: str, text: str | None, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / name
    if text is not None:
        file.write_text(text)
    assert main(["learn", "--file", str(file), "--fast"]) == 2
    assert problem in capsys.readouterr().err


def test_a_check_needs_a_step_and_no_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["learn", "--check"]) == 2
    assert "--check requires STEP" in capsys.readouterr().err
    assert main(["learn", "1", "--check", "--kubeconfig", "x"]) == 2
    assert "--check cannot be combined with --kubeconfig" in capsys.readouterr().err


# ---- drawing ----


def test_nodes_and_pods_are_drawn_on_demand(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["learn", "3", "--fast", "--seed", "1"]) == 0
    assert "+node0" not in capsys.readouterr().out, "not without a terminal"

    assert main(["learn", "3", "--fast", "--seed", "1", "--draw"]) == 0
    lines = capsys.readouterr().out.splitlines()

    drawn = [line for line in lines if line.startswith(("  +", "  |"))]
    assert drawn[0].split() == [
        *(f"+node{n}xxxxx+" for n in range(5)),
        "+node5-----+",
    ]
    assert any("|pod8      |" in line for line in drawn)
    assert max(map(len, drawn)) <= 80
