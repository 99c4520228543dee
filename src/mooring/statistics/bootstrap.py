"""Bootstrap intervals, for measures that are not nearly normal, such as quantiles of waits.

Runs are drawn with replacement, as many as there are, and the statistic is computed again, 10 000
times; the interval is between two percentiles of these results. For few runs the percentiles are
moved outwards so that the interval of a mean is as wide as Student's t makes it: plain percentiles
make it too narrow by the factor sqrt((n - 1) / n), and by that of a normal instead of a t quantile.

Source: Tim Hesterberg, What Teachers Should Know About the Bootstrap, The American Statistician
69 (2015), "expanded percentile interval".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mooring.clock import Rng
from mooring.errors import ConfigError
from mooring.statistics.intervals import CONFIDENCE, Interval, finite, mean_interval
from mooring.statistics.paired import Better, PairedDifference, checked_pairs, paired_of_interval
from mooring.statistics.student_t import student_t_quantile

#: With 10 000 resamples, the ends of the interval vary by about 1 % of its width.
RESAMPLES: Final = 10_000

#: With fewer runs no resample reaches far enough: of normal differences, 91.5 % of the intervals
#: cover the truth for 5 runs, and 50 % for 2. Student's t is exact there.
RUNS_MIN: Final = 8

#: Draws at a time: 8 MiB of indices.
_CHUNK: Final = 1 << 20

#: Values of shape (k, n) -> k results.
Statistic: TypeAlias = Callable[[NDArray[np.float64]], NDArray[np.float64]]


def row_means(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the mean of each row."""
    return np.asarray(values.mean(axis=1), dtype=np.float64)


def bootstrap_interval(
    values: Sequence[float],
    rng: Rng,
    *,
    statistic: Statistic = row_means,
    resamples: int = RESAMPLES,
    confidence: float = CONFIDENCE,
) -> Interval:
    """Returns a statistic of the values and its interval; equal generators give equal intervals.

    Args:
        values: One value for each run, shape (n,), n >= 1.
        rng: The stream of the draws; 4 n bytes are drawn for each resample.
        statistic: Computes the statistic of the rows of an array.
        resamples: Number of resamples.
        confidence: Above 0 and below 1.

    Raises:
        ConfigError: There is no value, or one is not finite.
    """
    array = finite(values, "values")
    if resamples < 1:
        raise ConfigError("must be at least 1", path="resamples", value=resamples)
    estimate = float(statistic(array[np.newaxis, :])[0])
    if len(array) < 2:
        return Interval(estimate, -math.inf, math.inf)
    results = np.concatenate(
        [statistic(array[rows]) for rows in _drawn(len(array), resamples, rng)]
    )
    tail = _expanded_tail(len(array), confidence)
    low, high = np.quantile(results, [tail, 1.0 - tail])
    return Interval(estimate, float(low), float(high))


def bootstrap_difference(
    baseline: Sequence[float],
    candidate: Sequence[float],
    rng: Rng,
    *,
    better: Better = "lower",
    resamples: int = RESAMPLES,
) -> PairedDifference:
    """Returns the mean difference of pairs with a bootstrap interval.

    With fewer than ``RUNS_MIN`` pairs, the interval is that of Student's t.

    Args:
        baseline: The measure of each run, such as its p99 of waits; shape (n,).
        candidate: The measure of the runs with the same seeds, in the same order.
        rng: The stream of the draws.
        better: Whether lower or higher values are better.
        resamples: Number of resamples.

    Raises:
        ConfigError: The numbers of runs differ, or a value is not finite.
    """
    old, new = checked_pairs(baseline, candidate)
    differences = (new - old).tolist()
    if len(differences) < RUNS_MIN:
        interval = mean_interval(differences)
    else:
        interval = bootstrap_interval(differences, rng, resamples=resamples)
    return paired_of_interval(old, new, interval, better=better)


def _drawn(n: int, resamples: int, rng: Rng) -> list[NDArray[np.int64]]:
    """Returns indices below ``n``, in chunks of rows of ``n``."""
    rows_max = max(1, _CHUNK // n)
    chunks = []
    for first in range(0, resamples, rows_max):
        count = min(rows_max, resamples - first)
        words = np.frombuffer(rng.randbytes(4 * n * count), dtype="<u4").astype(np.uint64)
        # The high half of the product: uniform but for n in 2^32 cases.
        rows = (words * np.uint64(n)) >> np.uint64(32)
        chunks.append(rows.astype(np.int64).reshape(count, n))
    return chunks


def _expanded_tail(n: int, confidence: float) -> float:
    """Returns the probability outside of each end, moved outwards for few runs."""
    t = student_t_quantile(0.5 + confidence / 2.0, n - 1)
    return 0.5 * math.erfc(math.sqrt(n / (n - 1)) * t / math.sqrt(2.0))
