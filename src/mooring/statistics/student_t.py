"""Student's t distribution, without a library for statistics.

The cumulative probability is an incomplete beta function, computed by its continued fraction with
the modified Lentz method; the quantile is its inverse, by bisection.

Source: NIST Digital Library of Mathematical Functions, 8.17.22 (continued fraction); Press et al.,
Numerical Recipes, 3rd edition, 6.4 (evaluation), 6.14.3 (Student's t).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final

#: Two doubles of this relative distance are the same value.
_PRECISION: Final = 1e-15
#: Stands for a zero denominator in the continued fraction.
_TINY: Final = 1e-300
#: The fraction needs about sqrt(degrees) terms; 10 000 are enough for 10^8 degrees of freedom.
_TERMS_MAX: Final = 10_000
#: Above this the normal distribution is the same to all digits that are printed.
_DEGREES_MAX: Final = 1e7


def student_t_cdf(t: float, degrees: float) -> float:
    """Returns the probability of a value up to ``t``.

    Args:
        t: The value.
        degrees: Degrees of freedom, above 0.

    Example:
        >>> round(student_t_cdf(2.228, 10), 3)
        0.975
    """
    _check_degrees(degrees)
    if math.isnan(t):
        return math.nan
    if degrees > _DEGREES_MAX:
        return 0.5 * math.erfc(-t / math.sqrt(2.0))
    if math.isinf(t):
        return 1.0 if t > 0 else 0.0
    tail = 0.5 * _incomplete_beta(0.5 * degrees, 0.5, degrees / (degrees + t * t))
    return 1.0 - tail if t > 0 else tail


@lru_cache(maxsize=1024)
def student_t_quantile(probability: float, degrees: float) -> float:
    """Returns the value below which the distribution has this probability.

    Args:
        probability: Above 0 and below 1.
        degrees: Degrees of freedom, above 0.

    Example:
        >>> round(student_t_quantile(0.975, 19), 3)
        2.093
    """
    _check_degrees(degrees)
    if not 0.0 < probability < 1.0:
        raise ValueError(f"the probability must be above 0 and below 1, got {probability}")
    if probability == 0.5:
        return 0.0
    if probability < 0.5:
        return -student_t_quantile(1.0 - probability, degrees)
    low, high = 0.0, 1.0
    while student_t_cdf(high, degrees) < probability and high < 1e300:
        low, high = high, 2.0 * high
    while True:
        middle = 0.5 * (low + high)
        if high - low <= _PRECISION * high or middle in (low, high):
            return middle
        if student_t_cdf(middle, degrees) < probability:
            low = middle
        else:
            high = middle


def _check_degrees(degrees: float) -> None:
    if not degrees > 0:
        raise ValueError(f"degrees of freedom must be above 0, got {degrees}")


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """Returns the regularized incomplete beta function."""
    if x <= 0.0:
        return 0.0
    if x >= 1.0:
        return 1.0
    scale = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    factor = math.exp(scale + a * math.log(x) + b * math.log1p(-x))
    # The fraction converges quickly below this point, and its mirror image above it.
    if x < (a + 1.0) / (a + b + 2.0):
        return factor * _fraction(a, b, x) / a
    return 1.0 - factor * _fraction(b, a, 1.0 - x) / b


def _fraction(a: float, b: float, x: float) -> float:
    """Returns the continued fraction of the incomplete beta function."""
    c, d = 1.0, 1.0 / _not_zero(1.0 - (a + b) * x / (a + 1.0))
    value = d
    for m in range(1, _TERMS_MAX):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        change = 1.0
        for coefficient in (even, odd):
            d = 1.0 / _not_zero(1.0 + coefficient * d)
            c = _not_zero(1.0 + coefficient / c)
            change = c * d
            value *= change
        if abs(change - 1.0) < _PRECISION:
            break
    return value


def _not_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
