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
from tests.helpers.full_disk import full_disk
from tests.integration.processes import wait_until


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
    assert ", 2 Pods" in capsys.readouterr().err
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


def test_a_dump_on_a_full_disk_leaves_the_file_before(
    server: mooring.Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "dump.json"
    file.write_text("the dump before")
    with full_disk(after_bytes=2000):
        assert main(["dump", "--kubeconfig", server.kubeconfig, "-o", str(file)]) == 2
    assert f"{file}: cannot be written: File too large" in capsys.readouterr().err
    assert file.read_text() == "the dump before"
    assert list(tmp_path.iterdir()) == [file]


def test_the_bound_pods_of_a_live_cluster_are_replayed(
    server: mooring.Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "dump.json"
    assert main(["dump", "--kubeconfig", server.kubeconfig, "-o", str(file)]) == 0
    capsys.readouterr()
    for words in (["--kubeconfig", server.kubeconfig], ["--cluster", str(file)]):
        assert main(["replay", *words]) == 0
        assert ": 1 pod decided again, no difference" in capsys.readouterr().out


def test_an_unknown_pod_of_a_live_cluster_is_not_in_the_cluster(
    server: mooring.Server, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", "wbe", "--kubeconfig", server.kubeconfig]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1] == "mooring explain: no pod 'wbe' in the cluster (did you mean 'web'?)"
    # One note: the certificate of a server that does not answer is no topic.
    assert [line for line in lines if "not verified" in line] == []


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


DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop}
spec:
  replicas: 2
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec: {containers: [{name: c, image: i, resources: {requests: {cpu: "1"}}}]}
"""


@pytest.fixture
def deployed(tmp_path: Path) -> Any:
    """A cluster with a Deployment of two pods, which are on a node, with room for two more."""
    file = tmp_path / "deployment.yaml"
    file.write_text(DEPLOYMENT)
    cluster = mooring.Cluster.read(file).with_objects(make_node("a"))
    with mooring.Server(cluster) as running:
        wait_until(lambda: placed(running) == 2)
        yield running


def placed(server: mooring.Server) -> int:
    pods = mooring.Cluster.from_kubeconfig(server.kubeconfig).pods.values()
    return sum(bool(pod.spec.node_name) for pod in pods)


def pods_of(out: str) -> dict[str, list[str]]:
    document = json.loads(out)
    return {name: [pod["pod"] for pod in document[name]] for name in ("placements", "refused")}


def test_workloads_of_a_live_cluster_get_only_the_pods_that_are_missing(
    deployed: mooring.Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    live = ["simulate", "--kubeconfig", deployed.kubeconfig, "-o", "json"]
    assert main(live) == 0
    assert pods_of(capsys.readouterr().out) == {"placements": [], "refused": []}

    assert main([*live, "--scale", "deployment/shop=5"]) == 0
    scaled = pods_of(capsys.readouterr().out)
    assert (len(scaled["placements"]), len(scaled["refused"])) == (2, 1)

    file = tmp_path / "more.yaml"
    file.write_text(DEPLOYMENT.replace("replicas: 2", "replicas: 3"))
    assert main([*live, "--pods", str(file)]) == 0
    applied = pods_of(capsys.readouterr().out)
    assert (len(applied["placements"]), len(applied["refused"])) == (1, 0)

    dump = tmp_path / "dump.json"
    assert main(["dump", "--kubeconfig", deployed.kubeconfig, "-o", str(dump)]) == 0
    capsys.readouterr()
    words = ["simulate", "--cluster", str(dump), "-o", "json", "--scale", "deployment/shop=5"]
    assert main(words) == 0
    assert pods_of(capsys.readouterr().out) == scaled


def test_the_python_api_scales_a_live_cluster(deployed: mooring.Server) -> None:
    cluster = mooring.Cluster.from_kubeconfig(deployed.kubeconfig)

    assert len(cluster.simulate()) == 0
    assert [pod.outcome for pod in cluster.scale("deployment/shop", 5).simulate()].count(
        "placed"
    ) == 2
    fewer = cluster.scale("deployment/shop", 1).simulate()
    assert len(fewer) == 0
