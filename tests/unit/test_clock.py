"""Time and chance come from here: a clock that stands still, and generators that repeat."""

from __future__ import annotations

import pytest

from mooring.clock import Clock, SystemClock, VirtualClock, seeded_random
from mooring.testing import FakeClock


def test_a_virtual_clock_stands_still_until_it_is_told_to_go_on() -> None:
    clock = VirtualClock(monotonic_s=5, wall_s=100)

    assert [clock.monotonic_s(), clock.monotonic_s()] == [5, 5]
    clock.advance(1.5)
    clock.advance(0)

    assert (clock.monotonic_s(), clock.wall_s()) == (6.5, 101.5)


def test_it_starts_at_zero_at_the_beginning_of_2026() -> None:
    clock = VirtualClock()

    # 56 years of which 14 are leap years
    assert (clock.monotonic_s(), clock.wall_s()) == (0, (56 * 365 + 14) * 86_400)


def test_only_the_wall_clock_can_be_set_and_also_back() -> None:
    clock = VirtualClock(wall_s=100)

    clock.step_wall(-40)

    assert (clock.monotonic_s(), clock.wall_s()) == (0, 60)


def test_time_does_not_go_back() -> None:
    clock = VirtualClock()

    with pytest.raises(ValueError, match="time goes forward only, not by -1 s"):
        clock.advance(-1)

    assert clock.monotonic_s() == 0


def test_the_system_clock_goes_on_and_has_a_date_after_this_was_written() -> None:
    clock: Clock = SystemClock()

    first, second = clock.monotonic_s(), clock.monotonic_s()

    assert second >= first
    assert clock.wall_s() > 1_735_689_600  # 2025-01-01
    assert SystemClock().cpu_s() >= 0


def test_equal_seeds_give_equal_chance() -> None:
    rng, again, other = seeded_random(7), seeded_random(7), seeded_random(8)

    drawn = [rng.random() for _ in range(5)]

    assert drawn == [again.random() for _ in range(5)]
    assert drawn != [other.random() for _ in range(5)]


def test_plugin_authors_know_the_virtual_clock_as_fake_clock() -> None:
    assert FakeClock is VirtualClock
