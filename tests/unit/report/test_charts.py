"""Specifications of charts."""

from __future__ import annotations

import math
from typing import Any

import pytest

from mooring.errors import ConfigError
from mooring.report import (
    bars_with_intervals,
    cdf_by_group,
    heat_map,
    stacked_areas,
    step_curves,
)
from mooring.report.charts import COLOURS, POINTS_MAX

#: The backgrounds of the page.
LIGHT, DARK = "#ffffff", "#16191d"


def values_of(plot: Any) -> list[dict[str, Any]]:
    return list(plot.spec["data"]["values"])


def curve(plot: Any, series: str) -> list[tuple[float, float]]:
    return [(row["x"], row["y"]) for row in values_of(plot) if row["series"] == series]


def luminance(colour: str) -> float:
    """Returns the relative luminance, as the guidelines for accessibility define it."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("background", [LIGHT, DARK])
@pytest.mark.parametrize("colour", COLOURS)
def test_colours_are_visible_on_both_backgrounds(colour: str, background: str) -> None:
    darker, lighter = sorted((luminance(colour), luminance(background)))

    assert (lighter + 0.05) / (darker + 0.05) >= 3.0


def test_step_curves_keep_a_value_until_the_next_time() -> None:
    table: dict[str, Any] = {
        "time_s": [0, 3600, 14400],
        "cpu": [0.5, 1.0, 0.25],
        "memory": [0.0, 0.0, 1.0],
    }

    plot = step_curves("Fill", table, curves=["cpu", "memory"], y_title="share", is_share=True)

    assert curve(plot, "cpu") == [(0.0, 0.5), (1.0, 1.0), (4.0, 0.25)]
    assert curve(plot, "memory") == [(0.0, 0.0), (1.0, 0.0), (4.0, 1.0)]
    assert plot.spec["mark"]["interpolate"] == "step-after"
    assert plot.spec["encoding"]["x"]["title"] == "time (h)"
    assert plot.spec["encoding"]["y"]["scale"]["domain"] == [0, 1]
    assert plot.table == table


@pytest.mark.parametrize(
    ("latest_s", "unit", "x"),
    [(0, "s", 0), (119, "s", 119), (120, "min", 2), (7200, "h", 2), (172_800, "d", 2)],
)
def test_the_unit_of_time_fits_the_range(latest_s: float, unit: str, x: float) -> None:
    plot = step_curves("Fill", {"time_s": [0, latest_s], "a": [1, 1]}, curves=["a"], y_title="y")

    assert plot.spec["encoding"]["x"]["title"] == f"time ({unit})"
    assert values_of(plot)[-1]["x"] == x


def test_long_curves_are_thinned_and_keep_their_extreme_values() -> None:
    n = 100_000
    heights = [math.sin(row / 5000) for row in range(n)]
    heights[12_345], heights[54_321], heights[7] = 9.0, -9.0, math.nan
    table: dict[str, Any] = {"time_s": list(range(n)), "a": heights}

    plot = step_curves("Fill", table, curves=["a"], y_title="y")

    points = curve(plot, "a")
    assert len(points) <= POINTS_MAX + 2
    assert [x for x, _ in points] == sorted(x for x, _ in points)
    assert (points[0][1], points[-1][1]) == (heights[0], heights[-1])
    assert {9.0, -9.0} <= {y for _, y in points}
    assert len(plot.table["a"]) == n


def test_areas_are_stacked_in_their_order() -> None:
    table: dict[str, Any] = {"time_s": [0, 1], "b": [1, 2], "a": [3, 4]}

    plot = stacked_areas("Pending", table, areas=["b", "a"], y_title="pods")

    assert [(row["series"], row["order"]) for row in values_of(plot)] == [
        *(("b", 0), ("b", 0), ("a", 1), ("a", 1)),
    ]
    assert plot.spec["encoding"]["y"]["stack"] == "zero"
    assert plot.spec["encoding"]["color"]["scale"]["domain"] == ["b", "a"]


def test_areas_of_many_rows_share_their_times() -> None:
    n = 10 * POINTS_MAX
    table: dict[str, Any] = {"time_s": list(range(n)), "a": [1] * n, "b": [2] * n}

    plot = stacked_areas("Pending", table, areas=["a", "b"], y_title="pods")

    times = [x for x, _ in curve(plot, "a")]
    assert times == [x for x, _ in curve(plot, "b")]
    assert len(times) == POINTS_MAX


def test_a_cdf_has_the_share_of_values_up_to_each_and_a_table_of_quantiles() -> None:
    waits = [4.0, 1.0, None, 3.0, 2.0, math.nan, 10.0]
    groups = ["low", "low", "low", "low", "low", "high", "high"]

    plot = cdf_by_group("Waits", {"w": waits, "g": groups}, value="w", group="g", x_title="s")

    assert curve(plot, "low") == [(1.0, 0.25), (2.0, 0.5), (3.0, 0.75), (4.0, 1.0)]
    assert curve(plot, "high") == [(10.0, 1.0)]
    assert plot.table == {
        "group": ["low", "high"],
        "n": [4, 1],
        "p50": [2.0, 10.0],
        "p90": [4.0, 10.0],
        "p99": [4.0, 10.0],
        "max": [4.0, 10.0],
    }


def test_a_group_without_values_has_no_quantiles() -> None:
    plot = cdf_by_group(
        "W", {"w": [None], "g": [3]}, value="w", group="g", x_title="s", is_log=True
    )

    assert values_of(plot) == []
    assert plot.table["n"] == [0]
    assert plot.table["max"] == [None]
    assert plot.spec["encoding"]["x"]["scale"] == {"type": "symlog"}


def test_bars_without_a_finite_interval_have_none() -> None:
    table: dict[str, Any] = {
        "name": ["stock", "pack"],
        "mean": [2.0, 1.0],
        "low": [1.5, -math.inf],
        "high": [2.5, math.inf],
    }

    plot = bars_with_intervals(
        "Cost", table, name="name", mean="mean", low="low", high="high", x_title="USD"
    )

    assert values_of(plot) == [
        {"name": "stock", "x": 2.0, "low": 1.5, "high": 2.5},
        {"name": "pack", "x": 1.0},
    ]


def test_a_heat_map_has_a_rectangle_for_each_row() -> None:
    table: dict[str, Any] = {
        "begin_s": [0, 60],
        "end_s": [60, 120],
        "g": ["a", "a"],
        "fill": [0.5, math.nan],
    }

    plot = heat_map("Fill", table, group="g", share="fill", legend="fill")

    assert values_of(plot) == [
        {"x": 0.0, "x2": 1.0, "series": "a", "share": 0.5},
        {"x": 1.0, "x2": 2.0, "series": "a", "share": None},
    ]
    assert plot.spec["encoding"]["x"]["title"] == "time (min)"


def test_a_missing_column_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        step_curves("Fill", {"time_s": [0], "cpu": [1]}, curves=["memory"], y_title="y")

    assert str(caught.value) == "Fill: is not a column (time_s, cpu), got 'memory'"
