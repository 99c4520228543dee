"""One report over several runs and sweeps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from mooring import __version__
from mooring.errors import ConfigError
from mooring.experiments.report import result_sections
from mooring.experiments.result_folders import StoredRun, StoredSweep
from mooring.experiments.sweep import CellResult, Run, default_measures
from mooring.experiments.sweep_text import sweep_sections
from mooring.report import Plot, Section, Table, cdf_by_group, html_report
from mooring.scenario.text import unit_of, value_text


def folders_report(stored: Sequence[StoredRun | StoredSweep], *, title: str = "Report") -> str:
    """Returns the report of runs and sweeps: what they have in common first, then each of them.

    Args:
        stored: The runs and sweeps; names must differ.
        title: Of the report.

    Raises:
        ConfigError: there is none, two have one name, or the data of the charts is too large.
    """
    if not stored:
        raise ConfigError("there are no results to report on")
    names = [own.name for own in stored]
    if len(set(names)) != len(names):
        raise ConfigError("two results have one name", value=names)
    runs = [own for own in stored if isinstance(own, StoredRun)]
    sections = [_overview(runs)] if len(runs) > 1 else []
    inputs: dict[str, str] = {}
    for own in stored:
        lead = f"{own.name}: " if len(stored) > 1 else ""
        if isinstance(own, StoredRun):
            parts = result_sections(own.result)
            inputs[f"{own.name}: seed"] = str(own.result.seed)
            inputs[f"{own.name}: digest of the results"] = own.digest
            inputs[f"{own.name}: scenario"] = msgspec.json.format(
                msgspec.json.encode(own.result.source), indent=2
            ).decode()
        else:
            parts = _of_sweep(own)
        sections += [
            Section(f"{lead}{part.title}", part.text, part.tables, part.plots) for part in parts
        ]
    inputs["mooring"] = __version__
    return html_report(title, sections, inputs=inputs)


def _overview(runs: Sequence[StoredRun]) -> Section:
    """Returns all measures of all runs beside each other, and their waits."""
    measures = list(dict.fromkeys(name for own in runs for name in own.result.summary))
    table: dict[str, list[Any]] = {
        "measure": measures,
        "unit": [unit_of(name) for name in measures],
    }
    for own in runs:
        summary = own.result.summary
        table[own.name] = [
            value_text(name, summary[name]) if name in summary else "-" for name in measures
        ]
    tables: dict[str, Table] = {"Measures": table}
    waits: dict[str, list[Any]] = {"run": [], "waiting_time_s": []}
    for own in runs:
        times = own.result.tables["pods"]["waiting_time_s"]
        waits["run"] += [own.name] * len(times)
        waits["waiting_time_s"] += times
    plots: list[Plot] = []
    if any(wait is not None for wait in waits["waiting_time_s"]):
        plots.append(
            cdf_by_group(
                "Waits by run",
                waits,
                value="waiting_time_s",
                group="run",
                x_title="wait (s)",
                is_log=True,
                summary="The share of bound pods of each run that waited at most so long.",
            )
        )
    seeds = {own.result.seed for own in runs}
    text = [f"{len(runs)} runs beside each other."]
    if len(seeds) > 1:
        text.append("Their seeds differ: so differences are those of the draws, too.")
    return Section("Overview", text, tables, plots)


def _of_sweep(own: StoredSweep) -> list[Section]:
    """Returns the cells of a sweep, as far as its runs say them."""
    cells: dict[bytes, list[Run]] = {}
    for run in own.runs:
        cells.setdefault(msgspec.json.encode(run.values, order="sorted"), []).append(run)
    # The last run of a cell is that of the files as they are, or were then.
    cells = {
        values: [run for run in runs if run.fingerprint == runs[-1].fingerprint]
        for values, runs in cells.items()
    }
    current = [run for runs in cells.values() for run in runs]
    results = [
        CellResult(
            runs[0].values,
            [run for run in runs if not run.error],
            sum(bool(run.error) for run in runs),
        )
        for runs in cells.values()
    ]
    paths = list(dict.fromkeys(path for result in results for path in result.values))
    whole = [result for result in results if all(path in result.values for path in paths)]
    sections = sweep_sections(paths, whole, default_measures(whole))
    others = len(results) - len(whole)
    text = [f"{len(current)} runs of {len(results)} cells."]
    if len(current) < len(own.runs):
        text[0] += f" {len(own.runs) - len(current)} runs of earlier files are left out."
    if others:
        text.append(f"{others} cells of another grid are left out.")
    errors = [run for run in current if run.error]
    tables: dict[str, Table] = {}
    if errors:
        tables["Runs that failed"] = {
            "seed": [run.seed for run in errors],
            "error": [run.error for run in errors],
        }
    return [Section("Sweep", text, tables), *sections]
