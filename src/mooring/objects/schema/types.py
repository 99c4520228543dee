"""The types of the Kubernetes API as data: fields, their types, and merge rules of patches.

The table is ``mooring/data/api_schema.json``, generated from k8s.io/api's Go types by
``tools/api_schema.py``; this file names its columns. ``decoding`` converts objects with it; the
API server merges patches with it.
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Structs that have one manager as a whole, as elements of lists.
#: Source: the marker +structType=atomic in k8s.io/api and k8s.io/apimachinery.
_ATOMIC_ELEMENTS = frozenset(
    ("meta.OwnerReference", "core.LocalObjectReference", "core.ObjectReference")
)

POINTER, EMPTY, ZERO, ALWAYS, NULL = "pointer", "empty", "zero", "always", "null"


class Field(NamedTuple):
    """One field of a struct.

    Attributes:
        type_name: A scalar ("string", "int32", "Quantity", "any" ...), "[]T", "{}T", or the name
            of another struct such as "core.PodSpec".
        presence: The encoding of an empty value: "pointer" (kept unless null), "empty" and "zero"
            (omitted), "always" (written, even if absent), "null" (written as null if absent).
        strategy: Of strategic merge patches: "", "merge", "replace", "retainKeys" and both.
        merge_key: The field by which "merge" finds elements, "" for lists of scalars.
        list_type: Of server-side apply: "" (granular maps, atomic lists), "atomic", "set", "map".
        keys: The fields that make an element unique in a list of list_type "map".
    """

    type_name: str
    presence: str
    strategy: str = ""
    merge_key: str = ""
    list_type: str = ""
    keys: tuple[str, ...] = ()

    @property
    def element(self) -> str:
        """The type of the elements of a list or map."""
        return self.type_name[2:]

    @property
    def inner(self) -> Field:
        """The elements of a list or map as a field of their own."""
        is_atomic = self.element in _ATOMIC_ELEMENTS
        return Field(self.element, "", list_type="atomic" if is_atomic else "")

    @property
    def is_list(self) -> bool:
        """True if the value is a list."""
        return self.type_name.startswith("[]")

    @property
    def is_map(self) -> bool:
        """True if the value is a mapping with arbitrary keys."""
        return self.type_name.startswith("{}")

    @property
    def strategies(self) -> tuple[str, ...]:
        """The parts of ``strategy``."""
        return tuple(self.strategy.split(",")) if self.strategy else ()


#: Field name -> Field.
Struct = MappingProxyType[str, Field]


#: The type of values without a schema: mappings have parts, everything else is a whole.
DEDUCED = "deduced"
#: The field of a struct whose type all fields have that the struct does not name.
OTHERS = "*"


@cache
def structs() -> Mapping[str, Struct]:
    """Returns all structs by name, such as "core.Pod"."""
    return MappingProxyType(_table())


def add_struct(fields: dict[str, Field]) -> str:
    """Adds a struct of a custom resource; returns its name, which follows from its content.

    Equal structs have one name, so servers in one process do not affect each other.
    """
    content = repr(sorted(fields.items())).encode()
    name = f"custom.{hashlib.sha256(content).hexdigest()[:20]}"
    _table().setdefault(name, MappingProxyType(fields))
    return name


@cache
def _table() -> dict[str, Struct]:
    text = files("mooring").joinpath("data/api_schema.json").read_bytes()
    table = msgspec.json.decode(text)["types"]
    return {name: _struct(rows) for name, rows in table.items()}


def _struct(rows: dict[str, list[object]]) -> Struct:
    return MappingProxyType({name: _field(row) for name, row in rows.items()})


def _field(row: list[object]) -> Field:
    type_name, presence, strategy, merge_key, list_type = map(str, (*row[:5], *[""] * 5)[:5])
    keys = row[5] if len(row) > 5 else []
    assert isinstance(keys, list)
    return Field(type_name, presence, strategy, merge_key, list_type, tuple(keys))


def struct_of(group: str, kind: str) -> str:
    """Returns the name of the struct that objects of a kind have.

    Example:
        >>> struct_of("", "Pod"), struct_of("storage.k8s.io", "StorageClass")
        ('core.Pod', 'storage.StorageClass')
    """
    return f"{group.split('.')[0] or 'core'}.{kind}"


def is_struct(type_name: str) -> bool:
    """Returns whether the type is a struct, not a scalar, list or mapping."""
    return "." in type_name and not type_name.startswith(("[]", "{}"))
