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
from pathlib import Path

import pytest

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


def outcome(folder: Path, *command: str) -> tuple[int, str]:
    """Returns the exit code and the last entry on stderr, which may have several lines."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    if "PYTHONPATH" in os.environ:
        environment["PYTHONPATH"] = os.environ["PYTHONPATH"]
    process = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    lines = process.stderr.rstrip("\n").split("\n")
    start = len(lines) - 1
    while start > 0 and lines[start].startswith(("\t", " >")):
        start -= 1
    entry = _HEADER.sub(r"\1 ", "\n".join(lines[start:]))
    return process.returncode, entry.replace('"mooring run"', '"kube-scheduler"')


def both(programs: Path, folder: Path, words: list[str]) -> tuple[tuple[int, str], tuple[int, str]]:
    """Returns the outcome of kube-scheduler, and ours; without a port, for tests in parallel."""
    if not any("secure" in word for word in words):
        words = ["--secure-port=0", *words]
    return (
        outcome(folder, str(programs / "kube-scheduler"), *words),
        outcome(folder, sys.executable, "-m", "mooring", "run", *words),
    )


def test_the_lines_are_many_enough() -> None:
    assert len(set(LINES)) + len(set(CONFIGURATIONS)) + len(set(WRITTEN)) >= 150


@pytest.mark.parametrize("line", LINES)
def test_command_lines_end_alike(programs: Path, folder: Path, line: str) -> None:
    theirs, ours = both(programs, folder, shlex.split(line))
    assert ours == theirs


@pytest.mark.parametrize("text", CONFIGURATIONS)
def test_configurations_end_alike(programs: Path, folder: Path, text: str) -> None:
    path = folder / f"config-{CONFIGURATIONS.index(text)}.yaml"
    path.write_text(text if "kind" in text else HEAD + text)
    theirs, ours = both(programs, folder, [f"--config={path.name}", "--write-config-to=written"])
    assert ours == theirs


@pytest.mark.parametrize("line", WRITTEN)
def test_the_same_configuration_is_written(programs: Path, folder: Path, line: str) -> None:
    configuration = folder / "written-from.yaml"
    configuration.write_text(HEAD + "leaderElection: {leaderElect: false, retryPeriod: 3s}\n")
    words = ["--secure-port=0", *shlex.split(line)]
    theirs_path, ours_path = folder / "theirs.yaml", folder / "ours.yaml"
    program = str(programs / "kube-scheduler")
    theirs, _ = outcome(folder, program, *words, f"--write-config-to={theirs_path}")
    mooring = (sys.executable, "-m", "mooring", "run")
    ours, _ = outcome(folder, *mooring, *words, f"--write-config-to={ours_path}")
    assert (theirs, ours) == (0, 0)
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
