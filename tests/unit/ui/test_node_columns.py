"""Columns of nodes, and the rows that change."""

from __future__ import annotations

from typing import Any

from mooring.objects.codec.decode import convert
from mooring.state.cache import Cache
from mooring.ui.node_columns import NOT_READY, TAINTED, UNSCHEDULABLE, NodeReader


def node(name: str, *, cpu: str = "4", zone: str = "", **spec: Any) -> Any:
    labels = {"topology.kubernetes.io/zone": zone} if zone else {}
    status = {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "110"}}
    if spec.pop("not_ready", False):
        status["conditions"] = [{"type": "Ready", "status": "False"}]  # type: ignore[assignment]
    raw = {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": status}
    return convert(raw, "Node")


def pod(name: str, node_name: str, cpu: str = "1") -> Any:
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    return convert(
        {"metadata": metadata, "spec": {"nodeName": node_name, "containers": [container]}}, "Pod"
    )


def cluster() -> tuple[Cache, NodeReader]:
    cache = Cache()
    taint = {"key": "k", "effect": "NoSchedule"}
    cache.put_node(node("a", zone="z1"))
    cache.put_node(node("b", zone="z2", unschedulable=True, taints=[taint]))
    cache.put_node(node("c", cpu="2", not_ready=True))
    return cache, NodeReader(cache.nodes)


def test_all_nodes_are_columns() -> None:
    cache, reader = cluster()
    cache.put_pod(pod("p", "a"))

    columns = reader.columns()

    assert reader.resources() == ["cpu", "memory"]
    by_name = dict(zip(columns.names, range(3), strict=True))
    assert set(by_name) == {"a", "b", "c"}
    a, b, c = (by_name[name] for name in "abc")
    assert [columns.zones[at] for at in (a, b, c)] == ["z1", "z2", ""]
    assert [columns.flags[at] for at in (a, b, c)] == [0, UNSCHEDULABLE + TAINTED, NOT_READY]
    assert [columns.groups[at] for at in (a, c)] == ["4 cpu, 8Gi memory", "2 cpu, 8Gi memory"]
    assert columns.allocatable[0][a] == 4000
    assert (columns.requested[0][a], columns.pods[a], columns.allowed_pods[a]) == (1000, 1, 110)


def test_a_pod_changes_the_numbers_of_its_row_alone() -> None:
    cache, reader = cluster()
    generation = cache.nodes.log.generation
    cache.put_pod(pod("p", "c"))

    changes = reader.changes(generation, ["cpu", "memory"])

    assert changes.is_complete
    assert changes.nodes is None
    assert changes.usage is not None
    assert changes.usage.rows == [cache.nodes.row("c")]
    assert (changes.usage.pods, changes.usage.requested) == ([1], [[1000], [0]])
    assert reader.changes(changes.generation, ["cpu", "memory"]).usage is None


def test_nodes_that_change_come_and_go_are_sent_whole() -> None:
    cache, reader = cluster()
    generation = cache.nodes.log.generation
    gone = cache.nodes.row("c")
    cache.remove_node("c")
    cache.put_node(node("a", zone="z9"))

    changes = reader.changes(generation, ["cpu", "memory"])

    assert changes.nodes is not None
    seen = dict(zip(changes.nodes.rows, changes.nodes.names, strict=True))
    assert seen == {gone: "", cache.nodes.row("a"): "a"}
    assert changes.nodes.zones[changes.nodes.names.index("a")] == "z9"


def test_a_new_resource_or_a_lost_log_make_the_page_read_everything_again() -> None:
    cache, reader = cluster()
    assert not reader.changes(cache.nodes.log.generation, ["cpu"]).is_complete
    assert not reader.changes(-(1 << 20), ["cpu", "memory"]).is_complete
