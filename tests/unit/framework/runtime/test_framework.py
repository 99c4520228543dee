"""The framework as the one place that calls plugins: order, blame, clocks, signatures."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Hashable
from typing import Any, NamedTuple

import pytest

from mooring.clock import VirtualClock
from mooring.errors import ConfigError, InvariantViolation, PluginError
from mooring.framework import (
    Attempt,
    Code,
    Cycle,
    FilterStatuses,
    Framework,
    NodeInfo,
    NodeView,
    Pending,
    Placement,
    Profile,
    Reject,
    Status,
    per_node,
    schedule_pod,
)
from mooring.framework.interface import EXTENSION_POINTS
from mooring.framework.runtime.filter_results import MAX_FILTERS
from mooring.framework.runtime.opportunistic_batch import OpportunisticBatch
from mooring.plugins import PrioritySort
from mooring.state import PodInfo
from mooring.state.columns.change_log import Change
from mooring.testing import FakeClock, Harness, cluster, make_node, make_pod
from tests.unit.framework.runtime.test_with_extenders import Says


class Gate:
    """A PreEnqueue plugin with a prepared result."""

    def __init__(self, name: str, answer: Any, asked: list[str]) -> None:
        self.name = name
        self.answer = answer
        self.asked = asked

    def pre_enqueue(self, pod: PodInfo) -> Any:
        self.asked.append(self.name)
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


def framework_of(*plugins: Any, **more: Any) -> Framework:
    return Harness([], plugins, **more).framework


def pod(name: str = "p", **more: Any) -> PodInfo:
    return PodInfo(make_pod(name, **more))


# ---------------------------------------------------------------- before the queue


def test_the_first_gate_that_is_closed_is_named_and_ends_the_round() -> None:
    asked: list[str] = []
    gates = [
        Gate("A", None, asked),
        Gate("B", Reject("quota"), asked),
        Gate("C", Reject("never asked"), asked),
    ]

    status = framework_of(*gates).pre_enqueue(pod())

    assert status == Reject("quota").named("B")
    assert asked == ["A", "B"]


def test_a_pod_that_no_gate_stops_may_enter() -> None:
    assert framework_of(Gate("A", None, []), Gate("B", None, [])).pre_enqueue(pod()) is None
    assert framework_of().pre_enqueue(pod()) is None


def test_a_gate_may_say_that_it_opens_by_itself() -> None:
    status = framework_of(Gate("A", Pending("driver"), [])).pre_enqueue(pod())
    assert status is not None
    assert (status.code, status.plugin) == (Code.PENDING, "A")


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (True, "returned True"),
        ("closed", "returned 'closed'"),
        (OSError("disk"), "OSError: disk"),
        (LookupError(), "LookupError"),
    ],
)
def test_an_answer_that_is_none_is_an_error_of_that_gate(answer: Any, told: str) -> None:
    with pytest.raises(PluginError) as caught:
        framework_of(Gate("A", answer, [])).pre_enqueue(pod())

    assert str(caught.value) == f'running PreEnqueue plugin "A": {told}'


def test_the_one_queue_sort_plugin_compares() -> None:
    class Waiting(NamedTuple):
        pod: PodInfo
        timestamp_s: float

    framework = framework_of(PrioritySort())
    high, early, late = (
        Waiting(pod(priority=5), 9.0),
        Waiting(pod(), 1.0),
        Waiting(pod(), 2.0),
    )

    assert framework.less(high, early)
    assert framework.less(early, late)
    assert not framework.less(late, early)


# ---------------------------------------------------------------- calling


def test_what_a_plugin_raises_is_named_and_chained() -> None:
    framework, plugin = framework_of(), Gate("A", None, [])
    error = ZeroDivisionError("by zero")

    def fails() -> None:
        raise error

    with pytest.raises(PluginError) as caught:
        framework.call(plugin, "Permit", fails)

    assert (caught.value.plugin, caught.value.point) == ("A", "Permit")
    assert caught.value.problem == "ZeroDivisionError: by zero"
    assert caught.value.__cause__ is error


def test_a_plugin_that_exits_fails_its_pod_alone() -> None:
    with pytest.raises(PluginError, match=r'running Permit plugin "A": SystemExit: 3'):
        framework_of().call(Gate("A", None, []), "Permit", sys.exit, 3)


@pytest.mark.parametrize("error", [asyncio.CancelledError(), GeneratorExit()])
def test_a_plugin_that_leaks_an_end_fails_its_pod_alone(error: BaseException) -> None:
    def fails() -> None:
        raise error

    with pytest.raises(PluginError, match=f'plugin "A": {type(error).__name__}'):
        framework_of().call(Gate("A", None, []), "Permit", fails)


@pytest.mark.parametrize(
    "error",
    [
        PluginError("Other", "Filter", "already named"),
        InvariantViolation("row 3"),
        KeyboardInterrupt(),
    ],
)
def test_what_is_no_fault_of_the_plugin_passes_as_it_is(error: BaseException) -> None:
    def fails() -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        framework_of().call(Gate("A", None, []), "Permit", fails)

    assert caught.value is error


def test_every_call_is_timed_also_one_that_fails() -> None:
    clock = FakeClock()
    framework, plugin = framework_of(clock=clock), Gate("A", None, [])

    def takes(seconds: float) -> float:
        clock.advance(seconds)
        if seconds > 1:
            raise TimeoutError
        return seconds

    assert framework.call(plugin, "Filter", takes, 0.5) == 0.5
    with pytest.raises(PluginError):
        framework.call(plugin, "Filter", takes, 2.0)

    timing = framework.timings.statistics()["A", "Filter"]
    assert (timing.calls, timing.seconds) == (2, 2.5)


# ---------------------------------------------------------------- what it is made of


def test_points_that_do_not_exist_are_our_own_bug() -> None:
    with pytest.raises(InvariantViolation, match="prefilter unknown extension point"):
        framework_of().plugins("prefilter")


def test_a_plugin_without_a_weight_has_the_weight_1() -> None:
    framework = framework_of(weights={"A": 5})
    assert (framework.weight("A"), framework.weight("B")) == (5, 1)


class Passes:
    def __init__(self, name: str) -> None:
        self.name = name

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        return FilterStatuses.feasible(len(nodes))


def test_more_filters_than_fit_into_a_byte_are_refused() -> None:
    filters = [Passes(f"F{number}") for number in range(MAX_FILTERS + 1)]

    assert len(framework_of(*filters[:-1]).filters) == MAX_FILTERS
    with pytest.raises(ConfigError, match=f"at most {MAX_FILTERS} filters, got {MAX_FILTERS + 1}"):
        framework_of(*filters)


def test_the_last_of_all_filters_is_heard() -> None:
    class Last(Passes):
        @per_node
        def filter(self, pod: Any, node: NodeInfo) -> Status | None:
            return Reject("last word") if node.name == "a" else None

    filters = [Passes(f"F{number}") for number in range(MAX_FILTERS - 1)]
    harness = Harness([make_node("a"), make_node("b")], [*filters, Last("Last")])

    decided = harness.decide(make_pod())

    assert decided.node == "b"
    assert decided.decision.rejected["a"].plugin == "Last"


def test_a_cycle_knows_the_profile_that_it_runs_under() -> None:
    profile = Profile("mine", {}, {})
    cycle = Framework(profile, clock=FakeClock()).new_cycle(pod(), cluster().snapshot())

    assert (cycle.profile, cycle.pod.metadata.name) == ("mine", "p")


def test_without_filters_and_scores_the_first_node_is_taken() -> None:
    harness = Harness([make_node("a"), make_node("b")], [PrioritySort()])

    assert harness.decide(make_pod()).node == "a"
    assert harness.decide(make_pod(), start_index=1).node == "b"
    assert harness.decide(make_pod()).decision.choice == "first"


# ---------------------------------------------------------------- signatures


class Signs:
    """A shareable filter that counts how often it is asked to sign and to filter."""

    name = "Signs"
    reads = Change.LABELS

    def __init__(self) -> None:
        self.signed = 0
        self.filtered = 0

    def sign(self, pod: PodInfo) -> Hashable | None:
        self.signed += 1
        return pod.spec.node_selector.get("share", "yes") == "yes" or None

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        self.filtered += 1
        return FilterStatuses.feasible(len(nodes))


def decided(harness: Harness, info: PodInfo) -> str:
    snapshot = harness.cache.snapshot()
    cycle = harness.framework.new_cycle(info, snapshot)
    found = schedule_pod(harness.framework, cycle, Attempt(snapshot))
    assert isinstance(found, Placement)
    return found.node_name


def test_a_pod_is_signed_once_and_equal_pods_are_filtered_once() -> None:
    plugin = Signs()
    harness = Harness([make_node("a")], [plugin])
    first, second = pod("p"), pod("q")

    for info in (first, first, second):
        assert decided(harness, info) == "a"

    assert (plugin.signed, plugin.filtered) == (1, 1)


def test_a_signature_is_that_of_one_framework() -> None:
    one, two = Signs(), Signs()
    shared = pod("p")

    assert decided(Harness([make_node("a")], [one]), shared) == "a"
    assert decided(Harness([make_node("a")], [two]), shared) == "a"

    assert (one.signed, two.signed) == (1, 1)


def test_a_pod_that_cannot_be_shared_is_asked_about_every_time() -> None:
    plugin = Signs()
    harness = Harness([make_node("a")], [plugin])

    for _ in range(3):
        decided(harness, pod("p", node_selector={"share": "no"}))

    assert plugin.filtered == 3


def test_shared_answers_are_dropped_when_that_is_asked_for() -> None:
    plugin = Signs()
    harness = Harness([make_node("a")], [plugin])

    decided(harness, pod("p"))
    harness.framework.clear_cached_results()
    decided(harness, pod("q"))

    assert plugin.filtered == 2


def test_sharing_can_be_turned_off() -> None:
    plugin = Signs()
    harness = Harness([make_node("a")], [plugin], cache_results=False)

    decided(harness, pod("p"))
    decided(harness, pod("q"))

    assert (plugin.signed, plugin.filtered) == (0, 2)


def test_an_error_in_sign_is_one_of_that_pod() -> None:
    class Illiterate(Signs):
        def sign(self, pod: PodInfo) -> Hashable | None:
            raise AttributeError("no pen")

    with pytest.raises(PluginError, match='running Sign plugin "Signs": AttributeError: no pen'):
        decided(Harness([make_node("a")], [Illiterate()]), pod())


@pytest.mark.parametrize("reads", [True, False])
def test_a_fragment_that_is_not_hashable_is_an_error_of_the_plugin(*, reads: bool) -> None:
    class Lists:
        name = "Lists"

        def sign(self, pod: PodInfo) -> Any:
            return [pod.priority]

        @per_node
        def filter(self, pod: PodInfo, node: Any) -> None: ...

    plugin: Any = Lists()
    if reads:
        plugin.reads = Change.LABELS
    framework = Harness([make_node("a")], [plugin]).framework

    with pytest.raises(PluginError, match=r'Sign plugin "Lists": returned \[0\], .* not hashable'):
        framework.fragment("Lists", pod())


class AtPoint:
    """Has one method, of an extension point."""

    def __init__(self, name: str, point: str) -> None:
        self.name = name
        setattr(self, point, lambda *_: None)


POINTS_THAT_REJECT = ("pre_enqueue", "pre_filter", "filter", "reserve", "permit")


@pytest.mark.parametrize("point", EXTENSION_POINTS)
def test_plugins_that_may_reject_a_pod_are_those_of_some_points(point: str) -> None:
    plugin, both = AtPoint("One", point), AtPoint("Both", "filter")
    both.permit = both.filter  # type: ignore[attr-defined]
    framework = Harness([make_node("a")], [plugin, both]).framework

    expected = [plugin, both] if point in POINTS_THAT_REJECT else [both]
    rejecting = framework.rejecting_plugins()
    assert len(rejecting) == len(expected)
    assert {id(entry) for entry in rejecting} == {id(entry) for entry in expected}


def test_extenders_may_reject_a_pod_and_any_event_helps_it() -> None:
    framework = Harness([make_node("a")], [AtPoint("One", "filter")]).framework
    framework.set_extenders([Says("x", "filter"), Says("y", "filter")], lambda: 0.0)

    _, of_extenders = framework.rejecting_plugins()

    assert not hasattr(of_extenders, "events")
    pod = PodInfo(make_pod())
    assert framework.fragment(of_extenders.name, pod) is None


class ForPods(Says):
    """An extender for the pods of some names."""

    def __init__(self, name: str, *pods: str, **options: Any) -> None:
        super().__init__(name, "filter", **options)
        self.pods = pods

    def is_interested(self, pod: PodInfo) -> bool:
        return pod.metadata.name in self.pods


def test_a_pod_needs_extenders_if_any_is_interested_in_it() -> None:
    framework = Harness([make_node("a")], [AtPoint("One", "filter")]).framework
    pods = [PodInfo(make_pod(name)) for name in "pqr"]
    assert not any(map(framework.needs_extenders, pods))

    framework.set_extenders([ForPods("x", "p"), ForPods("y", "q")], lambda: 0.0)

    assert [framework.needs_extenders(pod) for pod in pods] == [True, True, False]


@pytest.mark.parametrize(
    ("draw", "count", "index"), [(0.0, 3, 0), (0.34, 3, 1), (0.99, 3, 2), (0.5, 1, 0)]
)
def test_a_random_index_is_below_the_count(draw: float, count: int, index: int) -> None:
    framework = Harness([make_node("a")], []).framework
    framework.set_extenders([Says("x", "filter")], lambda: draw)

    assert framework.random_index(count) == index


def test_the_gate_that_was_closed_last_time_is_tried_first() -> None:
    called: list[str] = []

    class Gate:
        def __init__(self, name: str, status: Status | None) -> None:
            self.name = name
            self.status = status

        def pre_enqueue(self, pod: PodInfo) -> Status | None:
            called.append(self.name)
            return self.status

    closed = [Gate("A", None), Gate("B", Reject("b")), Gate("C", Reject("c")), Gate("D", None)]
    framework = Harness([make_node("a")], closed).framework

    def order(first: str) -> tuple[str, str]:
        called.clear()
        status = framework.pre_enqueue(PodInfo(make_pod()), first=first)
        assert status is not None
        return "".join(called), status.plugin

    assert order("") == ("AB", "B")
    assert order("B") == ("B", "B")
    assert order("C") == ("C", "C")
    assert order("D") == ("DAB", "B")
    assert order("gone") == ("AB", "B")


@pytest.mark.parametrize("names", [(), ("x",), ("x", "y")])
def test_with_extenders_there_is_no_batching_and_no_reuse_of_buffers(
    names: tuple[str, ...],
) -> None:
    framework = Harness([make_node("a")], [AtPoint("One", "filter")]).framework
    batch = framework.batch = OpportunisticBatch([], VirtualClock(), framework.fragment)

    framework.set_extenders([Says(name, "bind") for name in names], lambda: 0.0)

    assert framework.batch is (None if names else batch)
    # An attempt may wait for an extender while other pods are scheduled.
    assert framework._cache.reuses_buffers is (not names)
    assert [extender.name for extender in framework.extenders] == list(names)
