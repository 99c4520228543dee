"""Tables: the rows and columns that kubectl prints, which kube-apiserver creates.

``data/table_columns.json`` has the columns (``tools/table_columns.py`` makes it), the other
modules of this package create the cells. Tables always have all columns; kubectl prints those
with a priority above 0 only with ``-o wide``.

Source: k8s.io/apiserver pkg/endpoints/handlers/response.go (asTable),
k8s.io/kubernetes pkg/printers.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec

from mooring.apiserver.custom.columns import cells_of, column_definitions
from mooring.apiserver.errors import bad_request, quoted
from mooring.apiserver.printers import core, groups, policies
from mooring.apiserver.printers.formatting import since
from mooring.apiserver.printers.pods import pod_cells, pod_conditions
from mooring.objects.schema.defaults import TEMPLATE_GENERATION

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mooring.apiserver.printers.cells import Row
    from mooring.apiserver.resources import Resource

#: Kind -> the function that returns the cells of one row.
CELLS: Mapping[str, Row] = MappingProxyType(
    {**core.ROWS, **groups.ROWS, **policies.ROWS, "Pod": pod_cells}
)
INCLUDE = ("None", "Metadata", "Object")


@cache
def _columns() -> Mapping[str, list[dict[str, Any]]]:
    text = files("mooring").joinpath("apiserver/data/table_columns.json").read_bytes()
    columns_by_kind: dict[str, list[dict[str, Any]]] = msgspec.json.decode(text)["columns"]
    return MappingProxyType(columns_by_kind)


def columns(kind: str) -> list[dict[str, Any]]:
    """Returns the columns of a kind's table; do not change them."""
    return _columns()[kind]


def as_table(
    resource: Resource,
    objects: list[dict[str, Any]],
    list_meta: Mapping[str, Any] | None,
    include: str,
    *,
    now_s: float,
    has_headers: bool = True,
    version: str = "v1",
    kind: str = "",
) -> dict[str, Any]:
    """Returns a Table with one row per object.

    Args:
        resource: The resource of the objects.
        objects: As stored, with kind and apiVersion where ``include`` is "Object".
        list_meta: The metadata of the list; None for a single object.
        include: The object in each row: "None", "Metadata" or "Object"; "" = "Metadata".
        now_s: The server's wall clock, for ages.
        has_headers: False omits the columns: a watch sends them once.
        version: "v1" or "v1beta1", of meta.k8s.io.
        kind: The kind of the objects if it is not the resource's: "Scale".

    Raises:
        ApiStatusError: 400, ``include`` has another value.
    """
    if include and include not in INCLUDE:
        problem = "must be 'Metadata', 'Object', 'None', or empty"
        text = f"includeObject: Invalid value: {quoted(include)}: {problem}"
        raise bad_request(f"Unable to convert to Table as requested: {text}")
    kind = kind or resource.kind
    api_version = f"meta.k8s.io/{version}"
    if list_meta is None:
        object_version = objects[0]["metadata"].get("resourceVersion") if objects else None
        list_meta = {"resourceVersion": object_version} if object_version else {}
    return {
        "kind": "Table",
        "apiVersion": api_version,
        "metadata": dict(list_meta),
        "columnDefinitions": _columns_of(resource, kind) if has_headers else None,
        "rows": [_row(resource, kind, obj, include, api_version, now_s) for obj in objects]
        # Kinds without a printer are printed by another part of upstream, which returns null.
        or (None if _is_unprinted(resource, kind) else []),
    }


def _is_unprinted(resource: Resource, kind: str) -> bool:
    is_custom = resource.custom is not None and kind == resource.kind
    return is_custom or CELLS[kind] is core.name_and_creation


def _columns_of(resource: Resource, kind: str) -> list[dict[str, Any]]:
    if resource.custom is not None and kind == resource.kind:
        return column_definitions(resource.custom.columns, columns("LimitRange")[0])
    return columns(kind)


def _row(
    resource: Resource,
    kind: str,
    obj: dict[str, Any],
    include: str,
    api_version: str,
    now_s: float,
) -> dict[str, Any]:
    if resource.custom is not None and kind == resource.kind:
        custom_columns = resource.custom.columns
        cells = cells_of(custom_columns, obj, lambda text: since(text, now_s))
        return {"cells": cells, "object": _included(obj, include, api_version)}
    row: dict[str, Any] = {
        "cells": CELLS[kind](obj, now_s),
        "object": _included(obj, include, api_version),
    }
    conditions = pod_conditions(obj) if kind == "Pod" else None
    if conditions is not None:
        row["conditions"] = conditions
    return row


def _included(obj: dict[str, Any], include: str, api_version: str) -> dict[str, Any] | None:
    if include == "Object":
        return obj
    annotations = obj["metadata"].get("annotations") or {}
    # The bookmark at the end of a watch's initial events must reach the client.
    if include == "None" and "k8s.io/initial-events-end" not in annotations:
        return None
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": api_version,
        "metadata": _without_conversions(obj["metadata"], annotations),
    }


def _without_conversions(
    metadata: dict[str, Any], annotations: Mapping[str, str]
) -> dict[str, Any]:
    """Returns the metadata as of upstream's internal version, without the template generation."""
    if TEMPLATE_GENERATION not in annotations:
        return metadata
    remaining = {name: text for name, text in annotations.items() if name != TEMPLATE_GENERATION}
    metadata_fields = {name: value for name, value in metadata.items() if name != "annotations"}
    return {**metadata_fields, "annotations": remaining} if remaining else metadata_fields
