"""``mooring apiserver`` as a process: when it cannot start, and without standard streams."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.scenario_files import nodes, write
from tests.integration.embedded import START_S, running
from tests.integration.processes import wait_until


def start(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-m", "mooring", "apiserver", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=START_S, check=False)


def test_a_port_that_is_taken_is_said_in_one_line(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        port = server.url.rpartition(":")[2]
        done = start(f"--port={port}", f"--kubeconfig-out={tmp_path / 'other'}")

    assert done.returncode == 2
    assert done.stderr.startswith(f"mooring apiserver: port {port}: ")
    assert "address already in use" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "other").exists()


def test_a_kubeconfig_that_cannot_be_written_ends_it(tmp_path: Path) -> None:
    path = tmp_path / "none" / "kubeconfig"

    done = start("--port=0", f"--kubeconfig-out={path}")

    assert done.returncode == 2
    assert str(path.parent) in done.stderr
    assert "No such file or directory" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_server_without_standard_streams_saves_at_its_end(tmp_path: Path) -> None:
    data, kubeconfig = tmp_path / "data.json", tmp_path / "kubeconfig"
    words = ["apiserver", "--port=0", f"--data={data}", f"--kubeconfig-out={kubeconfig}"]
    shell = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", sys.executable, "-m", "mooring"]

    with subprocess.Popen([*shell, *words]) as process:
        wait_until(lambda: kubeconfig.exists() or process.poll() is not None)
        process.terminate()
        process.wait(START_S)

    assert process.returncode == 0
    assert data.exists()


@pytest.mark.parametrize("words", [["apiserver"], ["start"], ["start", "--scenario={scenario}"]])
def test_an_output_that_cannot_be_written_is_no_error_of_the_port(
    tmp_path: Path, words: list[str]
) -> None:
    scenario = write(tmp_path, {"end": {"at": "1m"}, "cluster": {"nodes": [nodes(1)]}})
    words = [word.format(scenario=scenario) for word in words]
    options = ["--port=0", f"--kubeconfig-out={tmp_path / 'kubeconfig'}"]
    command = [sys.executable, "-m", "mooring", *words, *options]
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=START_S, check=False
        )

    problem = "mooring: the output cannot be written: No space left on device\n"
    assert (done.returncode, done.stderr) == (2, problem)
