"""The stages record their status, their seconds, and what each plugin evaluated, also on errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mooring.clock import VirtualClock
from mooring.errors import PluginError
from mooring.framework import (
    SKIP,
    Attempt,
    Cycle,
    Diagnosis,
    FilterStatuses,
    NodeView,
    Reject,
    Status,
    schedule_pod,
)
from mooring.framework.runtime import bind as binding
from mooring.framework.runtime.nominated import filter_with_nominated_pods
from mooring.framework.runtime.post_filter import post_filter
from mooring.framework.status import PostFilterResult
from mooring.metrics.registry import Metrics
from mooring.objects.pod import Pod
from mooring.scheduler.metrics import record_frameworks
from mooring.simulation.offline import run_to_end
from mooring.state import PodInfo
from mooring.testing import Harness, make_node, make_pod
from tests.helpers.exposition import parse

PROFILE = "default-scheduler"
DURATION = "scheduler_framework_extension_point_duration_seconds"
PLUGIN_DURATION = "scheduler_plugin_execution_duration_seconds"
EVALUATIONS = "scheduler_plugin_evaluation_total"

#: Extension point and status -> how often, and the seconds of all.
Points = dict[tuple[str, str], tuple[float, float]]


class Timed:
    """A plugin at several points, each with a result and a duration on the clock."""

    def __init__(self, name: str, **results: Any) -> None:
        self.name = name
        self.clock = VirtualClock()
        for point, result in results.items():
            setattr(self, point, self._method(point, result))

    def _method(self, point: str, result: Any) -> Callable[..., Any]:
        def method(*arguments: Any) -> Any:
            self.clock.advance(SECONDS[point])
            if isinstance(result, BaseException):
                raise result
            return result(*arguments) if callable(result) else result

        async def waiting(*arguments: Any) -> Any:
            return method(*arguments)

        method.__name__ = point
        return waiting if point in ("pre_bind", "bind") else method


SECONDS = {
    "pre_filter": 1.0,
    "filter": 2.0,
    "pre_score": 4.0,
    "score": 8.0,
    "normalize": 16.0,
    "post_filter": 32.0,
    "reserve": 64.0,
    "permit": 128.0,
    "pre_bind": 256.0,
    "pre_bind_pre_flight": 512.0,
    "bind": 1024.0,
    "post_bind": 2048.0,
}


def zeros(cycle: Cycle, nodes: NodeView) -> Any:
    return np.zeros(len(nodes), dtype=np.int64)


def feasible(cycle: Cycle, nodes: NodeView) -> FilterStatuses:
    return FilterStatuses.feasible(len(nodes))


def rejecting(*names: str, status: Status | None = None) -> Any:
    def reject(cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        refused = np.array([name in names for name in nodes.names], dtype=np.bool_)
        return FilterStatuses.reject(refused, status or Reject("no"))

    return reject


class Recorded:
    """A framework of plugins on nodes a to d, with the metrics of its scheduler."""

    def __init__(self, *plugins: Timed, timed_every: int = 1) -> None:
        clock = VirtualClock()
        for plugin in plugins:
            plugin.clock = clock
        self.harness = Harness([make_node(name) for name in "abcd"], plugins, clock=clock)
        self.framework = self.harness.framework
        self.framework.timed_every = timed_every
        self.metrics = Metrics(clock=clock)
        record_frameworks(self.metrics, {PROFILE: self.framework})

    def cycle(self, pod: Pod | None = None) -> Cycle:
        info = PodInfo(pod or make_pod())
        return self.framework.new_cycle(info, self.harness.cache.snapshot())

    def schedule(self, pod: Pod | None = None) -> Any:
        cycle = self.cycle(pod)
        return schedule_pod(self.framework, cycle, Attempt(cycle.snapshot))

    def points(self) -> Points:
        """Returns the extension points that have run, without the signing of pods."""
        samples: dict[tuple[str, str], list[float]] = {}
        for (name, labels), number in self._values(DURATION).items():
            if name.endswith(("_count", "_sum")) and ("profile", PROFILE) in labels:
                by_name = dict(labels)
                key = by_name["extension_point"], by_name["status"]
                samples.setdefault(key, [0.0, 0.0])[name.endswith("_sum")] = number
        return {
            key: (count, seconds)
            for key, (count, seconds) in samples.items()
            if count and key[0] != "Sign"
        }

    def evaluations(self) -> dict[str, dict[str, int]]:
        """Returns plugin -> extension point -> evaluations, zeros left out."""
        counts: dict[str, dict[str, int]] = {}
        for (_, labels), number in self._values(EVALUATIONS).items():
            if number:
                by_name = dict(labels)
                of_plugin = counts.setdefault(by_name["plugin"], {})
                of_plugin[by_name["extension_point"]] = int(number)
        return counts

    def plugin_seconds(self) -> dict[tuple[str, str, str], float]:
        """Returns (plugin, point, status) -> seconds of its timed calls."""
        seconds = {}
        for (name, labels), number in self._values(PLUGIN_DURATION).items():
            if name.endswith("_sum"):
                by_name = dict(labels)
                key = by_name["plugin"], by_name["extension_point"], by_name["status"]
                seconds[key] = number
        return seconds

    def _values(self, family: str) -> dict[Any, float]:
        body, _ = self.metrics.expose()
        found = parse(body).get(family)
        return found.values if found is not None else {}


def full(name: str, **results: Any) -> Timed:
    """Returns a plugin at all points of the scheduling cycle."""
    points: dict[str, Any] = {
        "pre_filter": None,
        "filter": feasible,
        "pre_score": None,
        "score": zeros,
    }
    return Timed(name, **{**points, **results})


def test_each_stage_is_recorded_with_its_own_seconds() -> None:
    recorded = Recorded(full("A"), full("B", normalize=lambda cycle, scores, nodes: scores))
    recorded.schedule()

    assert recorded.points() == {
        ("PreFilter", "Success"): (1, 2.0),
        ("Filter", "Success"): (1, 4.0),
        ("PreScore", "Success"): (1, 8.0),
        ("Score", "Success"): (1, 32.0),
    }
    assert recorded.evaluations() == {
        name: {"PreFilter": 1, "Filter": 4, "PreScore": 1, "Score": 4} for name in "AB"
    }
    seconds = recorded.plugin_seconds()
    assert seconds["B", "ScoreExtensionNormalize", "Success"] == 16.0
    assert seconds["A", "PreScore", "Success"] == 4.0
    assert ("A", "ScoreExtensionNormalize", "Success") not in seconds


@pytest.mark.parametrize(
    ("failing", "points", "evaluations"),
    [
        (
            {"pre_filter": ValueError()},
            {("PreFilter", "Error"): (1, 2.0)},
            {"A": {"PreFilter": 1}, "B": {"PreFilter": 1}},
        ),
        (
            {"filter": ValueError()},
            {("PreFilter", "Success"): (1, 3.0), ("Filter", "Error"): (1, 4.0)},
            {"A": {"PreFilter": 1, "Filter": 1}, "B": {"PreFilter": 1, "Filter": 1},
             "C": {"PreFilter": 1}},
        ),
        (
            {"pre_score": ValueError()},
            {
                ("PreFilter", "Success"): (1, 3.0),
                ("Filter", "Success"): (1, 6.0),
                ("PreScore", "Error"): (1, 8.0),
            },
            {
                "A": {"PreFilter": 1, "Filter": 4, "PreScore": 1},
                "B": {"PreFilter": 1, "Filter": 4, "PreScore": 1},
                "C": {"PreFilter": 1, "Filter": 4},
            },
        ),
        (
            {"score": ValueError()},
            {
                ("PreFilter", "Success"): (1, 3.0),
                ("Filter", "Success"): (1, 6.0),
                ("PreScore", "Success"): (1, 12.0),
                ("Score", "Error"): (1, 16.0),
            },
            {
                "A": {"PreFilter": 1, "Filter": 4, "PreScore": 1, "Score": 1},
                "B": {"PreFilter": 1, "Filter": 4, "PreScore": 1, "Score": 1},
                "C": {"PreFilter": 1, "Filter": 4, "PreScore": 1},
            },
        ),
        (
            {"normalize": ValueError()},
            {
                ("PreFilter", "Success"): (1, 3.0),
                ("Filter", "Success"): (1, 6.0),
                ("PreScore", "Success"): (1, 12.0),
                ("Score", "Error"): (1, 32.0),
            },
            {
                name: {"PreFilter": 1, "Filter": 4, "PreScore": 1, "Score": 4} for name in "ABC"
            },
        ),
    ],
    ids=lambda value: str(*value) if isinstance(value, dict) and len(value) == 1 else "",
)  # fmt: skip
def test_a_stage_in_which_a_plugin_fails_is_recorded_as_an_error(
    failing: dict[str, Any], points: Points, evaluations: dict[str, dict[str, int]]
) -> None:
    recorded = Recorded(full("A"), full("B", **failing), full("C"))

    with pytest.raises(PluginError):
        recorded.schedule()

    assert recorded.points() == points
    assert recorded.evaluations() == evaluations


def test_nodes_are_counted_for_the_filters_that_evaluated_them() -> None:
    recorded = Recorded(
        Timed("A", filter=rejecting("a"), score=zeros),
        Timed("B", filter=rejecting("a", "b")),
        Timed("C", filter=feasible),
    )
    recorded.schedule()

    assert recorded.evaluations() == {
        "A": {"Filter": 4, "Score": 2},
        "B": {"Filter": 3},
        "C": {"Filter": 2},
    }


def test_the_rejected_nominated_node_counts_beside_all_nodes() -> None:
    recorded = Recorded(full("A", filter=rejecting("b")), Timed("B", filter=feasible))
    recorded.schedule(make_pod(nominated_node="b"))

    assert recorded.evaluations() == {
        "A": {"PreFilter": 1, "Filter": 1 + 4, "PreScore": 1, "Score": 3},
        "B": {"Filter": 3},
    }
    # Filter runs for the nominated node, and then for all.
    assert recorded.points()["Filter", "Success"] == (2, 2.0 + 4.0)
    assert recorded.points()["PreFilter", "Success"] == (1, 1.0)


def test_a_feasible_nominated_node_is_the_only_one_that_counts() -> None:
    recorded = Recorded(full("A"), full("B"))
    recorded.schedule(make_pod(nominated_node="b"))

    assert recorded.evaluations() == {name: {"PreFilter": 1, "Filter": 1} for name in "AB"}


def test_a_nominated_node_whose_filter_fails_counts_as_an_error() -> None:
    broken = Reject("no")

    def fails_alone(cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        if len(nodes) == 1:
            raise ValueError
        return rejecting("a", status=broken)(cycle, nodes)  # type: ignore[no-any-return]

    recorded = Recorded(Timed("A", filter=fails_alone, score=zeros), Timed("B", filter=feasible))
    recorded.schedule(make_pod(nominated_node="b"))

    assert recorded.evaluations() == {"A": {"Filter": 1 + 4, "Score": 3}, "B": {"Filter": 3}}
    of_filter = {key: of for key, of in recorded.points().items() if key[0] == "Filter"}
    assert of_filter == {("Filter", "Error"): (1, 2.0), ("Filter", "Success"): (1, 4.0)}


@pytest.mark.parametrize(
    ("first", "status", "evaluations"),
    [
        (
            Reject("never", resolvable=False),
            "UnschedulableAndUnresolvable",
            {"A": {"PreFilter": 1}},
        ),
        (Reject("not now"), "Unschedulable", {"A": {"PreFilter": 1}, "B": {"PreFilter": 1}}),
    ],
)
def test_a_pod_that_pre_filter_rejects_is_recorded_with_its_status(
    first: Status, status: str, evaluations: dict[str, dict[str, int]]
) -> None:
    recorded = Recorded(full("A", pre_filter=first), full("B"))
    recorded.schedule()

    seconds = sum(len(of) for of in evaluations.values())
    assert recorded.points() == {("PreFilter", status): (1, float(seconds))}
    assert recorded.evaluations() == evaluations


def test_hypothetical_nodes_are_counted_once_for_each_filter_that_sees_them() -> None:
    recorded = Recorded(
        Timed("A", filter=rejecting("a")), Timed("B", filter=feasible), timed_every=0
    )
    cycle = recorded.cycle()
    waiting = PodInfo(make_pod("w"))

    filter_with_nominated_pods(
        recorded.framework, cycle, NodeView(cycle.snapshot), {0: (waiting,), 1: (waiting,)}
    )

    # With their nominated pods a and b, of which B gets b; then b, c and d without them.
    of_a = recorded.evaluations()["A"]["Filter"]
    of_b = recorded.evaluations()["B"]["Filter"]
    assert (of_a - of_b) >= 1
    assert of_b >= 4


@pytest.mark.parametrize(
    ("result", "status"),
    [
        (PostFilterResult(None, "a"), "Success"),
        (PostFilterResult(Reject("no")), "Unschedulable"),
        (PostFilterResult(Reject("no", resolvable=False)), "UnschedulableAndUnresolvable"),
        (ValueError(), "Error"),
        (None, "Error"),
    ],
)
def test_post_filter_is_recorded_with_its_status(result: Any, status: str) -> None:
    recorded = Recorded(Timed("A", post_filter=result))

    post_filter(recorded.framework, recorded.cycle(), Diagnosis(4))

    assert recorded.points() == {("PostFilter", status): (1, 32.0)}


def test_post_filter_is_not_recorded_if_no_plugin_runs() -> None:
    recorded = Recorded(Timed("A", post_filter=PostFilterResult(None, "a")))
    cleared = post_filter(recorded.framework, recorded.cycle(), Diagnosis(0))
    assert (cleared.status, cleared.node_name, recorded.points()) == (None, "", {})
    without = Recorded(Timed("A", filter=feasible))
    cleared = post_filter(without.framework, without.cycle(), Diagnosis(4))
    assert (cleared.status, cleared.node_name, without.points()) == (None, "", {})


def call(recorded: Recorded, point: str) -> Any:
    """Runs one stage of the binding cycle."""
    framework, cycle = recorded.framework, recorded.cycle()
    if point == "Reserve":
        return binding.reserve(framework, cycle, "a")
    if point == "Permit":
        return binding.permit(framework, cycle, "a", now_s=0)
    if point == "PostBind":
        return binding.post_bind(framework, cycle, "a")
    stage = binding.pre_bind if point == "PreBind" else binding.bind
    return run_to_end(stage(framework, cycle, "a"))


METHODS = {
    "Reserve": "reserve",
    "Permit": "permit",
    "PreBind": "pre_bind",
    "Bind": "bind",
    "PostBind": "post_bind",
}


@pytest.mark.parametrize("point", ["Reserve", "Permit", "PreBind", "Bind"])
@pytest.mark.parametrize(
    ("result", "status"),
    [
        (None, "Success"),
        (Reject("no"), "Unschedulable"),
        (Reject("no", resolvable=False), "UnschedulableAndUnresolvable"),
        (ValueError(), "Error"),
    ],
)
def test_stages_of_binding_are_recorded_with_their_status(
    point: str, result: Any, status: str
) -> None:
    method = METHODS[point]
    recorded = Recorded(Timed("A", **{method: result}))

    try:
        returned = call(recorded, point)
    except PluginError:
        assert status == "Error"
    else:
        assert returned == (None if result is None else result.named("A"))

    points = recorded.points()
    assert points.pop((point, status)) == (1, SECONDS[method])
    assert points.keys() <= {("PreBindPreFlight", "Success")}
    assert recorded.plugin_seconds()["A", point, status] == SECONDS[method]


def test_post_bind_is_a_success_also_if_a_plugin_fails() -> None:
    recorded = Recorded(Timed("A", post_bind=ValueError()), Timed("B", post_bind=None))

    call(recorded, "PostBind")

    assert recorded.points() == {("PostBind", "Success"): (1, 2 * SECONDS["post_bind"])}


@pytest.mark.parametrize("point", ["Reserve", "Permit", "PreBind", "PostBind"])
def test_a_stage_without_plugins_is_a_success_of_no_seconds(point: str) -> None:
    recorded = Recorded(Timed("A", filter=feasible))

    call(recorded, point)

    points = recorded.points()
    assert points.pop((point, "Success")) == (1, 0.0)
    assert points.keys() <= {("PreBindPreFlight", "Skip")}


def test_pre_bind_plugins_that_all_skip_are_recorded_as_skipped() -> None:
    recorded = Recorded(Timed("A", pre_bind=ValueError(), pre_bind_pre_flight=SKIP))

    assert call(recorded, "PreBind") is None

    assert recorded.points() == {
        ("PreBindPreFlight", "Skip"): (1, 512.0),
        ("PreBind", "Success"): (1, 0.0),
    }


def test_bind_plugins_that_all_skip_are_recorded_as_skipped() -> None:
    recorded = Recorded(Timed("A", bind=SKIP), Timed("B", bind=SKIP))

    with pytest.raises(PluginError, match="every bind plugin skipped the pod"):
        call(recorded, "Bind")

    assert recorded.points() == {("Bind", "Skip"): (1, 2 * SECONDS["bind"])}


def test_only_some_attempts_time_their_plugins() -> None:
    recorded = Recorded(full("A"), timed_every=0)
    recorded.schedule()
    assert recorded.plugin_seconds() == {}
    assert recorded.points()["Filter", "Success"] == (1, 2.0)
