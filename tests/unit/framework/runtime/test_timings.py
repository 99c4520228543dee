"""Durations of plugin calls, per plugin and point, by the passed clock."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mooring.errors import PluginError
from mooring.framework import (
    SKIP,
    Cycle,
    FilterStatuses,
    NodeError,
    NodeView,
    Pending,
    PostFilterResult,
    Reject,
    Wait,
)
from mooring.framework.runtime.timings import Timing, Timings, code_of
from mooring.metrics.registry import Metrics
from mooring.scheduler.metrics import record_frameworks
from mooring.testing import FakeClock, Harness, make_node, make_pod


class Slow:
    """Takes two seconds to filter and half a second to score, on the clock it is given."""

    name = "Slow"

    def __init__(self, clock: FakeClock, *, fails: bool = False) -> None:
        self.clock = clock
        self.fails = fails

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        self.clock.advance(2)
        if self.fails:
            raise ValueError
        return FilterStatuses.feasible(len(nodes))

    def score(self, cycle: Cycle, nodes: NodeView) -> Any:
        self.clock.advance(0.5)
        return np.zeros(len(nodes), dtype=np.int64)


NODES = [make_node("a"), make_node("b")]


def test_calls_and_seconds_add_up() -> None:
    timings = Timings()

    timings.add("A", "Filter", 0.25)
    timings.add("A", "Filter", 0.5)
    timings.add("A", "Score", 1)

    assert timings.statistics() == {
        ("A", "Filter"): Timing(2, 0.75),
        ("A", "Score"): Timing(1, 1),
    }
    assert list(timings.statistics()) == [("A", "Filter"), ("A", "Score")]


def test_statistics_are_a_copy() -> None:
    timings = Timings()
    timings.add("A", "Filter", 1)
    before = timings.statistics()

    timings.add("A", "Filter", 1)
    before[("A", "Filter")].calls = 99

    assert timings.statistics()[("A", "Filter")] == Timing(2, 2)


def test_the_framework_times_one_attempt_in_ten_with_its_own_clock() -> None:
    clock = FakeClock()
    harness = Harness(NODES, [Slow(clock)], clock=clock)

    for _ in range(21):
        harness.decide(make_pod())

    assert harness.framework.timings.statistics() == {
        ("Slow", "Filter"): Timing(3, 6.0),
        ("Slow", "Score"): Timing(3, 1.5),
    }


def test_a_framework_with_metrics_keeps_its_own_timings() -> None:
    clock = FakeClock()
    harness = Harness(NODES, [Slow(clock)], clock=clock)
    record_frameworks(Metrics(clock=clock), {"default-scheduler": harness.framework})
    harness.framework.timed_every = 1

    harness.decide(make_pod())
    harness.decide(make_pod())

    assert harness.framework.timings.statistics() == {
        ("Slow", "Filter"): Timing(2, 4.0),
        ("Slow", "Score"): Timing(2, 1.0),
    }


@pytest.mark.parametrize(
    ("result", "code"),
    [
        (SKIP, "Skip"),
        (Wait(1), "Wait"),
        (Reject("no"), "Unschedulable"),
        (Reject("no", resolvable=False), "UnschedulableAndUnresolvable"),
        (Pending("soon"), "Pending"),
        (NodeError("broken"), "Error"),
        (PostFilterResult(None, "a"), "Success"),
        (PostFilterResult(Reject("no")), "Unschedulable"),
        (FilterStatuses.reject(np.array([True]), Reject("no")), "Success"),
        (np.zeros(2), "Success"),
        (None, "Success"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_code_of_a_result_is_that_of_its_status(result: Any, code: str) -> None:
    assert code_of(result) == code


def test_a_call_that_raises_is_timed_too() -> None:
    clock = FakeClock()
    harness = Harness(NODES, [Slow(clock, fails=True)], clock=clock)

    with pytest.raises(PluginError):
        harness.decide(make_pod())

    assert harness.framework.timings.statistics() == {("Slow", "Filter"): Timing(1, 2.0)}
