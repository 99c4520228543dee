"""Tests the server of the Python API with kubectl."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

import mooring
from mooring.testing import make_node, make_pod
from mooring.testing.controlplane.binaries import build


def kubectl(server: mooring.Server, *words: str) -> str:
    command = [str(build() / "kubectl"), *words]
    environment = {**os.environ, **server.environment}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return done.stdout


def test_kubectl_sees_what_the_scheduler_does_until_the_block_ends() -> None:
    cluster = mooring.Cluster(
        [
            make_node("a"),
            make_pod("web", requests={"cpu": "1"}),
            make_pod("big", requests={"cpu": "99"}),
        ]
    )

    with mooring.Server(cluster) as server:
        server.settle()
        assert kubectl(server, "get", "pod", "web", "-o", "jsonpath={.spec.nodeName}") == "a"
        assert "Insufficient cpu" in kubectl(server, "describe", "pod", "big")
        file = Path(server.kubeconfig)
        assert file.stat().st_mode & 0o077 == 0

    assert not file.exists()


def test_the_workloads_of_a_file_have_pods_and_controllers(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(
        "apiVersion: v1\nkind: Node\nmetadata: {name: a}\n"
        "status: {allocatable: {cpu: 8, memory: 8Gi, pods: 20}}\n---\n"
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n"
        "  replicas: 2\n  selector: {matchLabels: {app: web}}\n"
        "  template:\n    metadata: {labels: {app: web}}\n"
        "    spec: {containers: [{name: c, image: i}]}\n"
    )

    with mooring.Server(mooring.Cluster.read(file)) as server:
        kubectl(server, "rollout", "status", "deployment/web", "--timeout=30s")
        assert kubectl(server, "get", "pods", "-o", "name").count("pod/web-") == 2
        kubectl(server, "scale", "deployment/web", "--replicas=4")
        kubectl(server, "rollout", "status", "deployment/web", "--timeout=30s")
        assert kubectl(server, "get", "pods", "-o", "name").count("pod/web-") == 4


def test_kubectl_top_shows_what_running_pods_request() -> None:
    web = make_pod("web", requests={"cpu": "250m", "memory": "64Mi"})

    with mooring.Server(mooring.Cluster([make_node("a"), web])) as server:
        server.settle()
        kubectl(server, "wait", "--for=jsonpath={.status.phase}=Running", "pod/web")
        pods = kubectl(server, "top", "pods").splitlines()
        nodes = kubectl(server, "top", "nodes").splitlines()

    assert pods[1].split() == ["web", "250m", "64Mi"]
    assert nodes[1].split()[:2] == ["a", "250m"]


def test_an_object_that_the_server_refuses_is_an_error_of_the_caller() -> None:
    bad = make_pod("web", requests={"cpu": "-1"})
    with (
        pytest.raises(mooring.ConfigError, match="rejects this Pod"),
        mooring.Server(mooring.Cluster([bad])),
    ):
        pass


def test_a_server_starts_once() -> None:
    server = mooring.Server()
    with server:
        server.settle()
        with pytest.raises(mooring.SchedulerError, match="the server is running: "), server:
            raise AssertionError
        server.settle()  # it has not been stopped

    with pytest.raises(mooring.SchedulerError, match="the server is closed"):
        server.settle()
    with pytest.raises(mooring.SchedulerError, match="the server is closed: "), server:
        raise AssertionError
