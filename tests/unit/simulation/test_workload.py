"""A workload is a cluster and the pods that wait for it, from files or from the trace."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.errors import ConfigError
from mooring.objects.meta import ObjectMeta, key
from mooring.objects.node import Node
from mooring.objects.pod import Pod, PodSpec, PodStatus
from mooring.simulation.workload import read_workload, workload_of


def pod(
    name: str,
    *,
    node: str = "",
    phase: str = "",
    deleted: str | None = None,
    priority: int | None = None,
) -> Pod:
    metadata = ObjectMeta(name=name, namespace="a", deletion_timestamp=deleted)
    spec = PodSpec(node_name=node, priority=priority)
    return Pod(metadata=metadata, spec=spec, status=PodStatus(phase=phase))


def test_without_files_it_is_the_trace() -> None:
    workload = read_workload()
    assert workload.name == "openb"
    assert {type(obj) for obj in workload.objects} == {Node}
    assert (len(workload.objects), len(workload.pending)) == (1213, 8152)


def test_a_list_of_the_trace_can_stand_where_a_file_can() -> None:
    workload = read_workload(["openb:all"], ["openb:multigpu20"])
    assert (len(workload.objects), len(workload.pending)) == (1523, 8324)
    assert workload.name == "openb:all, openb:multigpu20"
    assert len(read_workload([], ["openb:cpu050"]).objects) == 1213
    with pytest.raises(ConfigError, match="unknown pod list"):
        read_workload([], ["openb:none"])


def test_a_pod_waits_if_it_has_no_node_and_is_neither_finished_nor_leaving() -> None:
    pods = [
        pod("waits"),
        pod("runs", node="n1", phase="Running"),
        pod("leaves", node="n1", deleted="2026-01-01T00:00:00Z"),
        pod("done", node="n1", phase="Succeeded"),
        pod("failed", phase="Failed"),
        pod("deleted", deleted="2026-01-01T00:00:00Z"),
    ]
    workload = workload_of("x", pods)
    assert [key(waiting) for waiting in workload.pending] == ["a/waits"]
    assert [key(obj) for obj in workload.objects] == ["a/runs", "a/leaves"]


def test_higher_priority_waits_in_front_and_equals_keep_their_order() -> None:
    names = [("a", None), ("b", 10), ("c", 0), ("d", 10), ("e", -5)]
    workload = workload_of("x", [pod(name, priority=priority) for name, priority in names])
    assert [waiting.metadata.name for waiting in workload.pending] == ["b", "d", "a", "c", "e"]


def test_files_of_both_options_are_admitted_together(tmp_path: Path) -> None:
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text(
        "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: high}\nvalue: 7\n"
        "---\napiVersion: v1\nkind: Node\nmetadata: {name: n1}\n"
        "status: {allocatable: {cpu: '1', pods: '10'}}\n"
    )
    pods = tmp_path / "pods.yaml"
    pods.write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: low}\n"
        "spec: {containers: [{name: c, image: i}]}\n"
        "---\napiVersion: v1\nkind: Pod\nmetadata: {name: urgent}\n"
        "spec: {priorityClassName: high, containers: [{name: c, image: i}]}\n"
    )
    workload = read_workload([str(cluster)], [str(pods)])
    assert [key(waiting) for waiting in workload.pending] == ["default/urgent", "default/low"]
    assert workload.pending[0].spec.priority == 7
    assert workload.name == f"{cluster}, {pods}"


def test_kinds_of_the_files_that_no_scheduler_reads_are_counted(tmp_path: Path) -> None:
    file = tmp_path / "dump.yaml"
    file.write_text(
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}\n---\n"
        "{apiVersion: v1, kind: Node, metadata: {name: a}}\n"
    )

    workload = read_workload([str(file)])

    assert workload.skipped == {"ConfigMap": 1}
    assert [type(obj).__name__ for obj in workload.objects] == ["Node", "configmaps.v1."]


def test_an_error_of_admission_names_the_file_and_the_document(tmp_path: Path) -> None:
    file = tmp_path / "pods.yaml"
    file.write_text(
        "{apiVersion: v1, kind: Node, metadata: {name: a}}\n---\n"
        "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {priorityClassName: gold,"
        " containers: [{name: c, image: i}]}}\n"
    )

    with pytest.raises(ConfigError) as caught:
        read_workload([str(file)])

    assert str(caught.value).startswith(f"{file}: document 2: ")
    assert "gold" in str(caught.value)
