"""CSV with a header line: any table, by a map of columns, and the lists of openb.

A map gives for a column of the trace the column of the file, and optionally a factor, which
converts units::

    {submit_s: arrival, duration_s: minutes*60, cpu_milli: cores*1000, memory_bytes: mib*1048576}

Without a map, the columns of the file that have the name of a column of the trace are read; the
others are noted.

- ``submit_s`` is required in every row: a number, or a date with a time, such as
  ``2026-01-31T09:30:00Z``; it is UTC without a zone. Any origin will do, such as 1970: the first
  submission is moved to 0 s.
- Other empty cells have the default of the column: no recorded end (nan), 0, "", 1 for ``count``.
  A row with devices and without their thousandths has whole devices; with thousandths only, one.
- Amounts are rounded up to whole units.

openb (Alibaba's cluster-trace-gpu-v2023) has the columns name, cpu_milli, memory_mib, num_gpu,
gpu_milli, and in most lists gpu_spec, qos, creation_time, deletion_time and scheduled_time. A pod
runs from scheduled_time, or else creation_time, to deletion_time. A list without times has all pods
at 0 s, in its order.

Source: https://github.com/alibaba/clusterdata, cluster-trace-gpu-v2023.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Any, Final, NamedTuple

from mooring.errors import ConfigError
from mooring.traces.trace import AMOUNT_MAX, DEFAULTS, Rows, Trace
from mooring.traces.values import elapsed_s, number_of_text, rounded_up

FORMAT: Final = "csv"
OPENB_FORMAT: Final = "openb-csv"

#: Columns of every pod list of openb.
OPENB_COLUMNS: Final = frozenset({"name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli"})
_OPENB_OTHERS: Final = frozenset(
    {"gpu_spec", "qos", "creation_time", "scheduled_time", "deletion_time"}
)

_TEXTS: Final = tuple(title for title, default in DEFAULTS.items() if isinstance(default, str))
_INTEGERS: Final = tuple(title for title, default in DEFAULTS.items() if isinstance(default, int))
_SIGNED: Final = ("priority",)
_MIB: Final = 1 << 20
#: Thousandths of a device.
_WHOLE_DEVICE: Final = 1000
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:", re.ASCII)


class _Column(NamedTuple):
    """A column of the file: its position, its name, and the factor of its numbers."""

    position: int
    title: str
    factor: float


def read_csv(data: bytes, name: str, columns: Mapping[str, Any] | None = None) -> Trace:
    """Returns the trace of a table; the first submission is at 0 s.

    Args:
        data: The text.
        name: The name of the trace.
        columns: Column of the trace -> column of the file, with an optional factor: "cores*1000".

    Raises:
        ConfigError: The text, the map or a cell is malformed, or there is no row.
    """
    lines = _rows(data)
    _, header = next(lines, (1, []))
    chosen = _chosen(header, columns)
    rows = Rows()
    # A map names what is read: the other columns are left out on purpose.
    for title in header if columns is None else ():
        if title not in DEFAULTS:
            rows.unread(title, line=1)
    first_has_date: bool | None = None
    for line, cells in lines:
        values = {title: _value(title, column, cells, line) for title, column in chosen.items()}
        has_date = _has_date(chosen["submit_s"], cells)
        first_has_date = has_date if first_has_date is None else first_has_date
        if has_date != first_has_date:
            problem = f"must be a {'date' if first_has_date else 'number'} as in the rows before"
            column = chosen["submit_s"]
            value = cells[column.position]
            raise ConfigError(problem, line=line, path=column.title, value=value)
        try:
            rows.add(**_with_devices(values))
        except ConfigError as error:
            raise error.located(line=line) from None
    return rows.trace(name=name, format=FORMAT, is_shifted=True)


def header_of(data: bytes) -> list[str]:
    """Returns the cells of the first line of a text, without blanks around them; [] = none."""
    return next(_rows(data), (1, []))[1]


def _rows(data: bytes) -> Iterator[tuple[int, list[str]]]:
    """Yields the rows that are not empty, with their lines; all have as many cells as the first."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError("is not UTF-8 text", line=line) from None
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    width = 0
    try:
        for cells in reader:
            if not cells:
                continue
            width = width or len(cells)
            if len(cells) != width:
                problem = f"must have {width} cells as the header, has {len(cells)}"
                raise ConfigError(problem, line=reader.line_num, value=",".join(cells))
            yield reader.line_num, [cell.strip() for cell in cells]
    except csv.Error as error:
        raise ConfigError(f"is not CSV: {error}", line=reader.line_num) from None


def _chosen(header: list[str], columns: Mapping[str, Any] | None) -> dict[str, _Column]:
    """Returns the column of the file for the columns of the trace that it has."""
    if len({*header}) != len(header):
        twice = next(title for title in header if header.count(title) > 1)
        raise ConfigError("has a column twice", line=1, value=twice)
    if columns is None:
        columns = {title: title for title in DEFAULTS if title in header}
    chosen = {}
    for title, text in columns.items():
        if title not in DEFAULTS:
            matches = get_close_matches(str(title), DEFAULTS, n=1)
            raise ConfigError(
                f"is not a column of a trace ({', '.join(DEFAULTS)})",
                path="columns",
                value=title,
                suggestion=matches[0] if matches else None,
            )
        chosen[title] = _column(title, text, header)
    if "submit_s" not in chosen:
        raise ConfigError("needs a column for submit_s", line=1, value=",".join(header))
    return chosen


def _column(title: str, text: Any, header: list[str]) -> _Column:
    path = f"columns.{title}"
    if not isinstance(text, str):
        raise ConfigError(
            "must be a string: a column, with or without *factor", path=path, value=text
        )
    name, factor = text.strip(), 1.0
    if name not in header and "*" in name:
        name, _, digits = (part.strip() for part in name.rpartition("*"))
        factor = number_of_text(digits, line=None, path=path)
        if factor <= 0 or title in _TEXTS:
            problem = "a text has no factor" if title in _TEXTS else "must have a factor above 0"
            raise ConfigError(problem, path=path, value=text)
    if name not in header:
        matches = get_close_matches(name, header, n=1)
        raise ConfigError(
            f"is not a column of the file ({', '.join(header)})",
            path=path,
            value=name,
            suggestion=matches[0] if matches else None,
        )
    return _Column(header.index(name), name, factor)


def _value(title: str, column: _Column, cells: list[str], line: int) -> Any:
    """Returns the value of a cell."""
    text = cells[column.position]
    if title in _TEXTS:
        return text
    if not text and title != "submit_s":
        return DEFAULTS[title]
    is_time = title == "submit_s" and column.factor == 1.0
    if is_time and (time_s := _date_s(text)) is not None:
        return time_s
    is_signed = title in _SIGNED or title == "submit_s"
    least = -float(AMOUNT_MAX) if is_signed else float(title == "count")
    amount = number_of_text(text, line=line, path=column.title, least=least) * column.factor
    if abs(amount) > AMOUNT_MAX:
        problem = f"must be at most {AMOUNT_MAX} with its factor"
        raise ConfigError(problem, line=line, path=column.title, value=text)
    return rounded_up(amount) if title in _INTEGERS else amount


def _has_date(column: _Column, cells: list[str]) -> bool:
    """Returns whether the time of a submission is a date; the others are numbers of seconds."""
    return _DATE.match(cells[column.position]) is not None


def _with_devices(values: dict[str, Any]) -> dict[str, Any]:
    """Returns a row whose devices have an amount: whole ones, or one of an amount."""
    count, milli = values.get("gpu_count", 0), values.get("gpu_milli", 0)
    if count and not milli:
        return {**values, "gpu_milli": _WHOLE_DEVICE}
    if milli and not count:
        return {**values, "gpu_count": 1}
    return values


def _date_s(text: str) -> float | None:
    """Returns the seconds since 1970 of a date with a time; None = the text is none."""
    if not _DATE.match(text):
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()


def read_openb_csv(data: bytes, name: str) -> Trace:
    """Returns the trace of a pod list of openb.

    Args:
        data: The text.
        name: The name of the trace.

    Raises:
        ConfigError: The text or a cell is malformed, or there is no row.
    """
    lines = _rows(data)
    _, header = next(lines, (1, []))
    missing = sorted(OPENB_COLUMNS - {*header})
    if missing:
        raise ConfigError(
            "is not a pod list of openb: a column is missing", line=1, value=missing[0]
        )
    rows = Rows()
    for title in header:
        if title not in OPENB_COLUMNS | _OPENB_OTHERS:
            rows.unread(title, line=1)
    for line, cells in lines:
        pod = dict(zip(header, cells, strict=True))

        def amount(title: str, pod: dict[str, str] = pod, line: int = line) -> int:
            return rounded_up(number_of_text(pod[title], line=line, path=title))

        begin_s, submit_s, end_s = _openb_times(pod, line)
        try:
            rows.add(
                submit_s=submit_s,
                duration_s=elapsed_s(begin_s, end_s),
                cpu_milli=amount("cpu_milli"),
                memory_bytes=amount("memory_mib") * _MIB,
                gpu_count=amount("num_gpu"),
                gpu_milli=amount("gpu_milli"),
                gpu_models=pod.get("gpu_spec", ""),
                group=pod.get("qos", ""),
                names=pod["name"],
            )
        except ConfigError as error:
            raise error.located(line=line) from None
    return rows.trace(name=name, format=OPENB_FORMAT, is_shifted=True)


def _openb_times(pod: Mapping[str, str], line: int) -> tuple[float, float, float]:
    """Returns begin, submission and end in seconds; an end of nan = none is recorded."""

    def time_s(title: str, default: float) -> float:
        text = pod.get(title, "")
        return number_of_text(text, line=line, path=title) if text else default

    submit_s = time_s("creation_time", 0.0)
    return time_s("scheduled_time", submit_s), submit_s, time_s("deletion_time", math.nan)
