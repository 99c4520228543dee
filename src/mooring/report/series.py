"""Step curves with times of their own, joined into one table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mooring.errors import ConfigError
from mooring.report.sections import Table, columns_of


def wide_series(
    table: Table,
    measures: Sequence[str],
    *,
    measure: str = "measure",
    time: str = "time_s",
    value: str = "value",
) -> dict[str, list[Any]]:
    """Returns a table with one column for each measure, from a table with one row for each step.

    A measure keeps its value until its next row; before its first row it has none (None). Of rows
    of one measure and time, the last counts.

    Args:
        table: The rows; those of one measure need not be in order of time.
        measures: The measures, which become the columns after ``time``.
        measure: The column with the name of the measure.
        time: The column of times in seconds.
        value: The column of values.

    Raises:
        ConfigError: A column is missing, or a measure has no row.

    Example:
        >>> steps = {"measure": ["a", "b", "a"], "time_s": [0, 5, 9], "value": [1, 2, 3]}
        >>> wide_series(steps, ["a", "b"])
        {'time_s': [0, 5, 9], 'a': [1, 1, 3], 'b': [None, 2, 2]}
    """
    columns = columns_of(table, "series")
    for name in (measure, time, value):
        if name not in columns:
            raise ConfigError(f"is not a column ({', '.join(columns)})", path="series", value=name)
    steps: dict[str, dict[float, Any]] = {name: {} for name in measures}
    rows = zip(columns[measure], columns[time], columns[value], strict=True)
    for name, time_s, number in rows:
        if name in steps:
            steps[name][time_s] = number
    for name, points in steps.items():
        if not points:
            raise ConfigError("is not a measure of the series", path="series", value=name)
    times_s = sorted({time_s for points in steps.values() for time_s in points})
    wide: dict[str, list[Any]] = {time: times_s}
    for name, points in steps.items():
        current = None
        wide[name] = []
        for time_s in times_s:
            current = points.get(time_s, current)
            wide[name].append(current)
    return wide
