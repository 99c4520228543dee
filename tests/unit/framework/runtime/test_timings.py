"""Durations of plugin calls, per plugin and point, by the passed clock."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mooring.errors import PluginError
from mooring.framework import Cycle, FilterStatuses, NodeView
from mooring.framework.runtime.timings import Timing, Timings
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


def test_a_call_that_raises_is_timed_too() -> None:
    clock = FakeClock()
    harness = Harness(NODES, [Slow(clock, fails=True)], clock=clock)

    with pytest.raises(PluginError):
        harness.decide(make_pod())

    assert harness.framework.timings.statistics() == {("Slow", "Filter"): Timing(1, 2.0)}
