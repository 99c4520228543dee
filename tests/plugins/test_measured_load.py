"""MeasuredLoad: scores by numbers from a metric cache."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.clock import VirtualClock
from mooring.framework.interface import Handle
from mooring.plugins.contrib.load_score import MeasuredLoad
from mooring.testing import Harness, make_node, make_pod


class Numbers:
    """Numbers that do not come from anywhere."""

    def __init__(self, **numbers: float) -> None:
        self.version = 1
        self.numbers: Mapping[str, float] = numbers

    def fresh_values(self, now_s: float) -> Mapping[str, float]:
        return self.numbers

    async def follow(self, handle: Handle) -> None:
        raise AssertionError("nobody asked for that")

    def become(self, **numbers: float) -> None:
        self.version += 1
        self.numbers = numbers


class Clocked:
    """As much of a handle as the plugin needs."""

    def __init__(self) -> None:
        self.clock = VirtualClock()

    def monotonic_s(self) -> float:
        return self.clock.monotonic_s()


def harness(numbers: Numbers, **more: Any) -> Harness:
    handle: Any = Clocked()
    return Harness(
        [make_node(name) for name in ("a", "b", "c")], [MeasuredLoad(numbers, handle, **more)]
    )


@pytest.mark.parametrize(
    ("numbers", "more", "expected"),
    [
        ({"a": 0.2, "b": 0.6, "c": 1.0}, {}, {"a": 100, "b": 50, "c": 0}),
        ({"a": 0.2, "b": 0.6, "c": 1.0}, {"prefers_most": True}, {"a": 0, "b": 50, "c": 100}),
        ({"a": 0.2, "b": 0.6, "c": 1.0}, {"bounds": (0, 1)}, {"a": 80, "b": 40, "c": 0}),
        ({"a": -5.0, "b": 0.5, "c": 7.0}, {"bounds": (0, 1)}, {"a": 100, "b": 50, "c": 0}),
        ({"a": 0.2, "c": 0.4}, {}, {"a": 100, "b": 50, "c": 0}),
        ({"b": 3.0}, {}, {"a": 50, "b": 50, "c": 50}),
        ({"a": 1.0, "b": 1.0, "c": 1.0}, {}, {"a": 50, "b": 50, "c": 50}),
        ({}, {}, None),
        ({"elsewhere": 1.0}, {}, None),
    ],
)
def test_scores(
    numbers: dict[str, float], more: dict[str, Any], expected: dict[str, int] | None
) -> None:
    assert harness(Numbers(**numbers), **more).scores(make_pod()) == expected


def test_new_numbers_and_new_nodes_are_seen() -> None:
    numbers = Numbers(a=0.0, b=1.0)
    found = harness(numbers)
    assert found.decide(make_pod("one")).node == "a"
    numbers.become(a=1.0, b=0.0)
    assert found.decide(make_pod("two")).node == "b"
    numbers.become(a=1.0, b=0.5, d=0.0)
    found.cache.put_node(make_node("d"))
    assert found.decide(make_pod("three")).node == "d"
    found.cache.remove_node("d")
    assert found.decide(make_pod("four")).node == "b"


@given(
    values=st.lists(
        st.floats(allow_nan=False, allow_infinity=False, width=32), min_size=3, max_size=3
    ),
    most=st.booleans(),
)
def test_the_order_of_scores_is_that_of_the_numbers(values: list[float], most: bool) -> None:
    numbers = dict(zip(("a", "b", "c"), values, strict=True))
    scores = harness(Numbers(**numbers), prefers_most=most).scores(make_pod())
    assert scores is not None
    assert all(0 <= score <= 100 for score in scores.values())
    for one in numbers:
        for other in numbers:
            if numbers[one] < numbers[other]:
                assert scores[one] <= scores[other] if most else scores[one] >= scores[other]
    assert not math.isnan(sum(scores.values()))
