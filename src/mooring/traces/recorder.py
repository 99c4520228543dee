"""JSON lines of kube-scheduler-simulator's recorder: ``{time, event, resource}``.

Only pods are read; other objects are left out. Time 0 is the earliest record of the file::

    Add ------------> first record with a node -----> phase Succeeded or Failed, or Delete
     | submission           | begin                       | end

The run time is from the begin, or else from the submission, to the end. A pod that is there at the
end of the file has no recorded end (nan). A later pod of the same name is another row.

Source: kubernetes-sigs/kube-scheduler-simulator, simulator/recorder/recorder.go.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

from mooring.errors import ConfigError
from mooring.traces.pods import (
    ENDED,
    FAILED,
    columns_of_pod,
    decoded_pod,
    note_constraints,
)
from mooring.traces.trace import Rows, Trace
from mooring.traces.values import elapsed_s, member, note_unread, parsed_json, wall_time_s

FORMAT: Final = "kss-recorder"

#: Keys of every line.
KEYS: Final = frozenset({"time", "event", "resource"})

_EVENTS: Final = ("Add", "Update", "Delete")


@dataclass(slots=True)
class _PodTimes:
    """A pod between its first record and its end."""

    submit_s: float
    columns: dict[str, Any]
    begin_s: float = math.nan
    end_s: float = math.nan

    def duration_s(self) -> float:
        begin_s = self.submit_s if math.isnan(self.begin_s) else self.begin_s
        return elapsed_s(begin_s, self.end_s)


def read_recorder(data: bytes, name: str) -> Trace:
    """Returns the trace of JSON lines.

    Args:
        data: The text.
        name: The name of the trace.

    Raises:
        ConfigError: A line is malformed, or there is no pod.
    """
    reader = _Reader()
    for line, text in enumerate(data.split(b"\n"), 1):
        if text.strip():
            try:
                reader.read(parsed_json(text), line)
            except ConfigError as error:
                # The text of one line has only line 1.
                raise ConfigError(
                    error.problem, line=line, path=error.path, value=error.value
                ) from None
    return reader.trace(name)


class _Reader:
    """The pods so far."""

    def __init__(self) -> None:
        self._rows = Rows()
        self._current: dict[tuple[str, str], _PodTimes] = {}
        self._all: list[_PodTimes] = []
        self._first_s = math.inf

    def read(self, record: Any, line: int) -> None:
        """Reads the record of a line."""
        if not isinstance(record, dict):
            raise ConfigError("must be a mapping with time, event and resource", value=record)
        event = member(record, "event", "", str)
        if event not in _EVENTS:
            raise ConfigError(f"must be one of {', '.join(_EVENTS)}", path="event", value=event)
        time_s = wall_time_s(record.get("time"), path="time")
        # The recorder watches one kind after the other: records may be slightly out of order.
        self._first_s = min(self._first_s, time_s)
        resource = member(record, "resource", "", dict)
        if resource.get("kind") != "Pod":
            text = "record of an object that is not a pod: left out"
            self._rows.note(text, line=line, path="resource.kind", value=resource.get("kind"))
            return
        note_unread(self._rows, record, KEYS, "")
        pod = decoded_pod(resource, "resource")
        key = pod.metadata.namespace, pod.metadata.name
        if event == "Delete":
            self._end(key, time_s, line)
            return
        columns = columns_of_pod(pod, "resource")
        pod_times = self._current.get(key)
        if pod_times is None:
            pod_times = _PodTimes(time_s, columns)
            self._current[key] = pod_times
            self._all.append(pod_times)
            note_constraints(self._rows, pod, resource, "resource", line=line)
            if event == "Update":
                self._note("Update of a pod without an Add: counts as its submission", key, line)
        elif columns != pod_times.columns:
            self._note("pod whose requests, priority or group change: the first count", key, line)
        if pod.spec.node_name and math.isnan(pod_times.begin_s):
            pod_times.begin_s = time_s
        if pod.status.phase in ENDED and math.isnan(pod_times.end_s):
            pod_times.end_s = time_s
            if pod.status.phase == FAILED:
                self._note("pod that failed: read as a pod that succeeds", key, line)

    def _note(self, text: str, key: tuple[str, str], line: int) -> None:
        self._rows.note(text, line=line, path="resource", value="/".join(key))

    def _end(self, key: tuple[str, str], time_s: float, line: int) -> None:
        pod_times = self._current.pop(key, None)
        if pod_times is None:
            self._note("Delete of a pod without an Add: left out", key, line)
        elif math.isnan(pod_times.end_s):
            pod_times.end_s = time_s

    def trace(self, name: str) -> Trace:
        """Returns the trace."""
        for pod_times in self._all:
            self._rows.add(
                submit_s=pod_times.submit_s - self._first_s,
                duration_s=pod_times.duration_s(),
                **pod_times.columns,
            )
        return self._rows.trace(name=name, format=FORMAT)
