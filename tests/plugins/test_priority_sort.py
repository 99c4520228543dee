"""PrioritySort: important pods first, then those that have waited longer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cmp_to_key

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.plugins import PrioritySort
from mooring.state import PodInfo
from mooring.testing import check_conformance, make_pod


@dataclass
class Queued:
    """A pod in the queue, as far as the plugin reads it."""

    pod: PodInfo
    timestamp_s: float


def queued(priority: int | None, timestamp_s: float) -> Queued:
    return Queued(PodInfo(make_pod(priority=priority)), timestamp_s)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (queued(10, 5.0), queued(0, 1.0), True),
        (queued(0, 1.0), queued(10, 5.0), False),
        (queued(7, 1.0), queued(7, 2.0), True),
        (queued(7, 2.0), queued(7, 1.0), False),
        (queued(7, 1.0), queued(7, 1.0), False),
        (queued(None, 1.0), queued(0, 2.0), True),  # no priority = 0
        (queued(None, 1.0), queued(-1, 0.0), True),
        (queued(-(2**31), 0.0), queued(2_000_001_000, 9.0), False),
    ],
)
def test_priority_decides_then_time(first: Queued, second: Queued, expected: bool) -> None:
    assert PrioritySort().less(first, second) is expected


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 5)), max_size=12))
def test_sorting_by_it_is_sorting_by_falling_priority_and_rising_time(
    pods: list[tuple[int, int]],
) -> None:
    plugin = PrioritySort()

    def compare(a: Queued, b: Queued) -> int:
        return int(plugin.less(b, a)) - int(plugin.less(a, b))

    found = sorted((queued(*pod) for pod in pods), key=cmp_to_key(compare))
    expected = sorted(pods, key=lambda pod: (-pod[0], pod[1]))
    assert [(entry.pod.priority, entry.timestamp_s) for entry in found] == expected


def test_it_keeps_the_contract() -> None:
    check_conformance(PrioritySort(), seeds=range(5))
