"""JSON lines of kube-scheduler-simulator's recorder."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from mooring.errors import ConfigError
from mooring.traces.recorder import read_recorder


def record(seconds: int, event: str, name: str, *, node: str = "", phase: str = "") -> bytes:
    """Returns the line of a pod, with nanoseconds and the zone of the recorder's machine."""
    metadata = {"name": name, "namespace": "default"}
    pod: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
    if event != "Delete":
        resources = {"requests": {"cpu": "250m"}}
        pod["spec"] = {"containers": [{"name": "c", "resources": resources}], "nodeName": node}
        pod["status"] = {"phase": phase}
    time = f"2026-01-31T09:00:{seconds:02}.123456789+09:00"
    return json.dumps({"time": time, "event": event, "resource": pod}).encode()


def lines(*records: bytes) -> bytes:
    return b"\n".join([*records, b""])


NODE = json.dumps(
    {
        "time": "2026-01-31T09:00:00.123456789+09:00",
        "event": "Add",
        "resource": {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-a"}},
    }
).encode()


def test_a_pod_runs_from_its_binding_to_its_end() -> None:
    trace = read_recorder(
        lines(
            NODE,
            record(2, "Add", "done"),
            record(5, "Add", "deleted"),
            record(6, "Update", "done", node="node-a"),
            record(9, "Update", "deleted", node="node-a"),
            record(16, "Update", "done", node="node-a", phase="Succeeded"),
            record(20, "Add", "running", node="node-a", phase="Running"),
            record(29, "Delete", "deleted"),
            record(40, "Delete", "done"),
        ),
        "record.jsonl",
    )

    assert trace.names.tolist() == ["done", "deleted", "running"]
    assert trace.submit_s.tolist() == [2.0, 5.0, 20.0]
    assert trace.duration_s.tolist() == pytest.approx([10.0, 20.0, math.nan], nan_ok=True)
    assert trace.cpu_milli.tolist() == [250, 250, 250]
    assert trace.notes == (
        "1 x record of an object that is not a pod: left out (at line 1: resource.kind: 'Node')",
    )


def test_a_pod_of_the_same_name_is_another_pod_after_a_delete() -> None:
    trace = read_recorder(
        lines(
            record(0, "Add", "a"),
            record(4, "Delete", "a"),
            record(6, "Add", "a"),
            record(7, "Delete", "b"),
        ),
        "record.jsonl",
    )

    assert trace.submit_s.tolist() == [0.0, 6.0]
    assert trace.duration_s.tolist() == pytest.approx([4.0, math.nan], nan_ok=True)
    assert trace.notes == (
        "1 x Delete of a pod without an Add: left out (at line 4: resource: 'default/b')",
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"{", "line 2: is not JSON"),
        (b"3", "line 2: must be a mapping with time, event and resource, got 3"),
        (b"{}", "line 2: event: is required"),
        (b'{"event": "Patch"}', "line 2: event: must be one of Add, Update, Delete, got 'Patch'"),
        (b'{"event": "Add", "time": 3}', "line 2: time: must be a time such as"),
        (
            b'{"event": "Add", "time": "2026-01-31T09:00:00"}',
            "line 2: time: must be a time such as 2026-01-31T08:00:00Z, got '2026-01-31T09:00:00'",
        ),
        (
            b'{"event": "Add", "time": "2026-01-31T09:00:00Z", "resource": []}',
            "line 2: resource: must be a mapping, got []",
        ),
        (
            b'{"event": "Add", "time": "2026-01-31T09:00:00Z", "resource": {"kind": "Pod"}}',
            "line 2: resource.",
        ),
    ],
)
def test_a_malformed_line_is_an_error_with_its_line(text: bytes, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_recorder(lines(record(0, "Add", "a"), text), "record.jsonl")

    assert message in str(caught.value)


def test_what_the_file_leaves_open_is_noted() -> None:
    larger = record(3, "Update", "a").replace(b"250m", b"500m")
    failed = record(4, "Update", "a", node="n", phase="Failed")
    trace = read_recorder(
        lines(record(1, "Update", "b"), record(2, "Add", "a"), larger, failed), "record.jsonl"
    )

    assert trace.cpu_milli.tolist() == [250, 250]
    assert trace.notes == (
        "1 x Update of a pod without an Add: counts as its submission "
        "(at line 1: resource: 'default/b')",
        "1 x pod whose requests, priority or group change: the first count "
        "(at line 3: resource: 'default/a')",
        "1 x pod that failed: read as a pod that succeeds (at line 4: resource: 'default/a')",
    )
