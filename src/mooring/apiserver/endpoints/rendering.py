"""Answers: objects and lists as the client wants to see them: as they are, as Tables, as metadata.

Source: k8s.io/apiserver pkg/endpoints/handlers/response.go.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from mooring.apiserver.endpoints import negotiation
from mooring.apiserver.errors import Refused
from mooring.apiserver.printers.tables import as_table
from mooring.apiserver.resources import struct_of
from mooring.apiserver.schema.event_conversion import is_view, to_view
from mooring.apiserver.storage.stored_object import Stored
from mooring.objects.schema.decoding import empty

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
    """Writes the objects of one request.

    Attributes:
        resource: That the request is for.
        shape: Group, version and kind that the client wants; all "" = as they are.
        include: Of Tables: what comes with each row.
        now_s: The wall clock, for ages.
    """

    resource: Resource
    shape: Shape
    include: str
    now_s: float
    _has_sent_columns: bool = False

    @property
    def is_table(self) -> bool:
        """Whether Tables are wanted."""
        return self.shape[2] == "Table"

    @property
    def _is_plain(self) -> bool:
        return self.shape == _AS_IS and not is_view(self.resource)

    def check_shape(self, *, is_list: bool) -> None:
        """Refuses to show a list as an object, or an object as a list.

        Raises:
            Refused: 406.
        """
        kind = self.shape[2]
        if kind not in (_PARTIAL_KIND, f"{_PARTIAL_KIND}List") or is_list == kind.endswith("List"):
            return
        resource = self.resource
        package = "core" if is_view(resource) else resource.group.partition(".")[0] or "core"
        if is_list:
            what = f"is a list (*{package}.{resource.list_kind})"
        else:
            what = f"is not a list (*{package}.{resource.kind})"
        raise Refused(
            406, "NotAcceptable", f"you requested {kind}, but the requested object {what}"
        )

    def one(self, found: Stored | Object) -> bytes:
        """Returns a single object.

        Raises:
            Refused: 406, a list was asked for.
        """
        if isinstance(found, Stored) and self._is_plain:
            return found.encoded()
        self.check_shape(is_list=False)
        shown = self._shown(found)
        if self.is_table:
            return _encode(self._table([shown], None))
        return _encode(self._partial(shown) if self.shape[2] else shown)

    def many(self, found: Sequence[Stored], metadata: Mapping[str, Any]) -> bytes:
        """Returns a list.

        Raises:
            Refused: 406, a single object was asked for.
        """
        self.check_shape(is_list=True)
        if self.is_table:
            return _encode(self._table([self._shown(each) for each in found], metadata))
        resource = self.resource
        kind, api_version = resource.list_kind, resource.api_version
        if self.shape[2]:
            kind, api_version = "PartialObjectMetadataList", f"meta.k8s.io/{self.shape[1]}"
            items = [_encode(self._partial(self._shown(each))) for each in found]
        elif is_view(resource):
            items = [_encode(_without_kind(self._shown(each))) for each in found]
        else:
            items = [each.item() for each in found]
        if self.shape[2] and not items:
            return _encode(
                {"kind": kind, "apiVersion": api_version, "metadata": metadata, "items": None}
            )
        head = _encode({"kind": kind, "apiVersion": api_version, "metadata": metadata})
        return head[:-1] + b',"items":[' + b",".join(items) + b"]}"

    def event(self, event: Event) -> bytes:
        """Returns one event of a watch, as a line."""
        if event.stored is not None and self._is_plain:
            return b'{"type":"%b","object":%b}\n' % (event.kind.encode(), event.stored.encoded())
        shown = self._bookmark(event) if event.stored is None else self._shown(event.stored)
        if self.is_table:
            shown = self._table([shown], None)
        elif self.shape[2]:
            shown = self._partial(shown)
        return _encode({"type": event.kind, "object": shown}) + b"\n"

    def _shown(self, found: Stored | Object) -> Object:
        whole = found.object() if isinstance(found, Stored) else found
        return to_view(whole) if is_view(self.resource) else whole

    def _bookmark(self, event: Event) -> Object:
        metadata: Object = {"resourceVersion": str(event.version)}
        if event.ends_initial:
            metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
        resource = self.resource
        found = {**empty(struct_of(resource)), "metadata": metadata}
        return {"kind": resource.kind, "apiVersion": resource.api_version, **found}

    def _table(self, found: list[Object], metadata: Mapping[str, Any] | None) -> Object:
        table = as_table(
            self.resource,
            found,
            metadata,
            self.include,
            now_s=self.now_s,
            has_headers=not self._has_sent_columns,
            version=self.shape[1],
            kind=found[0]["kind"] if metadata is None and found else "",
        )
        self._has_sent_columns = True
        return table

    def _partial(self, found: Object) -> Object:
        api_version = f"meta.k8s.io/{self.shape[1]}"
        named = {"kind": "PartialObjectMetadata", "apiVersion": api_version}
        return {**named, "metadata": found["metadata"]}


def _without_kind(found: Object) -> Object:
    return {key: value for key, value in found.items() if key not in ("kind", "apiVersion")}
