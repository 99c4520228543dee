"""Confidence intervals of a mean."""

from __future__ import annotations

import math
from random import Random

import pytest

from mooring.errors import ConfigError
from mooring.statistics import Interval, mean_interval


def test_an_interval_computed_by_hand() -> None:
    # mean 5, deviations -3 -1 1 3: variance 20/3, standard error 1.2910; t(0.975, 3) = 3.1824
    interval = mean_interval([2.0, 4.0, 6.0, 8.0])

    assert interval.mean == 5.0
    assert interval.low == pytest.approx(5 - 4.1085, abs=1e-4)
    assert interval.half_width == pytest.approx(4.1085, abs=1e-4)
    assert not interval.contains_zero


def test_one_run_says_nothing_about_chance() -> None:
    assert mean_interval([3.0]) == Interval(3.0, -math.inf, math.inf)


def test_equal_values_have_an_interval_without_width() -> None:
    assert mean_interval([0.0, 0.0, 0.0]) == Interval(0.0, 0.0, 0.0)
    assert mean_interval([0.0, 0.0]).contains_zero


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([], "values: must have at least one value"),
        ([1.0, math.nan], "values[1]: must be finite, got nan"),
        ([math.inf], "values[0]: must be finite, got inf"),
    ],
)
def test_values_without_an_interval_are_refused(values: list[float], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        mean_interval(values)

    assert str(caught.value) == message


@pytest.mark.parametrize("n", [2, 5, 20])
def test_the_interval_covers_the_truth_in_95_percent_of_experiments(n: int) -> None:
    rng = Random(n)
    truth, experiments = 3.0, 4000

    covered = 0
    for _ in range(experiments):
        interval = mean_interval([rng.gauss(truth, 2.0) for _ in range(n)])
        covered += interval.low <= truth <= interval.high

    assert 0.93 <= covered / experiments <= 0.97


def test_another_confidence() -> None:
    values = [1.0, 2.0, 3.0, 5.0]
    widths = [mean_interval(values, confidence=share).half_width for share in (0.5, 0.9, 0.99)]

    assert widths == sorted(widths)
    # t(0.95, 3) = 2.3534 and t(0.995, 3) = 5.8409
    assert widths[2] / widths[1] == pytest.approx(5.8409 / 2.3534, rel=1e-4)
