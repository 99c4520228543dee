"""Plugins with ``applies_to`` are not called for pods to which they do not apply."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mooring.framework import (
    SKIP,
    Attempt,
    Cycle,
    FilterStatuses,
    Framework,
    NodeView,
    Placement,
    Reject,
    Status,
    schedule_pod,
)
from mooring.framework.runtime import bind
from mooring.framework.runtime.framework import TIMED_EVERY
from mooring.state import PodInfo
from mooring.state.columns.change_log import Change
from mooring.testing import Harness, make_node, make_pod
from tests.helpers.devices import make_class


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


class Scores:
    """Scores pods with a label; with or without PreScore."""

    def __init__(self, name: str) -> None:
        self.name = name

    def applies_to(self, pod: PodInfo) -> bool:
        return "scored" in pod.metadata.labels

    def score(self, cycle: Cycle, nodes: NodeView) -> Any:
        assert self.applies_to(cycle.pod)
        return np.full(len(nodes), 7, dtype=np.int64)


class PreScores(Scores):
    def pre_score(self, cycle: Cycle, nodes: NodeView) -> None:
        assert self.applies_to(cycle.pod)


def test_scores_of_plugins_that_do_not_apply_are_zero_unless_they_have_pre_score() -> None:
    harness = Harness([make_node("a"), make_node("b")], [Scores("Without"), PreScores("With")])

    for _ in range(3):
        scored = harness.decide(make_pod("p", labels={"scored": "yes"})).decision
        assert scored.raw == {name: {"a": 7, "b": 7} for name in ("With", "Without")}
        assert scored.total == {"a": 14, "b": 14}
        other = harness.decide(make_pod("q")).decision
        assert other.raw == other.scores == {"Without": {"a": 0, "b": 0}}
        assert other.total == {"a": 0, "b": 0}


class Stateful:
    """Has a state for pods to which it does not apply."""

    name = "Stateful"
    idle_state = "idle"

    def applies_to(self, pod: PodInfo) -> bool:
        return "applies" in pod.metadata.labels

    def pre_filter(self, cycle: Cycle) -> Any:
        applies = self.applies_to(cycle.pod)
        cycle[self] = "busy" if applies else self.idle_state
        return None if applies else SKIP

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        return FilterStatuses.feasible(len(nodes))


class Rejects:
    """Rejects every pod in PreFilter."""

    name = "Rejects"

    def __init__(self, *, resolvable: bool) -> None:
        self.resolvable = resolvable

    def pre_filter(self, cycle: Cycle) -> Status:
        return Reject("no", resolvable=self.resolvable)


@pytest.mark.parametrize(
    ("before", "is_reached"),
    [([], True), ([Rejects(resolvable=True)], True), ([Rejects(resolvable=False)], False)],
)
@pytest.mark.parametrize(("labels", "state"), [({}, "idle"), ({"applies": "yes"}, "busy")])
def test_a_plugin_has_its_state_only_if_pre_filter_reached_it(
    before: list[Any], is_reached: bool, labels: dict[str, str], state: str
) -> None:
    plugin = Stateful()
    harness = Harness([make_node("a")], [*before, plugin])

    for _ in range(3):
        cycle = harness.begin(make_pod("p", labels=labels)).cycle
        assert cycle.state_of("Stateful") == (state if is_reached else None)
        assert (plugin in cycle) is is_reached
        assert ("Stateful" in cycle.skipped) is (is_reached and not labels)


class SignsByClasses:
    """Signs pods by the device classes of its time; notes the calls."""

    name = "SignsByClasses"
    reads = Change.LABELS

    def __init__(self) -> None:
        self.signed = self.filtered = 0

    def sign(self, pod: PodInfo) -> Any:
        self.signed += 1
        return ()

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        self.filtered += 1
        return FilterStatuses.feasible(len(nodes))


def test_signatures_and_results_are_made_anew_when_a_device_class_changes() -> None:
    plugin = SignsByClasses()
    harness = Harness([make_node("a"), make_node("b")], [plugin])
    pod = PodInfo(make_pod("p"))

    def schedule() -> tuple[int, int]:
        snapshot = harness.cache.snapshot()
        cycle = harness.framework.new_cycle(pod, snapshot)
        schedule_pod(harness.framework, cycle, Attempt(snapshot))
        return plugin.signed, plugin.filtered

    assert [schedule(), schedule()] == [(1, 1), (1, 1)]
    harness.cache.put_object("DeviceClass", make_class("gpu"))
    assert [schedule(), schedule()] == [(2, 2), (2, 2)]
    harness.cache.remove_object("DeviceClass", "gpu")
    assert [schedule(), schedule()] == [(3, 3), (3, 3)]
