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


def test_an_object_that_the_server_refuses_is_an_error_of_the_caller() -> None:
    bad = make_pod("web", requests={"cpu": "-1"})
    with (
        pytest.raises(mooring.ConfigError, match="rejects this Pod"),
        mooring.Server(mooring.Cluster([bad])),
    ):
        pass
