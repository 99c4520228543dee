"""The results of a run: tables, a summary, and a digest that equal runs share."""

from __future__ import annotations

import gzip
import hashlib
import importlib
import io
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from csv import writer as csv_writer
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple

import msgspec
import numpy as np

from mooring import __version__
from mooring.errors import ConfigError
from mooring.files import replaced_file
from mooring.objects.types import Object
from mooring.scenario.expectations import Expectation
from mooring.scenario.history import STATES
from mooring.scenario.measures import REFUSED, cost_of, quantiles, slowdowns, summary_of
from mooring.scenario.tables.columns import CHUNK, Times, numbers, plain
from mooring.simulation.utilization import ResourceNames

if TYPE_CHECKING:
    from mooring.scenario.curves import Curves
    from mooring.scenario.history import History
    from mooring.scenario.scenario import Scenario

#: A table: column -> values.
Columns = dict[str, Sequence[Any]]
#: The table that is no part of the digest.
EVENTS: Final = "events"
#: Formats of tables -> their file names' end.
FORMATS: Final = {"csv": ".csv.gz", "arrow": ".arrows", "parquet": ".parquet"}
#: The tables of every run.
TABLES: Final = ("pods", "jobs", "nodes", "groups", "series")


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
        notes: Actions without effect, and what the autoscaler says about pods that still wait.
        events: The table ``events``, for the page; it is no part of the digest.
            None = it was not read.
        plugins: The plugins of the profiles; () = they are not known.
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
    events: Columns | None = None
    plugins: Sequence[str] = ()

    @property
    def holds(self) -> bool:
        """True if all expectations hold."""
        return all(expectation.holds(value) for expectation, value in self.checks)

    @property
    def measures(self) -> dict[str, float]:
        """The summary, with 0 for the plugins that refused no node in any attempt."""
        return _with_zeros(self.summary, self.plugins)

    @property
    def digest(self) -> str:
        """A digest of all tables and of the summary; equal runs have equal digests."""
        digest = hashlib.sha256()
        digest.update(msgspec.json.encode(dict(self.summary), order="sorted"))
        for name in sorted(self.tables):
            for text in csv_chunks(self.tables[name]):
                digest.update(text.encode())
        return digest.hexdigest()

    def document(self) -> Object:
        """Returns everything but the tables as plain values."""
        return {
            "scenario": self.name,
            "seed": self.seed,
            "mooring": __version__,
            "digest": self.digest,
            "resources": dict(self.resources),
            "summary": {name: plain(value) for name, value in self.summary.items()},
            "pending": dict(self.pending),
            "notes": list(self.notes),
            "expect": [
                {"line": item.text, "value": plain(value), "holds": item.holds(value)}
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
        notes: Actions without effect, and what the autoscaler says.
        plugins: The plugins of the profiles.
    """

    scenario: Scenario
    history: History
    curves: Curves
    resources: tuple[str, ...]
    nodes_at_start: int
    end_s: float
    notes: Sequence[str] = ()
    plugins: Sequence[str] = ()


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
    measures = _with_zeros(summary, run.plugins)
    return Result(
        scenario.name,
        scenario.seed,
        scenario.source,
        summary,
        tables,
        dict(run.history.reasons),
        [(item, measures.get(item.measure)) for item in scenario.expectations],
        resources,
        run.notes,
        run.history.events.columns(),
        run.plugins,
    )


def _with_zeros(summary: Mapping[str, float], plugins: Sequence[str]) -> dict[str, float]:
    return {**{f"{REFUSED}{plugin}": 0 for plugin in plugins}, **summary}


# -- tables -------------------------------------------------------------------------------------


def _pods(run: RunRecord, resources: Mapping[str, str]) -> Columns:
    pods = run.history.pods
    submitted = np.array(pods.submitted_s)
    bound, finished = np.array(pods.bound_s), np.array(pods.finished_s)
    waits, runs = bound - submitted, finished - bound
    columns: Columns = {
        "pod": pods.names,
        "group": pods.groups,
        "priority": numbers(pods.priorities),
        "final_state": [STATES[state] for state in pods.states],
        "node": pods.nodes,
        "attempts": numbers(pods.attempts),
        "submission_time_s": Times(submitted),
        "waiting_time_s": Times(waits),
        "starting_time_s": Times(bound),
        "finish_time_s": Times(finished),
        "execution_time_s": Times(runs),
        "turnaround_time_s": Times(finished - submitted),
        "stretch": Times(slowdowns(waits, runs)),
        "lost_time_s": Times(np.array(pods.lost_s)),
    }
    for resource, short in resources.items():
        columns[request_column(short)] = numbers(pods.requests[resource])
    return columns


def request_column(short: str) -> str:
    """Returns the column of the requests for a resource, with its unit."""
    units = {"cpu": "cpu_milli", "memory": "memory_bytes"}
    return units.get(short, short.replace("-", "_"))


def _jobs(run: RunRecord) -> Columns:
    jobs = run.history.jobs
    return {
        "job": [job.name for job in jobs],
        "group": [job.group for job in jobs],
        "final_state": [job.state for job in jobs],
        "submission_time_s": Times([job.submitted_s for job in jobs]),
        "starting_time_s": Times([job.started_s for job in jobs]),
        "finish_time_s": Times([job.finished_s for job in jobs]),
    }


def _nodes(run: RunRecord) -> Columns:
    nodes, prices = run.history.nodes, run.scenario.prices
    return {
        "node": [node.name for node in nodes],
        "added_s": Times([node.added_s for node in nodes]),
        "removed_s": Times([node.removed_s for node in nodes]),
        "pods": [node.used for node in nodes],
        "cost": [cost_of(node, prices, run.end_s) for node in nodes],
    }


def _series(run: RunRecord, resources: Mapping[str, str]) -> Columns:
    measures: list[str] = []
    times: list[Any] = []
    values: list[Any] = []
    for name in run.curves.names:
        kind, _, resource = name.partition(".")
        measure = f"{kind}.{resources[resource]}" if resource else kind
        curve_times, curve_values = run.curves.curve(name)
        measures += [measure] * len(curve_times)
        times += Times(curve_times)
        values += [plain(value) for value in curve_values.tolist()]
    return {"measure": measures, "time_s": times, "value": values}


def _groups(pods: Columns) -> Columns:
    """Returns waits and ends by group of pods."""
    numbers_of: dict[str, int] = {}
    codes = np.array([numbers_of.setdefault(group, len(numbers_of)) for group in pods["group"]])
    waits = np.array([math.nan if wait is None else wait for wait in pods["waiting_time_s"]])
    n_groups = len(numbers_of)
    columns: Columns = {
        "group": [*numbers_of],
        "pods": np.bincount(codes, minlength=n_groups).tolist() if n_groups else [],
    }
    finals = Counter(zip(pods["group"], pods["final_state"], strict=True))
    for state in STATES:
        columns[state.lower()] = [finals[group, state] for group in numbers_of]
    own_waits = [waits[codes == code] for code in range(n_groups)]
    of_groups = [quantiles(own[~np.isnan(own)]) for own in own_waits]
    for which in ("mean", "p50", "p90", "p99", "max"):
        columns[f"wait_{which}_s"] = [of_group.get(which) for of_group in of_groups]
    return columns


# -- files --------------------------------------------------------------------------------------


def csv_chunks(columns: Columns) -> Iterator[str]:
    """Yields a table as CSV, some thousand lines at a time; a missing value is empty."""
    rows = zip(*columns.values(), strict=True)
    lines: list[Sequence[Any]] = [[*columns]]
    while lines:
        out = io.StringIO()
        csv_writer(out, lineterminator="\n").writerows(lines)
        yield out.getvalue()
        lines = [*islice(rows, CHUNK)]


def write_results(result: Result, folder: str, *, table_format: str = "csv") -> list[str]:
    """Writes a run into a folder, which is created; returns the names of the files.

    The files are replaced when all of them are complete. Other tables of a run that was written
    there before, in another format say, are removed: they would be read for those of this run.

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
    tables = {**result.tables, EVENTS: result.events} if result.events else result.tables
    documents = {"run.json": result.document(), "scenario.json": result.source}
    names = [*documents, *(f"{name}{end}" for name in tables)]
    try:
        path.mkdir(parents=True, exist_ok=True)
        with ExitStack() as files:
            for name, document in documents.items():
                file = files.enter_context(replaced_file(path / name))
                data = msgspec.json.format(msgspec.json.encode(document), indent=2)
                file.write(data + b"\n")
                file.flush()
            for name, columns in tables.items():
                file = files.enter_context(replaced_file(path / f"{name}{end}"))
                writers[table_format](file, columns)
                file.flush()
            _remove_other_tables(path, names)
    except OSError as error:
        problem = (error.strerror or str(error)).lower()
        raise ConfigError(f"cannot be written: {problem}", file=folder) from error
    return names


def _remove_other_tables(folder: Path, names: Sequence[str]) -> None:
    """Removes the tables of an earlier run that have none of these names."""
    for table in (*TABLES, EVENTS):
        for end in FORMATS.values():
            if f"{table}{end}" not in names:
                (folder / f"{table}{end}").unlink(missing_ok=True)


def _write_csv(file: BinaryIO, columns: Columns) -> None:
    # Without a time and a name in its head, equal runs give equal files.
    with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as compressor:
        for text in csv_chunks(columns):
            compressor.write(text.encode())


def _arrow_table(columns: Columns) -> Any:
    try:
        import pyarrow as pa
    except ImportError:
        raise ConfigError("pyarrow is not installed: pip install pyarrow") from None
    return pa.table({name: list(column) for name, column in columns.items()})


def _write_arrow(file: BinaryIO, columns: Columns) -> None:
    table = _arrow_table(columns)
    ipc = importlib.import_module("pyarrow.ipc")
    with ipc.new_stream(file, table.schema) as stream:
        stream.write_table(table)


def _write_parquet(file: BinaryIO, columns: Columns) -> None:
    table = _arrow_table(columns)
    importlib.import_module("pyarrow.parquet").write_table(table, file)
