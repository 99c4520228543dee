"""Plugins with ``applies_to`` are not called for pods to which they do not apply."""

from __future__ import annotations

from typing import Any

from mooring.framework import (
    SKIP,
    Attempt,
    Cycle,
    FilterStatuses,
    Framework,
    NodeView,
    Placement,
    Reject,
    schedule_pod,
)
from mooring.framework.runtime import bind
from mooring.framework.runtime.framework import TIMED_EVERY
from mooring.state import PodInfo
from mooring.testing import Harness, make_node, make_pod


class Labelled:
    """Rejects every node for pods with a label; records the pods that each method is called for."""

    name = "Labelled"

    def __init__(self) -> None:
        self.calls: dict[str, list[str]] = {}

    def _called(self, method: str, cycle: Cycle) -> Any:
        self.calls.setdefault(method, []).append(cycle.pod.metadata.name)
        return None if self.applies_to(cycle.pod) else SKIP

    def applies_to(self, pod: PodInfo) -> bool:
        return "rejected" in pod.metadata.labels

    def pre_filter(self, cycle: Cycle) -> Any:
        return self._called("pre_filter", cycle)

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        self._called("filter", cycle)
        return FilterStatuses.of([Reject("labelled")] * len(nodes))

    def reserve(self, cycle: Cycle, node_name: str) -> None:
        self._called("reserve", cycle)

    def unreserve(self, cycle: Cycle, node_name: str) -> None:
        self._called("unreserve", cycle)

    def pre_bind_pre_flight(self, cycle: Cycle, node_name: str) -> Any:
        return self._called("pre_bind_pre_flight", cycle)

    async def pre_bind(self, cycle: Cycle, node_name: str) -> None:
        self._called("pre_bind", cycle)


def schedule(harness: Harness, name: str, labels: dict[str, str]) -> str | None:
    """Returns the node of a pod, and runs the extension points up to PreBind for it."""
    framework: Framework = harness.framework
    snapshot = harness.cache.snapshot()
    cycle = framework.new_cycle(PodInfo(make_pod(name, labels=labels)), snapshot)
    result = schedule_pod(framework, cycle, Attempt(snapshot, 0))
    if not isinstance(result, Placement):
        return None
    assert bind.reserve(framework, cycle, result.node_name) is None
    assert bind.pre_binders(framework, cycle, result.node_name) == []
    bind.unreserve(framework, cycle, result.node_name)
    return result.node_name


def test_a_plugin_is_called_only_for_pods_to_which_it_applies() -> None:
    plugin = Labelled()
    harness = Harness([make_node("a"), make_node("b")], [plugin])
    schedule(harness, "timed", {"warm": "up"})
    plugin.calls.clear()

    nodes = [schedule(harness, f"plain-{number}", {}) for number in range(3)]
    rejected = schedule(harness, "web", {"rejected": "yes"})

    assert rejected is None
    assert None not in nodes
    assert plugin.calls == {"pre_filter": ["web"], "filter": ["web"]}


def test_it_is_called_in_attempts_that_are_timed() -> None:
    plugin = Labelled()
    harness = Harness([make_node("a"), make_node("b")], [plugin])

    for number in range(TIMED_EVERY + 1):
        schedule(harness, f"plain-{number}", {})

    timed = ["plain-0", f"plain-{TIMED_EVERY}"]
    methods = ("pre_filter", "reserve", "pre_bind_pre_flight", "unreserve")
    assert plugin.calls == dict.fromkeys(methods, timed)


def test_without_cached_results_it_is_always_called() -> None:
    plugin = Labelled()
    harness = Harness([make_node("a")], [plugin], cache_results=False)

    for name in ("a", "b"):
        schedule(harness, name, {})

    assert plugin.calls["pre_filter"] == ["a", "b"]
    assert "filter" not in plugin.calls, "it returned SKIP"
