"""Differences of pairs of runs, and verdicts in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mooring.errors import ConfigError
from mooring.statistics.intervals import CONFIDENCE, Interval, finite, mean_interval

#: Whether lower or higher values of a measure are better.
Better: TypeAlias = Literal["lower", "higher"]

NO_DIFFERENCE = "no difference shown"
TOO_FEW_RUNS = "too few runs for an interval"


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """The difference of a candidate from a baseline over runs with the same seeds.

    Attributes:
        n: Number of pairs.
        baseline_mean: Mean of the baseline.
        candidate_mean: Mean of the candidate.
        interval: Mean of the differences, candidate - baseline, and its interval.
        n_better: Pairs in which the candidate is better.
        n_equal: Pairs with equal values.
        better: Whether lower or higher values are better.
    """

    n: int
    baseline_mean: float
    candidate_mean: float
    interval: Interval
    n_better: int
    n_equal: int
    better: Better

    @property
    def relative(self) -> float:
        """The mean difference as a share of the baseline's mean; nan if that mean is 0."""
        base = abs(self.baseline_mean)
        return self.interval.mean / base if base else float("nan")

    @property
    def is_shown(self) -> bool:
        """True if the interval does not contain 0."""
        return self.n > 1 and not self.interval.contains_zero

    @property
    def verdict(self) -> str:
        """The verdict: "better", "worse", or why there is none."""
        if self.n < 2:
            return TOO_FEW_RUNS
        if not self.is_shown:
            return NO_DIFFERENCE
        return "better" if (self.interval.mean < 0) == (self.better == "lower") else "worse"

    @property
    def counts(self) -> str:
        """The number of better pairs: "better in 18 of 20, equal in 1"."""
        text = f"better in {self.n_better} of {self.n}"
        return f"{text}, equal in {self.n_equal}" if self.n_equal else text

    def sentence(self, measure: str, unit: str = "") -> str:
        """Returns the verdict with its numbers.

        Example:
            >>> difference = paired_difference([10.0, 12.0, 11.0, 13.0], [8.0, 9.0, 9.0, 10.0])
            >>> difference.sentence("wait.p99", "s")
            'wait.p99: better by 2.5 s (95 % interval 1.581 to 3.419 s), better in 4 of 4'
        """
        if self.n < 2:
            return f"{measure}: {TOO_FEW_RUNS}; {self.counts}"
        suffix = f" {unit}" if unit else ""
        if not self.is_shown:
            low, high = self.interval.low, self.interval.high
            return (
                f"{measure}: {NO_DIFFERENCE} "
                f"(95 % interval {low:+.4g} to {high:+.4g}{suffix}), {self.counts}"
            )
        low, high = sorted((abs(self.interval.low), abs(self.interval.high)))
        return (
            f"{measure}: {self.verdict} by {abs(self.interval.mean):.4g}{suffix} "
            f"(95 % interval {low:.4g} to {high:.4g}{suffix}), {self.counts}"
        )


def paired_difference(
    baseline: Sequence[float], candidate: Sequence[float], *, better: Better = "lower"
) -> PairedDifference:
    """Returns the mean difference of pairs with an interval by Student's t.

    Args:
        baseline: The measure of each run; shape (n,).
        candidate: The measure of the runs with the same seeds, in the same order.
        better: Whether lower or higher values are better.

    Raises:
        ConfigError: The numbers of runs differ, or a value is not finite.
    """
    old, new = checked_pairs(baseline, candidate)
    interval = mean_interval((new - old).tolist(), confidence=CONFIDENCE)
    return paired_of_interval(old, new, interval, better=better)


def paired_of_interval(
    old: NDArray[np.float64], new: NDArray[np.float64], interval: Interval, *, better: Better
) -> PairedDifference:
    """Returns the difference of checked pairs with an interval that was computed before."""
    is_better = new < old if better == "lower" else new > old
    return PairedDifference(
        n=len(old),
        baseline_mean=float(old.mean()),
        candidate_mean=float(new.mean()),
        interval=interval,
        n_better=int(is_better.sum()),
        n_equal=int((new == old).sum()),
        better=better,
    )


def checked_pairs(
    baseline: Sequence[float], candidate: Sequence[float]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns both columns as arrays of equal length.

    Raises:
        ConfigError: The numbers of runs differ, or a value is not finite.
    """
    old, new = finite(baseline, "baseline"), finite(candidate, "candidate")
    if len(old) != len(new):
        raise ConfigError(
            f"must have as many runs as the baseline, {len(old)}", path="candidate", value=len(new)
        )
    return old, new
