"""Waits between tries."""

from __future__ import annotations

import pytest

from mooring.client.retry import Backoff
from mooring.clock import VirtualClock, seeded_random


def test_waits_double_up_to_the_cap_and_are_up_to_twice_as_long() -> None:
    backoff = Backoff(VirtualClock(), seeded_random(7))
    bases_s = [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0]
    waits_s = [backoff.next_s() for _ in bases_s]
    for base_s, wait_s in zip(bases_s, waits_s, strict=True):
        assert base_s <= wait_s < 2 * base_s
    assert waits_s != bases_s, "with jitter"


@pytest.mark.parametrize(("calm_s", "expected_s"), [(120.0, 1.6), (120.1, 0.8)])
def test_after_two_calm_minutes_they_begin_anew(calm_s: float, expected_s: float) -> None:
    clock = VirtualClock()
    backoff = Backoff(clock, seeded_random(7), jitter=0.0)
    clock.advance(10)
    assert backoff.next_s() == 0.8
    clock.advance(calm_s)
    assert backoff.next_s() == expected_s


def test_the_server_may_ask_for_more_and_never_for_less() -> None:
    backoff = Backoff(VirtualClock(), seeded_random(7), jitter=0.0)
    assert backoff.next_s(at_least_s=60.0) == 60.0
    assert backoff.next_s(at_least_s=0.1) == 1.6


def test_an_ill_server_gets_less_than_a_request_each_four_seconds() -> None:
    clock = VirtualClock()
    backoff = Backoff(clock, seeded_random(7))
    for _ in range(100):
        clock.advance(backoff.next_s())
    assert 100 / clock.monotonic_s() < 0.25
