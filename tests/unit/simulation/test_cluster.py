"""A cluster that others change: what is taken in, what is passed over, what goes."""

from __future__ import annotations

import pytest

from mooring.errors import ConfigError
from mooring.objects.meta import Namespace, ObjectMeta
from mooring.objects.storage import PersistentVolume
from mooring.simulation.cluster import Cluster
from mooring.state.audit import audit
from mooring.testing import make_node, make_pod

POD = make_pod("p", node="a")


def names(cluster: Cluster) -> list[str]:
    assert audit(cluster.cache) == []
    return [pod.info.metadata.name for pod in cluster.cache.pods]


def test_nodes_pods_on_nodes_and_nominations_are_taken_in() -> None:
    cluster = Cluster(
        [make_node("a"), POD, make_pod("pending"), make_pod("waits", nominated_node="a")]
    )

    assert len(cluster.nodes) == 1
    assert names(cluster) == ["p"]
    assert [pod.metadata.name for pod in cluster.cache.nominator.pods_on("a")] == ["waits"]


def test_kinds_that_no_plugin_reads_are_passed_over() -> None:
    cluster = Cluster([Namespace(), PersistentVolume(metadata=ObjectMeta(name="v"))])
    assert (len(cluster.nodes), names(cluster)) == (0, [])


def test_pods_may_come_before_their_node() -> None:
    cluster = Cluster([POD])
    assert len(cluster.nodes) == 0
    cluster.update(make_node("a"))
    assert int(cluster.nodes.pod_count[cluster.nodes.row("a")]) == 1


def test_a_bound_pod_is_where_its_spec_says() -> None:
    cluster = Cluster([make_node("a"), make_node("b")])

    cluster.place(POD, "a")

    assert names(cluster) == ["p"]
    with pytest.raises(ConfigError, match="node: is not the pod's nodeName, got 'b'"):
        cluster.place(POD, "b")


def test_binding_ends_a_nomination_and_so_does_an_empty_name() -> None:
    cluster = Cluster([make_node("a")])
    waits = make_pod("waits")

    cluster.nominate(waits, "a")
    assert cluster.cache.nominator.node_of(waits.metadata.uid) == "a"
    cluster.nominate(waits, "")
    assert len(cluster.cache.nominator) == 0

    cluster.nominate(waits, "a")
    cluster.update(make_pod("waits", node="a"))
    assert len(cluster.cache.nominator) == 0


def test_what_is_gone_is_gone_by_kind_and_name() -> None:
    cluster = Cluster([make_node("a"), POD, make_pod("waits", nominated_node="a")])

    cluster.remove("Pod", "other", "p")
    cluster.remove("Deployment", "default", "p")
    assert names(cluster) == ["p"]
    cluster.remove("Pod", "default", "p")
    assert names(cluster) == []
    cluster.remove("Pod", "default", "waits")
    assert len(cluster.cache.nominator) == 0
    cluster.remove("Node", "", "a")
    assert len(cluster.nodes) == 0


def test_deletions_may_be_told_twice() -> None:
    cluster = Cluster([make_node("a"), POD])
    for _ in range(2):
        cluster.remove("Pod", "default", "p")
        cluster.remove("Node", "", "a")
    assert (len(cluster.nodes), names(cluster)) == (0, [])


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_finished_uses_nothing(phase: str) -> None:
    cluster = Cluster([make_node("a"), POD])

    cluster.update(make_pod("p", node="a", status={"phase": phase}))

    assert names(cluster) == []


def test_the_order_of_nodes_is_checked_to_its_end() -> None:
    cluster = Cluster([make_node("a", zone="x"), make_node("b", zone="x"), make_node("c")])

    cluster.check_order(["a", "c", "b"])
    with pytest.raises(ConfigError, match=r"node_order\[1\]: does not follow"):
        cluster.check_order(["a", "b", "c"])
    with pytest.raises(ConfigError, match="node_order: there are 3 nodes, got 0"):
        cluster.check_order([])
