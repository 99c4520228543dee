"""Tests reading a live cluster: ``mooring dump``, ``simulate --kubeconfig``, the Python API."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import mooring
from mooring.cli import main
from mooring.testing import make_node, make_pod


@pytest.fixture
def server() -> Any:
    cluster = mooring.Cluster(
        [
            make_node("a"),
            make_pod("web", requests={"cpu": "1"}),
            make_pod("big", requests={"cpu": "99"}),
        ]
    )
    with mooring.Server(cluster) as running:
        running.settle()
        yield running


def test_a_dump_is_simulated_as_the_cluster_itself(
    server: mooring.Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "dump.json"
    assert main(["dump", "--kubeconfig", server.kubeconfig, "-o", str(file)]) == 0
    assert "2 Pod" in capsys.readouterr().err
    kinds = {item["kind"] for item in json.loads(file.read_text())["items"]}
    assert {"Node", "Pod", "Namespace"} <= kinds
    assert not kinds & {"Secret", "Event", "Lease"}

    assert main(["simulate", "--cluster", str(file), "-o", "json"]) == 0
    from_file = json.loads(capsys.readouterr().out)
    assert main(["simulate", "--kubeconfig", server.kubeconfig, "-o", "json"]) == 0
    live = json.loads(capsys.readouterr().out)

    for document in (from_file, live):
        assert [pod["pod"] for pod in document["refused"]] == ["default/big"]
        assert document["pods"] == 1, "the other one has a node"
    cluster = mooring.Cluster.from_kubeconfig(server.kubeconfig)
    assert cluster.pods["default/web"].spec.node_name == "a"
    assert cluster.simulate()["big"].outcome == "refused"


def test_a_cluster_that_cannot_be_reached_is_an_error(
    server: mooring.Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = Path(server.kubeconfig).read_text()
    port = server.url.rpartition(":")[2]
    file = tmp_path / "kubeconfig"
    file.write_text(text.replace(f":{port}", ":1"))

    assert main(["dump", "--kubeconfig", str(file)]) == 2
    assert "cannot be reached" in capsys.readouterr().err


def test_a_live_cluster_excludes_files(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--kubeconfig", "k", "--cluster", "c.yaml"]) == 2
    assert "--kubeconfig cannot be combined with --cluster" in capsys.readouterr().err
