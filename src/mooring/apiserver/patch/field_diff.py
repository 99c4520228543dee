"""What differs between two objects, as sets of fields: who changes them, owns them.

Two ways: ``added_fields`` for a new object, compiled for each type since every create asks; and
``compare`` for a change, which looks only where the two differ.

Source: sigs.k8s.io/structured-merge-diff typed/compare.go.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import msgspec

from mooring.apiserver.patch.field_sets import (
    SELF,
    Fields,
    Json,
    child,
    element_name,
    is_granular,
)
from mooring.apiserver.schema.schema import ALWAYS, NULL, Field, is_struct, structs
from mooring.apiserver.types import Object

#: Wishes of each type whose fields are remembered; a kilobyte or two each.
WISHES_KEPT = 1024
_encode = msgspec.json.Encoder().encode
#: The set of all fields of a value.
Reader = Callable[[Json], Fields]
#: What compare says of a value that is not there; null is a value.
_ABSENT = object()
_NAMES = ("kind", "apiVersion")


class Changes(NamedTuple):
    """What differs.

    Attributes:
        written: Fields that are new or have another value.
        removed: Fields that are there no longer.
    """

    written: Fields
    removed: Fields


@cache
def added_fields(type_name: str) -> Reader:
    """For the objects of a type: which fields they have more than Go's empty object.

    What is made from one template has the same wish again and again; its set is made once, and
    must not be changed by who gets it.
    """
    whole = _over_empty(type_name)
    known: dict[bytes, Fields] = {}

    def read(value: Json) -> Fields:
        spec = value.get("spec")
        if not spec:
            return whole(value)
        key = _encode(spec)
        found = known.get(key)
        if found is None:
            if len(known) >= WISHES_KEPT:
                known.clear()
            found = known[key] = whole({"spec": spec})
        rest = {name: item for name, item in value.items() if name != "spec"}
        return {**whole(rest), **found}

    return read


def _over_empty(type_name: str) -> Reader:
    """Reads a struct of which Go writes some fields even if nothing is set."""
    table: dict[str, tuple[str, Reader | None]] = {}
    always: dict[str, Reader | None] = {}
    for name, field in structs()[type_name].items():
        table[name] = (f"f:{name}", whole_value(field))
        if field.presence in (ALWAYS, NULL):
            is_part = is_struct(field.type_name) and field.list_type != "atomic"
            always[name] = _over_empty(field.type_name) if is_part else _below(field)

    def read(value: Json) -> Fields:
        found: Fields = {}
        for name, item in value.items():
            known = table.get(name)
            if known is None:
                continue
            label, whole = known
            if name not in always:
                found[label] = whole(item) if whole is not None else {}
            elif item:
                part = always[name]
                below = part(item) if part is not None else {}
                if below or part is None:
                    found[label] = below
        return found

    return read


def _below(field: Field) -> Reader | None:
    """Reads what is inside a list or mapping that was there, but empty."""
    whole = whole_value(field)
    if whole is None:
        return None
    read_whole = whole
    return lambda value: {step: node for step, node in read_whole(value).items() if step != SELF}


@cache
def whole_value(field: Field) -> Reader | None:
    """Reads all of a value that was not there before; None = it is one thing, without parts."""
    if field.list_type == "atomic":
        return None
    if is_struct(field.type_name):
        return _whole_struct(field.type_name)
    if field.is_map:
        return _whole_map(whole_value(field.inner))
    if field.list_type == "map":
        return _whole_list(field, whole_value(field.inner))
    return _whole_list(field, None) if field.list_type == "set" else None


def _whole_struct(type_name: str) -> Reader:
    table = {
        name: (f"f:{name}", whole_value(field)) for name, field in structs()[type_name].items()
    }

    def read(value: Json) -> Fields:
        if not value:
            return {}
        found: Fields = {SELF: {}}
        for name, item in value.items():
            label, part = table[name]
            found[label] = part(item) if part is not None else {}
        return found

    return read


def _whole_map(element: Reader | None) -> Reader:
    def read(value: Json) -> Fields:
        if not value:
            return {}
        if element is None:
            return {SELF: {}, **{f"f:{name}": {} for name in value}}
        return {SELF: {}, **{f"f:{name}": element(item) for name, item in value.items()}}

    return read


def _whole_list(field: Field, element: Reader | None) -> Reader:
    def read(value: Json) -> Fields:
        if not value:
            return {}
        found: Fields = {SELF: {}}
        for item in value:
            step = element_name(item, field)
            # Of elements with the same name only the name belongs to somebody.
            is_single = element is not None and step not in found
            found[step] = element(item) if is_single and element is not None else {}
        return found

    return read


def compare(before: Object, after: Object, type_name: str) -> Changes:
    """What differs between two objects of one type; managedFields do not count."""
    old, new = _counted(before), _counted(after)
    changes = _differences(old, new, Field(type_name, ""))
    return Changes(changes.written, changes.removed)


def _counted(obj: Object) -> Object:
    content = {name: value for name, value in obj.items() if name not in _NAMES}
    metadata = content.get("metadata", {})
    if "managedFields" in metadata:
        content["metadata"] = {k: v for k, v in metadata.items() if k != "managedFields"}
    return content


class _Nodes(NamedTuple):
    """Like ``Changes``, of one value."""

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
    reader = whole_value(field)
    return reader(value) if reader is not None else {}


def _in_maps(old: Object, new: Object, field: Field) -> _Nodes:
    found = _Nodes({}, {})
    for name in {**old, **new}:
        before, after = old.get(name, _ABSENT), new.get(name, _ABSENT)
        _note(found, f"f:{name}", _differences(before, after, child(field.type_name, name)))
    return found


def _note(found: _Nodes, step: str, nodes: _Nodes) -> None:
    if nodes.is_written or nodes.written:
        found.written[step] = nodes.written
    if nodes.is_removed or nodes.removed:
        found.removed[step] = nodes.removed


def _in_lists(old: list[Json], new: list[Json], field: Field) -> _Nodes:
    found = _Nodes({}, {})
    befores, afters = _by_name(old, field), _by_name(new, field)
    for step in {**befores, **afters}:
        lefts, rights = befores.get(step, []), afters.get(step, [])
        if len(lefts) > 1 or len(rights) > 1:
            _note_repeated(found, step, lefts, rights, field)
        else:
            before, after = (*lefts, _ABSENT)[0], (*rights, _ABSENT)[0]
            _note(found, step, _differences(before, after, field.inner))
    return found


def _note_repeated(
    found: _Nodes, step: str, lefts: list[Json], rights: list[Json], field: Field
) -> None:
    """Of elements with the same name only the name belongs to somebody."""
    if len(lefts) > 1 and len(rights) > 1:
        if lefts != rights:
            found.written[step] = {}
        return
    if len(lefts) > 1:
        found.removed[step] = {}
        if rights:
            found.written[step] = _all_of(rights[0], field.inner)
        return
    found.written[step] = {}
    if lefts:
        found.removed[step] = _all_of(lefts[0], field.inner)


def _by_name(items: list[Json], field: Field) -> dict[str, list[Json]]:
    found: dict[str, list[Json]] = {}
    for item in items:
        found.setdefault(element_name(item, field), []).append(item)
    return found
