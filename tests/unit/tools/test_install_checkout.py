"""``make start`` installs the checkout without a build backend."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from importlib.metadata import distributions
from pathlib import Path

import pytest

import mooring
from tools.install_checkout import ROOT, install


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """Creates a folder like a virtual environment, with a space in its name."""
    folder = tmp_path / "my environment"
    for name in ("bin", "lib/python3/site-packages"):
        (folder / name).mkdir(parents=True)
    return folder


def packages(environment: Path) -> Path:
    return environment / "lib" / "python3" / "site-packages"


def install_into(environment: Path) -> None:
    scripts = environment / "bin"
    install(ROOT, packages=packages(environment), scripts=scripts, python=sys.executable)


def test_the_distribution_has_the_entry_points_of_the_project(environment: Path) -> None:
    install_into(environment)

    (found,) = distributions(name="mooring", path=[str(packages(environment))])
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = {
        (group, name, target)
        for group, points in project["entry-points"].items()
        for name, target in points.items()
    }
    wanted |= {("console_scripts", *item) for item in project["scripts"].items()}
    assert {(point.group, point.name, point.value) for point in found.entry_points} == wanted
    assert found.version == mooring.__version__
    assert found.requires == project["dependencies"]


def test_python_finds_the_sources(environment: Path) -> None:
    install_into(environment)

    (path_file,) = packages(environment).glob("*.pth")
    assert path_file.read_text() == f"{ROOT / 'src'}\n"


def test_the_command_runs(environment: Path) -> None:
    install_into(environment)

    done = subprocess.run(
        [environment / "bin" / "mooring", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"mooring {mooring.__version__}\n"


def test_the_interpreter_may_have_a_space_in_its_path(environment: Path) -> None:
    python = environment / "bin" / "python"
    python.symlink_to(sys.executable)
    scripts = environment / "bin"

    install(ROOT, packages=packages(environment), scripts=scripts, python=str(python))

    first, second, *_ = (scripts / "mooring").read_text().splitlines()
    assert (first, second) == ("#!/bin/sh", f"'''exec' '{python}' \"$0\" \"$@\"")


def test_every_file_is_recorded(environment: Path) -> None:
    install_into(environment)

    (found,) = distributions(name="mooring", path=[str(packages(environment))])
    recorded = {Path(str(file.locate())).resolve() for file in found.files or ()}
    assert recorded == {file.resolve() for file in environment.rglob("*") if file.is_file()}


def test_an_earlier_installation_is_replaced(environment: Path) -> None:
    earlier = packages(environment) / "mooring-0.0.1.dist-info"
    data = packages(environment) / "mooring" / "data" / "table.json"
    other = packages(environment) / "other.py"
    for folder in (earlier, data.parent):
        folder.mkdir(parents=True)
    for file in (data, other):
        file.write_text("")
    (earlier / "METADATA").write_text("Metadata-Version: 2.1\nName: mooring\nVersion: 0.0.1\n")
    (earlier / "RECORD").write_text(
        "mooring/data/table.json,,\nmooring-0.0.1.dist-info/METADATA,,\n"
        "mooring-0.0.1.dist-info/RECORD,,\n"
    )

    install_into(environment)
    install_into(environment)

    names = sorted(entry.name for entry in packages(environment).iterdir())
    version = mooring.__version__
    assert names == ["_mooring_checkout.pth", f"mooring-{version}.dist-info", "other.py"]


def planned(target: str, environment: Path) -> str:
    """Returns the commands that ``make TARGET`` would run."""
    done = subprocess.run(
        ["make", "--dry-run", target, f"VENV={environment}"],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"]},  # without the variables of a `make test` around this
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_make_start_installs_what_mooring_needs_to_run_and_no_more(tmp_path: Path) -> None:
    commands = planned("start", tmp_path)

    assert "-r requirements/runtime.txt" in commands
    assert "requirements/dev.txt" not in commands


@pytest.mark.parametrize("target", ["test", "lint", "bench", "controlplane"])
def test_other_targets_add_what_developers_need(tmp_path: Path, target: str) -> None:
    (tmp_path / ".runtime").touch()  # as `make start` leaves it

    commands = planned(target, tmp_path)

    assert "-r requirements/dev.txt" in commands
    assert "requirements/runtime.txt" not in commands


def test_make_start_after_make_test_installs_nothing(tmp_path: Path) -> None:
    for stamp in (".runtime", ".stamp"):
        (tmp_path / stamp).touch()

    assert planned("start", tmp_path).split() == [f"{tmp_path}/bin/mooring", "start"]
