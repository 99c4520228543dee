"""All rejections of a pod: each plugin that rejects a node is listed, not the first alone."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.decision import Rejection
from mooring.framework import (
    SKIP,
    Cycle,
    FilterStatuses,
    NodeView,
    PreFilterResult,
    Reject,
    per_node,
)
from mooring.framework.runtime.all_rejections import AllRejections, all_rejections
from mooring.objects.pod import Pod
from mooring.state import PodInfo
from mooring.testing import Harness, make_node, make_pod

FINAL = "UnschedulableAndUnresolvable"


class Not:
    """Rejects some nodes."""

    def __init__(self, name: str, *nodes: str, reason: str = "") -> None:
        self.name = name
        self.nodes = nodes
        self.reason = reason or f"is refused by {name}"

    @per_node
    def filter(self, pod: Any, node: Any) -> Reject | None:
        return Reject(self.reason, resolvable=False) if node.name in self.nodes else None


class PreFilters(Not):
    """Returns a prepared result of PreFilter, or raises it."""

    def __init__(self, name: str, result: Any, *nodes: str) -> None:
        super().__init__(name, *nodes)
        self.result = result

    def pre_filter(self, cycle: Cycle) -> Any:
        cycle[self] = "state"
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


class AtMost:
    """Rejects nodes with so many pods or more."""

    def __init__(self, limit: int) -> None:
        self.name = "AtMost"
        self.limit = limit

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        return FilterStatuses.reject(nodes.pod_count >= self.limit, Reject("full"))


class Lonely:
    """Rejects nodes without pods."""

    name = "Lonely"

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        return FilterStatuses.reject(nodes.pod_count == 0, Reject("empty"))


def rejections(
    *plugins: Any, pod: Pod | None = None, node: str | None = None, nominated: tuple[Any, ...] = ()
) -> AllRejections:
    harness = Harness([make_node(name) for name in "abc"], plugins)
    harness.cache.put_pod(make_pod("ghost", node="not-there"))
    for waiting, name in nominated:
        harness.cache.nominator.nominate(PodInfo(waiting), name)
    snapshot = harness.cache.snapshot()
    return all_rejections(harness.framework, pod or make_pod("p"), snapshot, node=node)


def refused(plugin: str, reason: str = "") -> Rejection:
    return Rejection(plugin, FINAL, (reason or f"is refused by {plugin}",))


def test_every_filter_that_rejects_a_node_is_listed_in_order() -> None:
    result = rejections(Not("A", "b", "c"), Not("B", "c"), Not("C"))

    assert result == AllRejections(
        (), {"b": (refused("A"),), "c": (refused("A"), refused("B"))}, {}
    )
    assert list(result.of_nodes) == ["b", "c"]


def test_names_of_nodes_that_are_a_text_are_an_error_of_the_plugin() -> None:
    result = rejections(PreFilters("Texts", PreFilterResult("worker-1")))  # type: ignore[arg-type]

    assert "running PreFilter plugin" in result.errors["Texts"]
    assert not result.of_nodes


def test_of_one_node_only_its_rejections_are_listed() -> None:
    plugins = [Not("A", "b", "c"), PreFilters("B", PreFilterResult(frozenset("a")), "c")]

    result = rejections(*plugins, node="c")

    left_out = refused("B", "node(s) didn't satisfy plugin(s) [B]")
    assert result == AllRejections((), {"c": (left_out, refused("A"))}, {})
    assert rejections(*plugins, node="a").of_nodes == {}


def test_a_plugin_that_excludes_nodes_rejects_them_once() -> None:
    result = rejections(
        PreFilters("A", PreFilterResult(frozenset("ab")), "c"),
        PreFilters("B", PreFilterResult(frozenset("bc"))),
        Not("C", "b"),
    )

    a, b = (refused(name, f"node(s) didn't satisfy plugin(s) [{name}]") for name in "AB")
    assert result.of_nodes == {"a": (b,), "b": (refused("C"),), "c": (a,)}


def test_a_rejection_of_the_pod_ends_nothing() -> None:
    result = rejections(
        PreFilters("A", Reject("never", resolvable=False), "a"),
        PreFilters("B", Reject("not now"), "a"),
        Not("C", "b"),
    )

    assert result.of_pod == (
        Rejection("A", FINAL, ("never",)),
        Rejection("B", "Unschedulable", ("not now",)),
    )
    assert result.of_nodes == {"b": (refused("C"),)}  # the filters of A and B do not run


def test_a_plugin_that_skips_the_pod_rejects_nothing() -> None:
    assert rejections(PreFilters("A", SKIP, "a")) == AllRejections((), {}, {})


def test_a_plugin_that_fails_is_listed_and_the_others_run() -> None:
    class Broken:
        name = "Broken"

        def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
            raise ValueError("no idea")

    result = rejections(
        PreFilters("A", ValueError("no luck"), "a"), Broken(), Not("C", "a"), Not("D", "a")
    )

    assert result.errors == {
        "A": 'running PreFilter plugin "A": ValueError: no luck',
        "Broken": 'running "Broken" filter plugin: ValueError: no idea',
    }
    assert result.of_nodes == {"a": (refused("C"), refused("D"))}


@pytest.mark.parametrize(
    ("priority", "expected"), [(0, {"b": ("full",)}), (9, {}), (1, {"b": ("full",)})]
)
def test_nominated_pods_of_at_least_the_same_priority_count(
    priority: int, expected: dict[str, tuple[str, ...]]
) -> None:
    waiting = make_pod("waiting", priority=1)

    result = rejections(
        AtMost(1), pod=make_pod("p", priority=priority), nominated=((waiting, "b"),)
    )

    assert {name: of[0].reasons for name, of in result.of_nodes.items()} == expected


def test_nominated_pods_cannot_make_a_node_feasible() -> None:
    waiting = make_pod("waiting", priority=1)

    result = rejections(Lonely(), nominated=((waiting, "b"), (waiting, "gone")))

    assert list(result.of_nodes) == ["a", "b", "c"]
    assert rejections(Lonely(), node="a", nominated=((waiting, "b"),)).of_nodes.keys() == {"a"}


def test_a_rejection_with_nominated_pods_is_the_one_that_is_listed() -> None:
    class Counts:
        name = "Counts"

        def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
            return FilterStatuses.of(Reject(f"{count} pods") for count in nodes.pod_count.tolist())

    waiting = make_pod("waiting", priority=1)
    result = rejections(Counts(), nominated=((waiting, "b"),))

    reasons = {name: [entry.reasons for entry in of] for name, of in result.of_nodes.items()}
    assert reasons == {"a": [("0 pods",)], "b": [("1 pods",)], "c": [("0 pods",)]}
