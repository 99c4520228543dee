"""The metrics of a framework's cycles: durations, statuses and evaluations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mooring.clock import VirtualClock
from mooring.errors import PluginError
from mooring.framework import (
    SKIP,
    Attempt,
    FilterStatuses,
    Framework,
    PreFilterResult,
    Reject,
    per_node,
    schedule_pod,
)
from mooring.framework.runtime.post_filter import post_filter
from mooring.framework.status import Code, PostFilterResult, Status
from mooring.metrics.profile_recorder import (
    ATTEMPTS_MAX,
    GROUPS_MAX,
    SAMPLES_MAX,
    ProfileRecorder,
)
from mooring.metrics.registry import Metrics
from mooring.objects.pod import Pod
from mooring.scheduler.metrics import record_frameworks
from mooring.state import PodInfo
from mooring.testing import Harness, make_node, make_pod
from tests.helpers.exposition import value

PROFILE = "default-scheduler"
POINT = "scheduler_framework_extension_point_duration_seconds"
PLUGIN = "scheduler_plugin_execution_duration_seconds"


class Refuses:
    """A filter and scorer with prepared results: names of nodes that it rejects."""

    def __init__(self, name: str, *nodes: str, pre_filtered: Any = None, pre_scored: Any = None):
        self.name = name
        self._nodes = nodes
        self._pre_filtered = pre_filtered
        self._pre_scored = pre_scored

    def pre_filter(self, cycle: Any) -> Any:
        if isinstance(self._pre_filtered, BaseException):
            raise self._pre_filtered
        return self._pre_filtered

    @per_node
    def filter(self, pod: Any, node: Any) -> Any:
        return Reject("no") if node.name in self._nodes else None

    def pre_score(self, cycle: Any, view: Any) -> Any:
        return self._pre_scored

    def score(self, cycle: Any, view: Any) -> Any:
        return np.zeros(len(view), dtype=np.int64)


class Recorded:
    """A framework of plugins on four nodes, with metrics."""

    def __init__(self, *plugins: Any, nodes: str = "abcd") -> None:
        self.clock = VirtualClock()
        self.harness = Harness([make_node(name) for name in nodes], plugins, clock=self.clock)
        self.metrics = Metrics(clock=self.clock)
        record_frameworks(self.metrics, {PROFILE: self.framework})

    @property
    def framework(self) -> Framework:
        return self.harness.framework

    def schedule(self, pod: Pod | None = None) -> Any:
        snapshot = self.harness.cache.snapshot()
        cycle = self.framework.new_cycle(PodInfo(pod or make_pod()), snapshot)
        result = schedule_pod(self.framework, cycle, Attempt(snapshot))
        return cycle, result

    def evaluations(self, point: str, *plugins: str) -> list[float | None]:
        body, _ = self.metrics.expose()
        name, labels = "scheduler_plugin_evaluation_total", {"profile": PROFILE}
        return [
            value(body, name, plugin=plugin, extension_point=point, **labels) for plugin in plugins
        ]

    def points(self, *points: str, status: str = "Success") -> list[float | None]:
        body, _ = self.metrics.expose()
        labels = {"profile": PROFILE, "status": status}
        return [value(body, f"{POINT}_count", extension_point=point, **labels) for point in points]


def test_series_of_evaluations_are_there_from_the_start() -> None:
    recorded = Recorded(Refuses("A"))
    for point in ("PreFilter", "Filter", "PreScore", "Score"):
        assert recorded.evaluations(point, "A") == [0]


def test_a_filter_evaluates_the_nodes_that_no_filter_before_it_rejected() -> None:
    recorded = Recorded(Refuses("A", "a"), Refuses("B", "a", "b"), Refuses("C"))
    recorded.schedule()
    assert recorded.evaluations("Filter", "A", "B", "C") == [4, 3, 2]
    assert recorded.evaluations("PreFilter", "A", "B", "C") == [1, 1, 1]
    assert recorded.evaluations("Score", "A", "B", "C") == [2, 2, 2]
    recorded.schedule()
    assert recorded.evaluations("Filter", "A", "B", "C") == [8, 6, 4]


def test_a_plugin_that_skips_the_pod_evaluates_nothing() -> None:
    recorded = Recorded(Refuses("A", pre_filtered=SKIP, pre_scored=SKIP), Refuses("B", "a"))
    recorded.schedule()
    for point, counts in {"PreFilter": [0, 1], "Filter": [0, 4], "PreScore": [0, 1]}.items():
        assert recorded.evaluations(point, "A", "B") == counts
    assert recorded.evaluations("Score", "A", "B") == [0, 3]


class Idle:
    """Scores without PreScore, and applies to no pod."""

    name = "Idle"

    def applies_to(self, pod: PodInfo) -> bool:
        return False

    def score(self, cycle: Any, view: Any) -> Any:
        return np.zeros(len(view), dtype=np.int64)


def test_score_of_a_plugin_without_pre_score_counts_for_pods_to_which_it_does_not_apply() -> None:
    recorded = Recorded(Idle(), Refuses("A", "a"))
    for timed_every in (1, 0):
        recorded.framework.timed_every = timed_every
        recorded.schedule()
    assert recorded.evaluations("Score", "Idle", "A") == [6, 6]


def test_plugins_after_a_rejecting_pre_filter_are_not_evaluated() -> None:
    final = Reject("never", resolvable=False)
    recorded = Recorded(Refuses("A"), Refuses("B", pre_filtered=final), Refuses("C"))
    recorded.schedule()
    assert recorded.evaluations("PreFilter", "A", "B", "C") == [1, 1, 0]
    assert recorded.evaluations("Filter", "A", "B", "C") == [0, 0, 0]
    assert recorded.points("PreFilter", status="UnschedulableAndUnresolvable") == [1]
    assert recorded.points("Filter", "Score") == [None, None]


def test_after_a_resolvable_rejection_every_pre_filter_runs() -> None:
    recorded = Recorded(Refuses("A", pre_filtered=Reject("no")), Refuses("B"))
    recorded.schedule()
    assert recorded.evaluations("PreFilter", "A", "B") == [1, 1]
    assert recorded.points("PreFilter", status="Unschedulable") == [1]


def test_only_the_nodes_of_pre_filter_are_evaluated() -> None:
    names = PreFilterResult(frozenset({"b", "c"}))
    recorded = Recorded(Refuses("A", pre_filtered=names), Refuses("B", "b"))
    recorded.schedule()
    assert recorded.evaluations("Filter", "A", "B") == [2, 2]
    # One node is left: nothing is scored.
    assert recorded.evaluations("Score", "A", "B") == [0, 0]


def test_the_nominated_node_is_evaluated_first() -> None:
    pod = make_pod(nominated_node="b")
    recorded = Recorded(Refuses("A"), Refuses("B"))
    recorded.schedule(pod)
    assert recorded.evaluations("Filter", "A", "B") == [1, 1]
    assert recorded.evaluations("PreFilter", "A", "B") == [1, 1]
    refusing = Recorded(Refuses("A", "b"), Refuses("B"))
    refusing.schedule(pod)
    assert refusing.evaluations("Filter", "A", "B") == [1 + 4, 3]
    assert refusing.evaluations("PreFilter", "A", "B") == [1, 1]
    assert refusing.points("Filter") == [2]


def test_nodes_with_nominated_pods_are_evaluated_twice() -> None:
    recorded = Recorded(Refuses("A"), Refuses("B"))
    other = PodInfo(make_pod("other", priority=10))
    recorded.harness.cache.nominator.nominate(other, "c")
    recorded.schedule()
    assert recorded.evaluations("Filter", "A", "B") == [5, 5]
    assert recorded.evaluations("PreFilter", "A", "B") == [1, 1]


def test_a_cycle_has_one_sample_of_each_extension_point() -> None:
    recorded = Recorded(Refuses("A"))
    recorded.schedule()
    assert recorded.points("Sign", "PreFilter", "Filter", "PreScore", "Score") == [1, 1, 1, 1, 1]


class Fails:
    """Raises in a filter."""

    name = "Fails"

    def filter(self, cycle: Any, view: Any) -> FilterStatuses:
        raise RuntimeError("broken")


def test_a_filter_that_fails_gives_the_status_error() -> None:
    recorded = Recorded(Fails())
    with pytest.raises(PluginError):
        recorded.schedule()
    assert recorded.points("Filter", status="Error") == [1]


def test_an_error_of_pre_filter_is_the_status_of_the_point() -> None:
    recorded = Recorded(Refuses("A", pre_filtered=RuntimeError("broken")))
    with pytest.raises(PluginError):
        recorded.schedule()
    assert recorded.points("PreFilter", status="Error") == [1]


class VolumeBinding(Fails):
    """Raises as VolumeBinding does."""

    name = "VolumeBinding"


class FailsAt(Refuses):
    """Fails at an extension point; Filter fails at the nodes of these names."""

    def __init__(self, name: str, point: str, *nodes: str) -> None:
        super().__init__(name)
        self._point, self._failing = point, nodes

    def pre_filter(self, cycle: Any) -> Any:
        self._fail("PreFilter")

    @per_node
    def filter(self, pod: Any, node: Any) -> Any:
        return Status(Code.ERROR, ("broken",)) if node.name in self._failing else None

    def pre_score(self, cycle: Any, view: Any) -> Any:
        self._fail("PreScore")

    def score(self, cycle: Any, view: Any) -> Any:
        self._fail("Score")
        return np.full(len(view), 101 if self._point == "range" else 0, dtype=np.int64)

    def _fail(self, point: str) -> None:
        if point == self._point:
            raise ValueError(point)


@pytest.mark.parametrize(
    ("failing", "expected"),
    [
        (FailsAt("B", "PreFilter"), {"PreFilter": [1, 1, 0], "Filter": [0, 0, 0]}),
        # Nodes a and b fit, c fails, d is not filtered.
        (
            FailsAt("B", "", "c"),
            {"PreFilter": [1, 1, 1], "Filter": [3, 3, 2], "PreScore": [0, 0, 0]},
        ),
        (
            FailsAt("B", "PreScore"),
            {"Filter": [4, 4, 4], "PreScore": [1, 1, 0], "Score": [0, 0, 0]},
        ),
        (FailsAt("B", "Score"), {"PreScore": [1, 1, 1], "Score": [1, 1, 0]}),
        # All scores are there before they are normalized.
        (FailsAt("B", "range"), {"PreScore": [1, 1, 1], "Score": [4, 4, 4]}),
    ],
)
def test_calls_of_an_attempt_that_fails_count(
    failing: FailsAt, expected: dict[str, list[int]]
) -> None:
    recorded = Recorded(Refuses("A"), failing, Refuses("C"))
    with pytest.raises(PluginError):
        recorded.schedule()
    counted = {point: recorded.evaluations(point, "A", "B", "C") for point in expected}
    assert counted == expected


def test_calls_on_a_nominated_node_that_fails_count() -> None:
    recorded = Recorded(Refuses("A"), FailsAt("B", "", "d"), Refuses("C"), nodes="d")
    with pytest.raises(PluginError):
        recorded.schedule(make_pod(nominated_node="d"))
    assert recorded.evaluations("Filter", "A", "B", "C") == [2, 2, 0]
    assert recorded.evaluations("PreFilter", "A", "B", "C") == [1, 1, 1]


def test_errors_of_volume_binding_are_counted_by_stage() -> None:
    recorded = Recorded(VolumeBinding())
    with pytest.raises(PluginError):
        recorded.schedule()
    name = "scheduler_volume_scheduling_stage_error_total"
    assert value(recorded.metrics.expose()[0], name, operation="predicate") == 1


class Gate:
    """A PreEnqueue plugin with a prepared result."""

    name = "Gate"

    def __init__(self, result: Any) -> None:
        self._result = result

    def pre_enqueue(self, pod: Any) -> Any:
        return self._result


@pytest.mark.parametrize(
    ("result", "status"),
    [
        (None, "Success"),
        (Reject("no"), "Unschedulable"),
        (Reject("no", resolvable=False), "UnschedulableAndUnresolvable"),
    ],
)
def test_pre_enqueue_has_its_own_status(result: Any, status: str) -> None:
    # kube-scheduler shows Success in every case: a variable is shadowed.
    recorded = Recorded(Gate(result))
    recorded.framework.pre_enqueue(PodInfo(make_pod()))
    assert recorded.points("PreEnqueue", status=status) == [1]


class DefaultPreemption:
    """A PostFilter plugin with the name whose calls are counted."""

    name = "DefaultPreemption"

    def __init__(self, result: Any) -> None:
        self._result = result

    def post_filter(self, cycle: Any, diagnosis: Any) -> Any:
        return self._result


@pytest.mark.parametrize(
    ("result", "status"),
    [
        (PostFilterResult(None, "a"), "Success"),
        (PostFilterResult(Reject("no candidates")), "Unschedulable"),
        ("nonsense", "Error"),
    ],
)
def test_each_call_of_preemption_is_an_attempt(result: Any, status: str) -> None:
    recorded = Recorded(Refuses("A", *"abcd"), DefaultPreemption(result))
    cycle, diagnosis = recorded.schedule()
    post_filter(recorded.framework, cycle, diagnosis)
    assert value(recorded.metrics.expose()[0], "scheduler_preemption_attempts_total") == 1
    assert recorded.points("PostFilter", status=status) == [1]


def test_plugins_are_timed_in_one_of_ten_attempts() -> None:
    recorded = Recorded(Refuses("A"))
    for _ in range(20):
        recorded.schedule()
    body, _ = recorded.metrics.expose()
    labels = {"plugin": "A", "status": "Success"}
    for point in ("PreFilter", "Filter", "PreScore", "Score"):
        assert value(body, f"{PLUGIN}_count", extension_point=point, **labels) == 2


def test_many_combinations_of_skipping_plugins_are_added_up_early() -> None:
    clock = VirtualClock()
    metrics = Metrics(clock=clock)
    recorder = ProfileRecorder("p", {"Filter": ["A"]}, clock.monotonic_s, metrics)
    for number in range(GROUPS_MAX + 10):
        recorder.filtered(frozenset({f"other-{number}"}), 3, None)
    recorder.fold()
    evaluations = metrics.numbers("scheduler_plugin_evaluation_total")
    assert evaluations.labels("A", "Filter", "p").value == 3 * (GROUPS_MAX + 10)


def test_durations_are_sorted_into_buckets_before_they_are_too_many() -> None:
    clock = VirtualClock()
    metrics = Metrics(clock=clock)
    recorder = ProfileRecorder("p", {}, clock.monotonic_s, metrics)
    points = metrics.distributions(POINT)
    for _ in range(ATTEMPTS_MAX - 1):
        recorder.succeeded["Filter"](0.003)
        recorder.filtered(frozenset(), 1, None)
    assert points.children == {}
    recorder.filtered(frozenset(), 1, None)
    assert points.labels("Filter", "Success", "p").count == ATTEMPTS_MAX - 1


def test_pods_that_prefilter_rejects_do_not_collect_durations_for_ever() -> None:
    clock = VirtualClock()
    metrics = Metrics(clock=clock)
    recorder = ProfileRecorder("p", {"PreFilter": ["A"]}, clock.monotonic_s, metrics)
    for _ in range(ATTEMPTS_MAX):
        recorder.succeeded["PreEnqueue"](0.003)
        recorder.pre_filter_stopped("A", frozenset())
    children = metrics.distributions(POINT).children
    assert children["PreEnqueue", "Success", "p"].count == ATTEMPTS_MAX


def test_durations_of_a_plugin_are_sorted_into_buckets_before_they_are_too_many() -> None:
    clock = VirtualClock()
    metrics = Metrics(clock=clock)
    recorder = ProfileRecorder("p", {}, clock.monotonic_s, metrics)
    executions = metrics.distributions("scheduler_plugin_execution_duration_seconds")
    for _ in range(SAMPLES_MAX - 1):
        recorder.plugin("A", "Filter", "Success", 0.003)
    assert executions.children == {}
    recorder.plugin("A", "Filter", "Success", 0.003)
    assert executions.children["A", "Filter", "Success"].count == SAMPLES_MAX
