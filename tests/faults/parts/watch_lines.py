"""The lines of a watch, of which any field may be absent, null or of another type.

What a line is read as follows from how it was made: the event of an object that can be read, the
identity of one that cannot, a bookmark, an error of the server, or no event.

Source: staging/src/k8s.io/client-go/rest/watch/decoder.go; apimachinery/pkg/apis/meta/v1/watch.go
(InternalEvent). *Differs:* an object that cannot be read does not end the watch.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from mooring.client.informer.watch_events import EventReader
from mooring.client.transport.transport import StreamUnreadable
from mooring.clock import Rng
from mooring.errors import ApiError
from mooring.objects.kinds import kind_named

LINES: Final = 40
TYPES: Final = ("ADDED", "MODIFIED", "DELETED", "ADDED", "MODIFIED", "NEWER", "")
ENDS: Final = "k8s.io/initial-events-end"
#: Field of the metadata -> values that are strings, null or absent.
VALUES: Final[dict[str, tuple[Any, ...]]] = {
    "name": ("web", "web", "web", "a-b", None, ...),
    "namespace": ("team", "team", "", None, ...),
    "uid": ("u-1", "u-1", "", None, ...),
    "resourceVersion": ("12", "12", "", None, ...),
}
ANNOTATIONS: Final[tuple[Any, ...]] = (
    {ENDS: "true"},
    {ENDS: "false"},
    {"other": "true"},
    {},
    None,
    ...,
)
#: What makes a pod unreadable, besides a name that is missing.
BROKEN: Final[tuple[dict[str, Any], ...]] = (
    {"spec": 5},
    {"spec": {"containers": [{"name": "a", "resources": {"requests": {"cpu": "many"}}}]}},
    {"kind": "Node"},
    {"apiVersion": "v2"},
    {"metadata": 7},
    {"metadata": None},
)
#: No JSON of an event.
NO_EVENTS: Final = (b"", b"{", b"5", b"[]", b'{"type": 7, "object": {}}', b'{"type": "ADDED"')


class Event(NamedTuple):
    """The result of a line: type, key, UID, version, whether it has an object or ends a list."""

    type: str
    key: str = ""
    uid: str = ""
    version: str = ""
    has_object: bool = False
    ends_list: bool = False


def line_problems(rng: Rng) -> Iterator[str]:
    """Yields the lines that are read as something else."""
    reader = EventReader(kind_named("Pod"))
    for _ in range(LINES):
        line, expected = _drawn(rng)
        result: Any
        try:
            event = reader.read(line)
        except StreamUnreadable:
            result = None
        except ApiError as error:
            result = error.status, str(error)
        else:
            result = Event(*event[:4], event.obj is not None, event.ends_list)
            names = event.obj is not None and event.obj.metadata
            if names and (names.uid, names.resource_version) != (result.uid, result.version):
                yield f"{line!r} has the object {event.obj}"
            if (event.problem is None) is not (event.obj is not None or event.type == "BOOKMARK"):
                yield f"{line!r} has the problem {event.problem}"
        if result != expected:
            yield f"{line!r} is {result}, not {expected}"


def _drawn(rng: Rng) -> tuple[bytes, Any]:
    """Returns a line, and what it is: an event, status and text of an error, or None."""
    draw = rng.random()
    if draw < 0.1:
        return rng.choice(NO_EVENTS), None
    if draw < 0.2:
        code = rng.choice((410, 500, 429, 403))
        status = {"kind": "Status", "code": code, "message": "too old"}
        return _line("ERROR", status), (code, "watch: too old")
    metadata = _present({name: rng.choice(values) for name, values in VALUES.items()})
    if draw < 0.4:
        return _bookmark(rng, metadata)
    kind = rng.choice(TYPES)
    pod: dict[str, Any] = {"kind": "Pod", "apiVersion": "v1", "metadata": metadata}
    is_broken = rng.random() < 0.4
    if is_broken:
        pod |= rng.choice(BROKEN)
    line = _line(kind, pod)
    key, uid, version = _identity(pod["metadata"])
    if is_broken or not key.rpartition("/")[2]:
        return line, Event(kind, key, uid, version)
    if rng.random() < 0.2:
        # Bytes that are no UTF-8, in the name: they are replaced.
        name = metadata["name"]
        line = line.replace(f'"{name}"'.encode(), f'"{name}'.encode() + b'\xff"')
        key += "\ufffd"
    return line, Event(kind, key, uid, version, has_object=True)


def _bookmark(rng: Rng, metadata: dict[str, Any]) -> tuple[bytes, Event]:
    annotations = rng.choice(ANNOTATIONS)
    metadata |= _present({"annotations": annotations})
    ends_list = annotations not in (None, ...) and annotations.get(ENDS) == "true"
    version = metadata.get("resourceVersion") or ""
    pod = {"kind": "Pod", "apiVersion": "v1", "metadata": metadata}
    return _line("BOOKMARK", pod), Event("BOOKMARK", version=version, ends_list=ends_list)


def _present(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not ...}


def _identity(metadata: Any) -> tuple[str, str, str]:
    """Returns key, UID and version, "" for what is not there."""
    if not isinstance(metadata, dict):
        return "", "", ""
    name, namespace, uid, version = (metadata.get(name) or "" for name in VALUES)
    return f"{namespace}/{name}" if namespace else name, uid, version


def _line(kind: str, obj: Any) -> bytes:
    return json.dumps({"type": kind, "object": obj}).encode()
