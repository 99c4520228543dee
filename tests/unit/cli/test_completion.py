"""Shells complete commands, options and files; ``-h`` works everywhere."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from mooring.cli import COMMANDS, main
from mooring.cli.completion import SHELLS
from tests.helpers.paths import ROOT


def commands() -> Iterator[tuple[str, click.Command]]:
    """Yields all commands with their names, those of groups as ``config view``."""
    for name, entry in COMMANDS.items():
        command = importlib.import_module(entry.module).command
        yield name, command
        for inner, each in getattr(command, "commands", {}).items():
            yield f"{name} {inner}", each


NAMES = [name for name, _ in commands()]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Has the command ``mooring``, and files to be completed."""
    script = tmp_path / "mooring"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m mooring "$@"\n')
    script.chmod(0o755)
    (tmp_path / "pods-of-mine.yaml").write_text("")
    return tmp_path


def bash(folder: Path, script: str) -> str:
    """Returns what bash prints, with ``mooring`` in the path and its completion sourced."""
    path = f"{folder}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "--norc", "--noprofile", "-c", f"source <(mooring completion bash)\n{script}"],
        cwd=folder,
        env={"PATH": path, "PYTHONPATH": str(ROOT / "src"), "HOME": str(folder)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout


def completed(folder: Path, *words: str) -> list[str]:
    """Returns what bash offers for the last of these words.

    ``compopt`` works only in interactive completion, so its calls are printed.
    """
    line = " ".join(f"'{word}'" for word in words)
    return bash(
        folder,
        f"""
        compopt() {{ local IFS=' '; echo "compopt $*"; }}
        COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}
        _mooring_completion mooring '{words[-1]}' '{words[-2]}'
        printf '%s\\n' "${{COMPREPLY[@]}}"
        """,
    ).split("\n")[:-1]


def test_bash_calls_the_completion_of_mooring(folder: Path) -> None:
    assert bash(folder, "complete -p mooring").endswith("-F _mooring_completion mooring\n")


def test_bash_completes_commands(folder: Path) -> None:
    assert completed(folder, "mooring", "st") == ["start"]
    assert completed(folder, "mooring", "") == list(COMMANDS)


def test_bash_completes_commands_of_a_group(folder: Path) -> None:
    assert completed(folder, "mooring", "config", "") == ["check", "convert", "view"]


def test_bash_completes_options(folder: Path) -> None:
    assert completed(folder, "mooring", "start", "--ku") == [
        "--kubeconfig",
        "--kubeconfig-out",
        "--kubelets",
    ]
    assert completed(folder, "mooring", "--ver") == ["--version"]


def test_bash_completes_values(folder: Path) -> None:
    assert completed(folder, "mooring", "start", "-o", "t") == ["table"]


@pytest.mark.parametrize(
    "words",
    [
        ["start", "--pods", "pods"],
        ["start", "--pods", "=", "pods"],  # bash splits words at "="
        ["run", "--config", ""],
        ["config", "check", "pods"],
        ["replay", "first", "pods"],
    ],
)
def test_bash_completes_files(folder: Path, words: list[str]) -> None:
    assert completed(folder, "mooring", *words) == ["compopt -o default", ""]


@pytest.mark.parametrize("name", NAMES)
def test_every_parameter_that_is_a_file_is_completed_as_one(name: str) -> None:
    command = dict(commands())[name]
    with click.Context(command, info_name=name, resilient_parsing=True) as context:
        for parameter in command.params:
            metavar = parameter.make_metavar(context)
            if "FILE" not in metavar and "RECORDING" not in metavar:
                continue
            items = parameter.shell_complete(context, "x")
            assert [(item.type, item.value) for item in items] == [("file", "x")], parameter.name


@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_has_a_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0

    script = capsys.readouterr().out
    assert f"_MOORING_COMPLETE={shell}_complete" in script
    assert "mooring" in script


def test_help_says_how_to_install_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "--help"]) == 0

    text = capsys.readouterr().out
    for line in (
        'eval "$(mooring completion bash)"',
        'eval "$(mooring completion zsh)"',
        "mooring completion fish > ~/.config/fish/completions/mooring.fish",
    ):
        assert line in text


def test_another_shell_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "tcsh"]) == 2

    assert "'tcsh' is not one of 'bash', 'zsh', 'fish'" in capsys.readouterr().err


def test_an_unknown_instruction_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("_MOORING_COMPLETE", "tcsh_complete")

    assert main() == 2

    assert capsys.readouterr().err == "mooring: no completion for _MOORING_COMPLETE=tcsh_complete\n"


@pytest.mark.parametrize("name", NAMES)
def test_short_help_works_everywhere(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*name.split(), "--help"]) == 0
    long = capsys.readouterr().out

    assert main([*name.split(), "-h"]) == 0
    assert capsys.readouterr().out == long
    assert "-h, --help" in long
