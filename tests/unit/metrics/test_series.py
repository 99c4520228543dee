"""Series by label values: observations, resets, allow-lists and the limit."""

from __future__ import annotations

import pytest

from mooring.metrics import series
from mooring.metrics.family import counter, histogram
from mooring.metrics.series import Distribution, Number, Vector

CALLS = counter("ALPHA", "calls_total", "Calls.", "verb", "code")
SECONDS = histogram("ALPHA", "seconds", (0.1, 1.0), "Seconds.")


def test_an_observation_on_a_bound_belongs_to_its_bucket() -> None:
    seconds = Vector(SECONDS, Distribution).labels()
    for value in (0.05, 0.1, 0.5, 1.0, 7.0):
        seconds.observe(value)
    assert seconds.counts == [2, 2, 1]
    assert seconds.count == 5
    assert seconds.sum == pytest.approx(8.65)


def test_a_family_without_labels_is_there_from_the_start() -> None:
    seconds = Vector(SECONDS, Distribution)
    assert list(seconds.children) == [()]
    seconds.labels().observe(1)
    seconds.clear()
    assert seconds.children[()].count == 0


def test_a_family_with_labels_has_the_series_that_were_used() -> None:
    calls = Vector(CALLS, Number)
    assert calls.children == {}
    calls.labels("bind", "200").add()
    calls.labels("bind", "200").add(2)
    assert {labels: number.value for labels, number in calls.children.items()} == {
        ("bind", "200"): 3
    }
    calls.clear()
    assert calls.children == {}


def test_values_that_are_not_allowed_become_one_and_each_use_is_counted() -> None:
    counted: list[int] = []
    calls = Vector(
        CALLS,
        Number,
        allowed={"code": frozenset({"200"})},
        on_unexpected=lambda: counted.append(1),
    )
    for code in ("200", "404", "500", "404"):
        calls.labels("get", code).add()
    assert {labels: number.value for labels, number in calls.children.items()} == {
        ("get", "200"): 1,
        ("get", "unexpected"): 3,
    }
    assert len(counted) == 3


def test_beyond_the_limit_all_series_are_one() -> None:
    calls = Vector(CALLS, Number)
    for number in range(series.SERIES_MAX + 5):
        calls.labels("get", str(number)).add()
    assert len(calls.children) == series.SERIES_MAX + 1
    assert calls.children["other", "other"].value == 5


def test_many_observations_at_once_are_those_one_by_one() -> None:
    values = [0.5, 0.1, 7.0, 0.05, 1.0, 0.100001]
    one_by_one, at_once = (Vector(SECONDS, Distribution).labels() for _ in range(2))
    for value in values:
        one_by_one.observe(value)
    at_once.observe_all(list(values))
    assert at_once.counts == one_by_one.counts
    assert at_once.sum == pytest.approx(one_by_one.sum)
