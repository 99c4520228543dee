"""Step curves with times of their own."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.errors import ConfigError
from mooring.report import stacked_areas, wide_series

STEPS: dict[str, Any] = {
    "measure": ["cpu", "memory", "cpu", "other", "memory", "cpu"],
    "time_s": [0, 0, 10, 11, 5, 10],
    "value": [0.5, 0.1, 0.6, 9.0, 0.2, 0.7],
}


def test_a_measure_keeps_its_value_until_its_next_row() -> None:
    wide = wide_series(STEPS, ["memory", "cpu"])

    assert wide == {"time_s": [0, 5, 10], "memory": [0.1, 0.2, 0.2], "cpu": [0.5, 0.5, 0.7]}
    assert list(wide) == ["time_s", "memory", "cpu"]


def test_the_table_is_one_for_charts() -> None:
    plot = stacked_areas(
        "Use", wide_series(STEPS, ["cpu", "other"]), areas=["cpu", "other"], y_title="y"
    )

    heights = [row["y"] for row in plot.spec["data"]["values"] if row["series"] == "other"]
    assert heights == [None, None, 9.0]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (STEPS, "series: is not a measure of the series, got 'gpu'"),
        ({"time_s": [0], "value": [1]}, "series: is not a column (time_s, value), got 'measure'"),
    ],
)
def test_what_is_missing_is_refused(table: Any, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        wide_series(table, ["gpu"])

    assert str(caught.value) == message
