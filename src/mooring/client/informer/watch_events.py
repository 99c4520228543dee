"""Decodes the lines of a watch, and the identity of objects that cannot be decoded.

A watch is a stream of lines ``{"type": "ADDED", "object": {...}}``. The fast path decodes such a
line in one typed pass. Other lines take the slow path: an ERROR is raised, an object that cannot be
decoded still has an identity, and a line that is not an event breaks the stream.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec

from mooring.client.rest.responses import error_in_stream
from mooring.client.transport.transport import StreamUnreadable
from mooring.errors import ConfigError
from mooring.objects.codec.decode import decode
from mooring.objects.codec.quantity_check import first_bad_quantity
from mooring.objects.generic import decode_generic
from mooring.objects.kinds import Kind
from mooring.objects.meta import key

#: On the bookmark that ends the initial events of a watch.
INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"


class WatchEvent(NamedTuple):
    """One line of a watch.

    Attributes:
        type: ADDED, MODIFIED, DELETED, BOOKMARK, or an unknown newer type.
        key: "namespace/name" or "name"; "" for a bookmark.
        uid: The UID of the object.
        version: Its resourceVersion, the position in the stream.
        obj: The object; None for a bookmark and if it cannot be decoded.
        problem: The decoding error.
        ends_list: True for the bookmark that ends the initial events.
    """

    type: str
    key: str
    uid: str
    version: str
    obj: Any = None
    problem: ConfigError | None = None
    ends_list: bool = False


class ObjectIdentity(NamedTuple):
    """The identity of an object that cannot be decoded."""

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
    """Decodes the lines of watches on one kind."""

    def __init__(self, kind: Kind) -> None:
        self._kind = kind
        shape = msgspec.defstruct(
            f"{kind.name}Event", [("type", str), ("object", kind.struct)], gc=False
        )
        self._decoder = msgspec.json.Decoder(shape, dec_hook=decode_generic)
        self._raw_decoder = msgspec.json.Decoder(_RawEvent)

    def read(self, line: bytes) -> WatchEvent:
        """Returns the event of a line.

        Raises:
            ApiError: the event is of type ERROR; Gone if the resourceVersion is too old.
            StreamUnreadable: the line is not an event.
        """
        try:
            event: Any = self._decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return self._read_slowly(line)
        obj, kind = event.object, self._kind
        metadata = obj.metadata
        if (
            event.type in _CHANGES
            and metadata.name
            and kind.has_head(obj)
            and first_bad_quantity(obj) is None
        ):
            return WatchEvent(event.type, key(obj), metadata.uid, metadata.resource_version, obj)
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
        try:
            obj = decode(content, self._kind)
        except ConfigError as problem:
            object_identity = identity(content)
            return WatchEvent(
                event.type,
                object_identity.key,
                object_identity.uid,
                object_identity.version,
                problem=problem,
            )
        # Not the identity: bytes that are no UTF-8 have been replaced in the object.
        metadata = obj.metadata
        return WatchEvent(event.type, key(obj), metadata.uid, metadata.resource_version, obj)


_CHANGES: Final = frozenset({"ADDED", "MODIFIED", "DELETED"})


def identity(content: bytes) -> ObjectIdentity:
    """Returns the identity of an object; "" for fields that cannot be decoded."""
    metadata = _metadata(content)
    name, namespace = metadata.name or "", metadata.namespace or ""
    key = f"{namespace}/{name}" if namespace else name
    return ObjectIdentity(key, metadata.uid or "", metadata.resource_version or "")


def _bookmark(content: bytes) -> WatchEvent:
    metadata = _metadata(content)
    annotations = metadata.annotations if isinstance(metadata.annotations, dict) else {}
    return WatchEvent(
        "BOOKMARK",
        "",
        "",
        metadata.resource_version or "",
        ends_list=annotations.get(INITIAL_EVENTS_END) == "true",
    )


def _metadata(content: bytes) -> _Metadata:
    try:
        return msgspec.json.decode(content, type=_Skeleton).metadata or _Metadata()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _Metadata()
