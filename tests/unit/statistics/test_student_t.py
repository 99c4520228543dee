"""Student's t distribution."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.statistics import student_t_cdf, student_t_quantile

#: Degrees of freedom -> t at the probabilities 0.9, 0.95, 0.975, 0.99 and 0.995, as in the printed
#: tables of textbooks.
TABLE = {
    1: (3.078, 6.314, 12.706, 31.821, 63.657),
    2: (1.886, 2.920, 4.303, 6.965, 9.925),
    3: (1.638, 2.353, 3.182, 4.541, 5.841),
    4: (1.533, 2.132, 2.776, 3.747, 4.604),
    5: (1.476, 2.015, 2.571, 3.365, 4.032),
    9: (1.383, 1.833, 2.262, 2.821, 3.250),
    10: (1.372, 1.812, 2.228, 2.764, 3.169),
    19: (1.328, 1.729, 2.093, 2.539, 2.861),
    29: (1.311, 1.699, 2.045, 2.462, 2.756),
    60: (1.296, 1.671, 2.000, 2.390, 2.660),
    120: (1.289, 1.658, 1.980, 2.358, 2.617),
    10**9: (1.282, 1.645, 1.960, 2.326, 2.576),
}


@pytest.mark.parametrize("degrees", TABLE)
def test_quantiles_are_those_of_the_printed_table(degrees: int) -> None:
    probabilities = (0.9, 0.95, 0.975, 0.99, 0.995)

    quantiles = [student_t_quantile(probability, degrees) for probability in probabilities]

    assert quantiles == pytest.approx(TABLE[degrees], abs=5.01e-4)


def test_one_and_two_degrees_are_their_closed_forms() -> None:
    for probability in (0.6, 0.975, 0.9999, 1 - 1e-9):
        cauchy = math.tan(math.pi * (probability - 0.5))
        assert student_t_quantile(probability, 1) == pytest.approx(cauchy, rel=1e-6)
        share = 2 * probability - 1
        two = share * math.sqrt(2 / (1 - share * share))
        assert student_t_quantile(probability, 2) == pytest.approx(two, rel=1e-6)


@given(st.floats(0.001, 0.999), st.floats(0.5, 1e6))
def test_the_quantile_is_the_inverse_of_the_distribution(
    probability: float, degrees: float
) -> None:
    t = student_t_quantile(probability, degrees)

    assert student_t_cdf(t, degrees) == pytest.approx(probability, abs=1e-9)
    assert student_t_quantile(1 - probability, degrees) == pytest.approx(-t, rel=1e-9, abs=1e-9)


def test_ends() -> None:
    assert student_t_quantile(0.5, 7) == 0.0
    assert student_t_cdf(math.inf, 3) == 1.0
    assert student_t_cdf(-math.inf, 3) == 0.0
    assert math.isnan(student_t_cdf(math.nan, 3))
    for probability in (0.0, 1.0, math.nan):
        with pytest.raises(ValueError, match="above 0 and below 1"):
            student_t_quantile(probability, 3)
    with pytest.raises(ValueError, match="degrees of freedom must be above 0, got 0"):
        student_t_quantile(0.9, 0)
