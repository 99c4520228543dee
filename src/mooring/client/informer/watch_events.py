"""What the lines of a watch say, and who an object is that cannot be read.

A watch is a stream of lines ``{"type": "ADDED", "object": {...}}``. The fast way reads such a line
in one typed pass. Whatever does not go that way is looked at piece by piece: an ERROR is raised, an
object that cannot be read still says who it is, and a line that is no event at all is broken.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec

from mooring.client.rest.responses import error_in_stream
from mooring.client.transport.transport import StreamUnreadable
from mooring.errors import ConfigError
from mooring.objects.codec.decode import decode
from mooring.objects.codec.quantity_check import first_bad_quantity
from mooring.objects.kinds import Kind

#: On the bookmark that ends the initial events of a watch.
INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"


class WatchEvent(NamedTuple):
    """One line of a watch.

    Attributes:
        type: ADDED, MODIFIED, DELETED, BOOKMARK, or something newer than this program.
        key: "namespace/name" or "name"; "" for a bookmark.
        uid: Of the object.
        version: Its resourceVersion: the position in the stream.
        obj: The object; None for a bookmark and if it cannot be read.
        problem: Why it cannot be read.
        ends_list: It is the bookmark that ends the initial events.
    """

    type: str
    key: str
    uid: str
    version: str
    obj: Any = None
    problem: ConfigError | None = None
    ends_list: bool = False


class Identity(NamedTuple):
    """Who an object is that cannot be read otherwise."""

    key: str
    uid: str
    version: str


class _RawEvent(msgspec.Struct):
    type: str = ""
    object: msgspec.Raw = msgspec.Raw(b"null")


class _Metadata(msgspec.Struct, rename="camel"):
    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    annotations: Any = None


class _Skeleton(msgspec.Struct):
    metadata: _Metadata | None = None


class EventReader:
    """Reads the lines of watches on one kind."""

    def __init__(self, kind: Kind) -> None:
        self._kind = kind
        shape = msgspec.defstruct(
            f"{kind.name}Event", [("type", str), ("object", kind.struct)], gc=False
        )
        self._decoder = msgspec.json.Decoder(shape)
        self._raw_decoder = msgspec.json.Decoder(_RawEvent)

    def read(self, line: bytes) -> WatchEvent:
        """Returns the event that a line says.

        Raises:
            ApiError: it is of type ERROR; Gone if the position is not kept any more.
            StreamUnreadable: it is not an event.
        """
        try:
            found: Any = self._decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return self._read_slowly(line)
        obj, kind = found.object, self._kind
        metadata = obj.metadata
        if (
            found.type in _CHANGES
            and metadata.name
            and obj.kind == kind.name
            and obj.api_version == kind.api_version
            and first_bad_quantity(obj) is None
        ):
            key = f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name
            return WatchEvent(found.type, key, metadata.uid, metadata.resource_version, obj)
        return self._read_slowly(line)

    def _read_slowly(self, line: bytes) -> WatchEvent:
        try:
            event = self._raw_decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise StreamUnreadable(f"a line of the watch is not an event: {error}") from None
        content = bytes(event.object)
        if event.type == "ERROR":
            raise error_in_stream(content)
        if event.type == "BOOKMARK":
            return _bookmark(content)
        who = identity(content)
        try:
            obj = decode(content, self._kind)
        except ConfigError as problem:
            return WatchEvent(event.type, who.key, who.uid, who.version, problem=problem)
        return WatchEvent(event.type, who.key, who.uid, who.version, obj)


_CHANGES: Final = frozenset({"ADDED", "MODIFIED", "DELETED"})


def identity(content: bytes) -> Identity:
    """Who an object is, as far as that can be read; empty texts where not."""
    metadata = _metadata(content)
    name, namespace = metadata.name or "", metadata.namespace or ""
    key = f"{namespace}/{name}" if namespace else name
    return Identity(key, metadata.uid or "", metadata.resource_version or "")


def _bookmark(content: bytes) -> WatchEvent:
    metadata = _metadata(content)
    notes = metadata.annotations if isinstance(metadata.annotations, dict) else {}
    return WatchEvent(
        "BOOKMARK",
        "",
        "",
        metadata.resource_version or "",
        ends_list=notes.get(INITIAL_EVENTS_END) == "true",
    )


def _metadata(content: bytes) -> _Metadata:
    try:
        return msgspec.json.decode(content, type=_Skeleton).metadata or _Metadata()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _Metadata()
