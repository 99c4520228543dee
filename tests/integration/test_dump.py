"""Tests reading a live cluster: ``mooring dump``, ``simulate --kubeconfig``, the Python API."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

import mooring
from mooring.cli import main
from mooring.objects.kinds import KINDS
from mooring.simulation.inputs.live_cluster import NOT_USED, WORKLOADS
from mooring.testing import make_node, make_pod
from tests.docs.pages import blocks_of


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


def test_start_copies_a_live_cluster_and_writes_nothing_to_it(
    server: mooring.Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = mooring.Cluster.from_kubeconfig(server.kubeconfig)
    more = tmp_path / "more.yaml"
    more.write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: more}\n"
        "spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 1}}}]}\n"
    )
    out = tmp_path / "copy.kubeconfig"
    common = ["start", "--kubeconfig", server.kubeconfig, "--pods", str(more), "-o", "json"]

    assert main([*common, "--once", "--kubeconfig-out", str(out)]) == 0
    copied = json.loads(capsys.readouterr().out)
    assert main([*common, "--virtual"]) == 0
    virtual = json.loads(capsys.readouterr().out)

    for summary in (copied, virtual):
        assert summary["workload"] == f"{server.url}, {more}"
        assert summary["nodes"] == 1
        assert summary["bound"] == 1, "more; the other pod has a node"
        assert summary["unschedulable"] == {"Insufficient cpu": 1}, "big"
    after = mooring.Cluster.from_kubeconfig(server.kubeconfig)
    assert {pod.metadata.resource_version for pod in before.pods.values()} == {
        pod.metadata.resource_version for pod in after.pods.values()
    }
    assert "default/more" not in after.pods
    assert server.url not in out.read_text(), "the written kubeconfig is that of the copy"


def test_start_takes_one_source(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["start", "--kubeconfig", "k", "--cluster", "c.yaml"]) == 2
    assert "--kubeconfig cannot be combined with --cluster" in capsys.readouterr().err
    assert main(["start", "--context", "c"]) == 2
    assert "--context needs --kubeconfig" in capsys.readouterr().err


def test_the_documented_role_lists_every_kind_that_is_read() -> None:
    page = Path(__file__).resolve().parents[2] / "docs/guides/read-files.md"
    (role,) = (block.text for block in blocks_of(page) if block.file == "reader.yaml")
    paths = [kind.path for kind in KINDS.values() if kind.name not in NOT_USED]
    read = set()
    for path in [*paths, *(path for _, path in WORKLOADS)]:
        _, root, *rest = path.split("/")
        read.add(("" if root == "api" else rest[0], rest[-1]))

    rules = yaml.safe_load(role)["rules"]

    granted = {
        (group, resource)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    assert granted == read
    assert {verb for rule in rules for verb in rule["verbs"]} == {"list"}
