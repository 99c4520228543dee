"""Sets of fields in the format of managedFields: the parts of an object that a manager owns.

A set is nested dictionaries: ``f:name`` for a field, ``k:{"name":"c"}`` for an element of a list
that is a map, ``v:"x"`` for an element of a set. The content below a path selects parts of it::

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

from mooring.apiserver.types import Object
from mooring.objects.schema.types import DEDUCED, OTHERS, Field, is_struct, structs
from mooring.objects.selectors import parse_int64
from mooring.objects.sorted_json import encode_sorted
from mooring.objects.types import Json

Fields = dict[str, Any]
#: From the top of the object: names of fields.
Path = tuple[str, ...]

ANY = Field("any", "")
SELF = "."
#: Keys of elements that may be left out, since they have a default.
_KEY_DEFAULTS: Mapping[str, Json] = MappingProxyType({"protocol": "TCP"})
#: The value of a key that an element omits; null is a value.
_ABSENT = object()
#: Elements whose name may be absent, as if it were empty.
_NAMELESS = "[]core.LocalObjectReference"
_NAME_CACHE_SIZE = 8192
#: Names with a longer text are encoded each time.
_CACHED_CHARS_MAX = 320


class TypeMismatch(Exception):
    """A value does not have the type of its field, so that no set of fields describes it."""


def child(type_name: str, name: str) -> Field:
    """Returns the field of a struct, or of a mapping with free keys."""
    if is_struct(type_name):
        fields = structs()[type_name]
        return fields.get(name) or fields.get(OTHERS, ANY)
    if type_name == DEDUCED:
        return Field(DEDUCED, "")
    return Field(type_name[2:], "") if type_name.startswith("{}") else ANY


def is_granular(value: Json, field: Field) -> bool:
    """Returns True if parts of the value can have different managers."""
    if field.list_type == "atomic":
        return False
    if isinstance(value, dict):
        return is_struct(field.type_name) or field.is_map or field.type_name == DEDUCED
    return isinstance(value, list) and field.list_type in ("map", "set")


def element_name(item: Json, field: Field) -> str:
    """Returns the name of a list element in a set.

    Raises:
        TypeMismatch: The name is that of keys, and the element is no mapping.
    """
    if field.list_type == "set":
        return "v:" + encode_sorted(item).decode()
    if not isinstance(item, dict):
        raise TypeMismatch
    values = tuple([item.get(key, _ABSENT) for key in field.keys])
    if any(type(value) is str and len(value) > _CACHED_CHARS_MAX for value in values):
        return _name_of.__wrapped__(field, values)
    try:
        return _name_of(field, values)
    except TypeError:  # not a key's type; find_apply_errors reports it
        return _name_of.__wrapped__(field, values)


@lru_cache(maxsize=_NAME_CACHE_SIZE)
def _name_of(field: Field, values: tuple[Any, ...]) -> str:
    """Returns the name for the values of an element's keys; cached, as few different ones occur."""
    keys = dict(zip(field.keys, values, strict=True))
    with_defaults = {
        key: _key_default(field, key) if keys[key] is _ABSENT else keys[key] for key in keys
    }
    keys_present = {key: value for key, value in with_defaults.items() if value is not _ABSENT}
    return "k:" + encode_sorted(keys_present).decode()


def _key_default(field: Field, key: str) -> Any:
    """Returns the value of a key that an element omits; _ABSENT if it has no default.

    Keys that are always written have the empty value of their type.
    """
    members = structs().get(field.element)
    member = members.get(key) if members is not None else None
    if member is not None and member.default is not None:
        return member.default
    if key in _KEY_DEFAULTS:
        return _KEY_DEFAULTS[key]
    if field.type_name == _NAMELESS:
        return ""
    if member is None or member.presence != "always":
        return _ABSENT
    return "" if member.type_name == "string" else 0


def fields_of_object(obj: Object, type_name: str) -> Fields:
    """Returns the set of all fields of an applied object."""
    content = {key: value for key, value in obj.items() if key not in ("apiVersion", "kind")}
    return _fields(content, Field(type_name, ""))


def _fields(value: Json, field: Field) -> Fields:
    if not is_granular(value, field):
        return {}
    if isinstance(value, dict):
        type_name = field.type_name
        named = structs()[type_name] if is_struct(type_name) else {}
        below = {}
        for name, item in value.items():
            node = _fields(item, inner := child(type_name, name))
            # Of lists that are merged, and of structs, the parts are owned: there may be none.
            is_owned = name not in named or item in (None, {})
            if node or is_owned or not is_granular(item, inner):
                below[name] = node
        # Elements of mappings are owned themselves, fields of structs by their parts.
        return {
            f"f:{name}": node if name in named else _with_self(node) for name, node in below.items()
        }
    if field.list_type == "set":
        return {element_name(item, field): {} for item in value}
    inner = field.inner
    return {element_name(item, field): _with_self(_fields(item, inner)) for item in value}


def _with_self(below: Fields) -> Fields:
    return {SELF: {}, **below} if below else below


# ---------------------------------------------------------------------- parsing


def read_fields(sent: Json) -> Fields:
    """Parses a set that a client has sent, to the normal form of this module.

    Steps of unknown kinds are dropped.

    Raises:
        ValueError: It is not a set of fields.

    Source: sigs.k8s.io/structured-merge-diff fieldpath/serialize.go, serialize-pe.go.
    """
    fields = _read_node(sent)
    fields.pop(SELF, None)
    return fields


def _read_node(sent: Json) -> Fields:
    if sent is None:
        return {}
    if not isinstance(sent, dict):
        raise ValueError(f"a set of fields cannot be read from a {type(sent).__name__}")
    fields: Fields = {}
    for step, below in sent.items():
        name = "" if step == SELF else _read_step(step)
        if name:
            fields[name] = _read_node(below)
    return _node(fields, has_self=SELF in sent)


def _read_step(step: str) -> str:
    """Returns a step in normal form; "" for an unknown kind."""
    kind, name = step[:2], step[2:]
    if kind[1:] != ":":
        raise ValueError(f"a step without its kind: {step!r}")
    if kind == "f:":
        return step
    if kind == "i:":
        number = parse_int64(name)
        if number is None:
            raise ValueError(f"no index in a step: {step!r}")
        return f"i:{number}"
    if kind not in ("k:", "v:"):
        return ""
    try:
        value = msgspec.json.decode(name)
    except msgspec.DecodeError as error:
        raise ValueError(f"no JSON in a step: {step!r}") from error
    if kind == "k:" and not isinstance(value, dict):
        raise ValueError(f"no keys in a step: {step!r}")
    return kind + encode_sorted(value).decode()


# ---------------------------------------------------------------------- paths


def fields_of_path(path: Path) -> Fields:
    """Returns the set of one field."""
    fields: Fields = {}
    for name in reversed(path):
        fields = {f"f:{name}": fields}
    return fields


def has_path(fields: Fields, path: Path) -> bool:
    """Returns True if a field is in the set, not only parts of it."""
    for name in path:
        below = fields.get(f"f:{name}")
        if below is None:
            return False
        fields = below
    return _has_self(fields)


# ---------------------------------------------------------------------- algebra


def _has_self(node: Fields) -> bool:
    """Returns True if the path itself is in the set, not only parts of it."""
    return not node or SELF in node


def _node(below: Fields, *, has_self: bool) -> Fields:
    return _with_self(below) if has_self else below


def union(fields: Fields, others: Fields) -> Fields:
    """Returns all fields of both sets."""
    joined = {step: below for step, below in fields.items() if step != SELF}
    for step, below in others.items():
        present = joined.get(step)
        if step == SELF:
            continue
        if present is None:
            joined[step] = below
        else:
            has_self = _has_self(present) or _has_self(below)
            joined[step] = _node(union(present, below), has_self=has_self)
    return joined


def difference(fields: Fields, others: Fields) -> Fields:
    """Returns the fields of one set that are not in another."""
    remaining: Fields = {}
    for step, below in fields.items():
        if step == SELF:
            continue
        other = others.get(step)
        if other is None:
            remaining[step] = below
            continue
        has_self = _has_self(below) and not _has_self(other)
        deeper = difference(below, other)
        if has_self or deeper:
            remaining[step] = _node(deeper, has_self=has_self)
    return remaining


def with_parents(fields: Fields) -> Fields:
    """Returns the set with all paths above its own."""
    return {step: _with_self(with_parents(below)) for step, below in fields.items() if step != SELF}


def with_structs(fields: Fields, field: Field) -> Fields:
    """Returns the set with the fields of structs that it has in part."""
    complete: Fields = {}
    names = structs()[field.type_name] if is_struct(field.type_name) else {}
    for step, below in fields.items():
        if step == SELF:
            continue
        name = step[2:]
        is_field = step.startswith("f:")
        inner = child(field.type_name, name) if is_field else field.inner
        has_self = _has_self(below) or (is_field and name in names)
        complete[step] = _node(with_structs(below, inner), has_self=has_self)
    return complete


def intersection(fields: Fields, others: Fields) -> Fields:
    """Returns the fields that are in both sets."""
    common: Fields = {}
    for step, below in fields.items():
        other = others.get(step)
        if step == SELF or other is None:
            continue
        has_self = _has_self(below) and _has_self(other)
        deeper = intersection(below, other)
        if has_self or deeper:
            common[step] = _node(deeper, has_self=has_self)
    return common


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
    remaining = {name: node for name, node in fields.items() if name != step}
    if len(path) > 1:
        deeper = _without_path(below, path[1:])
        if deeper or not below:
            remaining[step] = {} if deeper.keys() == {SELF} else deeper
    return remaining


def paths_of(fields: Fields, lead: str = "") -> Iterator[str]:
    """Yields the fields as readable paths, such as ``.spec.containers[name="c"].image``."""
    steps = sorted((step for step in fields if step != SELF), key=lambda step: (step[0], step))
    yield from (lead + step_text(step) for step in steps if _has_self(fields[step]))
    for step in steps:
        yield from paths_of(fields[step], lead + step_text(step))


def step_text(step: str) -> str:
    """Returns one step of a readable path."""
    kind, name = step[0], step[2:]
    if kind == "f":
        return f".{name}"
    if kind == "v":
        return f"[={name}]"
    keys = json.loads(name)
    return "[" + ",".join(f"{key}={json.dumps(value)}" for key, value in keys.items()) + "]"


# ---------------------------------------------------------------------- objects


def without_fields(value: Json, removed: Fields, field: Field) -> Json:
    """Returns a value without the fields of a set; null if nothing is left of a part of it.

    Parts of a value that is a whole are the whole. The value is not changed.
    """
    if not isinstance(value, dict | list):
        return value
    if not is_granular(value, field):
        return None
    if isinstance(value, dict):
        return _without_names(value, removed, field) or None
    return _without_elements(value, removed, field) or None


def _without_names(value: Object, removed: Fields, field: Field) -> Object:
    remaining: Object = {}
    for name, item in value.items():
        below = removed.get(f"f:{name}")
        if below is None:
            remaining[name] = item
        elif not _has_self(below):
            remaining[name] = without_fields(item, below, child(field.type_name, name))
    return remaining


def _without_elements(items: list[Json], removed: Fields, field: Field) -> list[Json]:
    remaining: list[Json] = []
    for item in items:
        below = removed.get(element_name(item, field))
        if below is None:
            remaining.append(item)
        elif not _has_self(below):
            remaining.append(without_fields(item, below, field.inner))
    return remaining
