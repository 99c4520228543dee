"""Differences of pairs of runs."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import pytest

from mooring.errors import ConfigError
from mooring.statistics import paired_difference
from mooring.statistics.paired import NO_DIFFERENCE, TOO_FEW_RUNS


def test_pairs_show_a_difference_that_unpaired_runs_hide() -> None:
    # Seeds differ by hundreds, configurations by about one.
    baseline = [100.0, 500.0, 300.0, 900.0, 200.0]
    candidate = [98.8, 499.1, 298.9, 899.0, 199.2]

    difference = paired_difference(baseline, candidate)

    assert difference.verdict == "better"
    assert difference.interval.mean == pytest.approx(-1.0)
    assert difference.interval.high < 0
    assert difference.counts == "better in 5 of 5"
    assert difference.relative == pytest.approx(-1.0 / 400.0)


@pytest.mark.parametrize(
    ("better", "verdict", "n_better"), [("lower", "worse", 0), ("higher", "better", 4)]
)
def test_the_direction_of_the_measure_counts(better: Any, verdict: str, n_better: int) -> None:
    difference = paired_difference([1.0, 2.0, 3.0, 4.0], [2.0, 3.1, 4.0, 5.1], better=better)

    assert difference.verdict == verdict
    assert difference.n_better == n_better


def test_an_interval_that_contains_0_shows_no_difference() -> None:
    difference = paired_difference([1.0, 2.0, 3.0], [1.5, 1.4, 3.0])

    assert difference.verdict == NO_DIFFERENCE
    assert not difference.is_shown
    assert difference.counts == "better in 1 of 3, equal in 1"
    assert difference.sentence("cost", "USD") == (
        "cost: no difference shown (95 % interval -1.401 to +1.335 USD), "
        "better in 1 of 3, equal in 1"
    )


def test_equal_runs_show_no_difference() -> None:
    difference = paired_difference([1.0, 2.0], [1.0, 2.0])

    assert difference.verdict == NO_DIFFERENCE
    assert difference.counts == "better in 0 of 2, equal in 2"


def test_one_pair_is_too_few() -> None:
    difference = paired_difference([4.0], [3.0])

    assert difference.verdict == TOO_FEW_RUNS
    assert difference.sentence("cost") == f"cost: {TOO_FEW_RUNS}; better in 1 of 1"


def test_a_worse_candidate_in_a_sentence() -> None:
    difference = paired_difference([1.0, 2.0, 3.0], [2.0, 3.1, 3.9])

    assert difference.sentence("wait.p99", "s") == (
        "wait.p99: worse by 1 s (95 % interval 0.7516 to 1.248 s), better in 0 of 3"
    )


def test_the_relative_difference_from_0_is_unknown() -> None:
    assert math.isnan(paired_difference([0.0, 0.0], [1.0, 2.0]).relative)


@pytest.mark.parametrize(
    ("baseline", "candidate", "message"),
    [
        ([1.0, 2.0], [1.0], "candidate: must have as many runs as the baseline, 2, got 1"),
        ([], [], "baseline: must have at least one value"),
        ([1.0], [math.nan], "candidate[0]: must be finite, got nan"),
    ],
)
def test_runs_that_are_no_pairs_are_refused(
    baseline: list[float], candidate: list[float], message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        paired_difference(baseline, candidate)

    assert str(caught.value) == message


def test_without_a_difference_one_in_twenty_experiments_shows_one() -> None:
    rng = Random(7)
    experiments, shown = 4000, 0

    for _ in range(experiments):
        levels = [rng.uniform(100.0, 1000.0) for _ in range(10)]
        baseline = [level + rng.gauss(0.0, 1.0) for level in levels]
        candidate = [level + rng.gauss(0.0, 1.0) for level in levels]
        shown += paired_difference(baseline, candidate).is_shown

    assert 0.03 <= shown / experiments <= 0.07
