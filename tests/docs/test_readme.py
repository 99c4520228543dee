"""The README is short, its links lead somewhere, and its commands print what it shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README, re.DOTALL)
CONSOLE = [body for kind, body in BLOCKS if kind == "console"]


def run(command: str, folder: Path) -> str:
    """The output of a mooring command, or of the one that ``make start`` runs."""
    words = ["mooring", "simulate"] if command == "make start" else command.split()
    assert words.pop(0) == "mooring"
    arguments = [str(ROOT / word) if word.startswith("tests/") else word for word in words]
    finished = subprocess.run(
        [sys.executable, "-m", "mooring", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "COLUMNS": "120"},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    return finished.stdout


def matches(shown: str, printed: str) -> bool:
    """Whether ``printed`` is ``shown``, where ``...`` stands for anything."""
    pattern = ".*".join(re.escape(part) for part in shown.strip().split("..."))
    return re.search(pattern, printed, re.DOTALL) is not None


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the files that the README's Python blocks name."""
    for kind, body in BLOCKS:
        name = re.match(r"# (\w+\.py)\n", body)
        if kind == "python" and name:
            (tmp_path / name.group(1)).write_text(body)
    return tmp_path


@pytest.mark.parametrize("block", CONSOLE, ids=lambda block: block.split("\n")[0])
def test_a_command_prints_what_the_readme_shows(block: str, folder: Path) -> None:
    first, _, shown = block.partition("\n")

    printed = run(first.removeprefix("$ "), folder)

    assert matches(shown, printed), printed


def test_the_readmes_plugin_changes_the_placements() -> None:
    bound = {line for body in CONSOLE for line in re.findall(r"(\d+) of 8152 pods placed", body)}

    assert bound == {"8039", "7944"}


def test_the_readme_is_short_and_its_links_lead_somewhere() -> None:
    assert README.count("\n") <= 120
    for target in re.findall(r"\]\(([^)#]+)", README):
        assert (ROOT / target).exists(), target
