"""Tests clusters as values, their simulations, and the comparison of two results."""

from __future__ import annotations

import asyncio
import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mooring
from mooring import Cluster, ConfigError, Reject, SchedulerError, compare, per_node
from mooring.testing import make_node, make_pod


def pod(name: str, cpu: str = "1", **more: Any) -> Any:
    return make_pod(name, requests={"cpu": cpu}, **more)


CLUSTER = Cluster(
    [
        make_node("a", allocatable={"cpu": "4"}, zone="z1"),
        make_node("b", allocatable={"cpu": "4"}, zone="z2"),
        pod("low", "3", node="a"),
    ]
)

WEB = {
    "apiVersion": "apps/v1",
    "kind": "ReplicaSet",
    "metadata": {"name": "web", "namespace": "default", "uid": "u"},
    "spec": {
        "replicas": 1,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        },
    },
}
SCALABLE = Cluster(CLUSTER.objects, name="shop", workloads=[WEB])
#: What type checkers would refuse.
UNTYPED: Any = SCALABLE
FIVE: Any = 5


def test_a_file_is_read_as_by_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(
        "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n"
        "status: {allocatable: {cpu: 2, memory: 1Gi, pods: 5}}\n---\n"
        "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\n"
        "spec: {containers: [{name: c, image: i}]}\n"
    )

    cluster = Cluster.read(file)

    assert list(cluster.nodes) == ["n1"]
    assert repr(cluster).endswith(": 1 node, 1 pod (1 pending)")
    assert cluster.simulate()["web"].node == "n1"
    with pytest.raises(ConfigError, match="cannot be read"):
        Cluster.read(tmp_path / "none.yaml")
    with pytest.raises(ConfigError, match="no file to read"):
        Cluster.read()


def test_placements_refusals_and_evictions_are_tables() -> None:
    result = CLUSTER.simulate(
        [pod("vip", "4", priority=10), pod("big", "64"), pod("web", priority=20)]
    )

    assert dict(zip(result.placements["pod"], result.placements["node"], strict=True)) == {
        "default/vip": "a",
        "default/web": "b",
    }
    assert result.placements.where(pod="default/vip")[0]["victims"] == ["default/low"]
    assert result.refused[0] == {
        "pod": "default/big",
        "outcome": "refused",
        "plugin": "NodeResourcesFit",
        "reason": "Insufficient cpu",
        "nodes": 2,
    }
    assert result.evicted[0]["by"] == "default/vip"
    assert result.summary.bound == 2
    assert "2 of 3 pods placed on 2 nodes, 1 refused, 1 pod evicted" in repr(result)
    assert len(result) == 3
    assert [own.outcome for own in result] == ["placed", "placed", "refused"]


def test_a_pod_is_found_by_name_and_explained() -> None:
    result = CLUSTER.cordon("b").simulate([pod("vip", "4", priority=10), pod("big", "64")])

    explanation = result["vip"].explain()

    text = str(explanation)
    assert text.startswith("Attempt 1, at 0 s\nPod default/vip waits for node a")
    assert "evicts: default/low" in text
    assert "Attempt 2, at 30 s\nPod default/vip goes to a" in text
    assert [attempt["number"] for attempt in explanation.to_dict()["attempts"]] == [1, 2]
    assert explanation._repr_html_().startswith("<pre>Attempt 1")
    assert "too small" in str(result["default/big"].explain())
    with pytest.raises(KeyError, match="no pod 'nope' in this result"):
        result["nope"]


def test_a_gated_pod_says_that_it_was_never_scheduled() -> None:
    gated = pod("held", spec={"schedulingGates": [{"name": "x.io/later"}]})
    held = CLUSTER.simulate([gated])["held"]
    assert held.outcome == "gated"
    assert "was never scheduled: waiting for scheduling gates" in str(held.explain())


@pytest.mark.parametrize(
    ("changed", "node"),
    [
        (CLUSTER.with_nodes(1, like="b", name="new").without("b"), "new-1"),
        (CLUSTER.without("low", "b"), "a"),
        (CLUSTER.cordon("b").without("low"), "a"),
    ],
)
def test_other_clusters_place_a_pod_elsewhere(changed: Cluster, node: str) -> None:
    assert changed.simulate([pod("web", "2")])["web"].node == node
    assert set(CLUSTER.nodes) == {"a", "b"}, "the cluster itself stays as it is"


def test_only_objects_make_a_cluster() -> None:
    with pytest.raises(ConfigError, match=r"objects\[1\]: must be an object, .* got 'web'"):
        Cluster([make_node("a"), "web"])


def test_a_label_that_no_node_has_does_not_group_nodes() -> None:
    with pytest.raises(ConfigError, match="by: no node has this label"):
        CLUSTER.simulate().fill(by="grup")


def test_what_is_not_there_cannot_be_changed() -> None:
    with pytest.raises(ConfigError, match="no node 'none'"):
        CLUSTER.cordon("none")
    with pytest.raises(ConfigError, match="no node 'none'"):
        CLUSTER.with_nodes(1, like="none")
    with pytest.raises(ConfigError, match="count: must be 0 or more, got -1"):
        CLUSTER.with_nodes(-1, like="a")
    with pytest.raises(ConfigError, match="no node or pod 'none'"):
        CLUSTER.without("none")


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (lambda: UNTYPED.with_nodes("3", like="a"), "count: must be an integer, got '3'"),
        (lambda: UNTYPED.with_nodes(1.5, like="a"), "count: must be an integer, got 1.5"),
        (lambda: UNTYPED.scale("replicaset/web", "5"), "replicas: must be an integer, got '5'"),
        (lambda: UNTYPED.scale("replicaset/web", -1), "replicas: must be 0 or more, got -1"),
        (lambda: UNTYPED.scale(5, 5), "name: must be a string such as 'deployment/web', got 5"),
        (lambda: UNTYPED.with_objects([make_node("c")]), "objects[0]: must be an object, such as"),
        (lambda: UNTYPED.simulate(config=5), "config: must be a KubeSchedulerConfiguration or"),
        (lambda: compare(CLUSTER.simulate(), UNTYPED), "after: must be a Result of Cluster.simul"),
        (lambda: compare(FIVE, CLUSTER.simulate()), "before: must be a Result of Cluster.simulate"),
        (lambda: mooring.Server(FIVE), "cluster: must be a Cluster, got 5"),
        (lambda: mooring.Server(config=FIVE), "config: must be a KubeSchedulerConfiguration or"),
    ],
)
def test_an_argument_of_another_type_is_named(call: Callable[[], Any], problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        call()
    assert str(caught.value).startswith(problem)


def test_an_integer_of_numpy_is_a_number_of_nodes_and_replicas() -> None:
    assert len(UNTYPED.with_nodes(np.int64(2), like="a").nodes) == 4
    scaled = UNTYPED.scale("replicaset/web", np.int64(2))
    assert type(scaled.workloads[0]["spec"]["replicas"]) is int


def test_a_server_that_is_not_started_cannot_settle() -> None:
    with pytest.raises(SchedulerError, match="the server is not started: use it in a with block"):
        mooring.Server().settle()


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda cluster: pickle.loads(pickle.dumps(cluster))]
)
def test_a_cluster_can_be_copied_and_pickled(copied: Callable[[Cluster], Cluster]) -> None:
    other = copied(SCALABLE)

    assert repr(other) == repr(SCALABLE)
    assert other.objects == SCALABLE.objects
    assert other.workloads == SCALABLE.workloads
    assert other.simulate().placements["node"] == SCALABLE.simulate().placements["node"]


def test_a_new_node_has_a_hostname_of_its_own() -> None:
    node = make_node("a", labels={"kubernetes.io/hostname": "a", "disk": "ssd"})
    made = Cluster([node]).with_nodes(2, like="a").nodes
    assert [own.metadata.labels for own in made.values()] == [
        {"kubernetes.io/hostname": name, "disk": "ssd"} for name in ("a", "a-1", "a-2")
    ]


def test_fill_groups_nodes() -> None:
    result = CLUSTER.simulate([pod("web", "2")])
    by_node = result.fill(by="node").where(resource="cpu")
    assert dict(zip(by_node["node"], by_node["requested"], strict=True)) == {"a": 3000, "b": 2000}
    by_zone = result.fill(by="zone").where(resource="cpu")
    assert dict(zip(by_zone["zone"], by_zone["share"], strict=True)) == {"z1": 0.75, "z2": 0.5}
    assert result.fill().where(resource="cpu")[0]["nodes"] == 2


class OnlyB:
    name = "OnlyB"

    @per_node
    def filter(self, pod: Any, node: Any) -> Reject | None:
        return None if node.name == "b" else Reject("not b")


def test_a_comparison_names_the_pods_that_move() -> None:
    pods = [pod("one", "1"), pod("two", "3"), pod("three", "2")]
    empty = CLUSTER.without("low")
    before, after = empty.simulate(pods), empty.simulate(pods, plugins=[OnlyB()])

    comparison = compare(before, after)

    assert before.summary.bound == 3
    nodes = {own.pod for own in after if own.node == "b"}
    assert after.summary.bound == len(nodes) == 2
    assert len(comparison.newly_refused) == 1
    assert (
        comparison.newly_refused[0]["node"] == "a"
        or before[comparison.newly_refused[0]["pod"]].node == comparison.newly_refused[0]["node"]
    )
    assert not comparison.is_equal
    assert compare(before, before).is_equal
    assert repr(compare(before, before)) == "no pod moves"
    assert "1 newly refused" in repr(comparison)


def test_a_simulation_runs_in_a_notebook() -> None:
    async def cell() -> str:
        result = CLUSTER.simulate([pod("web")])
        await asyncio.sleep(0)
        return result["web"].explain()._repr_html_()

    assert "default/web goes to b" in asyncio.run(cell())


def test_the_names_are_public() -> None:
    assert {"Cluster", "Comparison", "Result", "Server", "Table", "compare"} <= set(mooring.__all__)
