"""Traces of SimKube, version 2: MessagePack with the objects that were applied and deleted.

::

    {version: 2, config, events: [{ts, applied_objs, deleted_objs}], index,
     pod_lifecycles: {(owner's GVK, "namespace/name"): {pod hash: [lifecycle, ...]}}}

An applied object with a pod template becomes its pods: one row for each, so that the rows of a
workload can end one by one. Time 0 is the first event.

- The number of pods is ``replicas``; for a Job its ``completions``, or else ``parallelism``. A Pod
  is one.
- The run times are the owner's recorded lifecycles in order of their start: pod i has the lifecycle
  i modulo their number. SimKube assigns them by a hash of the pod's spec; here all hashes of an
  owner are one list.
- An object that is applied once more with more replicas submits the difference; with fewer, the
  last pods end. A Deployment or StatefulSet with another pod template replaces all of its pods at
  once. A deleted object ends all of its pods. An end never makes a recorded run longer.
- A DaemonSet has a pod for each node, and a CronJob a Job at each of its times: both are left out.

Source: acrlabs/simkube, sk-store/src/lib.rs, sk-store/src/event_list.rs, sk-core/src/k8s/gvk.rs
and pod_lifecycle.rs.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from mooring.errors import ConfigError
from mooring.traces.pods import columns_of_pod, decoded_pod, note_constraints
from mooring.traces.trace import Rows, Trace
from mooring.traces.values import checked_number, elapsed_s, member, note_unread, number

FORMAT: Final = "simkube"
VERSION: Final = 2

#: Pods of all objects together; each is a row of Python objects until the end of the reading.
_ROWS_MAX: Final = 5_000_000

#: What the recording was made with, and the names of the objects, say nothing more about pods.
_TOP_FIELDS: Final = ("config", "events", "index", "pod_lifecycles", "version")
_EVENT_FIELDS: Final = ("applied_objs", "deleted_objs", "ts")

#: The kinds that replace their pods when their template changes.
_ROLLED_OUT: Final = ("Deployment", "StatefulSet")
_TEMPLATE_KINDS: Final = ("Deployment", "Job", "ReplicaSet", "ReplicationController", "StatefulSet")

#: (GVK, "namespace/name") of an object.
Key = tuple[str, str]
#: Begin and end of a pod, in seconds since 1970; nan = not recorded.
Lifecycle = tuple[float, float]


def decoded_simkube(data: bytes) -> Any:
    """Returns the value of a MessagePack text.

    Raises:
        ConfigError: It is not MessagePack.
    """
    try:
        return msgspec.msgpack.decode(data)
    except (msgspec.DecodeError, ValueError, TypeError, RecursionError) as error:
        raise ConfigError(f"is not MessagePack: {error}") from None


def read_simkube(document: Any, name: str) -> Trace:
    """Returns the trace of a decoded document; the first event is at 0 s.

    Args:
        document: The value of the MessagePack text; keys of mappings are text, integers or tuples.
        name: The name of the trace.

    Raises:
        ConfigError: The document is malformed, has another version, or no pod.
    """
    if not isinstance(document, dict):
        raise ConfigError("must be a mapping with version and events", value=document)
    if document.get("version") != VERSION:
        value = document.get("version")
        raise ConfigError(f"must be {VERSION}", path="version", value=value)
    rows = Rows()
    reader = _Reader(_lifecycles(member(document, "pod_lifecycles", "", dict, {}), rows), rows)
    note_unread(rows, document, _TOP_FIELDS, "")
    for index, event in enumerate(member(document, "events", "", list)):
        path = f"events[{index}]"
        if not isinstance(event, dict):
            raise ConfigError("must be a mapping", path=path, value=event)
        time_s = float(number(event, "ts", path))
        note_unread(rows, event, _EVENT_FIELDS, path)
        reader.begin(time_s)
        for place, obj in _objects(event, path, "applied_objs"):
            reader.apply(obj, time_s, place)
        for place, obj in _objects(event, path, "deleted_objs"):
            reader.delete(obj, time_s, place)
    return reader.trace(name)


def _objects(event: Mapping[str, Any], path: str, key: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for index, obj in enumerate(member(event, key, path, list, [])):
        place = f"{path}.{key}[{index}]"
        if not isinstance(obj, dict):
            raise ConfigError("must be a mapping", path=place, value=obj)
        yield place, obj


def _lifecycles(recorded: Mapping[Any, Any], rows: Rows) -> dict[Key, list[Lifecycle]]:
    """Returns the lifecycles of every owner, by begin."""
    lifecycles: dict[Key, list[Lifecycle]] = {}
    for owner, by_hash in recorded.items():
        path = f"pod_lifecycles[{owner!r}]"
        is_pair = isinstance(owner, tuple) and len(owner) == 2
        if not is_pair or not all(isinstance(part, str) for part in owner):
            raise ConfigError(
                "must have keys of a GVK and a name", path="pod_lifecycles", value=owner
            )
        if not isinstance(by_hash, dict):
            raise ConfigError("must be a mapping", path=path, value=by_hash)
        entries = [
            _lifecycle(entry, f"{path}[{pod_hash}][{index}]")
            for pod_hash in by_hash
            for index, entry in enumerate(member(by_hash, pod_hash, path, list))
        ]
        started = [entry for entry in entries if not math.isnan(entry[0])]
        for _ in range(len(entries) - len(started)):
            rows.note("lifecycle of a pod that never ran: left out", path=path)
        lifecycles[owner[0].removeprefix("/"), owner[1]] = sorted(
            started, key=lambda entry: entry[0]
        )
    return lifecycles


def _lifecycle(entry: Any, path: str) -> Lifecycle:
    """Returns one lifecycle: "Empty", {Running: begin}, {Finished: [begin, end]} or with names."""
    if entry == "Empty":
        return math.nan, math.nan
    if isinstance(entry, dict) and "start_ts" in entry:
        return number(entry, "start_ts", path), number(entry, "end_ts", path, default=math.nan)
    if isinstance(entry, dict) and len(entry) == 1:
        ((state, times),) = entry.items()
        if state == "Running":
            return checked_number(times, path=path), math.nan
        if state == "Finished" and isinstance(times, list | tuple) and len(times) == 2:
            return checked_number(times[0], path=path), checked_number(times[1], path=path)
    raise ConfigError("must be Empty, Running or Finished", path=path, value=entry)


class _Row:
    """A pod: its submission, its run time, and the time at which its object removed it."""

    __slots__ = ("columns", "duration_s", "removed_s", "submit_s")

    def __init__(self, submit_s: float, duration_s: float, columns: dict[str, Any]) -> None:
        self.submit_s = submit_s
        self.duration_s = duration_s
        self.columns = columns
        self.removed_s = math.nan

    def end_s(self) -> float:
        """Returns the run time in seconds: the shorter of the recorded one and that to the end."""
        to_removal_s = elapsed_s(self.submit_s, self.removed_s)
        ends = [time_s for time_s in (self.duration_s, to_removal_s) if not math.isnan(time_s)]
        return min(ends, default=math.nan)


class _Reader:
    """The objects so far, and their pods.

    Attributes:
        rows: Collects the rows of the trace, and its notes.
    """

    def __init__(self, lifecycles: Mapping[Key, list[Lifecycle]], rows: Rows) -> None:
        self.rows = rows
        self._lifecycles = lifecycles
        self._all: list[_Row] = []
        self._current: defaultdict[Key, list[_Row]] = defaultdict(list)
        self._numbers: defaultdict[Key, int] = defaultdict(int)
        #: The pod template of each object, as it was applied last.
        self._templates: dict[Key, dict[str, Any]] = {}
        self._first_s = math.inf

    def begin(self, time_s: float) -> None:
        """Begins an event."""
        self._first_s = min(self._first_s, time_s)

    def apply(self, obj: dict[str, Any], time_s: float, path: str) -> None:
        """Creates or updates the pods of an object."""
        key = _key(obj, path)
        kind = obj["kind"]
        if kind == "Pod":
            template, count = obj, 1
        elif kind in _TEMPLATE_KINDS:
            spec = member(obj, "spec", path, dict)
            template = member(spec, "template", f"{path}.spec", dict)
            count = _pods_of(kind, spec, f"{path}.spec")
            self._note_job(kind, spec, count, f"{path}.spec")
        else:
            self.rows.note(f"{kind}: left out", path=path, value=key[1])
            return
        current = self._current[key]
        is_changed = self._templates.setdefault(key, template) != template
        self._templates[key] = template
        if is_changed and kind in _ROLLED_OUT:
            self._remove(current, time_s)
        if count > len(current):
            self._submit(key, template, count - len(current), time_s, path)
        self._remove(current, time_s, first=count)

    def _note_job(self, kind: str, spec: Mapping[str, Any], count: int, path: str) -> None:
        """Notes what says that the pods of a Job do not all come at once."""
        if kind != "Job":
            return
        parallelism = _count(spec, "parallelism", path)
        if parallelism < count:
            text = "Job with less parallelism than completions: its pods are submitted at once"
            self.rows.note(text, path=f"{path}.parallelism", value=parallelism)
        if spec.get("suspend"):
            text = "suspended Job: its pods are submitted all the same"
            self.rows.note(text, path=f"{path}.suspend", value=True)

    def _remove(self, rows: list[_Row], time_s: float, *, first: int = 0) -> None:
        """Ends the pods of an object from the first on."""
        for row in rows[first:]:
            row.removed_s = time_s
        del rows[first:]

    def _submit(
        self, key: Key, template: dict[str, Any], count: int, time_s: float, path: str
    ) -> None:
        namespace, _, owner = key[1].rpartition("/")
        metadata = {"name": owner, "namespace": namespace}
        raw = {"spec": template.get("spec"), "metadata": metadata}
        pod = decoded_pod({"apiVersion": "v1", "kind": "Pod", **raw}, path)
        # A template is part of an object that has its path in the trace.
        at = path if key[0] == "v1.Pod" else f"{path}.spec.template"
        note_constraints(self.rows, pod, raw, at)
        if len(self._all) + count > _ROWS_MAX:
            raise ConfigError(f"has more than {_ROWS_MAX} pods", path=path)
        lifecycles = self._lifecycles.get(key, [])
        columns = columns_of_pod(pod, path) | {"group": owner}
        for _ in range(count):
            index = self._numbers[key]
            self._numbers[key] += 1
            begin_s, end_s = lifecycles[index % len(lifecycles)] if lifecycles else (0.0, math.nan)
            named = columns if key[0] == "v1.Pod" else columns | {"names": f"{owner}-{index}"}
            row = _Row(time_s, elapsed_s(begin_s, end_s), named)
            self._current[key].append(row)
            self._all.append(row)

    def delete(self, obj: dict[str, Any], time_s: float, path: str) -> None:
        """Ends the pods of an object."""
        key = _key(obj, path)
        kind = obj["kind"]
        if kind != "Pod" and kind not in _TEMPLATE_KINDS:
            self.rows.note(f"{kind}: left out", path=path, value=key[1])
        elif key not in self._current:
            text = "deletion of an object that no event applied: left out"
            self.rows.note(text, path=path, value=f"{kind} {key[1]}")
        self._templates.pop(key, None)
        self._remove(self._current.pop(key, []), time_s)

    def trace(self, name: str) -> Trace:
        """Returns the trace."""
        for owner, lifecycles in self._lifecycles.items():
            path = f"pod_lifecycles[{owner!r}]"
            number_of_pods = self._numbers.get(owner, 0)
            if lifecycles and not number_of_pods:
                self.rows.note("run times of an owner that no event applies: left out", path=path)
            elif len(lifecycles) > number_of_pods:
                text = "owner with more run times than pods: the last are left out"
                self.rows.note(text, path=path, value=len(lifecycles))
        for row in self._all:
            submit_s = row.submit_s - self._first_s
            self.rows.add(submit_s=submit_s, duration_s=row.end_s(), **row.columns)
        return self.rows.trace(name=name, format=FORMAT)


def _key(obj: Mapping[str, Any], path: str) -> Key:
    metadata = member(obj, "metadata", path, dict)
    name = member(metadata, "name", f"{path}.metadata", str)
    namespace = member(metadata, "namespace", f"{path}.metadata", str, "")
    version, kind = member(obj, "apiVersion", path, str), member(obj, "kind", path, str)
    return f"{version}.{kind}", f"{namespace}/{name}" if namespace else name


def _pods_of(kind: str, spec: Mapping[str, Any], path: str) -> int:
    """Returns the number of pods of an object."""
    if kind != "Job":
        return _count(spec, "replicas", path)
    key = "completions" if spec.get("completions") is not None else "parallelism"
    return _count(spec, key, path)


def _count(spec: Mapping[str, Any], key: str, path: str) -> int:
    value = number(spec, key, path, default=1)
    if not isinstance(value, int):
        raise ConfigError("must be an integer", path=f"{path}.{key}", value=value)
    return value
