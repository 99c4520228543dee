"""The state of one attempt: who may write it, who may read it, and what a twin shares."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.errors import PluginError
from mooring.framework import SKIP, Attempt, Cycle, schedule_pod
from mooring.framework.runtime import bind as binding
from mooring.state import PodInfo
from mooring.testing import Harness, cluster, make_node, make_pod


class Named:
    def __init__(self, name: str) -> None:
        self.name = name


def new_cycle() -> Cycle:
    return Cycle(PodInfo(make_pod()), cluster(make_node()).snapshot(), "my-scheduler")


def test_a_cycle_begins_with_nothing_but_its_pod() -> None:
    cycle = new_cycle()

    assert cycle.pod.key == "default/pod-1"
    assert cycle.profile == "my-scheduler"
    assert (cycle.skipped, cycle.pods_to_activate) == (frozenset(), {})
    assert Named("A") not in cycle
    assert cycle.state_of("A") is None


def test_the_plugin_whose_turn_it_is_stores_its_state() -> None:
    cycle, plugin = new_cycle(), Named("A")

    cycle.writer = "A"
    cycle[plugin] = (1, 2)
    cycle.writer = None

    assert plugin in cycle
    assert cycle[plugin] == (1, 2)
    assert cycle.state_of("A") == (1, 2)


@pytest.mark.parametrize("writer", [None, "B"])
def test_nobody_else_stores_it_and_the_message_names_who_tried(writer: str | None) -> None:
    cycle, plugin = new_cycle(), Named("A")
    cycle.writer = writer

    with pytest.raises(PluginError, match="stored only in the plugin's own pre_filter") as caught:
        cycle[plugin] = 1

    assert caught.value.plugin == "A"
    assert plugin not in cycle


def test_reading_what_was_never_stored_names_the_plugin() -> None:
    with pytest.raises(PluginError) as caught:
        new_cycle()[Named("A")]

    assert str(caught.value) == ('running state plugin "A": nothing was stored for this attempt')


def test_what_is_restored_is_the_very_state_and_nothing_restores_nothing() -> None:
    cycle, state = new_cycle(), [1]

    cycle.restore("A", state)
    cycle.restore("B", None)

    assert cycle[Named("A")] is state
    assert Named("B") not in cycle


def test_a_twin_has_one_state_changed_and_leaves_the_original_alone() -> None:
    cycle = new_cycle()
    cycle.skipped = frozenset({"C"})
    cycle.restore("A", 1)
    cycle.restore("B", 2)

    twin = cycle.with_state("A", 10)

    assert (twin[Named("A")], twin[Named("B")]) == (10, 2)
    assert cycle[Named("A")] == 1
    assert twin.skipped == {"C"}
    assert (twin.pod, twin.snapshot, twin.profile) == (cycle.pod, cycle.snapshot, cycle.profile)


def test_state_of_pre_filter_is_there_in_filter_and_cannot_be_replaced_in_it() -> None:
    class Counts:
        name = "Counts"

        def pre_filter(self, cycle: Cycle) -> None:
            cycle[self] = ("noted", cycle.pod.uid)

        def filter(self, cycle: Cycle, nodes: Any) -> Any:
            assert cycle[self] == ("noted", "pod-default-p")
            cycle[self] = "late"

    with pytest.raises(PluginError, match="stored only in the plugin's own"):
        Harness([make_node()], [Counts()]).decide(make_pod("p"))


def test_pre_score_may_replace_the_state_of_pre_filter() -> None:
    seen = []

    class Notes:
        name = "Notes"

        def pre_filter(self, cycle: Cycle) -> None:
            cycle[self] = "filter"

        def pre_score(self, cycle: Cycle, nodes: Any) -> Any:
            seen.append(cycle[self])
            cycle[self] = "score"
            return SKIP

        def score(self, cycle: Cycle, nodes: Any) -> Any:
            raise AssertionError("skipped")

        def reserve(self, cycle: Cycle, node_name: str) -> None:
            seen.append(cycle[self])

        def unreserve(self, cycle: Cycle, node_name: str) -> None: ...

    harness = Harness([make_node("a"), make_node("b")], [Notes()])
    snapshot = harness.cache.snapshot()
    cycle = harness.framework.new_cycle(PodInfo(make_pod()), snapshot)
    schedule_pod(harness.framework, cycle, Attempt(snapshot))
    binding.reserve(harness.framework, cycle, "a")

    assert seen == ["filter", "score"]


def test_a_state_that_is_dropped_is_absent_and_its_plugin_is_not_skipped() -> None:
    harness = Harness([make_node("a")], [])
    cycle = harness.framework.new_cycle(PodInfo(make_pod()), harness.cache.snapshot())
    for name in ("A", "B"):
        cycle.restore(name, name.lower())
    cycle.skipped = frozenset({"A", "B", "C"})

    cycle.drop_state("A")
    cycle.drop_state("unknown")

    assert (cycle.state_of("A"), cycle.state_of("B")) == (None, "b")
    assert cycle.skipped == {"B", "C"}
