"""SIGTERM to kube-scheduler and to ``mooring run``: the same exit code and last line."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mooring.testing.controlplane import ControlPlane
from tests.integration.processes import END_S, wait_until

pytestmark = pytest.mark.slow

IDENTITY = "system:kube-scheduler"
_HEADER = re.compile(r"^([IWE])\d{4} \S+ +\d+ [^\]]+\] ")

#: Flags -> a line of the log at which the signal is sent, of kube-scheduler and of mooring.
CASES = {
    "without leader election": (("--leader-elect=false",), "Handlers synced", "caches synced"),
    "leader": (
        ("--leader-elect-resource-name=LEASE",),
        "Successfully acquired lease",
        "caches synced",
    ),
    "standby": (
        ("--leader-elect-resource-name=taken",),
        "Attempting to acquire leader lease",
        "waiting for the lease",
    ),
}
TAKEN = """\
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: taken, namespace: kube-system}
spec: {holderIdentity: another, leaseDurationSeconds: 3600}
"""


@pytest.fixture(scope="module")
def plane(programs: Path) -> Iterator[ControlPlane]:
    with ControlPlane(programs=programs) as plane:
        plane.kubectl("create", "--filename=-", stdin=TAKEN)
        # Both may use leases of any name here.
        plane.kubectl(
            *("create", "clusterrole", "leases", "--verb=*"),
            "--resource=leases.coordination.k8s.io",
        )
        plane.kubectl(
            *("create", "clusterrolebinding", "leases"),
            *("--clusterrole=leases", f"--user={IDENTITY}"),
        )
        yield plane


def outcome(command: list[str], log: Path, line: str) -> tuple[int, list[str]]:
    """Sends SIGTERM once ``line`` is logged; returns exit code and all lines."""
    with log.open("wb") as out, subprocess.Popen(command, stdout=out, stderr=out) as process:
        try:
            wait_until(lambda: line in log.read_text() or process.poll() is not None)
            assert line in log.read_text(), log.read_text()
            process.send_signal(signal.SIGTERM)
            code = process.wait(END_S)
        finally:
            process.kill()
    return code, [_HEADER.sub(r"\1 ", text) for text in log.read_text().splitlines()]


@pytest.mark.parametrize("case", CASES)
def test_sigterm_ends_both_alike(plane: ControlPlane, tmp_path: Path, case: str) -> None:
    flags, theirs_line, ours_line = CASES[case]
    kubeconfig = f"--kubeconfig={plane.kubeconfig(IDENTITY)}"
    programs = {
        "theirs": ([str(plane.programs / "kube-scheduler")], theirs_line),
        "ours": ([sys.executable, "-m", "mooring", "run"], ours_line),
    }
    outcomes = {}
    for name, (command, line) in programs.items():
        named = [flag.replace("LEASE", name) for flag in flags]
        words = [*command, kubeconfig, "--secure-port=0", "-v=3", *named]
        outcomes[name] = outcome(words, tmp_path / f"{name}.log", line)
    assert outcomes["ours"][0] == outcomes["theirs"][0]
    # Goroutines of kube-scheduler log in any order at its end.
    assert outcomes["ours"][1][-1] in outcomes["theirs"][1]
    assert outcomes["theirs"][0] == (1 if case == "without leader election" else 0)
