"""One run of specs: a fresh control plane, one scheduler, and the state of each spec.

The specs of the embedded API server run on ``mooring start`` instead, which has the controllers,
the scheduler and the kubelets as well.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from mooring.testing import controlplane

SCHEDULERS: Final = ("kube-scheduler", "mooring")
START_S_MAX: Final = 60.0
STOP_S_MAX: Final = 30.0


class Suite(NamedTuple):
    """Which specs are run, and on what kind of cluster."""

    #: Regular expressions over the full text of specs; empty: no restriction.
    focus: str
    skip: str = ""
    #: A Ginkgo label filter.
    labels: str = ""
    #: Feature gates of all components, in addition to the defaults.
    gates: tuple[str, ...] = ()
    #: Value of kube-apiserver's --runtime-config.
    apis: str = "api/beta=true"
    #: True for the specs that only the embedded API server is to pass.
    is_embedded: bool = False


class Server(NamedTuple):
    """The API server under test: the administrator's kubeconfig, and the folder with kubectl."""

    kubeconfig: Path
    programs: Path
    #: True if its nodes run pods by themselves.
    has_kubelets: bool


class Outcome(NamedTuple):
    """How a spec ended: ``passed``, ``failed``, ``skipped``, ``timedout`` and so on."""

    state: str
    message: str = ""
    duration_s: float = 0.0


def run(
    suite: Suite, scheduler: str, *, program: Path, folder: Path, nodes: int
) -> dict[str, Outcome]:
    """Runs a suite with one scheduler; logs and the report are in ``folder``."""
    gates = [f"--feature-gates={','.join(suite.gates)}"] if suite.gates else []
    with controlplane.ControlPlane(
        scheduler=scheduler == "kube-scheduler",
        controller_manager=True,
        folder=folder / "plane",
        apiserver_arguments=[*gates, f"--runtime-config={suite.apis}", "--allow-privileged=true"],
        controller_manager_arguments=[*gates, "--kube-api-qps=200", "--kube-api-burst=300"],
        scheduler_arguments=gates,
    ) as plane:
        server = Server(plane.kubeconfig("admin"), plane.programs, has_kubelets=False)
        if scheduler == "kube-scheduler":
            return _run_specs(suite, server, program=program, folder=folder, nodes=nodes)
        with mooring(plane, folder / "mooring.log"):
            return _run_specs(suite, server, program=program, folder=folder, nodes=nodes)


def run_embedded(suite: Suite, *, program: Path, folder: Path, nodes: int) -> dict[str, Outcome]:
    """Runs a suite on ``mooring start``; logs and the report are in ``folder``."""
    cluster, kubeconfig = folder / "nodes.json", folder / "kubeconfig"
    cluster.write_text(
        json.dumps({"apiVersion": "v1", "kind": "List", "items": [_node(n) for n in range(nodes)]})
    )
    command = [sys.executable, "-m", "mooring", "start", "--cluster", str(cluster), "--kubelets"]
    command += ["--no-page", "--kubeconfig-out", str(kubeconfig)]
    kubectl = controlplane.binaries.build()
    with (folder / "mooring.log").open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
        try:
            _wait_for(kubeconfig, process)
            server = Server(kubeconfig, kubectl, has_kubelets=True)
            return _run_specs(suite, server, program=program, folder=folder, nodes=nodes)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(STOP_S_MAX)


def _node(number: int) -> dict[str, Any]:
    name = f"node-{number}"
    amounts = {"cpu": "16", "memory": "64Gi", "pods": "110", "ephemeral-storage": "100Gi"}
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**labels, "kubernetes.io/arch": "amd64"}},
        "status": {"capacity": amounts, "allocatable": amounts},
    }


def _wait_for(path: Path, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_S_MAX
    while not path.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"mooring start did not begin to serve: see {path.parent}")
        time.sleep(0.1)


@contextmanager
def mooring(plane: controlplane.ControlPlane, log: Path) -> Iterator[None]:
    """Runs mooring in a process of its own, with the rights of the identity ``mooring``.

    It has no feature gates but the defaults, since it refuses most gates that are off by default.
    """
    command = [sys.executable, "-m", "mooring", "run"]
    command += ["--kubeconfig", str(plane.kubeconfig("mooring")), "--leader-elect=false"]
    command += ["--bind-address=127.0.0.1", f"--secure-port={_free_port()}"]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
        try:
            yield
            if process.poll() is not None:
                raise RuntimeError(f"mooring ended: {log.read_text()[-2000:]}")
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(STOP_S_MAX)


def _run_specs(
    suite: Suite, server: Server, *, program: Path, folder: Path, nodes: int
) -> dict[str, Outcome]:
    report = folder / "report.json"
    command = [
        str(program),
        f"--kubeconfig={server.kubeconfig}",
        "--provider=skeleton",
        f"--fake-nodes={0 if server.has_kubelets else nodes}",
        f"--num-nodes={nodes}",
        "--minStartupPods=0",
        "--disable-log-dump",
        "--dump-logs-on-failure=false",
        "--ginkgo.v",
        "--ginkgo.no-color",
        "--ginkgo.silence-skips",
        "--ginkgo.timeout=3h",
        f"--ginkgo.focus={suite.focus}",
        f"--ginkgo.skip={suite.skip}",
        f"--ginkgo.label-filter={suite.labels}",
        f"--ginkgo.json-report={report}",
    ]
    with (folder / "specs.log").open("wb") as output:
        # A failed spec is an exit code, and is in the report.
        subprocess.run(
            command, stdout=output, stderr=output, cwd=folder, env={**os.environ, **_path(server)}
        )
    if not report.exists():
        raise RuntimeError(f"no report: {(folder / 'specs.log').read_text()[-2000:]}")
    return outcomes(json.loads(report.read_text()))


def outcomes(report: list[dict[str, Any]]) -> dict[str, Outcome]:
    """Returns the outcome of every spec that the filters have chosen, from Ginkgo's report."""
    found: dict[str, Outcome] = {}
    for spec in report[0]["SpecReports"] or []:
        failure = spec.get("Failure") or {}
        is_filtered = spec["State"] == "skipped" and not failure
        if spec["LeafNodeType"] != "It" or spec["State"] == "pending" or is_filtered:
            continue
        name = " ".join([*(spec["ContainerHierarchyTexts"] or []), spec["LeafNodeText"]])
        found[name] = Outcome(
            spec["State"], failure.get("Message", "").strip(), spec["RunTime"] / 1e9
        )
    return found


def _path(server: Server) -> Mapping[str, str]:
    return {"PATH": f"{server.programs}{os.pathsep}{os.environ.get('PATH', '')}"}


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    return port
