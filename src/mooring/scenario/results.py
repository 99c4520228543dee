"""The results of a run: tables, a summary, and a digest that equal runs share."""

from __future__ import annotations

import gzip
import hashlib
import importlib
import io
import math
from collections.abc import Mapping, Sequence
from csv import writer as csv_writer
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
import numpy as np

from mooring import __version__
from mooring.errors import ConfigError
from mooring.objects.types import Object
from mooring.scenario.expectations import Expectation
from mooring.scenario.history import STATES
from mooring.scenario.measures import cost_of, quantiles, slowdowns, summary_of
from mooring.simulation.utilization import ResourceNames

if TYPE_CHECKING:
    from mooring.scenario.curves import Curves
    from mooring.scenario.history import History
    from mooring.scenario.scenario import Scenario

#: A table: column -> values.
Columns = dict[str, list[Any]]
#: Formats of tables -> their file names' end.
FORMATS: Final = {"csv": ".csv.gz", "arrow": ".arrows", "parquet": ".parquet"}


class Result(NamedTuple):
    """The results of a run.

    Attributes:
        name: Of the scenario.
        seed: Of the run.
        source: The scenario as plain values.
        summary: Measure -> value.
        tables: ``pods``, ``jobs``, ``nodes``, ``groups``, ``series``; see docs.
        pending: Pod -> why it still waits, for pods without a node at the end.
        checks: The expectations, with the values that they were held to.
        resources: Resource -> short name.
        notes: What the autoscaler says about pods that still wait.
    """

    name: str
    seed: int
    source: Object
    summary: Mapping[str, float]
    tables: Mapping[str, Columns]
    pending: Mapping[str, str]
    checks: Sequence[tuple[Expectation, float | None]]
    resources: Mapping[str, str]
    notes: Sequence[str] = ()

    @property
    def holds(self) -> bool:
        """True if all expectations hold."""
        return all(expectation.holds(value) for expectation, value in self.checks)

    @property
    def digest(self) -> str:
        """A digest of all tables and of the summary; equal runs have equal digests."""
        digest = hashlib.sha256()
        digest.update(msgspec.json.encode(dict(self.summary), order="sorted"))
        for name in sorted(self.tables):
            digest.update(csv_text(self.tables[name]).encode())
        return digest.hexdigest()

    def document(self) -> Object:
        """Returns everything but the tables as plain values."""
        return {
            "scenario": self.name,
            "seed": self.seed,
            "mooring": __version__,
            "digest": self.digest,
            "resources": dict(self.resources),
            "summary": {name: _plain(value) for name, value in self.summary.items()},
            "pending": dict(self.pending),
            "notes": list(self.notes),
            "expect": [
                {"line": item.text, "value": _plain(value), "holds": item.holds(value)}
                for item, value in self.checks
            ],
        }


class RunRecord(NamedTuple):
    """A run that has ended.

    Attributes:
        scenario: The scenario.
        history: Its pods, nodes and jobs.
        curves: Its step functions, finished.
        resources: The names of the nodes' resources.
        nodes_at_start: Number of nodes at the start.
        end_s: Its length.
        notes: What the autoscaler says, and the like.
    """

    scenario: Scenario
    history: History
    curves: Curves
    resources: tuple[str, ...]
    nodes_at_start: int
    end_s: float
    notes: Sequence[str] = ()


def result_of(run: RunRecord) -> Result:
    """Returns the results of a run."""
    scenario, names = run.scenario, ResourceNames(run.resources)
    resources = {resource: names.short(resource) for resource in run.resources}
    summary = summary_of(
        run.history,
        run.curves,
        end_s=run.end_s,
        names=resources,
        prices=scenario.prices,
        nodes_at_start=run.nodes_at_start,
    )
    tables = {
        "pods": _pods(run, resources),
        "jobs": _jobs(run),
        "nodes": _nodes(run),
        "series": _series(run, resources),
    }
    tables["groups"] = _groups(tables["pods"])
    return Result(
        scenario.name,
        scenario.seed,
        scenario.source,
        summary,
        tables,
        dict(run.history.reasons),
        [(item, summary.get(item.measure)) for item in scenario.expectations],
        resources,
        run.notes,
    )


# -- tables -------------------------------------------------------------------------------------


def _pods(run: RunRecord, resources: Mapping[str, str]) -> Columns:
    pods = run.history.pods
    submitted = np.array(pods.submitted_s)
    bound, finished = np.array(pods.bound_s), np.array(pods.finished_s)
    waits, runs = bound - submitted, finished - bound
    columns: Columns = {
        "pod": pods.names,
        "group": pods.groups,
        "priority": list(pods.priorities),
        "final_state": [STATES[state] for state in pods.states],
        "node": pods.nodes,
        "attempts": list(pods.attempts),
        "submission_time_s": _times(submitted),
        "waiting_time_s": _times(waits),
        "starting_time_s": _times(bound),
        "finish_time_s": _times(finished),
        "execution_time_s": _times(runs),
        "turnaround_time_s": _times(finished - submitted),
        "stretch": _times(slowdowns(waits, runs)),
        "lost_time_s": _times(np.array(pods.lost_s)),
    }
    for resource, short in resources.items():
        columns[_column(short)] = list(pods.requests[resource])
    return columns


def _column(short: str) -> str:
    """Returns the column of the requests for a resource, with its unit."""
    units = {"cpu": "cpu_milli", "memory": "memory_bytes"}
    return units.get(short, short.replace("-", "_"))


def _jobs(run: RunRecord) -> Columns:
    jobs = [*run.history.jobs.values()]
    return {
        "job": [job.name for job in jobs],
        "group": [job.group for job in jobs],
        "final_state": [job.state for job in jobs],
        "submission_time_s": _times(job.submitted_s for job in jobs),
        "starting_time_s": _times(job.started_s for job in jobs),
        "finish_time_s": _times(job.finished_s for job in jobs),
    }


def _nodes(run: RunRecord) -> Columns:
    nodes, prices = run.history.nodes, run.scenario.prices
    return {
        "node": [node.name for node in nodes],
        "added_s": _times(node.added_s for node in nodes),
        "removed_s": _times(node.removed_s for node in nodes),
        "pods": [node.used for node in nodes],
        "cost": [cost_of(node, prices, run.end_s) for node in nodes],
    }


def _series(run: RunRecord, resources: Mapping[str, str]) -> Columns:
    measures, times, values = [], [], []
    for name in run.curves.names:
        kind, _, resource = name.partition(".")
        measure = f"{kind}.{resources[resource]}" if resource else kind
        curve_times, curve_values = run.curves.curve(name)
        measures += [measure] * len(curve_times)
        times += _times(curve_times)
        values += [_plain(value) for value in curve_values.tolist()]
    return {"measure": measures, "time_s": times, "value": values}


def _groups(pods: Columns) -> Columns:
    """Returns waits and ends by group of pods."""
    rows: dict[str, list[int]] = {}
    for row, group in enumerate(pods["group"]):
        rows.setdefault(group, []).append(row)
    columns: Columns = {"group": [*rows], "pods": [len(own) for own in rows.values()]}
    states = {state: f"{state.lower()}" for state in STATES}
    for state, column in states.items():
        finals = pods["final_state"]
        columns[column] = [sum(finals[row] == state for row in own) for own in rows.values()]
    for which in ("mean", "p50", "p90", "p99", "max"):
        columns[f"wait_{which}_s"] = [
            quantiles(np.array(_present(pods["waiting_time_s"], own))).get(which)
            for own in rows.values()
        ]
    return columns


def _present(column: Sequence[float | None], rows: Sequence[int]) -> list[float]:
    return [value for row in rows if (value := column[row]) is not None]


def _times(values: Any) -> list[float | None]:
    """Returns times to the microsecond; None for nan."""
    plain = values.tolist() if isinstance(values, np.ndarray) else values
    return [None if math.isnan(value) else _plain(round(value, 6)) for value in plain]


def _plain(value: Any) -> Any:
    """Returns a number without a fraction as an integer."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1 << 53:
        return int(value)
    return value


# -- files --------------------------------------------------------------------------------------


def csv_text(columns: Columns) -> str:
    """Returns a table as CSV; a missing value is empty."""
    out = io.StringIO()
    lines = csv_writer(out, lineterminator="\n")
    lines.writerow(columns)
    for row in zip(*columns.values(), strict=True):
        lines.writerow(["" if value is None else value for value in row])
    return out.getvalue()


def write_results(result: Result, folder: str, *, table_format: str = "csv") -> list[str]:
    """Writes a run into a folder, which is created; returns the names of the files.

    Args:
        result: The results.
        folder: Gets ``run.json``, ``scenario.json`` and the tables.
        table_format: One of ``FORMATS``; all but ``csv`` need pyarrow.

    Raises:
        ConfigError: the folder cannot be written, or a library is missing.
    """
    end = FORMATS[table_format]
    path = Path(folder)
    writers = {"csv": _write_csv, "arrow": _write_arrow, "parquet": _write_parquet}
    try:
        path.mkdir(parents=True, exist_ok=True)
        documents = {"run.json": result.document(), "scenario.json": result.source}
        for name, document in documents.items():
            data = msgspec.json.format(msgspec.json.encode(document), indent=2)
            (path / name).write_bytes(data + b"\n")
        for name, columns in result.tables.items():
            writers[table_format](path / f"{name}{end}", columns)
    except OSError as error:
        problem = (error.strerror or str(error)).lower()
        raise ConfigError(f"cannot be written: {problem}", file=folder) from error
    return [*documents, *(f"{name}{end}" for name in result.tables)]


def _write_csv(path: Path, columns: Columns) -> None:
    # Without a time in its head, equal runs give equal files.
    with gzip.GzipFile(path, "wb", mtime=0) as file:
        file.write(csv_text(columns).encode())


def _arrow_table(columns: Columns) -> Any:
    try:
        import pyarrow as pa
    except ImportError:
        raise ConfigError("pyarrow is not installed: pip install pyarrow") from None
    return pa.table(columns)


def _write_arrow(path: Path, columns: Columns) -> None:
    table = _arrow_table(columns)
    ipc = importlib.import_module("pyarrow.ipc")
    with path.open("wb") as file, ipc.new_stream(file, table.schema) as stream:
        stream.write_table(table)


def _write_parquet(path: Path, columns: Columns) -> None:
    table = _arrow_table(columns)
    importlib.import_module("pyarrow.parquet").write_table(table, path)
