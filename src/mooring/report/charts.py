"""Vega-Lite specifications of the charts of a report, as plain dicts with their data.

Every builder takes a table (column -> values) and the names of its columns, and returns a ``Plot``:
the specification, and the table that is shown under it. The data of a specification has its own
field names (``x``, ``y``, ``series`` ...), since Vega reads "." and "[" in a field name as a path.

The colours have a contrast of at least 3 to 1 on the light and on the dark background; text and
lines of the axes have the colour of the page's text.

Source: https://vega.github.io/vega-lite/docs/ (version 6).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, TypeAlias

from mooring.errors import ConfigError
from mooring.report.sections import Plot, Table, columns_of

Spec: TypeAlias = dict[str, Any]
Row: TypeAlias = dict[str, Any]

SCHEMA: Final = "https://vega.github.io/schema/vega-lite/v6.json"

#: Colours of series, in order; more series than colours repeat them.
COLOURS: Final = (
    *("#0072b2", "#d55e00", "#008f68", "#c0609a", "#8a7400"),
    *("#8a62d0", "#d0413b", "#5f7f95", "#00879c", "#6f8f1f"),
)

#: Points of one curve; a screen has 2 000 columns of pixels.
POINTS_MAX: Final = 2_000

_HEIGHT: Final = 260
_BAR_HEIGHT: Final = 26
#: A heat map has lower rows if it would be higher, in pixels.
_MAP_HEIGHT: Final = 1_200
_QUANTILES: Final = (0.5, 0.9, 0.99)

#: Unit of an axis of time -> its seconds; the first that has at least two of it is chosen.
_TIME_UNITS: Final = {"d": 86_400.0, "h": 3_600.0, "min": 60.0, "s": 1.0}

_CONFIG: Final[Mapping[str, Any]] = {
    # The page names a chart for screen readers, and has its values as a table.
    "aria": False,
    "background": "transparent",
    "font": "system-ui, sans-serif",
    "view": {"stroke": None},
    "range": {"category": list(COLOURS)},
    "axis": {
        "labelColor": "currentColor",
        "titleColor": "currentColor",
        "domainColor": "currentColor",
        "tickColor": "currentColor",
        "gridColor": "currentColor",
        "gridOpacity": 0.15,
    },
    "legend": {
        "labelColor": "currentColor",
        "titleColor": "currentColor",
        "orient": "bottom",
        "columns": 4,
        "labelLimit": 240,
        "symbolLimit": 40,
    },
}


def step_curves(
    title: str,
    table: Table,
    *,
    time: str = "time_s",
    curves: Sequence[str],
    y_title: str,
    is_share: bool = False,
    summary: str = "",
) -> Plot:
    """Returns curves that keep each value until the next time, such as shares of resources.

    Args:
        title: The title.
        table: The columns.
        time: The column of times in seconds.
        curves: One column for each curve, such as "cpu" and "memory".
        y_title: The title of the vertical axis, with its unit.
        is_share: Whether the values are shares, to be shown as percentages.
        summary: A sentence that says what the chart shows.

    Raises:
        ConfigError: A column is missing, or columns differ in length.
    """
    columns = _required(table, (time, *curves), title)
    rows = [
        {"x": x, "y": y, "series": curve}
        for curve in curves
        for x, y in _thinned(columns[time], columns[curve])
    ]
    spec = _base(rows) | {
        "mark": {"type": "line", "interpolate": "step-after", "clip": True},
        "encoding": {
            "x": _time_axis(columns[time]),
            "y": _y_axis(y_title, is_share=is_share),
            "color": _series(curves),
        },
    }
    _set_time_unit(spec, columns[time])
    return Plot(title, spec, {name: columns[name] for name in (time, *curves)}, summary)


def stacked_areas(
    title: str,
    table: Table,
    *,
    time: str = "time_s",
    areas: Sequence[str],
    y_title: str,
    summary: str = "",
) -> Plot:
    """Returns areas on top of each other, such as pending pods by reason.

    Args:
        title: The title.
        table: The columns; at most ``POINTS_MAX`` rows are drawn, evenly chosen.
        time: The column of times in seconds.
        areas: One column for each area, from the bottom to the top.
        y_title: The title of the vertical axis, with its unit.
        summary: A sentence that says what the chart shows.

    Raises:
        ConfigError: A column is missing, or columns differ in length.
    """
    columns = _required(table, (time, *areas), title)
    chosen = _even_indices(len(columns[time]), POINTS_MAX)
    rows = [
        {"x": columns[time][row], "y": columns[area][row], "series": area, "order": order}
        for order, area in enumerate(areas)
        for row in chosen
    ]
    spec = _base(rows) | {
        "mark": {"type": "area", "interpolate": "step-after", "clip": True, "opacity": 0.85},
        "encoding": {
            "x": _time_axis(columns[time]),
            "y": _y_axis(y_title) | {"stack": "zero"},
            "color": _series(areas),
            "order": {"field": "order", "type": "quantitative"},
        },
    }
    _set_time_unit(spec, columns[time])
    return Plot(title, spec, {name: columns[name] for name in (time, *areas)}, summary)


def cdf_by_group(
    title: str,
    table: Table,
    *,
    value: str,
    group: str,
    x_title: str,
    is_log: bool = False,
    summary: str = "",
) -> Plot:
    """Returns the cumulative distribution of a column in every group, such as waits by priority.

    The table under it has the number of values and their quantiles: the smallest value that at
    least the share of all values does not exceed.

    Args:
        title: The title.
        table: The columns.
        value: The column of values; missing ones (None, nan) are left out.
        group: The column of groups; they are shown in the order in which they first appear.
        x_title: The title of the horizontal axis, with its unit.
        is_log: Whether the axis is logarithmic (symmetric, so that 0 is on it).
        summary: A sentence that says what the chart shows.

    Raises:
        ConfigError: A column is missing, or columns differ in length.
    """
    columns = _required(table, (value, group), title)
    groups: dict[str, list[float]] = {}
    for name, number in zip(columns[group], columns[value], strict=True):
        values = groups.setdefault(str(name), [])
        if _is_finite(number):
            values.append(number)
    rows = []
    quantiles: dict[str, list[Any]] = {
        title: [] for title in ("group", "n", "p50", "p90", "p99", "max")
    }
    for name, values in groups.items():
        values.sort()
        n = len(values)
        rows += [
            {"x": values[rank], "y": (rank + 1) / n, "series": name}
            for rank in _even_indices(n, POINTS_MAX)
        ]
        ranks = [max(0, math.ceil(share * n) - 1) for share in _QUANTILES] + [n - 1]
        cells = [name, n, *(values[rank] if n else None for rank in ranks)]
        for column, cell in zip(quantiles.values(), cells, strict=True):
            column.append(cell)
    x: Spec = {"field": "x", "type": "quantitative", "title": x_title}
    if is_log:
        x["scale"] = {"type": "symlog"}
    spec = _base(rows) | {
        "mark": {"type": "line", "interpolate": "step-after", "clip": True},
        "encoding": {
            "x": x,
            "y": _y_axis("share of pods", is_share=True),
            "color": _series(list(groups)),
        },
    }
    return Plot(title, spec, quantiles, summary)


def bars_with_intervals(
    title: str,
    table: Table,
    *,
    name: str,
    mean: str,
    low: str,
    high: str,
    x_title: str,
    summary: str = "",
) -> Plot:
    """Returns a bar for each row with the interval of its mean, in the order of the rows.

    Args:
        title: The title.
        table: The columns.
        name: The column of names.
        mean: The column of means.
        low: The column of lower ends; an interval with an end that is not finite is not drawn.
        high: The column of upper ends.
        x_title: The title of the horizontal axis, with its unit.
        summary: A sentence that says what the chart shows.

    Raises:
        ConfigError: A column is missing, or columns differ in length.
    """
    titles = (name, mean, low, high)
    columns = _required(table, titles, title)
    rows: list[Row] = []
    for label, *values in zip(*(columns[column] for column in titles), strict=True):
        row: Row = {"name": str(label), "x": _number(values[0])}
        if _is_finite(values[1]) and _is_finite(values[2]):
            row |= {"low": values[1], "high": values[2]}
        rows.append(row)
    y: Spec = {"field": "name", "type": "nominal", "sort": None, "title": None}
    y["axis"] = {"labelLimit": 240}
    x: Spec = {"field": "x", "type": "quantitative", "title": x_title}
    with_interval = [{"filter": "isValid(datum.low)"}]
    spec = _base(rows, value="x") | {
        "height": _BAR_HEIGHT * max(1, len({row["name"] for row in rows})),
        "encoding": {"y": y},
        "layer": [
            {"mark": {"type": "bar", "color": COLOURS[0], "opacity": 0.7}, "encoding": {"x": x}},
            {
                "transform": with_interval,
                "mark": {"type": "rule", "color": "currentColor", "strokeWidth": 2},
                "encoding": {
                    "x": {"field": "low", "type": "quantitative"},
                    "x2": {"field": "high"},
                },
            },
        ],
    }
    return Plot(title, spec, {column: columns[column] for column in titles}, summary)


def heat_map(
    title: str,
    table: Table,
    *,
    begin: str = "begin_s",
    end: str = "end_s",
    group: str,
    share: str,
    legend: str,
    summary: str = "",
) -> Plot:
    """Returns the colour of every group over time, such as the fill of node groups.

    Args:
        title: The title.
        table: The columns; a row is one rectangle.
        begin: The column of begins in seconds.
        end: The column of ends in seconds.
        group: The column of groups, in the order of the map.
        share: The column of shares, 0 to 1.
        legend: The title of the legend.
        summary: A sentence that says what the chart shows.

    Raises:
        ConfigError: A column is missing, or columns differ in length.
    """
    titles = (begin, end, group, share)
    columns = _required(table, titles, title)
    cells = zip(*(columns[column] for column in titles), strict=True)
    rows = [
        {"x": start, "x2": stop, "series": str(name), "share": _number(value)}
        for start, stop, name, value in cells
    ]
    n_groups = max(1, len({row["series"] for row in rows}))
    spec = _base(rows, value="share") | {
        "height": n_groups * max(4, min(_BAR_HEIGHT, _MAP_HEIGHT // n_groups)),
        "mark": {"type": "rect", "clip": True},
        "encoding": {
            "x": _time_axis(columns[end]),
            "x2": {"field": "x2"},
            "y": {"field": "series", "type": "nominal", "sort": None, "title": None},
            "color": {
                "field": "share",
                "type": "quantitative",
                "scale": {"domain": [0, 1], "scheme": "viridis"},
                "legend": {"title": legend, "format": ".0%"},
            },
        },
    }
    _set_time_unit(spec, columns[end])
    return Plot(title, spec, {column: columns[column] for column in titles}, summary)


def _base(rows: list[Row], *, value: str = "y") -> Spec:
    """Returns the parts of every specification; without a value to draw, the data is empty."""
    if not any(_is_finite(row[value]) for row in rows):
        rows = []
    return {
        "$schema": SCHEMA,
        "width": "container",
        "height": _HEIGHT,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "data": {"values": rows},
        "config": dict(_CONFIG),
    }


def _required(table: Table, names: Sequence[str], title: str) -> dict[str, list[Any]]:
    columns = columns_of(table, title)
    for name in names:
        if name not in columns:
            raise ConfigError(f"is not a column ({', '.join(columns)})", path=title, value=name)
    return columns


def _series(names: Sequence[str]) -> Spec:
    """Returns the colour of series; the legend has the order of the names."""
    # With repeated colours, the domain keeps the names apart in the legend.
    colours = [COLOURS[index % len(COLOURS)] for index in range(len(names))]
    scale = {"domain": list(names), "range": colours}
    return {"field": "series", "type": "nominal", "title": None, "scale": scale}


def _y_axis(title: str, *, is_share: bool = False) -> Spec:
    axis: Spec = {"field": "y", "type": "quantitative", "title": title}
    if is_share:
        axis["axis"] = {"format": "%"}
        axis["scale"] = {"domain": [0, 1]}
    return axis


def _time_axis(times_s: Sequence[float]) -> Spec:
    return {"field": "x", "type": "quantitative", "title": f"time ({_time_unit(times_s)})"}


def _time_unit(times_s: Sequence[float]) -> str:
    latest_s = max((time_s for time_s in times_s if _is_finite(time_s)), default=0.0)
    return next((unit for unit, length in _TIME_UNITS.items() if latest_s >= 2 * length), "s")


def _set_time_unit(spec: Spec, times_s: Sequence[float]) -> None:
    """Converts the fields ``x`` and ``x2`` of the data from seconds to the unit of the axis."""
    length = _TIME_UNITS[_time_unit(times_s)]
    for row in spec["data"]["values"]:
        for field in ("x", "x2"):
            if field in row:
                row[field] = _number(row[field]) and row[field] / length


def _thinned(xs: Sequence[float], ys: Sequence[Any]) -> list[tuple[float, Any]]:
    """Returns the points of a curve, at most about ``POINTS_MAX``; extreme values are drawn."""
    n = len(xs)
    if n <= POINTS_MAX:
        return [(x, _number(y)) for x, y in zip(xs, ys, strict=True)]
    chosen = {0, n - 1}
    # Two extreme values and the first of each bucket: three points.
    buckets = POINTS_MAX // 3
    bounds = [bucket * n // buckets for bucket in range(buckets + 1)]
    for first, last in pairwise(bounds):
        finite = [row for row in range(first, last) if _is_finite(ys[row])]
        chosen.add(first)
        chosen |= (
            {min(finite, key=ys.__getitem__), max(finite, key=ys.__getitem__)} if finite else set()
        )
    return [(xs[row], _number(ys[row])) for row in sorted(chosen)]


def _even_indices(n: int, most: int) -> list[int]:
    """Returns at most ``most`` indices below ``n``, evenly spaced, with the first and the last."""
    if n <= most:
        return list(range(n))
    return sorted({round(step * (n - 1) / (most - 1)) for step in range(most)})


def _is_finite(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _number(value: Any) -> Any:
    """Returns a finite number, or None, which Vega leaves out."""
    return value if _is_finite(value) else None
