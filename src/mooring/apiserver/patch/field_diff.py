"""Differences between two objects as sets of fields; the manager of a change owns them.

``added_fields`` is for new objects and compiled for each type, since every create needs it.
``compare`` is for changes and visits only the parts that differ.

Source: sigs.k8s.io/structured-merge-diff typed/compare.go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from mooring.apiserver.patch.field_sets import (
    SELF,
    Fields,
    TypeMismatch,
    child,
    element_name,
    is_granular,
)
from mooring.apiserver.types import Object
from mooring.objects.schema.types import (
    ALWAYS,
    DEDUCED,
    NULL,
    OTHERS,
    Field,
    cached_by_type,
    is_struct,
    structs,
)
from mooring.objects.types import Json

#: Specs of each type whose fields are cached, none of them longer than this: most have a
#: kilobyte or two.
SPEC_CACHE_SIZE = 1024
CACHED_SPEC_BYTES_MAX = 16 << 10
_encode = msgspec.json.Encoder().encode
#: Returns the set of all fields of a value; raises TypeMismatch.
FieldReader = Callable[[Json], Fields]
#: An absent value in compare; null is a value.
_ABSENT = object()
_NAMES = ("kind", "apiVersion")


class Changes(NamedTuple):
    """Differences between two objects.

    Attributes:
        written: Fields that are new or have another value.
        removed: Fields that are absent in the new object.
    """

    written: Fields
    removed: Fields


@cached_by_type
def added_fields(type_name: str) -> FieldReader:
    """Returns the reader of fields that an object has in addition to Go's empty object.

    Objects of one template have equal specs; the set of a spec is cached, so callers must not
    change it.
    """
    read_fields = _over_empty(type_name)
    by_spec: dict[bytes, Fields] = {}

    def read(value: Json) -> Fields:
        spec = value.get("spec")
        if not spec:
            return read_fields(value)
        key = _encode(spec)
        spec_fields = by_spec.get(key)
        if spec_fields is None:
            spec_fields = read_fields({"spec": spec})
            if len(key) <= CACHED_SPEC_BYTES_MAX:
                if len(by_spec) >= SPEC_CACHE_SIZE:
                    by_spec.clear()
                by_spec[key] = spec_fields
        rest = {name: item for name, item in value.items() if name != "spec"}
        return {**read_fields(rest), **spec_fields}

    return read


def _over_empty(type_name: str) -> FieldReader:
    """Returns the reader of a struct of which Go writes some fields even if unset."""
    table: dict[str, tuple[str, FieldReader | None]] = {}
    always: dict[str, FieldReader | None] = {}
    for name, field in structs()[type_name].items():
        table[name] = (f"f:{name}", new_value(field))
        if field.presence in (ALWAYS, NULL):
            is_part = is_struct(field.type_name) and field.list_type != "atomic"
            always[name] = _over_empty(field.type_name) if is_part else _below(field)

    def read(value: Json) -> Fields:
        if not isinstance(value, dict):
            raise TypeMismatch
        fields: Fields = {}
        for name, item in value.items():
            entry = table.get(name) or table.get(OTHERS)
            if entry is None:
                continue
            label, read_whole = entry if name in table else (f"f:{name}", entry[1])
            if name not in always:
                fields[label] = read_whole(item) if read_whole is not None else {}
            elif item:
                read_part = always[name]
                below = read_part(item) if read_part is not None else {}
                if below or read_part is None:
                    fields[label] = below
        return fields

    return read


def _below(field: Field) -> FieldReader | None:
    """Returns the reader of the content of a list or mapping that was present but empty."""
    read_all = new_value(field)
    if read_all is None:
        return None
    read_whole = read_all
    return lambda value: {step: node for step, node in read_whole(value).items() if step != SELF}


@cached_by_type
def new_value(field: Field) -> FieldReader | None:
    """Returns the reader of all fields of a new value; None for values without parts."""
    if field.list_type == "atomic":
        return None
    if is_struct(field.type_name):
        return _new_struct(field.type_name)
    if field.type_name == DEDUCED:
        return _new_deduced
    if field.is_map:
        return _new_map(new_value(field.inner))
    if field.list_type == "map":
        return _new_list(field, new_value(field.inner))
    return _new_list(field, None) if field.list_type == "set" else None


def _new_struct(type_name: str) -> FieldReader:
    table = {name: (f"f:{name}", new_value(field)) for name, field in structs()[type_name].items()}
    others = table.pop(OTHERS, ("", None))[1]

    def read(value: Json) -> Fields:
        if not value:
            return {}
        if not isinstance(value, dict):
            raise TypeMismatch
        fields: Fields = {SELF: {}}
        for name, item in value.items():
            label, read_part = table.get(name) or (f"f:{name}", others)
            fields[label] = read_part(item) if read_part is not None else {}
        return fields

    return read


def _new_deduced(value: Json) -> Fields:
    if not value or not isinstance(value, dict):
        return {}
    return {SELF: {}, **{f"f:{name}": _new_deduced(item) for name, item in value.items()}}


def _new_map(element: FieldReader | None) -> FieldReader:
    def read(value: Json) -> Fields:
        if not value:
            return {}
        if not isinstance(value, dict):
            raise TypeMismatch
        if element is None:
            return {SELF: {}, **{f"f:{name}": {} for name in value}}
        return {SELF: {}, **{f"f:{name}": element(item) for name, item in value.items()}}

    return read


def _new_list(field: Field, element: FieldReader | None) -> FieldReader:
    def read(value: Json) -> Fields:
        if not value:
            return {}
        if not isinstance(value, list):
            raise TypeMismatch
        fields: Fields = {SELF: {}}
        for item in value:
            step = element_name(item, field)
            # Of elements with the same name only the name is owned.
            is_single = element is not None and step not in fields
            fields[step] = element(item) if is_single and element is not None else {}
        return fields

    return read


def compare(before: Object, after: Object, type_name: str) -> Changes:
    """Returns the differences between two objects of one type, ignoring managedFields.

    Raises:
        TypeMismatch: A part of an object does not have its type: that of a custom resource before
            it is validated, or whose definition has changed.
    """
    old, new = _without_managed_fields(before), _without_managed_fields(after)
    changes = _differences(old, new, Field(type_name, ""))
    return Changes(changes.written, changes.removed)


def _without_managed_fields(obj: Object) -> Object:
    content = {name: value for name, value in obj.items() if name not in _NAMES}
    metadata = content.get("metadata", {})
    if "managedFields" in metadata:
        content["metadata"] = {k: v for k, v in metadata.items() if k != "managedFields"}
    return content


class _Nodes(NamedTuple):
    """Differences of one value, like ``Changes``."""

    written: Fields
    removed: Fields
    is_written: bool = False
    is_removed: bool = False


_SAME = _Nodes({}, {})


def _differences(before: Json, after: Json, field: Field) -> _Nodes:
    if before is _ABSENT:
        return _Nodes(_all_of(after, field), {}, is_written=True)
    if after is _ABSENT:
        return _Nodes({}, _all_of(before, field), is_removed=True)
    if before == after:
        return _SAME
    old = before if before is not None else type(after)()
    new = after if after is not None else type(before)()
    if not (old or new) or not (is_granular(old, field) and is_granular(new, field)):
        return _Nodes({}, {}, is_written=True)
    return _in_maps(old, new, field) if isinstance(new, dict) else _in_lists(old, new, field)


def _all_of(value: Json, field: Field) -> Fields:
    reader = new_value(field)
    return reader(value) if reader is not None else {}


def _in_maps(old: Object, new: Object, field: Field) -> _Nodes:
    nodes = _Nodes({}, {})
    for name in {**old, **new}:
        before, after = old.get(name, _ABSENT), new.get(name, _ABSENT)
        _record(nodes, f"f:{name}", _differences(before, after, child(field.type_name, name)))
    return nodes


def _record(parent: _Nodes, step: str, nodes: _Nodes) -> None:
    if nodes.is_written or nodes.written:
        parent.written[step] = nodes.written
    if nodes.is_removed or nodes.removed:
        parent.removed[step] = nodes.removed


def _in_lists(old: list[Json], new: list[Json], field: Field) -> _Nodes:
    nodes = _Nodes({}, {})
    old_by_name, new_by_name = _by_name(old, field), _by_name(new, field)
    for step in {**old_by_name, **new_by_name}:
        old_items, new_items = old_by_name.get(step, []), new_by_name.get(step, [])
        if len(old_items) > 1 or len(new_items) > 1:
            _record_repeated(nodes, step, old_items, new_items, field)
        else:
            before, after = (*old_items, _ABSENT)[0], (*new_items, _ABSENT)[0]
            _record(nodes, step, _differences(before, after, field.inner))
    return nodes


def _record_repeated(
    parent: _Nodes, step: str, old_items: list[Json], new_items: list[Json], field: Field
) -> None:
    """Records elements with the same name: only the name is owned."""
    if len(old_items) > 1 and len(new_items) > 1:
        if old_items != new_items:
            parent.written[step] = {}
        return
    if len(old_items) > 1:
        parent.removed[step] = {}
        if new_items:
            parent.written[step] = _all_of(new_items[0], field.inner)
        return
    parent.written[step] = {}
    if old_items:
        parent.removed[step] = _all_of(old_items[0], field.inner)


def _by_name(items: list[Json], field: Field) -> dict[str, list[Json]]:
    by_name: dict[str, list[Json]] = {}
    for item in items:
        by_name.setdefault(element_name(item, field), []).append(item)
    return by_name
