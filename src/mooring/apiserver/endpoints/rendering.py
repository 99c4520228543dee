"""Renders objects and lists as the client accepts them: whole, as Tables, or metadata only.

Source: k8s.io/apiserver pkg/endpoints/handlers/response.go.
"""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO
from itertools import chain
from typing import TYPE_CHECKING, Any

import msgspec

from mooring.apiserver.endpoints import negotiation
from mooring.apiserver.endpoints.steps import (
    DECODED_OBJECTS,
    SLICE_OBJECTS,
    Steps,
    last_step,
    slices_of,
)
from mooring.apiserver.errors import ApiStatusError
from mooring.apiserver.printers.tables import as_table
from mooring.apiserver.resources import struct_of
from mooring.apiserver.schema.event_conversion import is_view, to_served
from mooring.apiserver.storage.stored_object import Stored
from mooring.objects.schema.decoding import empty

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from mooring.apiserver.endpoints.watch import Event
    from mooring.apiserver.resources import Resource
    from mooring.apiserver.types import Object

Shape = tuple[str, str, str]
_AS_IS: Shape = ("", "", "")
_PARTIAL_KIND = "PartialObjectMetadata"
_PARTIAL = tuple(
    ("meta.k8s.io", version, kind)
    for kind in (_PARTIAL_KIND, f"{_PARTIAL_KIND}List")
    for version in ("v1", "v1beta1")
)
SHAPES = (*negotiation.TABLES, *_PARTIAL)
INITIAL_EVENTS_END = "k8s.io/initial-events-end"
_encode = msgspec.json.encode


@dataclass(slots=True)
class Renderer:
    """Encodes the objects of one response.

    Attributes:
        resource: The requested resource.
        shape: Group, version and kind of the representation; all "" = the objects themselves.
        include: ``includeObject`` of Tables: the object that comes with each row.
        now_s: The wall clock, for ages.
    """

    resource: Resource
    shape: Shape
    include: str
    now_s: float
    _has_sent_columns: bool = False

    @property
    def is_table(self) -> bool:
        """True if the client accepts Tables."""
        return self.shape[2] == "Table"

    @property
    def _is_plain(self) -> bool:
        return self.shape == _AS_IS and not is_view(self.resource)

    def check_shape(self, *, is_list: bool) -> None:
        """Refuses to render a list as an object, or an object as a list.

        Raises:
            ApiStatusError: 406.
        """
        kind = self.shape[2]
        if kind not in (_PARTIAL_KIND, f"{_PARTIAL_KIND}List") or is_list == kind.endswith("List"):
            return
        resource = self.resource
        package = resource.group.partition(".")[0] or "core"
        if is_view(resource) and resource.custom is None:
            package = "core"
        if is_list:
            what = f"is a list (*{package}.{resource.list_kind})"
        else:
            what = f"is not a list (*{package}.{resource.kind})"
        raise ApiStatusError(
            406, "NotAcceptable", f"you requested {kind}, but the requested object {what}"
        )

    def render_object(self, obj: Stored | Object) -> bytes:
        """Returns a single object.

        Raises:
            ApiStatusError: 406, a list was requested.
        """
        if isinstance(obj, Stored) and self._is_plain:
            return obj.encoded()
        self.check_shape(is_list=False)
        return self._single(self._representation(obj))

    def render_subresource(self, obj: Object) -> bytes:
        """Returns an object of another kind than the resource, such as a Scale.

        Raises:
            ApiStatusError: 406, a list was requested.
        """
        self.check_shape(is_list=False)
        return self._single(obj)

    def _single(self, representation: Object) -> bytes:
        if self.is_table:
            return _encode(self._table([representation], None))
        return _encode(self._partial(representation) if self.shape[2] else representation)

    def render_list(self, objects: Sequence[Stored], metadata: Mapping[str, Any]) -> bytes:
        """Returns a list.

        Raises:
            ApiStatusError: 406, a single object was requested.
        """
        return last_step(self.render_list_steps(objects, metadata))

    def render_list_steps(
        self, objects: Sequence[Stored], metadata: Mapping[str, Any]
    ) -> Steps[bytes]:
        """Returns a list, in steps between which other requests may run.

        Raises:
            ApiStatusError: 406, a single object was requested.
        """
        self.check_shape(is_list=True)
        if self.is_table:
            return (yield from self._table_steps(objects, metadata))
        resource = self.resource
        kind, api_version = resource.list_kind, resource.api_version
        if self.shape[2]:
            kind, api_version = "PartialObjectMetadataList", f"meta.k8s.io/{self.shape[1]}"
        elif resource.custom is not None:
            # Upstream encodes them as maps: each item has its kind, and the metadata a token.
            metadata = {"continue": "", **metadata}
        head = _encode({"kind": kind, "apiVersion": api_version, "metadata": metadata})
        if self.shape[2] and not objects:
            return head[:-1] + b',"items":null}'
        count_max = SLICE_OBJECTS if self._is_plain else DECODED_OBJECTS
        chunks = slices_of(objects, count_max=count_max)
        items = (b",".join(map(self._item, chunk)) for chunk in chunks)
        return (yield from _joined_steps(head[:-1] + b',"items":[', items))

    def _item(self, stored: Stored) -> bytes:
        """Returns an object as an item of a list."""
        if self.shape[2]:
            return _encode(self._partial(self._representation(stored)))
        if self.resource.custom is not None:
            return _encode(self._representation(stored))
        if is_view(self.resource):
            return _encode(_without_kind(self._representation(stored)))
        return stored.item()

    def _table_steps(self, objects: Sequence[Stored], metadata: Mapping[str, Any]) -> Steps[bytes]:
        chunks = list(slices_of(objects, count_max=DECODED_OBJECTS))
        first = chunks[0] if chunks else []
        table = self._table([self._representation(stored) for stored in first], metadata)
        if len(chunks) <= 1:
            return _encode(table)
        rows = _encode(table.pop("rows"))[1:-1]
        others = map(self._rows, chunks[1:])
        return (yield from _joined_steps(_encode(table)[:-1] + b',"rows":[', chain([rows], others)))

    def _rows(self, objects: list[Stored]) -> bytes:
        """Returns further rows of a table, without brackets."""
        rows = self._table([self._representation(stored) for stored in objects], {})["rows"]
        return _encode(rows)[1:-1]

    def render_event(self, event: Event) -> bytes:
        """Returns one event of a watch, as a line."""
        if event.stored is not None and self._is_plain:
            return b'{"type":"%b","object":%b}\n' % (event.kind.encode(), event.stored.encoded())
        obj = self._bookmark(event) if event.stored is None else self._representation(event.stored)
        if self.is_table:
            obj = self._table([obj], None)
        elif self.shape[2]:
            obj = self._partial(obj)
        return _encode({"type": event.kind, "object": obj}) + b"\n"

    def _representation(self, obj: Stored | Object) -> Object:
        obj = obj.object() if isinstance(obj, Stored) else obj
        return to_served(self.resource, obj) if is_view(self.resource) else obj

    def _bookmark(self, event: Event) -> Object:
        metadata: Object = {"resourceVersion": str(event.version)}
        if event.ends_initial:
            metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
        resource = self.resource
        obj = {**empty(struct_of(resource)), "metadata": metadata}
        return {"kind": resource.kind, "apiVersion": resource.api_version, **obj}

    def _table(self, objects: list[Object], metadata: Mapping[str, Any] | None) -> Object:
        table = as_table(
            self.resource,
            objects,
            metadata,
            self.include,
            now_s=self.now_s,
            has_headers=not self._has_sent_columns,
            version=self.shape[1],
            kind=objects[0]["kind"] if metadata is None and objects else "",
        )
        self._has_sent_columns = True
        return table

    def _partial(self, obj: Object) -> Object:
        api_version = f"meta.k8s.io/{self.shape[1]}"
        type_meta = {"kind": "PartialObjectMetadata", "apiVersion": api_version}
        return {**type_meta, "metadata": obj["metadata"]}


def _joined_steps(head: bytes, items: Iterable[bytes]) -> Steps[bytes]:
    """Returns a list of JSON, of which each step makes some items, separated by commas.

    Joining them at the end would copy tens of megabytes at once.
    """
    buffer, has_items = BytesIO(), False
    buffer.write(head)
    for part in items:
        if has_items:
            buffer.write(b",")
            yield
        buffer.write(part)
        has_items = True
    buffer.write(b"]}")
    return buffer.getvalue()


def _without_kind(obj: Object) -> Object:
    return {key: value for key, value in obj.items() if key not in ("kind", "apiVersion")}
