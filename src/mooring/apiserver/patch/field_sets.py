"""Sets of fields as managedFields write them: which parts of an object belong to somebody.

A set is nested dictionaries: ``f:name`` for a field, ``k:{"name":"c"}`` for an element of a list
that is a map, ``v:"x"`` for an element of a set. What is below a path says what of it is meant::

    {"f:spec": {"f:replicas": {}}}            spec.replicas, but not spec itself
    {"f:labels": {".": {}, "f:app": {}}}      labels itself and labels.app
    {"f:selector": {}}                        selector, as a whole

Source: sigs.k8s.io/structured-merge-diff fieldpath; k8s.io/apimachinery FieldsV1.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import msgspec

from mooring.apiserver.schema.schema import Field, is_struct, structs
from mooring.apiserver.types import Object

Json = Any
Fields = dict[str, Any]
#: From the top of the object: names of fields.
Path = tuple[str, ...]

ANY = Field("any", "")
SELF = "."
#: Keys of elements that may be left out, since they have a default.
_KEY_DEFAULTS: Mapping[str, Json] = MappingProxyType({"protocol": "TCP"})
#: Whose name may be left out, as if it were empty.
_NAMELESS = "[]core.LocalObjectReference"
_NAMES_KEPT = 8192
_encode = msgspec.json.Encoder(order="sorted").encode


def child(type_name: str, name: str) -> Field:
    """Returns the field of a struct, or of a mapping with free keys."""
    if is_struct(type_name):
        return structs()[type_name].get(name, ANY)
    return Field(type_name[2:], "") if type_name.startswith("{}") else ANY


def is_granular(value: Json, field: Field) -> bool:
    """Returns whether parts of the value can belong to different managers."""
    if field.list_type == "atomic":
        return False
    if isinstance(value, dict):
        return is_struct(field.type_name) or field.is_map
    return isinstance(value, list) and field.list_type in ("map", "set")


def element_name(item: Json, field: Field) -> str:
    """How a set names an element of a list."""
    if field.list_type == "set":
        return "v:" + _encode(item).decode()
    values = tuple([item.get(key) for key in field.keys])
    try:
        return _name_of(field, values)
    except TypeError:  # of no type that a key has; whoever applies it is told so
        return _name_of.__wrapped__(field, values)


@lru_cache(maxsize=_NAMES_KEPT)
def _name_of(field: Field, values: tuple[Json, ...]) -> str:
    """Returns the same by the values of the element's keys; few different ones occur."""
    keys = dict(zip(field.keys, values, strict=True))
    filled = {key: _KEY_DEFAULTS.get(key) if keys[key] is None else keys[key] for key in keys}
    named = {key: value for key, value in filled.items() if value is not None}
    if not named and field.type_name == _NAMELESS:
        named = {"name": ""}
    return "k:" + _encode(named).decode()


def fields_of_object(obj: Object, type_name: str) -> Fields:
    """Returns the set of all fields that an applied object has."""
    content = {key: value for key, value in obj.items() if key not in ("apiVersion", "kind")}
    return _fields(content, Field(type_name, ""))


def _fields(value: Json, field: Field) -> Fields:
    if not is_granular(value, field):
        return {}
    if isinstance(value, dict):
        type_name = field.type_name
        return {f"f:{name}": _fields(item, child(type_name, name)) for name, item in value.items()}
    if field.list_type == "set":
        return {element_name(item, field): {} for item in value}
    inner = field.inner
    return {element_name(item, field): _with_self(_fields(item, inner)) for item in value}


def _with_self(below: Fields) -> Fields:
    return {SELF: {}, **below} if below else below


# ---------------------------------------------------------------------- what clients write


def read_fields(written: Json) -> Fields:
    """Returns a set that a client has written, in the one form that all functions here expect.

    Steps of a kind that nobody knows are left out.

    Raises:
        ValueError: It is no such set.

    Source: sigs.k8s.io/structured-merge-diff fieldpath/serialize.go, serialize-pe.go.
    """
    found = _read_node(written)
    found.pop(SELF, None)
    return found


def _read_node(written: Json) -> Fields:
    if written is None:
        return {}
    if not isinstance(written, dict):
        raise ValueError(f"a set of fields cannot be read from a {type(written).__name__}")
    found: Fields = {}
    for step, below in written.items():
        name = "" if step == SELF else _read_step(step)
        if name:
            found[name] = _read_node(below)
    return _node(found, is_meant=SELF in written)


def _read_step(step: str) -> str:
    """Returns a step as it is written here; "" for those of an unknown kind."""
    kind, name = step[:2], step[2:]
    if kind[1:] != ":":
        raise ValueError(f"a step without its kind: {step!r}")
    if kind == "f:":
        return step
    if kind == "i:":
        return f"i:{int(name)}"
    if kind not in ("k:", "v:"):
        return ""
    try:
        value = msgspec.json.decode(name)
    except msgspec.DecodeError as error:
        raise ValueError(f"no JSON in a step: {step!r}") from error
    if kind == "k:" and not isinstance(value, dict):
        raise ValueError(f"no keys in a step: {step!r}")
    return kind + _encode(value).decode()


# ---------------------------------------------------------------------- algebra


def _is_meant(node: Fields) -> bool:
    """Returns whether the path itself is in the set, not only something below it."""
    return not node or SELF in node


def _node(below: Fields, *, is_meant: bool) -> Fields:
    return _with_self(below) if is_meant else below


def union(fields: Fields, others: Fields) -> Fields:
    """Returns all fields of both sets."""
    found = {step: below for step, below in fields.items() if step != SELF}
    for step, below in others.items():
        present = found.get(step)
        if step == SELF:
            continue
        if present is None:
            found[step] = below
        else:
            is_meant = _is_meant(present) or _is_meant(below)
            found[step] = _node(union(present, below), is_meant=is_meant)
    return found


def difference(fields: Fields, others: Fields) -> Fields:
    """Returns the fields of one set that are not in another."""
    left: Fields = {}
    for step, below in fields.items():
        if step == SELF:
            continue
        other = others.get(step)
        if other is None:
            left[step] = below
            continue
        is_meant = _is_meant(below) and not _is_meant(other)
        deeper = difference(below, other)
        if is_meant or deeper:
            left[step] = _node(deeper, is_meant=is_meant)
    return left


def unclaimed(fields: Fields, others: Fields) -> Fields:
    """Returns the fields of one set of which another one has neither themselves nor any part."""
    left: Fields = {}
    for step, below in fields.items():
        if step == SELF:
            continue
        if step not in others:
            left[step] = below
        elif deeper := unclaimed(below, others[step]):
            left[step] = deeper
    return left


def intersection(fields: Fields, others: Fields) -> Fields:
    """Returns the fields that are in both sets."""
    both: Fields = {}
    for step, below in fields.items():
        other = others.get(step)
        if step == SELF or other is None:
            continue
        is_meant = _is_meant(below) and _is_meant(other)
        deeper = intersection(below, other)
        if is_meant or deeper:
            both[step] = _node(deeper, is_meant=is_meant)
    return both


def without_paths(fields: Fields, paths: tuple[Path, ...]) -> Fields:
    """Returns the set without some fields and everything below them."""
    for path in paths:
        fields = _without_path(fields, path)
    return fields


def _without_path(fields: Fields, path: Path) -> Fields:
    step = f"f:{path[0]}"
    below = fields.get(step)
    if below is None:
        return fields
    left = {name: node for name, node in fields.items() if name != step}
    if len(path) > 1:
        deeper = _without_path(below, path[1:])
        if deeper or not below:
            left[step] = {} if deeper.keys() == {SELF} else deeper
    return left


def paths_of(fields: Fields, lead: str = "") -> Iterator[str]:
    """Returns the fields as people read them, such as ``.spec.containers[name="c"].image``."""
    steps = sorted((step for step in fields if step != SELF), key=lambda step: (step[0], step))
    yield from (lead + said_of(step) for step in steps if _is_meant(fields[step]))
    for step in steps:
        yield from paths_of(fields[step], lead + said_of(step))


def said_of(step: str) -> str:
    """Returns one step of a path as people read it."""
    kind, name = step[0], step[2:]
    if kind == "f":
        return f".{name}"
    if kind == "v":
        return f"[={name}]"
    keys = json.loads(name)
    return "[" + ",".join(f"{key}={json.dumps(value)}" for key, value in keys.items()) + "]"


# ---------------------------------------------------------------------- objects


def remove_fields(value: Json, gone: Fields, field: Field) -> None:
    """Takes the fields of a set out of a value; what becomes empty by it goes as well."""
    if isinstance(value, list):
        _remove_elements(value, gone, field)
    if not isinstance(value, dict):
        return
    for step, below in gone.items():
        name = step[2:]
        if not step.startswith("f:") or name not in value:
            continue
        inner = child(field.type_name, name)
        is_part = any(step != SELF for step in below) and is_granular(value[name], inner)
        if is_part:
            remove_fields(value[name], below, inner)
        if not is_part or not value[name]:
            del value[name]


def _remove_elements(items: list[Json], gone: Fields, field: Field) -> None:
    for position in reversed(range(len(items))):
        step = element_name(items[position], field)
        if step not in gone:
            continue
        if _is_meant(gone[step]):
            del items[position]
        else:
            remove_fields(items[position], gone[step], field.inner)
