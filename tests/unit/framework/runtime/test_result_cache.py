"""Shared answers: asked again only about what changed, and always equal to asking afresh."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.clock import seeded_random
from mooring.decision import encode_decision
from mooring.errors import PluginError
from mooring.framework import (
    SKIP,
    Attempt,
    Cycle,
    FilterStatuses,
    NodeView,
    Reject,
)
from mooring.framework.runtime import result_cache as answers_module
from mooring.framework.runtime.filter_results import FEW_ROWS
from mooring.framework.runtime.result_cache import ResultCache
from mooring.state.columns.change_log import Change, ChangeLog
from mooring.testing import Harness, make_node, make_pod
from mooring.testing.random_cluster import random_node, random_pod


class Fits:
    """Free cpu in columns; notes how often and about which nodes it is asked."""

    name = "Fits"
    reads = Change.ALLOCATABLE | Change.USAGE

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.scored: list[list[str]] = []
        self.signed = 0
        self.noted = 0

    def sign(self, pod: Any) -> Any:
        self.signed += 1
        return None if pod.metadata.labels.get("own") else pod.requests.get("cpu", 0)

    def pre_filter(self, cycle: Cycle) -> Any:
        self.noted += 1
        cycle[self] = cycle.pod.requests.get("cpu", 0)

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        self.asked.append(nodes.names)
        free = nodes.allocatable("cpu") - nodes.requested("cpu")
        return FilterStatuses.reject(free < cycle[self], Reject(f"needs {cycle[self]}"))

    def score(self, cycle: Cycle, nodes: NodeView) -> Any:
        self.scored.append(nodes.names)
        return (nodes.allocatable("cpu") - nodes.requested("cpu")) // 1000


class FitsOne(Fits):
    """As Fits (also in name), and in plain ints about one node."""

    def __init__(self) -> None:
        super().__init__()
        self.one_by_one: list[str] = []

    def filter_node(self, cycle: Cycle, node: Any) -> Any:
        self.one_by_one.append(node.name)
        return Reject(f"needs {cycle[self]}") if node.free("cpu") < cycle[self] else None

    def score_node(self, cycle: Cycle, node: Any) -> int:
        return int(node.free("cpu") // 1000)


def nodes(count: int = 6) -> list[Any]:
    return [make_node(f"n{number}", allocatable={"cpu": "4"}) for number in range(count)]


def pod(name: str = "p", cpu: str = "1", **more: Any) -> Any:
    return make_pod(name, requests={"cpu": cpu}, **more)


def place(harness: Harness, node: str, name: str = "placed", cpu: str = "4") -> None:
    harness.cache.put_pod(pod(name, cpu, node=node))


def test_an_equal_pod_asks_nobody_again() -> None:
    plugin = Fits()
    harness = Harness(nodes(), [plugin])

    first, second = harness.decide(pod("one")), harness.decide(pod("two"))

    assert first.decision == second.decision
    assert (len(plugin.asked), len(plugin.scored), plugin.noted) == (1, 1, 1)
    assert plugin.signed == 1


@pytest.mark.parametrize("other", [pod("q", "2"), pod("q", labels={"own": "yes"})])
def test_another_signature_or_none_is_asked_for_itself(other: Any) -> None:
    plugin = Fits()
    harness = Harness(nodes(), [plugin])

    harness.decide(pod())
    harness.decide(other)

    assert len(plugin.asked) == 2


def test_after_a_change_only_that_node_is_asked_about() -> None:
    plugin = Fits()
    harness = Harness(nodes(), [plugin])
    harness.decide(pod())

    place(harness, "n3")
    decision = harness.decide(pod("q")).decision

    assert plugin.asked[1:] == [["n3"]]
    assert plugin.scored[1:] == [["n3"]]
    assert list(decision.rejected) == ["n3"]
    assert plugin.noted == 1


def test_a_change_of_columns_that_the_plugin_does_not_read_asks_nobody() -> None:
    plugin = Fits()
    harness = Harness(nodes(), [plugin])
    harness.decide(pod())

    harness.cache.put_node(make_node("n3", allocatable={"cpu": "4"}, labels={"disk": "ssd"}))
    harness.decide(pod("q"))

    assert len(plugin.asked) == 1


def test_a_node_that_came_is_asked_about_and_one_that_went_is_out() -> None:
    plugin = Fits()
    harness = Harness(nodes(), [plugin])
    harness.decide(pod())

    harness.cache.put_node(make_node("new", allocatable={"cpu": "64"}))
    harness.cache.remove_node("n0")
    found = harness.decide(pod("q"))

    assert plugin.asked[1:] == [["new"]]
    assert found.node == "new"
    assert found.decision.total is not None
    assert set(found.decision.total) == {"n1", "n2", "n3", "n4", "n5", "new"}


def test_when_most_of_the_cluster_changed_everything_is_asked_about_at_once() -> None:
    plugin = Fits()
    harness = Harness(nodes(), [plugin])
    harness.decide(pod())

    for number in range(4):
        place(harness, f"n{number}", f"placed-{number}")
    harness.decide(pod("q"))

    assert plugin.asked[1:] == [[f"n{number}" for number in range(6)]]


def test_when_the_log_has_forgotten_everything_is_asked_about_again() -> None:
    plugin = Fits()
    harness = Harness(nodes(), [plugin])
    harness.cache.nodes.log = ChangeLog(capacity=4)
    harness.decide(pod())

    for number in range(3):  # each comes and goes: two changes of the same row
        place(harness, "n5", f"placed-{number}")
        harness.cache.remove_pod(f"pod-default-placed-{number}")
    found = harness.decide(pod("q"))

    assert plugin.asked[1:] == [[f"n{number}" for number in range(6)]]
    assert found.decision.rejected == {}


def test_what_is_read_everywhere_asks_about_every_node() -> None:
    class Spread(Fits):
        reads = Change.EXISTENCE
        reads_other_nodes = Change.USAGE

    plugin = Spread()
    harness = Harness(nodes(), [plugin])
    harness.decide(pod())
    place(harness, "n3")
    harness.decide(pod("q"))

    assert [len(names) for names in plugin.asked] == [6, 6]
    assert [len(names) for names in plugin.scored] == [6, 6]


def test_few_changed_nodes_are_asked_about_one_by_one_where_that_is_possible() -> None:
    plugin = FitsOne()
    harness = Harness(nodes(20), [plugin])
    harness.decide(pod())

    for number in range(FEW_ROWS):
        place(harness, f"n{number}", f"placed-{number}")
    harness.decide(pod("q"))
    assert plugin.one_by_one == [f"n{number}" for number in range(FEW_ROWS)]
    assert len(plugin.asked) == 1

    for number in range(FEW_ROWS + 1):
        place(harness, f"n{10 + number}", f"more-{number}")
    harness.decide(pod("r"))
    assert len(plugin.one_by_one) == FEW_ROWS
    assert len(plugin.asked[1]) == FEW_ROWS + 1


@pytest.mark.parametrize(
    ("method", "told"),
    [
        ("filter_node", '"Fits" filter plugin: filter_node returned 7'),
        ("score_node", "Score plugin \"Fits\": score_node returned 'x', not an int"),
    ],
)
def test_an_odd_answer_about_one_node_is_an_error(method: str, told: str) -> None:
    class Odd(FitsOne):
        name = "Fits"

    setattr(Odd, method, lambda self, cycle, node: 7 if method == "filter_node" else "x")
    harness = Harness(nodes(), [Odd()])
    harness.decide(pod())
    place(harness, "n3", cpu="1")

    with pytest.raises(PluginError) as caught:
        harness.decide(pod("q"))

    assert str(caught.value) == f"running {told}"


def test_after_an_error_the_same_nodes_are_asked_about_again() -> None:
    class Moody(Fits):
        fails = False

        def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
            statuses = super().filter(cycle, nodes)
            if self.fails:
                raise RuntimeError("mood")
            return statuses

    plugin = Moody()
    harness = Harness(nodes(), [plugin])
    harness.decide(pod())
    place(harness, "n3")
    plugin.fails = True
    with pytest.raises(PluginError, match="mood"):
        harness.decide(pod("q"))
    plugin.fails = False

    assert list(harness.decide(pod("r")).decision.rejected) == ["n3"]


def test_skips_are_shared_too() -> None:
    class Skips(Fits):
        def pre_filter(self, cycle: Cycle) -> Any:
            self.noted += 1
            return SKIP

        def pre_score(self, cycle: Cycle, nodes: NodeView) -> Any:
            self.noted += 1
            return SKIP

    plugin = Skips()
    harness = Harness(nodes(), [plugin])

    for name in "abc":
        harness.decide(pod(name))

    assert (plugin.noted, plugin.asked, plugin.scored) == (2, [], [])


def test_forgotten_answers_are_asked_for_again() -> None:
    plugin = Fits()
    harness = Harness(nodes(), [plugin])
    harness.decide(pod())

    harness.framework.clear_cached_results()
    harness.decide(pod("q"))

    assert len(plugin.asked) == 2


def test_a_plugin_without_sharing_beside_one_with_it() -> None:
    class Live:
        name = "Live"

        def __init__(self) -> None:
            self.asked: list[list[str]] = []

        def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
            self.asked.append(nodes.names)
            return FilterStatuses.reject(np.array([n == "n1" for n in nodes.names]), Reject("n1"))

    shared, before, after = Fits(), Live(), Live()
    after.name = "After"
    harness = Harness(nodes(3), [before, shared, after])
    place(harness, "n0")
    harness.decide(pod())

    decision = harness.decide(pod("q")).decision

    assert len(shared.asked) == 1
    assert before.asked == [["n0", "n1", "n2"]] * 2
    assert after.asked == [["n2"]] * 2
    assert {name: found.plugin for name, found in decision.rejected.items()} == {
        "n0": "Fits",
        "n1": "Live",
    }


# ---------------------------------------------------------------- the cache of answers


def test_the_least_recently_used_answers_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers_module, "MEMORY_LIMIT_BYTES", 1)  # then the floor of 8 holds
    cache = ResultCache(("F",), 1)
    kept = [cache.of(number, 16) for number in range(8)]
    assert cache.of(0, 16) is kept[0]

    cache.of("new", 16)

    assert len(cache) == 8
    assert cache.of(0, 16) is kept[0]
    assert cache.of(1, 16) is not kept[1]
    assert (cache.hits, cache.misses) == (2, 10)


def test_the_limit_follows_from_the_memory_that_answers_take() -> None:
    cache = ResultCache(("F", "G"), 3)
    for number in range(20):
        cache.of(number, 1)

    assert len(cache) == 20


@pytest.mark.parametrize(("filters", "n_scores"), [((), 0), (("F",), 1), (("F", "G"), 3)])
def test_the_limit_is_the_memory_by_the_columns_of_an_entry(
    monkeypatch: pytest.MonkeyPatch, filters: tuple[str, ...], n_scores: int
) -> None:
    each = 500 * (2 + 2 * len(filters) + 8 * (n_scores + 1)) + 4096
    monkeypatch.setattr(answers_module, "MEMORY_LIMIT_BYTES", 12 * each)
    cache = ResultCache(filters, n_scores)

    for number in range(20):
        cache.of(number, 500)

    assert len(cache) == 12
    for number in range(8, 20):
        cache.of(number, 500)
    assert (cache.hits, cache.misses) == (12, 20)


def test_a_larger_table_has_fewer_entries_and_a_smaller_one_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cache = ResultCache(("F",), 1)
    monkeypatch.setattr(answers_module, "MEMORY_LIMIT_BYTES", 20 * (500 * 20 + 4096))
    for capacity, count in ((500, 20), (1000, 11), (500, 20)):
        for number in range(30):
            cache.of((capacity, number), capacity)
        assert len(cache) == count


def test_all_columns_together_are_within_the_limit_of_memory() -> None:
    cache, capacity = ResultCache(("F",), 1), 50_000
    answers = [cache.of(number, capacity) for number in range(100)]

    left = answers[-len(cache) :]
    columns = [
        (it.results.refused_by, it.results.feasible, *it.results.codes, *it.raw, it.final_total)
        for it in left
    ]
    each = sum(column.nbytes for column in columns[0])
    assert len(left) * each <= answers_module.MEMORY_LIMIT_BYTES < (len(left) + 1) * (each + 4096)


def test_a_table_that_has_grown_begins_new_answers() -> None:
    cache = ResultCache(("F",), 1)
    small = cache.of("s", 16)

    grown = cache.of("s", 32)

    assert (small.capacity, grown.capacity) == (16, 32)
    assert len(cache) == 1
    assert cache.of("s", 32) is grown


def test_growth_of_the_node_table_keeps_decisions_right() -> None:
    plugin = FitsOne()
    harness = Harness(nodes(2), [plugin])
    harness.decide(pod())
    before = harness.cache.nodes.capacity

    for number in range(before + 1):
        harness.cache.put_node(make_node(f"late-{number}", allocatable={"cpu": "2"}))
    decision = harness.decide(pod("q", "3")).decision

    assert harness.cache.nodes.capacity > before
    assert len(decision.rejected) == before + 1
    assert decision.node in ("n0", "n1")


# ---------------------------------------------------------------- fast equals slow


@given(st.integers(0, 10_000))
def test_shared_answers_never_change_a_decision(seed: int) -> None:
    rng = seeded_random(seed)
    objects = [random_node(rng, f"node-{number}") for number in range(rng.choice((1, 7, 30)))]
    fast = Harness(objects, [FitsOne()])
    slow = Harness(objects, [Fits()], cache_results=False)
    for step in range(12):
        incoming = random_pod(rng, f"p{step}")
        name = f"node-{rng.randrange(len(objects) + 2)}"
        change = rng.randrange(4)
        newer = random_node(rng, name)
        placed = random_pod(rng, f"placed-{step}", node=name)
        for harness in (fast, slow):
            if change == 0:
                harness.cache.put_node(newer)
            elif change == 1:
                harness.cache.remove_node(name)
            elif change == 2:
                harness.cache.put_pod(placed)
        start = rng.randrange(40)
        ours, theirs = (h.decide(incoming, start_index=start) for h in (fast, slow))
        assert encode_decision(ours.decision) == encode_decision(theirs.decision)


def test_an_attempts_arrays_are_those_of_its_snapshot() -> None:
    harness = Harness(nodes(), [Fits()])
    snapshot = harness.cache.snapshot()
    assert Attempt(snapshot).rejected() == {}
    assert Attempt(snapshot).refused_count() == 0


@pytest.mark.parametrize("is_timed", [True, False])
def test_the_state_of_pre_score_is_there_when_a_changed_node_is_scored(is_timed: bool) -> None:
    class Prefers(Fits):
        """Scores by a state of PreScore; notes the runs of PreScore."""

        def __init__(self) -> None:
            super().__init__()
            self.pre_scored = 0

        def pre_score(self, cycle: Cycle, nodes: NodeView) -> None:
            self.pre_scored += 1
            cycle[self] = cycle.pod.requests["cpu"] + 7000

        def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
            return FilterStatuses.feasible(len(nodes))

        def score(self, cycle: Cycle, nodes: NodeView) -> Any:
            return (cycle[self] - nodes.requested("cpu")) // 1000

    plugin = Prefers()
    harness = Harness(nodes(), [plugin])
    harness.framework.timed_every = int(is_timed)
    totals = []
    for number in range(4):
        totals.append(harness.decide(pod(f"p{number}")).decision.total)
        place(harness, f"n{number}", f"placed-{number}", cpu="3")

    assert plugin.pre_scored == 1
    for number, total in enumerate(totals):
        assert total == {f"n{node}": 8 - 3 * (node < number) for node in range(6)}


@pytest.mark.parametrize("count", [1, 2])
def test_scores_that_are_not_shared_do_not_add_to_those_that_are(count: int) -> None:
    class Live:
        """Scores nodes anew for each pod."""

        def __init__(self, name: str) -> None:
            self.name = name

        def score(self, cycle: Cycle, nodes: NodeView) -> Any:
            return np.array([int(name[1:]) for name in nodes.names], dtype=np.int64)

    live = [Live(f"Live{number}") for number in range(count)]
    harness = Harness(nodes(), [Fits(), *live], weights={"Live0": 3})

    factor = 3 + (count - 1)
    for number in range(4):
        total = harness.decide(pod(f"p{number}")).decision.total
        assert total == {f"n{node}": 4 + factor * node for node in range(6)}
