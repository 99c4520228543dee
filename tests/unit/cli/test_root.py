"""The root of the command line: finding a command, and an exit code for whatever it raises."""

from __future__ import annotations

import os
import subprocess
import sys
import types
from collections.abc import Callable
from typing import Any

import click
import pytest

from mooring import cli
from mooring.errors import (
    ConfigError,
    InvariantViolation,
    PluginError,
    SchedulerError,
    Unreachable,
)


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[..., Any]], None]:
    """Puts a command named "probe" into the table."""

    def put(body: Callable[..., Any]) -> None:
        module = types.ModuleType("probe_command")
        options = [click.Option(["--loud"], is_flag=True), click.Argument(["word"], required=False)]
        vars(module)["command"] = click.Command("probe", callback=body, params=list(options))
        monkeypatch.setitem(sys.modules, "probe_command", module)
        entry = cli.Entry("probe_command", "Try something.")
        monkeypatch.setitem(cli.COMMANDS, "probe", entry)

    return put


def raising(error: BaseException) -> Callable[..., Any]:
    def body(**_: Any) -> None:
        raise error

    return body


def test_words_reach_the_command(
    install: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    install(lambda **given: click.echo(given))
    assert cli.main(["probe", "--loud", "x"]) == 0
    assert capsys.readouterr().out == "{'loud': True, 'word': 'x'}\n"


@pytest.mark.parametrize(("returned", "code"), [(None, 0), (0, 0), (1, 1), (2, 2), ("text", 0)])
def test_a_commands_number_is_the_exit_code(
    install: Callable[..., None], returned: Any, code: int
) -> None:
    install(lambda **_: returned)
    assert cli.main(["probe"]) == code


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (
            ConfigError("is odd", file="a.yaml", line=3),
            2,
            "mooring probe: a.yaml: line 3: is odd\n",
        ),
        (SchedulerError("no"), 2, "mooring probe: no\n"),
        (Unreachable("gone"), 2, "mooring probe: gone\n"),
        (
            PluginError("Mine", "Filter", "boom"),
            2,
            'mooring probe: running "Mine" filter plugin: boom\n',
        ),
        (InvariantViolation("row 3"), 70, "mooring probe: a bug in mooring: row 3\n"),
        (KeyboardInterrupt(), 130, ""),
        (click.Abort(), 130, ""),
        (click.UsageError("bad word"), 2, "bad word"),
        (click.FileError("f", "gone"), 1, "gone"),
        (click.exceptions.Exit(5), 5, ""),
    ],
)
def test_what_a_command_raises_becomes_an_exit_code(
    install: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    code: int,
    said: str,
) -> None:
    install(raising(error))
    assert cli.main(["probe"]) == code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert said in printed.err
    assert bool(printed.err) == bool(said)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ZeroDivisionError("oops"), "ZeroDivisionError: oops"),
        (PermissionError(1, "not permitted"), "PermissionError: [Errno 1] not permitted"),
    ],
)
def test_any_other_exception_is_a_bug_with_its_traceback(
    install: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
    error: Exception,
    message: str,
) -> None:
    install(raising(error))

    assert cli.main(["probe"]) == 70

    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[-2:] == [message, f"mooring probe: a bug in mooring: {message}"]


@pytest.mark.parametrize("words", [["--bogus"], ["a", "b"], ["--lod"]])
def test_bad_usage_of_a_command(
    install: Callable[..., None], capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    install(lambda **_: None)
    assert cli.main(["probe", *words]) == 2
    assert "Usage: mooring probe" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["probe", "--help"], ["help", "probe"], ["--help", "probe"]])
def test_help_of_a_command(
    install: Callable[..., None], capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    install(lambda **_: None)
    assert cli.main(words) == 0
    assert capsys.readouterr().out.startswith("Usage: mooring probe [OPTIONS] [WORD]")


@pytest.mark.parametrize("words", [[], ["-h"], ["--help"], ["help"]])
def test_help_of_all(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    assert cli.main(words) == 0
    assert capsys.readouterr().out == cli.help_text() + "\n"


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("confg", "mooring: no such command: 'confg'. Did you mean 'config'? See mooring --help."),
        ("xyzzy", "mooring: no such command: 'xyzzy'. See mooring --help."),
        ("--versoin", "no such option: '--versoin'. Did you mean '--version'?"),
    ],
)
def test_unknown_words(capsys: pytest.CaptureFixture[str], word: str, said: str) -> None:
    assert cli.main([word]) == 2
    assert said in capsys.readouterr().err


def test_help_fits_a_terminal() -> None:
    assert max(map(len, cli.help_text().splitlines())) <= 80


def test_a_full_disk_is_one_line() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "mooring", "--help"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            check=False,
        )

    assert done.returncode == 2
    assert done.stderr == "mooring: the output cannot be written: No space left on device\n"
