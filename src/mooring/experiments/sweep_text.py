"""Results of sweeps as text, as plain values, and as a report."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from mooring import __version__
from mooring.experiments.sweep import CellResult, main_effects
from mooring.experiments.sweep_file import Sweep, short_path, value_name
from mooring.objects.counts import counted
from mooring.report import Plot, Section, Table, bars_with_intervals, html_report
from mooring.scenario.text import value_text
from mooring.simulation.report import aligned


def sweep_text(sweep: Sweep, results: Sequence[CellResult], measures: Sequence[str]) -> str:
    """Returns a line for each cell, and what each path does on average."""
    n_runs = sum(len(own.runs) for own in results)
    n_failed = sum(own.n_failed for own in results)
    failed = f", {n_failed} failed" if n_failed else ""
    lines = [f"{sweep.name}: {counted(len(results), 'cell')}, {counted(n_runs, 'run')}{failed}"]
    head = (*map(short_path, sweep.paths), "runs", *measures)
    rows: list[tuple[str, ...]] = [head]
    for own in results:
        values = [value_name(own.values[path]) for path in sweep.paths]
        rows.append((*values, str(len(own.runs)), *(_cell(own, name) for name in measures)))
    lines += ["", *aligned(rows, indent="", text_columns=len(sweep.paths))]
    if len(sweep.paths) > 1:
        lines += ["", *_effects(sweep, results, measures)]
    return "\n".join(lines)


def _cell(own: CellResult, measure: str) -> str:
    """Returns a mean with half of its interval's width."""
    interval = own.interval(measure)
    if interval is None:
        return "-"
    mean = value_text(measure, interval.mean)
    if not math.isfinite(interval.half_width) or not interval.half_width:
        return mean
    return f"{mean} +-{value_text(measure, interval.half_width)}"


def _effects(sweep: Sweep, results: Sequence[CellResult], measures: Sequence[str]) -> list[str]:
    """Returns the means of all cells with one value of a path."""
    rows: list[tuple[str, ...]] = [("mean over all cells with", *measures)]
    by_measure = {name: main_effects(results, sweep.paths, name) for name in measures}
    for path in sweep.paths:
        values = list(dict.fromkeys(value_name(own.values[path]) for own in results))
        for value in values:
            means = [_mean_of(by_measure[name][path], value, measure=name) for name in measures]
            rows.append((f"{short_path(path)}={value}", *means))
    return aligned(rows, indent="", text_columns=1)


def _mean_of(effects: Sequence[tuple[Any, float]], value: str, *, measure: str) -> str:
    for own, mean in effects:
        if value_name(own) == value:
            return value_text(measure, mean)
    return "-"


def sweep_document(
    sweep: Sweep, results: Sequence[CellResult], measures: Sequence[str]
) -> dict[str, Any]:
    """Returns the results as plain values."""
    return {
        "sweep": sweep.name,
        "cells": [
            {
                "values": dict(own.values),
                "runs": len(own.runs),
                "failed": own.n_failed,
                "measures": {name: _numbers(own, name) for name in measures},
            }
            for own in results
        ],
    }


def _numbers(own: CellResult, measure: str) -> Mapping[str, float | None] | None:
    interval = own.interval(measure)
    if interval is None:
        return None
    ends = {"low": interval.low, "high": interval.high}
    return {
        "mean": interval.mean,
        **{name: end if math.isfinite(end) else None for name, end in ends.items()},
    }


def sweep_report(
    sweep: Sweep, results: Sequence[CellResult], measures: Sequence[str], source: str
) -> str:
    """Returns the report of a sweep: every measure by cell, with its interval.

    Args:
        sweep: The sweep.
        results: Its cells.
        measures: The measures that are shown.
        source: The text of the sweep file.

    Raises:
        ConfigError: the data of its charts is too large for one file.
    """
    sections = sweep_sections(sweep.paths, results, measures)
    inputs = {"sweep": source, "first seed": str(sweep.first_seed), "mooring": __version__}
    return html_report(sweep.name, sections, inputs=inputs)


def sweep_sections(
    paths: Sequence[str], results: Sequence[CellResult], measures: Sequence[str]
) -> list[Section]:
    """Returns the sections of the report of a sweep."""
    names = [
        ", ".join(f"{short_path(path)}={value_name(own.values[path])}" for path in paths)
        or "as written"
        for own in results
    ]
    table: dict[str, list[Any]] = {"cell": names, "runs": [len(own.runs) for own in results]}
    for measure in measures:
        table[measure] = [_cell(own, measure) for own in results]
    effects: dict[str, Table] = {}
    for path in paths:
        columns: dict[str, list[Any]] = {"value": []}
        for measure in measures:
            own_effects = main_effects(results, [path], measure)[path]
            columns["value"] = [value_name(value) for value, _ in own_effects]
            columns[measure] = [value_text(measure, mean) for _, mean in own_effects]
        effects[f"Mean over all cells by {path}"] = columns
    return [
        Section("Cells", tables={"Means, with half of the 95 % interval": table}),
        Section("What one value does", tables=effects if measures else {}),
        Section("Measures", plots=[_plot(m, names, results) for m in measures]),
    ]


def _plot(measure: str, names: Sequence[str], results: Sequence[CellResult]) -> Plot:
    rows: dict[str, list[Any]] = {"cell": [], "mean": [], "low": [], "high": []}
    for name, own in zip(names, results, strict=True):
        interval = own.interval(measure)
        if interval is not None:
            rows["cell"].append(name)
            for end in ("mean", "low", "high"):
                value = getattr(interval, end)
                rows[end].append(value if math.isfinite(value) else None)
    return bars_with_intervals(
        measure, rows, name="cell", mean="mean", low="low", high="high", x_title=measure
    )
