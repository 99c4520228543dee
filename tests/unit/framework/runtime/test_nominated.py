"""Filters on hypothetical nodes: each gets those that passed, with an updated state."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mooring.errors import PluginError
from mooring.framework import SKIP, Cycle, FilterStatuses, NodeInfo, NodeView, Reject
from mooring.framework.runtime.nominated import filter_hypothetical, filter_one
from mooring.state import PodInfo
from mooring.testing import Harness, make_node, make_pod

NODES = [make_node("a"), make_node("b"), make_node("c")]
HERE = [make_pod("x", node="a"), make_pod("y", node="a"), make_pod("z", node="b")]


class AtMost:
    """Rejects nodes with ``limit`` pods or more; records its views."""

    def __init__(self, name: str, limit: int) -> None:
        self.name = name
        self.limit = limit
        self.seen: list[list[str]] = []

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        self.seen.append(list(nodes.names))
        return FilterStatuses.reject(
            nodes.pod_count >= self.limit, Reject(f"{self.limit} are enough")
        )


class Counts:
    """Counts the pods of all nodes in its state, and records the updates."""

    name = "Counts"

    def __init__(self) -> None:
        self.calls: list[str] = []

    def pre_filter(self, cycle: Cycle) -> Any:
        cycle[self] = len(cycle.snapshot.pods)

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        self.calls.append(f"filter {','.join(nodes.names)} with {cycle[self]}")
        return FilterStatuses.feasible(len(nodes))


class Scalar(Counts):
    def add_pod(self, cycle: Cycle, state: int, pod: PodInfo, node: NodeInfo) -> int:
        self.calls.append(f"add {pod.metadata.name} to {node.name}")
        return state + 1

    def remove_pod(self, cycle: Cycle, state: int, pod: PodInfo, node: NodeInfo) -> int:
        self.calls.append(f"remove {pod.metadata.name} from {node.name}")
        return state - 1


class Shifting(Counts):
    def apply_deltas(self, cycle: Cycle, state: int, nodes: NodeView) -> int:
        self.calls.append("apply_deltas")
        return state + sum(map(len, nodes.added)) - sum(map(len, nodes.removed))


def opened(*plugins: Any) -> tuple[Harness, Cycle, NodeView]:
    harness = Harness([*NODES, *HERE], plugins)
    return harness, *harness.open(make_pod())


def info(name: str) -> PodInfo:
    return PodInfo(make_pod(name))


def codes(results: list[tuple[int, FilterStatuses]]) -> list[tuple[int, list[int]]]:
    return [(number, statuses.codes.tolist()) for number, statuses in results]


def test_a_filter_sees_only_the_worlds_that_are_left() -> None:
    first, second = AtMost("First", 2), AtMost("Second", 1)
    harness, cycle, view = opened(first, second)

    results = filter_hypothetical(harness.framework, cycle, view)

    assert codes(results) == [(0, [1, 0, 0]), (1, [1, 0])]
    assert second.seen == [["b", "c"]]


def test_when_no_world_is_left_nobody_else_is_asked() -> None:
    first, second = AtMost("First", 0), AtMost("Second", 9)
    harness, cycle, view = opened(first, second)

    assert codes(filter_hypothetical(harness.framework, cycle, view)) == [(0, [1, 1, 1])]
    assert second.seen == []


def test_no_worlds_ask_nobody() -> None:
    harness, cycle, view = opened(AtMost("First", 0))
    nothing = view.subset(np.zeros(0, dtype=np.intp))
    assert filter_hypothetical(harness.framework, cycle, nothing) == []


def test_a_filter_that_skips_this_pod_skips_its_worlds() -> None:
    class Skips(AtMost):
        def pre_filter(self, cycle: Cycle) -> Any:
            return SKIP

    plugin = Skips("Skips", 0)
    harness, cycle, view = opened(plugin)

    assert filter_hypothetical(harness.framework, cycle, view) == []
    assert plugin.seen == []


def test_one_row_may_stand_for_several_worlds() -> None:
    plugin = AtMost("Two", 2)
    harness, cycle, view = opened(plugin)
    rows = view.rows[[1, 1, 1]]
    worlds = NodeView(view.snapshot, rows).plus([(), (info("n"),), (info("n"), info("m"))])
    worlds = worlds.without([(PodInfo(HERE[2]),), (PodInfo(HERE[2]),), ()])

    assert codes(filter_hypothetical(harness.framework, cycle, worlds)) == [(0, [0, 0, 1])]


# ---------------------------------------------------------------- states


def test_without_deltas_the_state_is_used_as_it_is() -> None:
    for plugin in (Scalar(), Shifting()):
        harness, cycle, view = opened(plugin)
        filter_hypothetical(harness.framework, cycle, view)
        assert plugin.calls == ["filter a,b,c with 3"]


def test_shift_is_asked_once_for_all_worlds() -> None:
    plugin = Shifting()
    harness, cycle, view = opened(plugin)
    worlds = view.plus([(info("n"),), (), (info("n"), info("m"))])

    filter_hypothetical(harness.framework, cycle, worlds)

    assert plugin.calls == ["apply_deltas", "filter a,b,c with 6"]
    assert cycle[plugin] == 3


def test_the_scalar_form_removes_first_and_adds_then_world_by_world() -> None:
    plugin = Scalar()
    harness, cycle, view = opened(plugin)
    worlds = view.plus([(info("n"), info("m")), (), (info("o"),)])
    worlds = worlds.without([(PodInfo(HERE[0]),), (), ()])

    filter_hypothetical(harness.framework, cycle, worlds)

    assert plugin.calls == [
        "remove x from a",
        "add n to a",
        "add m to a",
        "filter a with 4",
        "filter b with 3",
        "add o to c",
        "filter c with 4",
    ]
    assert cycle[plugin] == 3


def test_the_scalar_form_gives_each_hypothetical_node_its_own_status() -> None:
    class Picky(Scalar):
        def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
            many = np.full(len(nodes), cycle[self] > 3)
            return FilterStatuses.reject(many, Reject(f"{cycle[self]} pods"))

    harness, cycle, view = opened(Picky())
    worlds = view.plus([(), (info("n"),), (info("n"), info("m"))])

    ((_, statuses),) = filter_hypothetical(harness.framework, cycle, worlds)

    assert statuses.codes.tolist() == [0, 1, 2]
    assert [status.reasons for status in statuses.table] == [("4 pods",), ("5 pods",)]


def test_a_plugin_that_stored_nothing_is_asked_as_it_is() -> None:
    class Forgets(Shifting):
        def pre_filter(self, cycle: Cycle) -> Any:
            return None

        def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
            self.calls.append(f"filter {len(nodes)}")
            return FilterStatuses.feasible(len(nodes))

    plugin = Forgets()
    harness, cycle, view = opened(plugin)

    filter_hypothetical(harness.framework, cycle, view.plus([(info("n"),)] * 3))

    assert plugin.calls == ["filter 3"]


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize("method", ["apply_deltas", "add_pod", "remove_pod"])
def test_a_state_that_cannot_follow_is_an_error_of_its_plugin(method: str) -> None:
    plugin: Any = Shifting() if method == "apply_deltas" else Scalar()

    def breaks(*arguments: Any) -> None:
        raise KeyError("state")

    setattr(plugin, method, breaks)
    harness, cycle, view = opened(plugin)
    worlds = view.plus([(info("n"),)] * 3).without([(PodInfo(HERE[0]),), (), ()])

    with pytest.raises(PluginError, match='running PreFilterExtension plugin "Counts": KeyError'):
        filter_hypothetical(harness.framework, cycle, worlds)


def test_an_answer_for_too_many_worlds_is_an_error() -> None:
    class Talkative(AtMost):
        def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
            return FilterStatuses.feasible(len(nodes) + 1)

    plugin = Talkative("Talkative", 0)
    harness, cycle, view = opened(plugin)

    with pytest.raises(PluginError, match=r"should be uint16 of shape \(3,\)"):
        filter_one(harness.framework, cycle, plugin, view)
