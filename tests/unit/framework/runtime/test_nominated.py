"""Filters on hypothetical nodes: each gets those that passed, with an updated state."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mooring.errors import PluginError
from mooring.framework import SKIP, Cycle, FilterStatuses, NodeInfo, NodeView, Reject
from mooring.framework.runtime.nominated import (
    filter_hypothetical,
    filter_one,
    filter_with_nominated_pods,
    nominated_pods_by_row,
)
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


# ---------------------------------------------------------------- nominated pods


class RejectsNames:
    """Rejects nodes by name."""

    def __init__(self, name: str, *nodes: str) -> None:
        self.name = name
        self.nodes = nodes

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        refused = np.array([name in self.nodes for name in nodes.names], dtype=np.bool_)
        return FilterStatuses.reject(refused, Reject(f"not {self.name}"))


class NeedsCompany:
    """Rejects nodes with fewer pods than this."""

    name = "NeedsCompany"

    def __init__(self, least: int) -> None:
        self.least = least

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        return FilterStatuses.reject(nodes.pod_count < self.least, Reject("too few"))


def first_rejections(
    *plugins: Any,
    nominated: dict[str, tuple[str, ...]] | None = None,
    names: str = "abc",
    only: tuple[str, ...] | None = None,
) -> dict[str, tuple[str, str] | None]:
    """Returns the plugin and the reason of each node's first rejection."""
    harness, cycle, _ = opened(*plugins)
    nodes = harness.cache.nodes
    view = NodeView(cycle.snapshot, np.array([nodes.row(name) for name in names], dtype=np.intp))
    by_row = {
        nodes.row(name): tuple(info(pod) for pod in pods)
        for name, pods in (nominated or {}).items()
    }
    statuses = filter_with_nominated_pods(harness.framework, cycle, view, by_row, only=only)
    return {
        name: None if status is None else (status.plugin, status.reasons[0])
        for name, status in zip(names, statuses.to_list(), strict=True)
    }


def test_without_nominated_pods_the_first_filter_that_rejects_a_node_counts() -> None:
    plugins = RejectsNames("A", "b"), AtMost("B", 1), RejectsNames("C", "a", "b", "c")

    assert first_rejections(*plugins) == {
        "a": ("B", "1 are enough"),
        "b": ("A", "not A"),
        "c": ("C", "not C"),
    }
    assert first_rejections(*plugins, names="ca") == {
        "c": ("C", "not C"),
        "a": ("B", "1 are enough"),
    }
    assert first_rejections(*plugins, only=("C",))["b"] == ("C", "not C")
    assert first_rejections(*plugins[:2], only=("A", "B"))["c"] is None
    assert first_rejections(*plugins, names="") == {}


def test_a_node_without_a_rejection_between_filters_is_feasible() -> None:
    plugins = RejectsNames("A"), RejectsNames("B", "b"), RejectsNames("C"), RejectsNames("D", "a")

    assert first_rejections(*plugins) == {"a": ("D", "not D"), "b": ("B", "not B"), "c": None}


def test_nominated_pods_count_as_placed_where_they_are_nominated() -> None:
    # a has two pods, b one and c none.
    at_most = AtMost("Full", 2)
    assert first_rejections(at_most)["b"] is None
    assert first_rejections(at_most, nominated={"b": ("w",)}) == {
        "a": ("Full", "2 are enough"),
        "b": ("Full", "2 are enough"),
        "c": None,
    }
    assert first_rejections(at_most, nominated={"c": ("v", "w")}, names="cb") == {
        "c": ("Full", "2 are enough"),
        "b": None,
    }
    # None of the nodes that are filtered has nominated pods.
    assert first_rejections(at_most, nominated={"b": ("w",)}, names="ca")["c"] is None


def test_a_node_that_needs_its_nominated_pods_is_rejected_without_them() -> None:
    needs = NeedsCompany(2)
    assert first_rejections(needs, nominated={"b": ("w",), "c": ("v", "w")}) == {
        "a": None,
        "b": ("NeedsCompany", "too few"),
        "c": ("NeedsCompany", "too few"),
    }


def test_the_rejection_with_nominated_pods_is_the_first() -> None:
    plugins = NeedsCompany(1), RejectsNames("A", "b"), AtMost("Full", 2)

    # With w on c it passes NeedsCompany, and then all others; without w it does not.
    assert first_rejections(*plugins, nominated={"b": ("w",), "c": ("w",)}) == {
        "a": ("Full", "2 are enough"),
        "b": ("A", "not A"),
        "c": ("NeedsCompany", "too few"),
    }
    # With two more pods c is full before it is found to be empty without them.
    assert first_rejections(*plugins, nominated={"c": ("v", "w")})["c"] == ("Full", "2 are enough")


def test_nominated_pods_of_lower_priority_and_the_pod_itself_do_not_count() -> None:
    harness = Harness(NODES, [])
    nominator = harness.cache.nominator
    for name, priority, node in (
        ("low", 4, "a"),
        ("equal", 5, "a"),
        ("high", 6, "a"),
        ("me", 5, "b"),
        ("lower", 1, "b"),
        ("late", 9, "gone"),
    ):
        nominator.nominate(PodInfo(make_pod(name, priority=priority)), node)
    cycle = harness.framework.new_cycle(
        PodInfo(make_pod("me", priority=5)), harness.cache.snapshot()
    )

    by_row = nominated_pods_by_row(cycle)

    names = {row: [pod.metadata.name for pod in pods] for row, pods in by_row.items()}
    assert names == {harness.cache.nodes.row("a"): ["equal", "high"]}
