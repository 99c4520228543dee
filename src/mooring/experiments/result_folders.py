"""Reads the folders that ``mooring simulate --out`` and ``mooring sweep`` have written."""

from __future__ import annotations

import csv
import gzip
import importlib
import io
import math
import os
import zlib
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from mooring.config.field_errors import FieldError
from mooring.errors import ConfigError
from mooring.experiments.sweep import RUNS, Run, runs_of
from mooring.objects.files.documents import json_document
from mooring.objects.files.paths import read_bytes
from mooring.scenario.expectations import Expectation, expectations_of
from mooring.scenario.results import EVENTS, FORMATS, TABLES, Columns, Result

RUN: Final = "run.json"
#: Bytes of one table, unpacked: more than a million pods have.
TABLE_BYTES_MAX: Final = 1 << 30
#: Columns of text; all others are of numbers.
_TEXTS: Final = frozenset(
    {
        *("pod", "job", "node", "group", "measure", "final_state"),
        *("event", "object", "on_node", "text", "plugins"),
    }
)
_HOW_TO: Final = "`mooring simulate SCENARIO --out DIR` writes one that can be played back"
#: Columns that a report reads.
_REQUIRED: Final = {
    "pods": ("pod", "group", "node", "attempts", "submission_time_s", "waiting_time_s", "stretch"),
    "jobs": ("job",),
    "nodes": ("node",),
    "groups": ("group",),
    "series": ("measure", "time_s", "value"),
    EVENTS: ("time_s", "event", "object", "on_node", "text", "plugins"),
}


class _Expected(msgspec.Struct, frozen=True):
    """A line of ``expect``, with its value."""

    line: str
    value: float | None = None
    holds: bool = False


class _Document(msgspec.Struct, frozen=True):
    """``run.json``."""

    scenario: str
    seed: int
    digest: str
    summary: dict[str, float]
    resources: dict[str, str]
    mooring: str = ""
    pending: dict[str, str] = {}
    notes: tuple[str, ...] = ()
    expect: tuple[_Expected, ...] = ()


class StoredRun(NamedTuple):
    """The results of one run, as a folder has them.

    Attributes:
        name: The folder.
        result: The results.
        digest: Of the results, when they were written.
    """

    name: str
    result: Result
    digest: str


class StoredSweep(NamedTuple):
    """The runs of a sweep, as a folder has them.

    Attributes:
        name: The folder.
        runs: In the order in which they were made.
    """

    name: str
    runs: list[Run]


def read_folder(folder: str | os.PathLike[str]) -> StoredRun | StoredSweep:
    """Reads the results of a run or of a sweep.

    Raises:
        ConfigError: the folder has neither, or a file of it cannot be read.
    """
    name = os.fspath(folder)
    if os.path.isfile(os.path.join(name, RUN)):
        return _read_run(name)
    runs = os.path.join(name, RUNS)
    if os.path.isfile(runs):
        own, _ = runs_of(read_bytes(runs), runs)
        return StoredSweep(name, own)
    if not os.path.isdir(name):
        raise ConfigError("is no folder", file=name)
    raise ConfigError(f"has no results: neither {RUN} nor {RUNS}", file=name)


def read_run_to_play(folder: str | os.PathLike[str]) -> StoredRun:
    """Reads the results of a run with its events.

    Raises:
        ConfigError: the folder has no run, a file of it cannot be read, or there are no events.
    """
    name = os.fspath(folder)
    stored = read_folder(name)
    if isinstance(stored, StoredSweep):
        problem = "has the results of a sweep, not of a run"
        raise ConfigError(f"{problem}. {_HOW_TO}", file=name)
    if not any(Path(name, f"{EVENTS}{end}").is_file() for end in FORMATS.values()):
        problem = f"has no table {EVENTS}: it was written by another version"
        raise ConfigError(f"{problem}. {_HOW_TO}", file=name)
    events = _read_table(name, EVENTS)
    return stored._replace(result=stored.result._replace(events=events))


def _read_run(folder: str) -> StoredRun:
    path = os.path.join(folder, RUN)
    try:
        document = msgspec.convert(json_document(read_bytes(path)).value, _Document)
    except msgspec.ValidationError as error:
        raise ConfigError(f"is not the {RUN} of a run: {error}", file=path) from error
    except ConfigError as error:
        raise error.located(file=path) from None
    bad = next((name for name, own in document.summary.items() if not math.isfinite(own)), None)
    if bad is not None:
        raise ConfigError("must be a number", file=path, path=f"summary.{bad}")
    for resource, short in document.resources.items():
        for kind in ("allocated", "demanded", "stranded", "fragmentation"):
            if f"{kind}.{short}" not in document.summary:
                problem = f"has no measure {kind}.{short}: it was written by another version"
                raise ConfigError(problem, file=path, path="summary", value=resource)
    tables = {name: _read_table(folder, name) for name in TABLES}
    scenario = os.path.join(folder, "scenario.json")
    try:
        source = json_document(read_bytes(scenario)).value
    except ConfigError as error:
        raise error.located(file=scenario) from None
    result = Result(
        document.scenario,
        document.seed,
        source,
        document.summary,
        tables,
        document.pending,
        [(_expectation(own, path), own.value) for own in document.expect],
        document.resources,
        document.notes,
    )
    return StoredRun(folder, result, document.digest)


def _expectation(own: _Expected, path: str) -> Expectation:
    measure, _, limit = own.line.partition(" ")
    errors: list[FieldError] = []
    expectations = expectations_of([{measure: limit}], ("expect",), errors)
    if errors:
        raise ConfigError("is no expectation", file=path, path="expect", value=own.line)
    return expectations[0]


# -- tables -------------------------------------------------------------------------------------


def _read_table(folder: str, name: str) -> Columns:
    for kind, end in FORMATS.items():
        path = Path(folder, f"{name}{end}")
        if path.is_file():
            columns = _read_csv(path) if kind == "csv" else _read_arrow(path, kind)
            missing = next((own for own in _REQUIRED[name] if own not in columns), None)
            if missing is not None:
                raise ConfigError(f"has no column {missing}", file=str(path))
            return columns
    raise ConfigError(f"has no table {name}", file=folder)


def _read_csv(path: Path) -> Columns:
    try:
        with gzip.open(path) as file:
            data = file.read(TABLE_BYTES_MAX + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise ConfigError(f"cannot be read: {error}", file=str(path)) from error
    if len(data) > TABLE_BYTES_MAX:
        raise ConfigError(f"has more than {TABLE_BYTES_MAX} bytes", file=str(path))
    try:
        rows = csv.reader(io.StringIO(data.decode()), strict=True)
        header = next(rows, None)
        if not header or len(set(header)) != len(header):
            raise ConfigError("has no header of different names", file=str(path), line=1)
        columns: dict[str, list[Any]] = {column: [] for column in header}
        for number, row in enumerate(rows, start=2):
            if len(row) != len(header):
                problem = f"has {len(row)} cells, and {len(header)} columns"
                raise ConfigError(problem, file=str(path), line=number)
            for (column, values), cell in zip(columns.items(), row, strict=True):
                values.append(cell if column in _TEXTS else _number(cell, path, number, column))
    except (csv.Error, UnicodeDecodeError) as error:
        raise ConfigError(f"is no CSV: {error}", file=str(path)) from error
    return {**columns}


def _number(cell: str, path: Path, line: int, column: str) -> float | None:
    if not cell:
        return None
    try:
        value = float(cell)
        return int(cell) if "." not in cell and "e" not in cell else value
    except ValueError:
        problem = "must be a number"
        raise ConfigError(problem, file=str(path), line=line, path=column, value=cell) from None


def _read_arrow(path: Path, kind: str) -> Columns:
    try:
        if kind == "parquet":
            table = importlib.import_module("pyarrow.parquet").read_table(path)
        else:
            with path.open("rb") as file:
                table = importlib.import_module("pyarrow.ipc").open_stream(file).read_all()
    except ImportError:
        raise ConfigError("pyarrow is not installed: pip install pyarrow") from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot be read: {error}", file=str(path)) from error
    columns: Columns = table.to_pydict()
    return columns
