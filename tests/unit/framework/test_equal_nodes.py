"""Nodes with equal amounts share results, and never those of another amount."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.clock import seeded_random
from mooring.framework import Cycle, FilterStatuses, NodeInfo, NodeView, Reject, Status
from mooring.framework.equal_nodes import AMOUNTS_MAX, TRIES, ChangedNodes, EqualNodes
from mooring.framework.runtime import result_cache
from mooring.plugins.node_resources.balanced_allocation import NodeResourcesBalancedAllocation
from mooring.plugins.node_resources.fit import NodeResourcesFit
from mooring.state.cache import Cache
from mooring.state.columns.change_log import Change
from mooring.testing import Harness, make_node, make_pod
from mooring.testing.random_cluster import random_node, random_pod


class Fits:
    """Filters and scores by free cpu, and notes which nodes it evaluates one by one."""

    name = "Fits"
    reads = Change.ALLOCATABLE | Change.USAGE
    amounts_only = True

    def __init__(self) -> None:
        self.filtered: list[str] = []
        self.scored: list[str] = []

    def sign(self, pod: Any) -> Any:
        return pod.requests.get("cpu", 0)

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        free = nodes.allocatable("cpu") - nodes.requested("cpu")
        return FilterStatuses.reject(free < cycle.pod.requests.get("cpu", 0), Reject("full"))

    def filter_node(self, cycle: Cycle, node: NodeInfo) -> Status | None:
        self.filtered.append(node.name)
        return None if node.free("cpu") >= cycle.pod.requests.get("cpu", 0) else Reject("full")

    def score(self, cycle: Cycle, nodes: NodeView) -> Any:
        return (nodes.allocatable("cpu") - nodes.requested("cpu")) // 1000

    def score_node(self, cycle: Cycle, node: NodeInfo) -> int:
        self.scored.append(node.name)
        return node.free("cpu") // 1000


def node(name: str, cpu: str = "4", **allocatable: str) -> Any:
    return make_node(name, allocatable={"cpu": cpu, **allocatable})


def pending(name: str, cpu: str = "1") -> Any:
    return make_pod(name, requests={"cpu": cpu})


def placed(name: str, node_name: str, cpu: str = "1", **requests: str) -> Any:
    return make_pod(name, requests={"cpu": cpu, **requests}, node=node_name)


def test_a_node_that_equals_an_earlier_one_is_not_evaluated() -> None:
    plugin = Fits()
    nodes = [node(f"n{number}", "4") for number in range(20)]
    harness = Harness(nodes, [plugin])
    assert harness.decide(pending("first", "1")).node is not None

    for number in range(20):
        harness.cache.put_pod(placed(f"p{number}", f"n{number}"))
        assert harness.decide(pending(f"next-{number}", "1")).node is not None

    # The calls of every tenth attempt are timed: it shares nothing.
    assert plugin.filtered == plugin.scored == ["n0", "n9", "n19"]


def test_nodes_with_other_amounts_are_evaluated() -> None:
    plugin = Fits()
    harness = Harness([node(f"n{number}", "4") for number in range(20)], [plugin])
    harness.decide(pending("first", "1"))

    harness.cache.put_pod(placed("a", "n0"))
    harness.decide(pending("second", "1"))
    harness.cache.put_pod(placed("b", "n1", cpu="2"))
    harness.decide(pending("third", "1"))
    harness.cache.put_pod(placed("c", "n2", memory="1Gi"))
    harness.decide(pending("fourth", "1"))

    assert plugin.filtered == ["n0", "n1", "n2"]


def test_pods_with_another_signature_have_their_own_results() -> None:
    plugin = Fits()
    harness = Harness([node(f"n{number}", "4") for number in range(20)], [plugin])
    for cpu in ("1", "4"):
        harness.decide(pending(f"first-{cpu}", cpu))
    harness.cache.put_pod(placed("a", "n0"))
    for cpu in ("1", "4"):
        harness.decide(pending(f"second-{cpu}", cpu))

    assert plugin.filtered == ["n0", "n0"]


def test_an_id_that_gets_another_resource_is_not_mistaken_for_the_old_one() -> None:
    """The column of a resource that no node has any more is used for the next new one."""
    nodes = [node(f"n{number}", "4") for number in range(20)]
    cached = Harness(nodes, [NodeResourcesFit()])
    uncached = Harness((), [NodeResourcesFit()], cache_results=False)
    uncached.cache = cached.cache
    pods = [make_pod(f"p{number}", requests={"example.com/b": "1"}) for number in range(4)]

    for number, resource in enumerate(["example.com/a", "example.com/b", "example.com/a"]):
        cached.cache.put_node(node("n0", **{resource: "2"}))
        cached.cache.put_pod(placed(f"on-{number}", "n0", "100m"))
        assert cached.decide(pods[number]) == uncached.decide(pods[number])
        cached.cache.remove_pod(f"pod-default-on-{number}")
        cached.cache.put_node(node("n0", "4"))
        assert cached.decide(pods[number]) == uncached.decide(pods[number])


@pytest.mark.parametrize("seed", range(20))
def test_shared_results_equal_those_without_a_cache(seed: int) -> None:
    rng = seeded_random(seed)
    plugins = [NodeResourcesFit(), NodeResourcesBalancedAllocation()]
    nodes = [random_node(rng, f"n{number}") for number in range(12)]
    cached = Harness(nodes, plugins)
    uncached = Harness((), plugins, cache_results=False)
    uncached.cache = cached.cache
    waiting = [random_pod(rng, f"pending-{number}") for number in range(3)]
    present: list[Any] = []
    for number in range(60):
        if present and rng.random() < 0.4:
            cached.cache.remove_pod(present.pop().metadata.uid)
        elif rng.random() < 0.1:
            cached.cache.put_node(random_node(rng, f"n{rng.randrange(12)}"))
        else:
            pod = random_pod(rng, f"p{number}", node=f"n{rng.randrange(12)}")
            cached.cache.put_pod(pod)
            present.append(pod)
        for pod in waiting:
            assert cached.decide(pod) == uncached.decide(pod)


def changed(cache: Cache, *names: str) -> ChangedNodes:
    return ChangedNodes(cache.snapshot(), [cache.nodes.row(name) for name in names])


def test_it_is_given_up_if_nodes_are_rarely_equal() -> None:
    cache = Cache()
    equal, calls = EqualNodes(), list[list[str]]()

    def call(_: int, nodes: list[NodeInfo]) -> list[int]:
        calls.append([of_node.name for of_node in nodes])
        return [7 for _ in nodes]

    for number in range(TRIES + 5):
        cache.put_node(node("n", f"{number + 1}m"))
        assert equal.results(0, changed(cache, "n"), call) == [7]
    assert len(calls) == TRIES + 5
    assert equal.results(0, changed(cache, "n"), call) == [7]
    assert len(calls) == TRIES + 6


def test_the_number_of_stored_amounts_has_a_limit() -> None:
    cache = Cache()
    equal, calls = EqualNodes(), 0

    def call(_: int, nodes: list[NodeInfo]) -> list[int]:
        nonlocal calls
        calls += 1
        return [of_node.allocatable("cpu") for of_node in nodes]

    for number in range(1, AMOUNTS_MAX + 10):
        cache.put_node(node("n", f"{number}m"))
        for _ in range(3):  # two of three are equal to the one before
            assert equal.results(0, changed(cache, "n"), call) == [number]
    assert calls == AMOUNTS_MAX + 9
    assert max(map(len, equal._results.values())) <= AMOUNTS_MAX


def test_an_entry_that_is_reused_for_other_pods_shares_no_results_of_the_former(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(result_cache, "MEMORY_LIMIT_BYTES", 1)  # eight entries
    small = [node(f"small-{number}", "1") for number in range(20)]
    harness = Harness([node("a", "4"), node("b", "4"), *small], [Fits()])
    harness.decide(pending("first", "1"))
    harness.cache.put_pod(placed("p", "a"))
    assert harness.decide(pending("second", "1")).node is not None  # 3 of 4 cpu are enough
    for number in range(2, 9):
        harness.decide(pending(f"other-{number}", f"{number * 100}m"))

    harness.cache.remove_pod(placed("p", "a").metadata.uid)
    for number in range(2):  # the calls of every tenth attempt are timed
        harness.decide(pending(f"large-{number}", "4"))
    for name in ("a", "b"):
        harness.cache.put_pod(placed(f"q-{name}", name))

    assert harness.decide(pending("next", "4")).node is None
