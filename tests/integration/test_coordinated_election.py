"""Coordinated leader election: kube-apiserver chooses among mooring and kube-scheduler.

The real kube-apiserver with its gate on. Its controller starts when it leads itself, seconds after
kube-apiserver is ready.
"""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from mooring.testing.controlplane import ControlPlane
from tests.integration.embedded import make_list, make_node, make_pod
from tests.integration.processes import Program, mooring, wait_until

pytestmark = pytest.mark.slow

GATE = "--feature-gates=CoordinatedLeaderElection=true"
CANDIDATES = "leasecandidates.v1beta1.coordination.k8s.io"
IDENTITY = "system:kube-scheduler"


@pytest.fixture(scope="module")
def plane(programs: Path) -> Iterator[ControlPlane]:
    flags = [GATE, "--runtime-config=coordination.k8s.io/v1beta1=true"]
    with ControlPlane(programs=programs, apiserver_arguments=flags) as plane:
        nodes = make_list(make_node("node-0"))
        plane.kubectl("create", "--filename=-", stdin=json.dumps(nodes))
        yield plane


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def start(
    plane: ControlPlane, stack: ExitStack, folder: Path, *flags: str, identity: str = "mooring"
) -> Program:
    folder.mkdir()
    kubeconfig = f"--kubeconfig={plane.kubeconfig(identity)}"
    return stack.enter_context(mooring(folder, "run", kubeconfig, GATE, *flags))


def start_kube_scheduler(
    plane: ControlPlane, stack: ExitStack, log: Path, *flags: str
) -> subprocess.Popen[bytes]:
    words = [f"--kubeconfig={plane.kubeconfig(IDENTITY)}", GATE, "--secure-port=0", *flags]
    out = stack.enter_context(log.open("wb"))
    process = subprocess.Popen(
        [str(plane.programs / "kube-scheduler"), *words], stdout=out, stderr=out
    )
    stack.callback(process.wait)
    stack.callback(process.kill)
    return process


def lease(plane: ControlPlane) -> dict[str, Any]:
    """Returns the spec of the lease; empty if there is none."""
    words = ("get", "lease", "kube-scheduler", "--namespace=kube-system", "--output=json")
    result = plane.kubectl_result(*words)
    spec: dict[str, Any] = json.loads(result.stdout)["spec"] if result.stdout else {}
    return spec


def candidates(plane: ControlPlane) -> dict[str, Any]:
    """Returns the candidates' specs by name."""
    text = plane.kubectl("get", CANDIDATES, "--namespace=kube-system", "--output=json")
    return {item["metadata"]["name"]: item["spec"] for item in json.loads(text)["items"]}


def create_pod(plane: ControlPlane, name: str) -> None:
    plane.kubectl("create", "--filename=-", stdin=json.dumps(make_pod(name)))


def wait_until_bound(plane: ControlPlane, name: str) -> None:
    path = "--output=jsonpath={.spec.nodeName}"
    wait_until(lambda: plane.kubectl("get", "pod", name, path) == "node-0")


def test_kube_apiserver_elects_mooring_and_another_one_when_it_ends(
    plane: ControlPlane, stack: ExitStack, tmp_path: Path
) -> None:
    first = start(plane, stack, tmp_path / "first")
    first.wait_for("lease acquired")
    spec = lease(plane)
    ((name, candidate),) = candidates(plane).items()
    assert candidate.pop("renewTime")
    candidate.pop("pingTime", None)
    assert candidate == {
        "leaseName": "kube-scheduler",
        "binaryVersion": "1.36.3",
        "emulationVersion": "1.36.0",
        "strategy": "OldestEmulationVersion",
    }
    assert spec["holderIdentity"] == name
    assert spec["strategy"] == "OldestEmulationVersion"
    assert spec["leaseTransitions"] == 0
    assert "acquireTime" not in spec
    create_pod(plane, "elected")
    wait_until_bound(plane, "elected")

    second = start(plane, stack, tmp_path / "second")
    second.wait_for("waiting for the lease")
    wait_until(lambda: len(candidates(plane)) == 2)
    begun_s = time.monotonic()
    assert first.end(signal.SIGTERM) == 0
    second.wait_for("lease acquired")
    print(f"SIGTERM: the next one leads after {time.monotonic() - begun_s:.1f} s")
    assert lease(plane)["holderIdentity"] not in ("", name)
    create_pod(plane, "handed-over")
    wait_until_bound(plane, "handed-over")
    for program in (first, second):
        assert "Traceback" not in program.said()
        assert "forbidden" not in program.said().lower()


def test_an_older_emulated_version_takes_over_from_mooring_and_then_from_kube_scheduler(
    plane: ControlPlane, stack: ExitStack, tmp_path: Path
) -> None:
    """kube-scheduler and mooring are candidates for the same lease."""
    newest = start(plane, stack, tmp_path / "newest", identity=IDENTITY)
    newest.wait_for("lease acquired")
    log = tmp_path / "kube-scheduler.log"
    theirs = start_kube_scheduler(plane, stack, log, "--emulated-version=1.35")
    begun_s = time.monotonic()
    assert newest.process.wait(60) == 1
    assert "another candidate is to lead" in newest.said()
    wait_until(lambda: "Successfully acquired lease" in log.read_text())
    print(f"kube-scheduler 1.35 leads after {time.monotonic() - begun_s:.1f} s")
    create_pod(plane, "theirs")
    wait_until_bound(plane, "theirs")

    oldest = start(plane, stack, tmp_path / "oldest", "--emulated-version=1.34", identity=IDENTITY)
    begun_s = time.monotonic()
    assert theirs.wait(60) == 1
    oldest.wait_for("lease acquired")
    print(f"mooring 1.34 leads after {time.monotonic() - begun_s:.1f} s")
    assert candidates(plane)[lease(plane)["holderIdentity"]]["emulationVersion"] == "1.34.0"
    create_pod(plane, "ours")
    wait_until_bound(plane, "ours")
    assert "Traceback" not in newest.said() + oldest.said()
