"""Opportunistic batching: which node the next equal pod tries first, and when none."""

from __future__ import annotations

import heapq
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.clock import VirtualClock, seeded_random
from mooring.config.load import loads
from mooring.framework import Attempt, Placement, schedule_pod
from mooring.framework.runtime.opportunistic_batch import (
    MAX_AGE_S,
    OpportunisticBatch,
    SortedNodes,
)
from mooring.framework.waiting_pods import WaitingPods
from mooring.metrics.registry import Metrics
from mooring.objects.pod import Pod
from mooring.scheduler.metrics import record_frameworks
from mooring.scheduler.profiles import load_profiles
from mooring.simulation.offline import OfflineHandle
from mooring.state import PodInfo
from mooring.state.cache import Cache
from mooring.testing import make_node, make_pod
from tests.helpers.exposition import value

LISTED = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- pluginConfig:
  - {name: PodTopologySpread, args: {defaultingType: List}}
"""


def one_pod_each(count: int, cpu: str = "1") -> list[Any]:
    return [make_node(f"n{number}", allocatable={"cpu": cpu}) for number in range(count)]


def frameworks(text: str, clock: VirtualClock, **options: Any) -> Any:
    """Returns the profiles of a configuration; their plugins need no API server."""
    handle = OfflineHandle(Cache(), clock, seeded_random(0))
    return load_profiles(loads(text), handle, clock=clock, waiting=WaitingPods(), **options)


class Cluster:
    """A framework and a cache; attempts have numbers, as those of the running scheduler."""

    def __init__(self, nodes: list[Any], text: str = LISTED) -> None:
        self.clock = VirtualClock()
        self.cache = Cache()
        for node in nodes:
            self.cache.put_node(node)
        profiles = frameworks(text, self.clock)
        (self.framework,) = profiles.values()
        self.metrics = Metrics(clock=self.clock)
        record_frameworks(self.metrics, profiles)
        self.number = 0

    def place(self, pod: Pod) -> tuple[str, str | None]:
        """Schedules and assumes a pod; returns its node and how it was chosen."""
        self.number += 1
        info = PodInfo(pod)
        snapshot = self.cache.snapshot()
        cycle = self.framework.new_cycle(info, snapshot, number=self.number)
        attempt = Attempt(snapshot)
        placement = schedule_pod(self.framework, cycle, attempt)
        assert isinstance(placement, Placement)
        with self.cache.assume(info.on_node(placement.node_name), placement.node_name) as it:
            it.keep()
        return placement.node_name, attempt.choice

    def counts(self, family: str) -> dict[str, float]:
        self.metrics.expose()
        children = self.metrics.numbers(family).children
        return {key[-1]: child.value for key, child in children.items()}


def replica(name: str, cpu: str = "1", **more: Any) -> Pod:
    return make_pod(name, requests={"cpu": cpu}, **more)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=40))
def test_nodes_are_popped_best_first(totals: list[int]) -> None:
    names = [f"n{number}" for number in range(len(totals))]
    nodes = SortedNodes(names, totals)
    popped = [nodes.pop() for _ in range(len(nodes))]
    scores = [totals[int(name[1:])] for name in popped]
    assert scores == heapq.nlargest(len(totals), totals)[1:]
    assert len({*popped}) == len(totals) - 1


def test_equal_nodes_are_popped_as_from_gos_heap() -> None:
    # container/heap: the last leaf becomes the root, and does not sink below an equal one.
    nodes = SortedNodes(["a", "b", "c", "d", "e"], [7] * 5)
    assert [nodes.pop() for _ in range(4)] == ["e", "d", "c", "b"]


def test_the_next_replica_takes_the_next_of_the_sorted_nodes() -> None:
    cluster = Cluster(one_pod_each(4))
    chosen = [cluster.place(replica(f"p{number}")) for number in range(4)]
    # Without batching they would go to n0, n1, n2, n3: the first of the equal nodes each time.
    assert chosen == [("n0", None), ("n3", "batched"), ("n2", "batched"), ("n1", "batched")]
    assert cluster.counts("scheduler_batch_attempts_total") == {"no_hint": 1, "hint_used": 3}
    assert cluster.counts("scheduler_batch_cache_flushed_total") == {}


def test_a_full_node_is_needed_for_a_hint() -> None:
    cluster = Cluster(one_pod_each(4, cpu="2"))
    assert [cluster.place(replica(f"p{number}"))[1] for number in range(3)] == [None] * 3
    assert cluster.counts("scheduler_batch_cache_flushed_total") == {"node_not_full": 2}


def test_the_node_of_the_last_pod_must_be_full_and_not_that_of_an_earlier_one() -> None:
    cluster = Cluster(one_pod_each(4))
    cluster.place(replica("p0"))
    last = replica("p1")
    node, choice = cluster.place(last)
    assert choice == "batched"
    cluster.cache.remove_pod(last.metadata.uid)

    assert cluster.place(replica("p2"))[1] is None
    assert node != "n0"
    assert cluster.counts("scheduler_batch_cache_flushed_total") == {"node_not_full": 1}


def test_other_pods_end_the_batch() -> None:
    cluster = Cluster(one_pod_each(4))
    cluster.place(replica("p0"))
    assert cluster.place(replica("p1", labels={"app": "other"}))[1] is None
    assert cluster.counts("scheduler_batch_cache_flushed_total") == {"pod_incompatible": 1}


def test_an_attempt_between_ends_the_batch() -> None:
    cluster = Cluster(one_pod_each(4))
    cluster.place(replica("p0"))
    cluster.number += 1  # of another profile, or a pod without a node
    assert cluster.place(replica("p1"))[1] is None
    assert cluster.counts("scheduler_batch_cache_flushed_total") == {"pod_skipped": 1}


@pytest.mark.parametrize(("age_s", "choice"), [(MAX_AGE_S, "batched"), (MAX_AGE_S + 0.001, None)])
def test_sorted_nodes_expire(age_s: float, choice: str | None) -> None:
    cluster = Cluster(one_pod_each(4))
    cluster.place(replica("p0"))
    cluster.clock.advance(age_s)
    assert cluster.place(replica("p1"))[1] == choice


def test_a_node_that_is_gone_ends_the_batch() -> None:
    cluster = Cluster(one_pod_each(4))
    node, _ = cluster.place(replica("p0"))
    cluster.cache.remove_node(node)
    assert cluster.place(replica("p1"))[1] is None
    assert cluster.counts("scheduler_batch_cache_flushed_total") == {"node_missing": 1}


def test_a_hint_that_is_not_feasible_is_not_used() -> None:
    cluster = Cluster(one_pod_each(4))
    cluster.place(replica("p0"))
    for node in ("n1", "n2", "n3"):
        cluster.cache.put_pod(replica(f"on-{node}", node=node))
    cluster.cache.put_node(make_node("n4", allocatable={"cpu": "1"}))
    assert cluster.place(replica("p1")) == ("n4", None)
    assert cluster.counts("scheduler_batch_attempts_total") == {"no_hint": 1, "hint_not_used": 1}


def test_nodes_that_refused_the_last_pod_are_no_hints() -> None:
    cluster = Cluster(
        [
            make_node("n0", allocatable={"cpu": "1"}),
            make_node("refused", allocatable={"cpu": "1"}, taints=["gpu:NoSchedule"]),
            make_node("n1", allocatable={"cpu": "1"}),
        ]
    )
    assert [cluster.place(replica(f"p{number}")) for number in range(2)] == [
        ("n0", None),
        ("n1", "batched"),
    ]
    cluster.cache.put_node(make_node("n2", allocatable={"cpu": "1"}))

    assert cluster.place(replica("p2")) == ("n2", None)
    # The sorted nodes are used up: there is no hint that turns out to be wrong.
    assert cluster.counts("scheduler_batch_attempts_total") == {"no_hint": 2, "hint_used": 1}
    assert cluster.counts("scheduler_batch_cache_flushed_total") == {"empty_list": 1}


def test_default_spread_constraints_turn_it_off() -> None:
    cluster = Cluster(one_pod_each(3), LISTED.partition("profiles")[0])
    assert cluster.framework.batch is None
    chosen = [cluster.place(replica(f"p{number}")) for number in range(3)]
    assert chosen == [("n0", None), ("n1", None), ("n2", None)]
    # kube-scheduler counts the pods all the same.
    assert cluster.counts("scheduler_batch_attempts_total") == {"no_hint": 3}
    flushed = {"pod_not_batchable": 2, "empty_list": 1}
    assert cluster.counts("scheduler_batch_cache_flushed_total") == flushed
    name = "scheduler_store_schedule_results_duration_seconds_count"
    assert value(cluster.metrics.expose()[0], name, profile="default-scheduler") == 3


def test_a_plugin_that_cannot_sign_turns_it_off() -> None:
    class Unsigned:
        name = "Unsigned"

        def filter(self, cycle: Any, nodes: Any) -> Any:
            raise AssertionError

    (framework,) = frameworks(LISTED, VirtualClock(), plugins=[Unsigned()]).values()
    assert framework.batch is None


class Signing:
    """A plugin that signs pods with its name, except those that it cannot sign."""

    def __init__(self, name: str, unsigned: str = "") -> None:
        self.name = name
        self._unsigned = unsigned

    def batch_signature(self, pod: PodInfo) -> str | None:
        return None if pod.metadata.name == self._unsigned else self.name


def test_a_pod_has_a_signature_if_each_plugin_can_sign_it() -> None:
    plugins = [Signing("A"), Signing("B", unsigned="b"), Signing("C", unsigned="c")]
    batch = OpportunisticBatch(plugins, VirtualClock(), lambda *_: None)

    assert [batch.signature(PodInfo(make_pod(name))) for name in "abc"] == [
        ("A", "B", "C"),
        None,
        None,
    ]


def test_the_gate_turns_it_off() -> None:
    gates = {"OpportunisticBatching": False}
    (framework,) = frameworks(LISTED, VirtualClock(), gates=gates).values()
    assert framework.batch is None
    assert not framework.has_batching_gate
