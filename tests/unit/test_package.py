"""The package as a newcomer meets it: importing it, its command line, its declared dependencies."""

from __future__ import annotations

import ast
import importlib.metadata
import os
import re
import resource
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import mooring
from mooring import cli

ROOT = Path(__file__).resolve().parents[2]
HELP_S_MAX = 0.2
HEAVY = {"numpy", "msgspec", "yaml", "rich", "click", "asyncio", "json", "mooring.objects"}


def run(*words: str, code: str | None = None) -> subprocess.CompletedProcess[str]:
    """Runs Python the way a shell would, with this tree's package."""
    command = [sys.executable, "-c", code] if code else [sys.executable, "-m", "mooring", *words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=60, env=environment
    )


def children_cpu_s() -> float:
    """Returns CPU seconds of all ended child processes."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_help_is_quick() -> None:
    """CPU time: what it costs, and not how busy the machine is with other things."""
    run("--help")  # the first run may have to write bytecode
    seconds = []
    for _ in range(5):
        before_s = children_cpu_s()
        done = run("--help")
        seconds.append(children_cpu_s() - before_s)
        assert done.returncode == 0
    assert 0 < min(seconds) <= HELP_S_MAX


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from mooring.cli import main; main(['--help']);"
        "print('LOADED', *sys.modules, file=sys.stderr)"
    )
    done = run(code=code)
    loaded = set(done.stderr.partition("LOADED")[2].split())
    assert "mooring.cli" in loaded
    assert loaded & HEAVY == set()


def test_help_lists_every_command() -> None:
    shown = run("--help").stdout
    for name, entry in cli.COMMANDS.items():
        assert re.search(rf"^  {name} +{re.escape(entry.help)}$", shown, re.MULTILINE)


def test_no_words_is_help() -> None:
    assert run().stdout == run("--help").stdout


def test_version() -> None:
    assert run("--version").stdout == f"mooring {mooring.__version__}\n"


def test_unknown_command_is_refused_with_a_suggestion() -> None:
    done = run("simulat")
    assert done.returncode == cli.EXIT_USAGE
    assert "Did you mean 'simulate'?" in done.stderr
    assert done.stdout == ""


def test_bad_input_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    bad = tmp_path / "config.yaml"
    bad.write_text("kind: Pod\napiVersion: kubescheduler.config.k8s.io/v1\n")
    done = run("config", "check", str(bad))
    assert done.returncode == cli.EXIT_USAGE
    expected = f"{bad}: line 1: kind: must be KubeSchedulerConfiguration, got 'Pod'"
    assert done.stderr == f"mooring config: {expected}\n"


def test_closed_pipe_is_quiet() -> None:
    code = (
        "import os, sys; from mooring.cli import main;"
        "r, w = os.pipe(); os.close(r); os.dup2(w, 1);"
        "sys.stderr.write(str(main(['config', 'view'])))"
    )
    done = run(code=code)
    assert done.stderr == str(cli.EXIT_PIPE_CLOSED)


def test_public_names_are_sorted_and_can_be_loaded() -> None:
    # Constants first, then classes, then the rest: the order that ruff keeps.
    def place(name: str) -> tuple[bool, bool, str]:
        return not name.isupper(), not name[0].isupper(), name

    assert list(mooring.__all__) == sorted(mooring.__all__, key=place)
    for name in mooring.__all__:
        assert getattr(mooring, name) is not None
    assert set(mooring.__all__) <= set(dir(mooring))


def test_type_checkers_see_the_public_names_where_they_are_loaded_from() -> None:
    tree = ast.parse(Path(mooring.__file__).with_suffix(".pyi").read_text())
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    declared = {
        alias.asname: node.module
        for node in imports
        if node.module and node.module.startswith("mooring")
        for alias in node.names
    }
    assert declared == mooring._PUBLIC
    assert {*declared, "__version__"} == set(mooring.__all__)


def test_unknown_public_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'schedular'"):
        getattr(mooring, "schedular")  # noqa: B009 - the type checker knows that it is missing


def test_requirements_say_what_the_project_says() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = (ROOT / "requirements" / "runtime.in").read_text().splitlines()
    wanted = [line for line in lines if line and not line.startswith("#")]
    assert wanted == project["dependencies"]
    assert len(wanted) <= 12


def test_each_dependency_has_its_line() -> None:
    page = (ROOT / "docs" / "concepts" / "dependencies.md").read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for requirement in project["dependencies"]:
        name = re.split(r"[^\w-]", requirement)[0]
        assert f"| {name} |" in page


@pytest.mark.parametrize("name", ["runtime", "dev", "fuzz", "supply"])
def test_locks_carry_hashes_and_no_address(name: str) -> None:
    text = (ROOT / "requirements" / f"{name}.txt").read_text()
    pins = re.split(r"\n(?=[a-z])", text)
    assert len(pins) >= 5
    assert all("==" in pin and "--hash=sha256:" in pin for pin in pins)
    assert "://" not in text
    assert not re.search(r"(^|\s)/\w", text)


def test_the_package_says_where_the_project_is() -> None:
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]
    assert sorted(urls) == ["Changelog", "Documentation", "Issues", "Source"]
    assert all(
        url.startswith(f"{urls['Source']}/") for url in urls.values() if url != urls["Source"]
    )


def test_console_command_points_at_main() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert importlib.metadata.EntryPoint("mooring", scripts["mooring"], "x").load() is cli.main


def test_actions_of_workflows_are_pinned_by_hash_and_may_only_read() -> None:
    (path,) = (ROOT / ".github" / "workflows").iterdir()
    text = path.read_text()
    actions = re.findall(r"uses: (\S+)", text)

    assert actions
    assert all(re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", action) for action in actions)
    assert "permissions:\n  contents: read\n" in text
    assert "write" not in text
