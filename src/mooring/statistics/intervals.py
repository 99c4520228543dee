"""Confidence intervals of a mean."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mooring.errors import ConfigError
from mooring.statistics.student_t import student_t_quantile

#: The probability with which an interval contains the true value.
CONFIDENCE: Final = 0.95


class Interval(NamedTuple):
    """An estimate and its interval; all in the unit of the measure.

    With fewer than two values, ``low`` is minus infinity and ``high`` infinity: a single run says
    nothing about chance.
    """

    mean: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Half of the interval's width."""
        return (self.high - self.low) / 2.0

    @property
    def contains_zero(self) -> bool:
        """True if 0 is in the interval, so that no difference is shown."""
        return self.low <= 0.0 <= self.high


def mean_interval(values: Sequence[float], *, confidence: float = CONFIDENCE) -> Interval:
    """Returns the mean and its interval by Student's t.

    Args:
        values: One value for each run, shape (n,), n >= 1.
        confidence: Above 0 and below 1.

    Raises:
        ConfigError: There is no value, or one is not finite.

    Example:
        >>> [round(bound, 3) for bound in mean_interval([1.0, 2.0, 3.0, 4.0])]
        [2.5, 0.446, 4.554]
    """
    array = finite(values, "values")
    mean = float(array.mean())
    if len(array) < 2:
        return Interval(mean, -math.inf, math.inf)
    error = float(array.std(ddof=1)) / math.sqrt(len(array))
    half = student_t_quantile(0.5 + confidence / 2.0, len(array) - 1) * error
    return Interval(mean, mean - half, mean + half)


def finite(values: Sequence[float], name: str) -> NDArray[np.float64]:
    """Returns values as an array of shape (n,).

    Raises:
        ConfigError: There is no value, or one is not finite; the path is its position.
    """
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or len(array) == 0:
        raise ConfigError("must have at least one value", path=name)
    wrong = np.flatnonzero(~np.isfinite(array))
    if len(wrong):
        index = int(wrong[0])
        raise ConfigError("must be finite", path=f"{name}[{index}]", value=float(array[index]))
    return array
