"""Cache, NodeTable and PodTable: what is believed of the cluster."""

from __future__ import annotations

import numpy as np
import pytest

from mooring.errors import InvariantViolation
from mooring.state import PodInfo, audit
from mooring.state.cache import Cache, empty_snapshot
from mooring.testing import cluster, make_node, make_pod


def requested(cache: Cache, node: str, resource: str = "cpu") -> int:
    nodes = cache.nodes
    return int(nodes.requested[nodes.resource_id(resource), nodes.row(node)])


def test_a_placed_pod_counts_on_its_node() -> None:
    cache = cluster(make_node("a"), make_pod("p", requests={"cpu": "250m"}, node="a"))

    assert requested(cache, "a") == 250
    assert cache.nodes.pod_count[cache.nodes.row("a")] == 1
    assert audit(cache) == []


def test_an_assumption_is_given_back_when_the_block_raises() -> None:
    cache = cluster(make_node("a"))
    pod = PodInfo(make_pod("p", requests={"cpu": "1"})).on_node("a")

    def fail() -> None:
        with cache.assume(pod, "a"):
            assert requested(cache, "a") == 1000
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()

    assert requested(cache, "a") == 0
    assert not cache.is_assumed(pod.uid)
    assert audit(cache) == []


def test_a_kept_assumption_stays_until_it_is_confirmed_or_forgotten() -> None:
    cache = cluster(make_node("a"))
    pod = PodInfo(make_pod("p", requests={"cpu": "1"})).on_node("a")
    with cache.assume(pod, "a") as held:
        held.keep()

    assert cache.is_assumed(pod.uid)
    assert cache.assumed_count() == 1
    cache.confirm(pod.uid)
    assert not cache.is_assumed(pod.uid)
    assert requested(cache, "a") == 1000
    with pytest.raises(InvariantViolation, match="cannot forget"):
        cache.forget(pod.uid)


def test_the_api_server_is_right_about_where_an_assumed_pod_is() -> None:
    cache = cluster(make_node("a"), make_node("b"))
    made = make_pod("p", requests={"cpu": "1"})
    with cache.assume(PodInfo(made).on_node("a"), "a") as held:
        held.keep()

    cache.put_pod(PodInfo(made).on_node("b").pod)

    assert (requested(cache, "a"), requested(cache, "b")) == (0, 1000)
    assert cache.assumed_count() == 0
    assert audit(cache) == []


def test_a_confirmed_pod_never_moves() -> None:
    cache = cluster(make_node("a"), make_node("b"), make_pod("p", node="a"))

    with pytest.raises(InvariantViolation, match="moved from a to b"):
        cache.put_pod(make_pod("p", node="b"))


def test_a_pod_made_anew_under_its_name_replaces_the_old_one_in_one_step() -> None:
    cache = cluster(
        make_node("a"), make_node("b"), make_pod("p", uid="1", requests={"cpu": "1"}, node="a")
    )

    cache.put_pod(make_pod("p", uid="2", requests={"cpu": "2"}, node="b"))

    assert (requested(cache, "a"), requested(cache, "b")) == (0, 2000)
    assert len(cache.pods) == 1
    cache.remove_pod("1")
    assert len(cache.pods) == 1
    assert audit(cache) == []


def test_a_newer_version_of_a_pod_is_counted_instead_of_the_old_one() -> None:
    cache = cluster(make_node("a"), make_pod("p", requests={"cpu": "1"}, node="a"))

    cache.put_pod(make_pod("p", requests={"cpu": "3"}, node="a"))

    assert requested(cache, "a") == 3000
    assert audit(cache) == []


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_finishes_uses_nothing_any_more(phase: str) -> None:
    cache = cluster(make_node("a"), make_pod("p", requests={"cpu": "1"}, node="a"))

    cache.put_pod(make_pod("p", requests={"cpu": "1"}, node="a", status={"phase": phase}))

    assert requested(cache, "a") == 0
    assert len(cache.pods) == 0


def test_a_pod_on_an_unknown_node_is_kept_as_a_ghost_and_counted_when_the_node_comes() -> None:
    cache = cluster(make_pod("p", requests={"cpu": "1"}, node="late"))
    assert len(cache.nodes) == 0
    assert cache.nodes.live_row("late") == -1
    assert audit(cache) == []

    cache.put_node(make_node("late"))

    assert len(cache.nodes) == 1
    assert requested(cache, "late") == 1000
    assert audit(cache) == []


def test_a_removed_node_with_pods_becomes_a_ghost_and_goes_with_its_last_pod() -> None:
    cache = cluster(make_node("a"), make_pod("p", requests={"cpu": "1"}, node="a"))

    cache.remove_node("a")
    assert len(cache.nodes) == 0
    assert cache.nodes.row("a") >= 0
    assert audit(cache) == []
    cache.remove_pod("pod-default-p")

    assert cache.nodes.row("a") == -1
    assert audit(cache) == []


def test_a_freed_row_is_used_again_and_starts_clean() -> None:
    cache = cluster(make_node("a", taints=["k:NoSchedule"], unschedulable=True))
    row = cache.nodes.row("a")
    cache.remove_node("a")

    cache.put_node(make_node("b"))

    assert cache.nodes.row("b") == row
    assert not cache.nodes.unschedulable[row]
    assert audit(cache) == []


def test_removing_an_unknown_node_or_pod_is_fine() -> None:
    cache = cluster(make_node("a"))

    cache.remove_node("nobody")
    cache.remove_pod("nobody")
    cache.remove_pod_by_key("default/nobody")
    cache.forget("nobody")

    assert len(cache.nodes) == 1


def test_assuming_a_pod_twice_is_our_bug() -> None:
    cache = cluster(make_node("a"), make_pod("p", node="a"))

    with pytest.raises(InvariantViolation, match="in the cache already"):
        cache.assume(PodInfo(make_pod("p")).on_node("a"), "a")


def test_putting_a_pod_without_a_node_is_our_bug() -> None:
    with pytest.raises(InvariantViolation, match="not on a node"):
        cluster(make_node("a")).put_pod(make_pod("p"))


def test_binding_a_pod_ends_its_nomination() -> None:
    cache = cluster(make_node("a"), make_pod("p", nominated_node="a"))
    assert len(cache.nominator) == 1

    cache.put_pod(make_pod("p", node="a"))

    assert len(cache.nominator) == 0


def test_a_pod_that_is_bound_as_it_was_assumed_is_nominated_no_longer() -> None:
    cache = cluster(make_node("a"))
    assumed = PodInfo(make_pod("p", nominated_node="a")).on_node("a")
    cache.nominator.nominate(assumed, "a")
    with cache.assume(assumed, "a") as held:
        held.keep()

    cache.put_pod(assumed.pod)

    assert not cache.is_assumed(assumed.uid)
    assert len(cache.nominator) == 0


def test_columns_cannot_be_written_by_others() -> None:
    nodes = cluster(make_node("a")).nodes

    for column in (nodes.allocatable, nodes.requested, nodes.pod_count, nodes.alive):
        with pytest.raises(ValueError, match="read-only"):
            column[...] = 0


def test_tables_grow_past_their_first_size() -> None:
    cache = Cache()
    for number in range(200):
        cache.put_node(make_node(f"n{number}", allocatable={f"example.com/r{number % 12}": "3"}))
        cache.put_pod(make_pod(f"p{number}", requests={"cpu": "1"}, node=f"n{number}"))

    assert len(cache.nodes) == 200
    assert np.count_nonzero(cache.nodes.requested[0]) == 200
    assert audit(cache) == []


def test_a_resource_that_nobody_has_any_more_gives_its_column_back() -> None:
    cache = cluster(make_node("a", allocatable={"example.com/old": "1"}))
    old = cache.nodes.resource_id("example.com/old")

    cache.put_node(make_node("a", allocatable={"example.com/new": "2"}))

    assert cache.nodes.resource_id("example.com/old") == -1
    new = cache.nodes.resource_id("example.com/new")
    assert int(cache.nodes.allocatable[new, 0]) == 2
    assert new == old or old < 0 or int(cache.nodes.allocatable[old, 0]) == 0
    assert audit(cache) == []


@pytest.mark.parametrize("resource", ["example.com/one", "example.com/two"])
def test_a_removed_pod_gives_the_columns_of_all_its_resources_back(resource: str) -> None:
    cache = cluster(make_node("a"))
    requests: dict[str, str | int] = {"example.com/one": 1, "example.com/two": 2}
    pod = make_pod("p", node="a", requests=requests)
    cache.put_pod(pod)
    assert cache.nodes.resource_id(resource) >= 0

    cache.remove_pod(pod.metadata.uid)

    assert cache.nodes.resource_id(resource) == -1


def test_a_node_that_cannot_be_read_changes_nothing() -> None:
    cache = cluster(make_node("a"))
    generation = cache.nodes.log.generation
    bad = make_node("a")
    bad.status.allocatable["cpu"] = "many"

    with pytest.raises(ValueError, match="many"):
        cache.put_node(bad)

    assert cache.nodes.log.generation == generation


def test_a_snapshot_knows_when_it_is_out_of_date() -> None:
    cache = cluster(make_node("a"))
    snapshot = cache.snapshot()
    assert snapshot.is_current

    cache.put_pod(make_pod("p", node="a"))

    assert not snapshot.is_current


def test_the_audit_notices_a_column_that_went_wrong() -> None:
    cache = cluster(make_node("a"), make_pod("p", requests={"cpu": "1"}, node="a"))
    cache.nodes._requested[0, 0] += 1
    cache.nodes._pod_count[0] = 7

    found = audit(cache)

    assert any("requested cpu is 1001, should be 1000" in problem for problem in found)
    assert any("pod_count is 7, should be 1" in problem for problem in found)


def test_requests_that_leave_int64_wrap_as_in_go_and_come_back() -> None:
    cache = cluster(make_node("a", allocatable={"memory": "8E"}))
    huge = [PodInfo(make_pod(name, requests={"memory": "6E"})).on_node("a") for name in "pqr"]
    for pod in huge:
        with cache.assume(pod, "a") as held:
            held.keep()
        assert audit(cache) == []

    assert requested(cache, "a", "memory") == 18 * 10**18 - 2**64
    assert cache.nodes.nonzero_requested[1, 0] == 18 * 10**18 - 2**64
    for pod in huge[1:]:
        cache.forget(pod.uid)
    assert requested(cache, "a", "memory") == 6 * 10**18
    assert audit(cache) == []


def test_a_recount_repairs_what_the_pods_of_a_node_use() -> None:
    cache = cluster(
        make_node("a"),
        make_node("b"),
        make_pod("p", requests={"cpu": "1", "memory": "1Gi"}, node="a"),
        make_pod("q", requests={"cpu": "2"}, node="a"),
        make_pod("r", requests={"cpu": "4"}, node="b"),
    )
    row, generation = cache.nodes.row("a"), cache.nodes.log.generation
    cache.nodes._requested[:, row] += 7
    cache.nodes._nonzero[:, row] -= 7
    cache.nodes._pod_count[row] = 9
    assert audit(cache) != []

    cache.recount("a")

    assert audit(cache) == []
    assert (requested(cache, "a"), requested(cache, "b")) == (3000, 4000)
    changed = cache.nodes.log.rows_since(generation)
    assert changed is not None
    assert set(changed) == {row}
    cache.recount("unknown")
    cache.put_pod(make_pod("early", requests={"cpu": "5"}, node="late"))
    cache.recount("late")  # a row without a node
    assert requested(cache, "late") == 5000
    assert audit(cache) == []


def test_a_recount_of_a_row_without_pods_is_a_change() -> None:
    cache = cluster(make_node("a"))
    row, generation = cache.nodes.row("a"), cache.nodes.log.generation
    cache.nodes._requested[cache.nodes.resource_id("cpu"), row] = 7

    cache.recount("a")

    assert requested(cache, "a") == 0
    assert cache.nodes.log.rows_since(generation) == [row]


def test_assumed_pods_are_listed_until_they_are_confirmed() -> None:
    cache = cluster(make_node("a"))
    infos = [PodInfo(make_pod(name)).on_node("a") for name in ("p", "q")]
    for info in infos:
        with cache.assume(info, "a") as reservation:
            reservation.keep()
    assert cache.assumed_uids() == ["pod-default-p", "pod-default-q"]

    cache.confirm("pod-default-p")
    assert (cache.assumed_uids(), cache.assumed_count()) == (["pod-default-q"], 1)
    with pytest.raises(InvariantViolation, match="cannot confirm pod pod-default-p"):
        cache.confirm("pod-default-p")
    with pytest.raises(InvariantViolation, match="cannot confirm pod unknown"):
        cache.confirm("unknown")
    cache.forget("pod-default-q")
    cache.forget("pod-default-q")
    assert cache.assumed_uids() == []
    assert audit(cache) == []


def test_confirming_a_pod_ends_its_nomination() -> None:
    cache = cluster(make_node("a"), make_node("b"))
    info = PodInfo(make_pod("p"))
    cache.nominator.nominate(info, "b")
    with cache.assume(info.on_node("a"), "a") as reservation:
        reservation.keep()
    cache.nominator.nominate(info, "b")

    cache.confirm(info.uid)

    assert list(cache.nominator.node_names()) == []


def test_a_pod_is_removed_by_its_name_with_its_nomination() -> None:
    cache = cluster(make_node("a"), make_pod("p", node="a"), make_pod("q", node="a"))
    waiting = PodInfo(make_pod("w", namespace="other"))
    cache.nominator.nominate(waiting, "a")

    cache.remove_pod_by_key("default/p")
    cache.remove_pod_by_key("default/unknown")
    cache.remove_pod_by_key("default/w")
    assert [pod.info.metadata.name for pod in cache.pods] == ["q"]
    assert [pod.metadata.name for pod in cache.nominator.pods_on("a")] == ["w"]

    cache.remove_pod_by_key("other/w")
    assert list(cache.nominator.node_names()) == []
    assert audit(cache) == []


def test_the_name_of_a_removed_pod_is_that_of_its_successor() -> None:
    cache = cluster(make_node("a"), make_pod("p", uid="1", node="a"))
    cache.put_pod(make_pod("p", uid="2", node="a"))
    cache.remove_pod("1")

    cache.remove_pod_by_key("default/p")

    assert len(cache.pods) == 0


def test_the_state_of_an_empty_cluster_has_nothing() -> None:
    snapshot = empty_snapshot()

    assert (len(snapshot.nodes), len(snapshot.pods), len(snapshot.device_classes)) == (0, 0, 0)
    assert snapshot.is_current


def test_all_ports_of_a_pod_are_free_when_it_goes() -> None:
    cache = cluster(make_node("a"))
    row = cache.nodes.row("a")
    cache.put_pod(make_pod("p", node="a", host_ports=[80, 443]))
    cache.put_pod(make_pod("q", node="a", host_ports=[443, 8080]))
    ports = [("0.0.0.0", "TCP", port) for port in (80, 443, 8080)]
    assert cache.nodes.ports.on_row(row) == dict(zip(ports, (1, 2, 1), strict=True))

    cache.remove_pod("pod-default-p")
    assert cache.nodes.ports.on_row(row) == {ports[1]: 1, ports[2]: 1}
    cache.put_pod(make_pod("q", node="a", host_ports=[80]))
    assert cache.nodes.ports.on_row(row) == {ports[0]: 1}
    cache.remove_pod("pod-default-q")
    assert cache.nodes.ports.on_row(row) == {}
