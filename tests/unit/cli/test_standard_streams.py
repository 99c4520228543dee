"""Commands whose standard input, output or error is closed."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.helpers.command_line import run_redirected


@pytest.mark.parametrize(
    ("closed", "said"),
    [(">&-", "mooring: no such command: 'nothing'. See mooring --help.\n"), ("2>&-", "")],
)
def test_a_closed_output_is_discarded(closed: str, said: str) -> None:
    done = run_redirected(closed, "nothing")

    assert (done.returncode, done.stdout, done.stderr) == (2, "", said)


@pytest.mark.parametrize("words", [["--version"], ["learn"], ["config", "view"]])
@pytest.mark.parametrize("closed", [">&-", "<&- >&- 2>&-"])
def test_a_command_succeeds_without_its_output(closed: str, words: list[str]) -> None:
    done = run_redirected(closed, *words)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_closed_input_is_an_empty_file() -> None:
    closed = run_redirected("<&-", "simulate", "--cluster", "-")
    empty = run_redirected("</dev/null", "simulate", "--cluster", "-")

    assert closed.returncode == 2
    assert closed.stderr == "mooring simulate: <standard input>: contains no objects\n"
    assert (empty.returncode, empty.stderr) == (closed.returncode, closed.stderr)


def test_a_file_never_gets_a_standard_descriptor() -> None:
    program = (
        "import os, sys\n"
        "from mooring.cli.standard_streams import open_missing_streams\n"
        "open_missing_streams()\n"
        "descriptors = [os.dup(0), *range(3)]\n"
        "sys.exit(descriptors[0] < 3 or not all(map(os.get_inheritable, descriptors[1:])))\n"
    )
    command = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", sys.executable, "-c", program]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}

    assert subprocess.run(command, env=environment, check=False).returncode == 0
