"""Command lines on kube-scheduler and on ``mooring run``: the same exit code and last line.

All of them end before a cluster is contacted. Left out of a line are the time, the process and the
place in the source; names of programs are made equal.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.forked_programs import Forked, forked

pytestmark = pytest.mark.slow

LIMIT_S = 60.0

_DATA = json.loads((Path(__file__).parent / "data" / "command_lines.json").read_text())
#: Words, as a shell reads them.
LINES: list[str] = _DATA["lines"]
#: Files: with their kind, or lines after a correct head.
CONFIGURATIONS: list[str] = _DATA["configurations"]
#: Command lines that write a configuration.
WRITTEN: list[str] = _DATA["written"]

KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
"""
HEAD = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: kc}
"""
_HEADER = re.compile(r"^([IWE])\d{4} \S+ +\d+ [^\]]+\] ")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with a kubeconfig of a server that does not answer."""
    path = tmp_path_factory.mktemp("flags")
    (path / "kc").write_text(KUBECONFIG)
    (path / "labels.yaml").write_text("m,l: a,b\n")
    (path / "bad-labels.yaml").write_text("m: a\n")
    return path


@pytest.fixture(scope="module")
def ours(folder: Path) -> Iterator[Forked]:
    """Yields what runs ``mooring``."""
    with forked(folder, environment(folder)) as programs:
        yield programs


def environment(folder: Path) -> dict[str, str]:
    """Returns the variables of a program that reads no files of its user."""
    variables = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    if "PYTHONPATH" in os.environ:
        variables["PYTHONPATH"] = os.environ["PYTHONPATH"]
    return variables


def their_outcome(folder: Path, *command: str) -> tuple[int, str]:
    """Returns how kube-scheduler ends."""
    return outcome(
        subprocess.run(
            command,
            cwd=folder,
            env=environment(folder),
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
    )


def outcome(process: subprocess.CompletedProcess[str]) -> tuple[int, str]:
    """Returns the exit code and the last entry on stderr, which may have several lines."""
    lines = process.stderr.rstrip("\n").split("\n")
    start = len(lines) - 1
    while start > 0 and lines[start].startswith(("\t", " >")):
        start -= 1
    entry = _HEADER.sub(r"\1 ", "\n".join(lines[start:]))
    return process.returncode, entry.replace('"mooring run"', '"kube-scheduler"')


def both(
    programs: Path, ours: Forked, folder: Path, words: list[str]
) -> tuple[tuple[int, str], tuple[int, str]]:
    """Returns the outcome of kube-scheduler, and ours; without a port, for tests in parallel."""
    if not any("secure" in word for word in words):
        words = ["--secure-port=0", *words]
    return (
        their_outcome(folder, str(programs / "kube-scheduler"), *words),
        outcome(ours.run(folder, ["run", *words])),
    )


def test_the_lines_are_many_enough() -> None:
    assert len(set(LINES)) + len(set(CONFIGURATIONS)) + len(set(WRITTEN)) >= 150


@pytest.mark.parametrize("line", LINES)
def test_command_lines_end_alike(programs: Path, ours: Forked, folder: Path, line: str) -> None:
    theirs, own = both(programs, ours, folder, shlex.split(line))
    assert own == theirs


@pytest.mark.parametrize("text", CONFIGURATIONS)
def test_configurations_end_alike(programs: Path, ours: Forked, folder: Path, text: str) -> None:
    path = folder / f"config-{CONFIGURATIONS.index(text)}.yaml"
    path.write_text(text if "kind" in text else HEAD + text)
    words = [f"--config={path.name}", "--write-config-to=written"]
    theirs, own = both(programs, ours, folder, words)
    assert own == theirs


@pytest.mark.parametrize("line", WRITTEN)
def test_the_same_configuration_is_written(
    programs: Path, ours: Forked, folder: Path, line: str
) -> None:
    configuration = folder / "written-from.yaml"
    configuration.write_text(HEAD + "leaderElection: {leaderElect: false, retryPeriod: 3s}\n")
    words = ["--secure-port=0", *shlex.split(line)]
    theirs_path, ours_path = folder / "theirs.yaml", folder / "ours.yaml"
    program = str(programs / "kube-scheduler")
    theirs, _ = their_outcome(folder, program, *words, f"--write-config-to={theirs_path}")
    own = ours.run(folder, ["run", *words, f"--write-config-to={ours_path}"])
    assert (theirs, own.returncode) == (0, 0)
    assert ours_path.read_text() == theirs_path.read_text()


def test_the_same_flags_are_logged(programs: Path, folder: Path) -> None:
    words = [
        "--secure-port=0",
        "--kubeconfig=kc",
        "-v=1",
        "--write-config-to=w",
        "--tls-sni-cert-key=a,b:c",
    ]
    words += ["--feature-gates=AllBeta=false", "--requestheader-allowed-names=a,b"]
    shown = []
    for command in ([str(programs / "kube-scheduler")], [sys.executable, "-m", "mooring", "run"]):
        process = subprocess.run(
            [*command, *words], cwd=folder, capture_output=True, text=True, check=False
        )
        lines = process.stderr.splitlines()
        shown.append([line.partition("] ")[2] for line in lines if "] FLAG: " in line])
    assert shown[0] == shown[1]
    assert len(shown[0]) == 62
