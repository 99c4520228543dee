"""``mooring start`` as people run it, with the real kubectl in the other window."""

from __future__ import annotations

import json
import re
import shlex
import signal
import stat
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import ROOT, Block, commands_of
from tests.helpers.command_line import node_yaml, pod_yaml, write_workload
from tests.integration.embedded import Embedded, Kubectl
from tests.integration.processes import mooring, once, wait_until

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def runtime_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a kubeconfig is written by default."""
    folder = tmp_path / "runtime"
    folder.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    return folder


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    cluster = [node_yaml("n1", "2"), node_yaml("n2", "4")]
    return write_workload(tmp_path, cluster, [pod_yaml("fits", "1500m"), pod_yaml("big", "12")])


def a_pod(name: str, cpu: str) -> dict[str, Any]:
    resources = {"requests": {"cpu": cpu}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": resources}]},
    }


def test_kubectl_creates_looks_and_deletes_while_it_is_up(
    programs: Path, tmp_path: Path, files: list[str], runtime_folder: Path
) -> None:
    path = runtime_folder / "mooring" / "start.kubeconfig"
    with mooring(tmp_path, "start", *files, "--kubelets") as program:
        program.wait_for("1 bound, 0 pending, 1 refused")
        said = program.out.read_text()
        assert f"export KUBECONFIG={path}\n" in said
        url = said.splitlines()[0].removeprefix("mooring start: ")
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        kubectl = Kubectl(programs / "kubectl", Embedded(program.process, url, path), tmp_path)  # type: ignore[arg-type]
        kubectl("create", "-f-", stdin=a_pod("another", "1"))
        kubectl("wait", "pod/another", "--for=condition=Ready", "--timeout=30s")
        assert "Running" in kubectl("get", "pods")
        assert "0/2 nodes are available: 2 Insufficient cpu." in kubectl("describe", "pod", "big")
        assert "Successfully assigned default/another to n" in kubectl("describe", "pod", "another")
        # Room comes, and the pod that waited for it.
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n3"}}
        node["status"] = {"allocatable": {"cpu": "16", "memory": "4Gi", "pods": "10"}}
        kubectl("create", "-f-", stdin=node)
        kubectl("wait", "pod/big", "--for=condition=PodScheduled", "--timeout=30s")
        kubectl("delete", "pod", "fits", "--grace-period=1", "--wait", "--timeout=30s")
        wait_until(lambda: "2 bound, 0 pending, 0 refused" in program.said())
        assert program.end(signal.SIGINT) == 0
        assert "pods placed on" in program.said()
        assert program.err.read_text() == ""


def test_the_guide_helps_the_pod_that_it_promises_to_help(
    programs: Path, tmp_path: Path, runtime_folder: Path
) -> None:
    """Compares the output of the section's kubectl commands with the page, except ages."""

    def facts(table: str) -> list[str]:
        return [word for word in table.split() if not re.fullmatch(r"(\d+[hms])+|10\.[\d.]+", word)]

    guide = (ROOT / "docs" / "guides" / "start.md").read_text()
    section = guide.partition("## Help a pending pod\n")[2].partition("\n## ")[0]
    commands = [
        (shlex.split(command)[1:], shown)
        for block in re.findall(
            r"^```console no-run\n(.*?)^```$", section, re.MULTILINE | re.DOTALL
        )
        for command, shown in commands_of(Block("console", block, 0))
    ]
    assert len(commands) == 3
    with mooring(tmp_path, "start") as program:
        program.wait_for("8039 bound, 0 pending, 113 refused")
        path = runtime_folder / "mooring" / "start.kubeconfig"
        kubectl = Kubectl(programs / "kubectl", Embedded(program.process, "", path), tmp_path)  # type: ignore[arg-type]
        for words, shown in commands:
            name = "openb-pod-1639" if "openb-pod-1639" in words else "openb-pod-0017"
            kubectl("wait", f"pod/{name}", "--for=condition=Ready", "--timeout=60s")
            assert facts(kubectl(*words)) == facts(shown)
        assert program.end(signal.SIGTERM) == 0


def test_a_deployment_is_rolled_out_scaled_undone_and_deleted(
    programs: Path, tmp_path: Path, files: list[str], runtime_folder: Path
) -> None:
    path = runtime_folder / "mooring" / "start.kubeconfig"
    with mooring(tmp_path, "start", *files) as program:
        program.wait_for("1 bound, 0 pending, 1 refused")
        kubectl = Kubectl(programs / "kubectl", Embedded(program.process, "", path), tmp_path)  # type: ignore[arg-type]
        status = ("rollout", "status", "deployment/web", "--timeout=60s")
        kubectl("create", "deployment", "web", "--image=web:1", "--replicas=3")
        assert 'deployment "web" successfully rolled out' in kubectl(*status)
        kubectl("set", "image", "deployment/web", "web=web:2")
        assert 'deployment "web" successfully rolled out' in kubectl(*status)
        history = kubectl("rollout", "history", "deployment/web").split()
        assert history[-4:] == ["1", "<none>", "2", "<none>"]
        kubectl("rollout", "undo", "deployment/web")
        assert 'deployment "web" successfully rolled out' in kubectl(*status)
        image = "jsonpath={.spec.template.spec.containers[0].image}"
        assert kubectl("get", "deployment", "web", "-o", image) == "web:1"
        kubectl("scale", "deployment/web", "--replicas=1")
        wait = ("--for=jsonpath={.status.replicas}=1", "--timeout=60s")
        kubectl("wait", "deployment/web", *wait)
        nodes = [line.split() for line in kubectl("get", "nodes", "--no-headers").splitlines()]
        assert [(line[1], line[4]) for line in nodes] == [("Ready", "v1.36.3")] * 2
        kubectl("delete", "deployment", "web")
        wait_until(lambda: not kubectl("get", "pods", "-l", "app=web", "-o", "name"))
        assert program.end(signal.SIGINT) == 0
        assert program.err.read_text() == ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_in_peace_even_while_it_is_filling(tmp_path: Path, number: signal.Signals) -> None:
    with mooring(tmp_path, "start") as program:
        program.wait_for(" in use ")
        assert program.end(number) == 0
        assert "pods placed on 1213 nodes" in program.said()
        assert program.err.read_text() == ""


def test_once_tells_how_it_went_and_ends(tmp_path: Path, files: list[str]) -> None:
    done = once(tmp_path, "start", *files, "--once", "-o", "json")
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert {name: found[name] for name in ("nodes", "pods", "bound", "unschedulable")} == {
        "nodes": 2,
        "pods": 2,
        "bound": 1,
        "unschedulable": {"Insufficient cpu": 1},
    }
    assert found["pods_per_s"] > 0


def test_virtual_time_gives_the_same_again(
    tmp_path: Path, files: list[str], runtime_folder: Path
) -> None:
    runs = [once(tmp_path, "start", *files, "--virtual", "-o", "json") for _ in range(2)]
    first, second = (json.loads(done.stdout) for done in runs)
    for measured in ("seconds", "pods_per_s", "peak_rss_bytes"):
        assert first.pop(measured) >= 0
        assert second.pop(measured) >= 0
    assert first == second
    # There is no network, so nothing is written for kubectl.
    assert not list(runtime_folder.iterdir())


def test_a_port_that_is_taken_is_said_in_one_line(tmp_path: Path, files: list[str]) -> None:
    other = tmp_path / "other"
    other.mkdir()
    with mooring(tmp_path, "start", *files) as program:
        program.wait_for("1 bound")
        port = program.out.read_text().splitlines()[0].rpartition(":")[2]
        paths = [f"--cluster={tmp_path / 'cluster.yaml'}", f"--pods={tmp_path / 'pods.yaml'}"]
        done = once(other, "start", *paths, f"--port={port}")
        assert done.returncode == 2
        assert done.stderr.startswith(f"mooring start: port {port}: ")
        assert done.stderr.count("\n") == 1
        assert not list(other.iterdir())
        assert program.end(signal.SIGTERM) == 0


# -- scenarios ----------------------------------------------------------------------------------

SCENARIO = """\
apiVersion: mooring.dev/v1alpha1
kind: Scenario
spec:
  end: {at: 20m}
  cluster:
    nodes:
    - {name: n-, count: 2, template: {status: {allocatable: {cpu: "4", memory: 8Gi, pods: "9"}}}}
  workload:
  - at: 1m
    name: web
    create:
      apiVersion: apps/v1
      kind: Deployment
      metadata: {name: web}
      spec:
        replicas: 3
        selector: {matchLabels: {app: web}}
        template:
          metadata: {labels: {app: web}}
          spec: {containers: [{name: c, image: i, resources: {requests: {cpu: "1"}}}]}
  - {at: 2m, name: out, cordon: {node: n-1}}
  expect: [{pods.running: "%s"}]
"""


def a_scenario(folder: Path, expected: str = ">= 3") -> str:
    path = folder / "scenario.yaml"
    path.write_text(SCENARIO % expected)
    return str(path)


def test_kubectl_watches_a_scenario_and_cannot_write(
    programs: Path, tmp_path: Path, runtime_folder: Path
) -> None:
    path = runtime_folder / "mooring" / "start.kubeconfig"
    with mooring(tmp_path, "start", "--scenario", a_scenario(tmp_path), "--speed=600") as program:
        program.wait_for("the scenario has ended")
        kubectl = Kubectl(programs / "kubectl", Embedded(program.process, "", path), tmp_path)  # type: ignore[arg-type]
        pods = [line.split() for line in kubectl("get", "pods", "--no-headers").splitlines()]
        assert [pod[1:3] for pod in pods] == [["1/1", "Running"]] * 3
        assert "3/3" in kubectl("get", "deployment", "web")
        statuses = [line.split()[1] for line in kubectl("get", "nodes").splitlines()[1:]]
        assert statuses == ["Ready", "Ready,SchedulingDisabled"]
        with pytest.raises(AssertionError, match="it can be read, and not written"):
            kubectl("delete", "node", "n-0")
        assert program.end(signal.SIGINT) == 0
        assert program.err.read_text() == ""


def test_a_scenario_decides_as_in_a_simulation(tmp_path: Path) -> None:
    file = a_scenario(tmp_path)
    shown = once(tmp_path, "start", "--scenario", file, "--speed=1e6", "--once", "--seed=5")
    simulated = once(tmp_path, "simulate", file, "--seed=5")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout.splitlines()[2:] == simulated.stdout.splitlines()


STAGES = """
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: pod-ready}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions: [{key: .status.phase, operator: NotIn, values: [Running, Succeeded]}]
  delay: {durationMilliseconds: 3000, jitterDurationMilliseconds: 9000}
  next: {statusTemplate: "phase: Running"}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: pod-complete}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector: {matchExpressions: [{key: .status.phase, operator: In, values: [Running]}]}
  delay: {durationMilliseconds: 120000}
  next: {statusTemplate: "phase: Succeeded"}
"""


def test_a_scenario_with_stages_decides_as_in_a_simulation(tmp_path: Path) -> None:
    file, stages = a_scenario(tmp_path, ">= 0"), tmp_path / "stages.yaml"
    stages.write_text(STAGES)
    options = ["--seed=5", f"--stages={stages}"]
    shown = once(tmp_path, "start", "--scenario", file, "--speed=1e6", "--once", *options)
    simulated = once(tmp_path, "simulate", file, *options)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout.splitlines()[2:] == simulated.stdout.splitlines()
    assert "succeeded" in simulated.stdout


def test_a_broken_expectation_of_a_scenario_is_an_exit_code(tmp_path: Path) -> None:
    file = a_scenario(tmp_path, "< 3")
    done = once(tmp_path, "start", "--scenario", file, "--speed=1e6", "--once")
    assert done.returncode == 1
    assert "pods.running < 3" in done.stderr


def test_a_scenario_in_mid_run_is_interrupted(tmp_path: Path) -> None:
    with mooring(tmp_path, "start", "--scenario", a_scenario(tmp_path), "--speed=1") as program:
        program.wait_for("export KUBECONFIG")
        assert program.end(signal.SIGTERM) == 0
        assert program.err.read_text() == ""


@pytest.mark.parametrize("option", ["--cluster=x.yaml", "--virtual", "--no-kubelets", "-ojson"])
def test_options_that_a_scenario_has_no_use_for(tmp_path: Path, option: str) -> None:
    done = once(tmp_path, "start", "--scenario", a_scenario(tmp_path), option)
    assert done.returncode == 2
    assert "cannot be combined with --scenario" in done.stderr
