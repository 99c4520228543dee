"""Bootstrap intervals."""

from __future__ import annotations

import math
from random import Random

import numpy as np
import pytest
from numpy.typing import NDArray

from mooring.errors import ConfigError
from mooring.statistics import (
    bootstrap_difference,
    bootstrap_interval,
    mean_interval,
    paired_difference,
)

VALUES = [3.1, 4.7, 2.2, 9.0, 5.5, 4.1, 6.2, 3.9, 7.7, 5.0]


def row_medians(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.median(values, axis=1))


def test_equal_seeds_give_equal_intervals() -> None:
    first, second, other = (bootstrap_interval(VALUES, Random(seed)) for seed in (1, 1, 2))

    assert first == second
    assert first != other


def test_the_draws_are_those_of_the_stream_on_every_machine() -> None:
    interval = bootstrap_interval([1.0, 2.0, 4.0, 8.0], Random(0), resamples=3)

    # The words of the stream choose rows of four values.
    words = np.frombuffer(Random(0).randbytes(48), dtype="<u4").tolist()
    means = [
        sum([1.0, 2.0, 4.0, 8.0][word * 4 >> 32] for word in words[at : at + 4]) / 4
        for at in (0, 4, 8)
    ]
    assert interval.mean == 3.75
    assert min(means) <= interval.low <= interval.high <= max(means)


def test_the_interval_of_a_mean_is_close_to_that_of_student() -> None:
    student = mean_interval(VALUES)

    interval = bootstrap_interval(VALUES, Random(5))

    assert interval.mean == pytest.approx(student.mean)
    assert interval.half_width == pytest.approx(student.half_width, rel=0.08)


def test_another_statistic() -> None:
    interval = bootstrap_interval(VALUES, Random(5), statistic=row_medians)

    assert interval.mean == pytest.approx(4.85)
    assert interval.low >= min(VALUES)
    assert interval.high <= max(VALUES)
    assert interval.low < 4.85 < interval.high


def test_more_draws_than_one_chunk() -> None:
    values = [float(number % 7) for number in range(3000)]

    interval = bootstrap_interval(values, Random(1), resamples=1000)

    assert interval.half_width == pytest.approx(mean_interval(values).half_width, rel=0.1)


def test_one_run_says_nothing_about_chance() -> None:
    assert bootstrap_interval([3.0], Random(0)) == (3.0, -math.inf, math.inf)
    with pytest.raises(ConfigError, match="resamples: must be at least 1, got 0"):
        bootstrap_interval(VALUES, Random(0), resamples=0)


@pytest.mark.parametrize("n", [8, 20])
def test_the_interval_covers_the_truth_in_95_percent_of_experiments(n: int) -> None:
    rng, draws = Random(n), Random(n + 1)
    truth, experiments = 3.0, 4000

    covered = 0
    for _ in range(experiments):
        values = [rng.gauss(truth, 2.0) for _ in range(n)]
        interval = bootstrap_interval(values, draws, resamples=400)
        covered += interval.low <= truth <= interval.high

    assert 0.93 <= covered / experiments <= 0.97


def test_a_difference_of_quantiles() -> None:
    baseline = [100.0 + 10 * number for number in range(20)]
    candidate = [value - 5 - number % 3 for number, value in enumerate(baseline)]

    difference = bootstrap_difference(baseline, candidate, Random(3))

    assert difference.verdict == "better"
    assert difference.n_better == difference.n == 20
    assert -6.5 < difference.interval.low < -5.95 < difference.interval.high < -5.4


def test_few_pairs_have_the_interval_of_student() -> None:
    baseline, candidate = [1.0, 5.0, 3.0], [0.5, 4.0, 2.8]

    difference = bootstrap_difference(baseline, candidate, Random(3))

    assert difference == paired_difference(baseline, candidate)
