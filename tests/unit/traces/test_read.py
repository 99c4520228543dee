"""The format of a trace by its content, and input of every kind."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.errors import ConfigError
from mooring.traces import Trace, read_trace
from mooring.traces.read import FORMATS, trace_of

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "a", "creationTimestamp": "2026-01-31T08:00:00Z"},
    "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
    "status": {"phase": "Running", "startTime": "2026-01-31T08:00:00Z"},
}
RECORD = {"time": "2026-01-31T08:00:00Z", "event": "Add", "resource": POD}
BATSIM = {
    "nb_res": 4,
    "jobs": [{"id": 1, "subtime": 0, "res": 1, "walltime": 9, "profile": "a"}],
    "profiles": {"a": {"type": "delay", "delay": 5}},
}
SIMKUBE = {
    "version": 2,
    "config": {},
    "events": [{"ts": 1, "applied_objs": [POD], "deleted_objs": []}],
    "index": {},
    "pod_lifecycles": {("v1.Pod", "a"): {1: [{"Finished": [1, 4]}]}},
}
SWF = b"1 0 0 60 2 -1 -1 2 -1 -1 1 1 1 -1 1 -1 -1 -1\n"
OPENB = b"name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,100,10,0,0\n"
CSV = b"submit_s,duration_s\n0,10\n"

SAMPLES = {
    "simkube": msgspec.msgpack.encode(SIMKUBE),
    "kss-recorder": json.dumps(RECORD).encode() + b"\n",
    "batsim": json.dumps(BATSIM, indent=2).encode(),
    "kubectl": json.dumps({"kind": "List", "items": [POD]}, indent=4).encode(),
    "swf": b"; Computer: none\n" + SWF,
    "openb-csv": OPENB,
    "csv": CSV,
}


def test_there_is_a_sample_of_every_format() -> None:
    assert set(SAMPLES) == set(FORMATS)


@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_the_format_is_recognized(tmp_path: Path, format_name: str, pack: Any) -> None:
    path = tmp_path / "trace"
    path.write_bytes(pack(SAMPLES[format_name]))

    trace = read_trace(path)

    assert trace.format == format_name
    assert trace.name == str(path)
    assert len(trace) == 1
    assert read_trace(path, format=format_name).format == format_name


@pytest.mark.parametrize(
    ("text", "format_name"),
    [
        (SWF, "swf"),
        (b"\xef\xbb\xbf" + SAMPLES["batsim"], "batsim"),
        (b"\xef\xbb\xbf" + CSV, "csv"),
        (json.dumps(BATSIM).encode(), "batsim"),
        (json.dumps(POD).encode(), "kubectl"),
    ],
)
def test_variants_are_recognized(text: bytes, format_name: str) -> None:
    assert trace_of(text, "t").format == format_name


def test_a_map_of_columns_means_csv() -> None:
    columns = {"submit_s": "gpu_milli", "cpu_milli": "cpu_milli"}

    assert trace_of(OPENB, "t", columns=columns).format == "csv"
    with pytest.raises(ConfigError, match="columns: are for CSV only, the format is swf"):
        trace_of(SWF, "t", columns=columns)


def test_errors_name_the_file(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(CSV + b"1,x\n")

    with pytest.raises(ConfigError) as caught:
        read_trace(path)

    assert str(caught.value) == f"{path}: line 3: duration_s: must be a number, got 'x'"


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="absent: cannot be read: no such file"):
        read_trace(tmp_path / "absent")
    (tmp_path / "empty").write_bytes(b" \n")
    with pytest.raises(ConfigError, match="empty: is empty"):
        read_trace(tmp_path / "empty")
    with pytest.raises(ConfigError, match=r"format: is not a format of traces .*, got 'xml'"):
        read_trace(tmp_path / "empty", format="xml")


def is_trace_or_refused(data: bytes, **options: Any) -> None:
    """Checks that the data is a valid trace, or is refused with the error for input."""
    try:
        trace = trace_of(data, "t", **options)
    except ConfigError:
        return
    assert isinstance(trace, Trace)
    assert len(trace) > 0
    assert np.all(np.diff(trace.submit_s) >= 0)
    assert trace.submit_s[0] >= 0
    assert not np.any(trace.duration_s < 0)
    for column in (trace.cpu_milli, trace.memory_bytes, trace.gpu_count, trace.gpu_milli):
        assert np.all(column >= 0)
    assert np.all(trace.count >= 1)


@pytest.mark.parametrize("format_name", FORMATS)
@given(data=st.binary(max_size=200))
def test_any_bytes_are_a_trace_or_refused(format_name: str, data: bytes) -> None:
    is_trace_or_refused(data)
    is_trace_or_refused(data, format=format_name)


@pytest.mark.parametrize("format_name", FORMATS)
@given(
    edits=st.lists(st.tuples(st.floats(0, 1), st.binary(max_size=3), st.integers(0, 4)), max_size=3)
)
def test_a_damaged_sample_is_a_trace_or_refused(
    format_name: str, edits: list[tuple[float, bytes, int]]
) -> None:
    data = SAMPLES[format_name]
    for share, inserted, removed in edits:
        at = int(share * len(data))
        data = data[:at] + inserted + data[at + removed :]
    is_trace_or_refused(data)
    is_trace_or_refused(data, format=format_name)


ANY_VALUE = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text(max_size=5), values),
    max_leaves=4,
)


@st.composite
def with_another_value(draw: st.DrawFn, document: Any) -> Any:
    """Draws a document in which one value is replaced by any other."""
    if isinstance(document, dict) and document and draw(st.integers(0, 8)):
        key = draw(st.sampled_from(sorted(document, key=str)))
        return document | {key: draw(with_another_value(document[key]))}
    if isinstance(document, list) and document and draw(st.integers(0, 8)):
        return [draw(with_another_value(document[0])), *document]
    return draw(ANY_VALUE)


@pytest.mark.parametrize(
    ("format_name", "document"),
    [("batsim", BATSIM), ("kubectl", {"items": [POD]}), ("kss-recorder", RECORD)],
)
@given(data=st.data())
def test_a_json_document_with_any_value_is_a_trace_or_refused(
    format_name: str, document: Any, data: st.DataObject
) -> None:
    changed = data.draw(with_another_value(document))

    is_trace_or_refused(json.dumps(changed).encode(), format=format_name)


@given(data=st.data())
def test_a_simkube_document_with_any_value_is_a_trace_or_refused(data: st.DataObject) -> None:
    changed = data.draw(with_another_value(SIMKUBE))
    try:
        encoded = msgspec.msgpack.encode(changed)
    except (OverflowError, UnicodeEncodeError):
        return

    is_trace_or_refused(encoded, format="simkube")


CELLS = st.lists(
    st.text(max_size=6) | st.integers().map(str) | st.floats().map(str), min_size=2, max_size=2
)


@given(rows=st.lists(CELLS, max_size=3))
def test_a_table_of_any_cells_is_a_trace_or_refused(rows: list[list[str]]) -> None:
    for header in (b"submit_s,count", b"submit_s,memory_bytes", b"submit_s,names"):
        text = "\n".join(",".join(cells) for cells in rows)
        is_trace_or_refused(header + b"\n" + text.encode("utf-8", "replace"), format="csv")


@given(words=st.lists(st.floats().map(str) | st.integers().map(str), min_size=18, max_size=18))
def test_a_line_of_any_numbers_is_a_trace_or_refused(words: list[str]) -> None:
    is_trace_or_refused(" ".join(words).encode(), format="swf")
