"""Integrals of step functions, and thinned curves."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mooring.scenario.curves import Curves, thinned

steps = st.lists(
    st.tuples(st.floats(0.001, 1000), st.integers(-5, 50), st.integers(0, 9)), min_size=1
)


@given(steps, st.floats(0, 100))
def test_integrals_are_sums_of_value_times_length(
    rows: list[tuple[float, int, int]], rest_s: float
) -> None:
    curves = Curves(["a", "b"])
    now_s, area, held = 0.0, [0.0, 0.0], (0, 0)
    for gap_s, *values in rows:
        area = [total + value * gap_s for total, value in zip(area, held, strict=True)]
        now_s += gap_s
        held = (values[0], values[1])
        curves.set(now_s, held)
    area = [total + value * rest_s for total, value in zip(area, held, strict=True)]
    curves.finish(now_s + rest_s)
    for name, total in zip("ab", area, strict=True):
        assert math.isclose(curves.area(name), total, rel_tol=1e-9, abs_tol=1e-6)
    assert curves.max("b") == max(values for _, _, values in rows)


def test_a_value_that_held_for_no_time_does_not_count() -> None:
    curves = Curves(["x"])
    curves.set(0.0, [1])
    curves.set(5.0, [9])
    curves.set(5.0, [2])
    curves.finish(10.0)
    assert (curves.area("x"), curves.mean("x"), curves.max("x")) == (15.0, 1.5, 2.0)
    times, values = curves.curve("x")
    assert (times.tolist(), values.tolist()) == ([0.0, 5.0, 10.0], [1.0, 2.0, 2.0])


def test_long_curves_keep_their_ends_and_extremes() -> None:
    curves = Curves(["x"])
    rng = np.random.default_rng(1)
    values = rng.integers(0, 1000, 50_000)
    values[31_415], values[27_182] = 5000, -5000
    for at, value in enumerate(values.tolist()):
        curves.set(at + 1.0, [value])
    curves.finish(60_000.0)
    times, kept = curves.curve("x")
    assert len(times) <= 1000
    assert (kept.max(), kept.min(), times[-1]) == (5000, -5000, 60_000.0)
    assert curves.area("x") == float(values[:-1].sum() + values[-1] * 10_000)


@given(st.lists(st.integers(-100, 100), min_size=1, max_size=300), st.integers(4, 40))
def test_thinned_points_are_points_of_the_curve(values: list[int], points_max: int) -> None:
    times = np.arange(float(len(values)))
    kept_times, kept = thinned(times, np.array(values), points_max)
    assert len(kept) <= max(points_max, 2)
    assert [values[int(at)] for at in kept_times] == kept.tolist()
    assert (kept_times[0], kept_times[-1]) == (0, len(values) - 1)
    assert (kept.max(), kept.min()) == (max(values), min(values))
