"""Reads a trace of any known format.

=============  ===============================================  =====================
Format         is recognized by                                 module
=============  ===============================================  =====================
simkube        a MessagePack mapping                            ``traces.simkube``
kss-recorder   a first line ``{"time", "event", "resource"}``   ``traces.recorder``
batsim         JSON with ``jobs``                               ``traces.batsim``
kubectl        other JSON                                       ``traces.pods``
swf            a first line of ";" or of 18 numbers             ``traces.swf``
openb-csv      the header of openb, without a map of columns    ``traces.csv_table``
csv            all else                                         ``traces.csv_table``
=============  ===============================================  =====================

Every format may be compressed with gzip.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, Final

from mooring.errors import ConfigError
from mooring.objects.files.paths import read_bytes, shown_name
from mooring.traces import batsim, csv_table, pods, recorder, simkube, swf
from mooring.traces.openb import OPENB_PREFIX
from mooring.traces.openb_trace import read_openb
from mooring.traces.trace import Trace
from mooring.traces.values import parsed_json

FORMATS: Final = (
    simkube.FORMAT,
    recorder.FORMAT,
    batsim.FORMAT,
    pods.FORMAT,
    swf.FORMAT,
    csv_table.OPENB_FORMAT,
    csv_table.FORMAT,
)

#: First bytes of a MessagePack mapping; none of them begins a UTF-8 text.
_MSGPACK_MAPPING: Final = re.compile(rb"[\x80-\x8f\xde\xdf]")
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_NUMBERS: Final = re.compile(rb"[-+0-9.eE \t]+")


def read_trace(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,  # noqa: A002 - the field of a scenario
    columns: Mapping[str, Any] | None = None,
) -> Trace:
    """Returns the trace of a file, plain or compressed with gzip.

    Args:
        path: The file, or a list of the trace that is shipped (``openb:default``).
        format: One of ``FORMATS``; None = as its content says. ``Trace.format`` says which it was.
        columns: For CSV: column of the trace -> column of the file, with an optional factor, such
            as ``{"submit_s": "arrival", "cpu_milli": "cores*1000"}``.

    Raises:
        ConfigError: The file cannot be read, or is malformed: with the file, the line or the path
            in the document, and the value.
    """
    name = shown_name(os.fspath(path))
    if name.startswith(OPENB_PREFIX):
        return read_openb(name.removeprefix(OPENB_PREFIX))
    if format is not None and format not in FORMATS:
        problem = f"is not a format of traces ({', '.join(FORMATS)})"
        raise ConfigError(problem, path="format", value=format)
    data = read_bytes(os.fspath(path))
    try:
        return trace_of(data, name, format=format, columns=columns)
    except ConfigError as error:
        raise error.located(file=name) from None


def trace_of(
    data: bytes,
    name: str,
    *,
    format: str | None = None,  # noqa: A002 - as in read_trace
    columns: Mapping[str, Any] | None = None,
) -> Trace:
    """Returns the trace of the content of a file.

    Args:
        data: The content, not compressed.
        name: The name of the trace.
        format: As in ``read_trace``.
        columns: As in ``read_trace``.

    Raises:
        ConfigError: It is malformed; with the line or the path in the document, and the value.
    """
    data = data.removeprefix(_BYTE_ORDER_MARK)
    chosen = format or detected_format(data, has_columns=columns is not None)
    if columns is not None and chosen != csv_table.FORMAT:
        raise ConfigError(f"are for CSV only, the format is {chosen}", path="columns")
    if chosen == simkube.FORMAT:
        return simkube.read_simkube(simkube.decoded_simkube(data), name)
    if chosen == batsim.FORMAT:
        return batsim.read_batsim(parsed_json(data), name)
    if chosen == pods.FORMAT:
        return pods.read_pods(parsed_json(data), name)
    if chosen == recorder.FORMAT:
        return recorder.read_recorder(data, name)
    if chosen == swf.FORMAT:
        return swf.read_swf(data, name)
    if chosen == csv_table.OPENB_FORMAT:
        return csv_table.read_openb_csv(data, name)
    return csv_table.read_csv(data, name, columns)


def detected_format(data: bytes, *, has_columns: bool = False) -> str:
    """Returns the format that the content has; see the table of this module.

    Args:
        data: The content, not compressed.
        has_columns: Whether a map of columns exists: then a table is plain CSV.

    Raises:
        ConfigError: The file is empty, or its first line is not CSV.
    """
    if _MSGPACK_MAPPING.match(data):
        return simkube.FORMAT
    text = data.removeprefix(_BYTE_ORDER_MARK).lstrip()
    if not text:
        raise ConfigError("is empty")
    if text[:1] in (b"{", b"["):
        return _json_format(text)
    first = text.split(b"\n", 1)[0].strip()
    if first.startswith(b";") or _is_swf_line(first):
        return swf.FORMAT
    if not has_columns and {*csv_table.header_of(first)} >= csv_table.OPENB_COLUMNS:
        return csv_table.OPENB_FORMAT
    return csv_table.FORMAT


def _is_swf_line(line: bytes) -> bool:
    return bool(_NUMBERS.fullmatch(line)) and len(line.split()) == len(swf.FIELDS)


def _json_format(text: bytes) -> str:
    try:
        record = parsed_json(text.split(b"\n", 1)[0])
    except ConfigError:
        record = None
    if isinstance(record, dict) and record.keys() >= recorder.KEYS:
        return recorder.FORMAT
    document = record if record is not None else parsed_json(text)
    if isinstance(document, dict) and "jobs" in document:
        return batsim.FORMAT
    return pods.FORMAT
