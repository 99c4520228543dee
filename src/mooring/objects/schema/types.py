"""The types of the Kubernetes API as data: fields, their types, and merge rules of patches.

The table is ``mooring/data/api_schema.json``, generated from k8s.io/api's Go types by
``tools/api_schema.py``; this file names its columns. ``decoding`` converts objects with it; the
API server merges patches with it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Mapping
from functools import cache, lru_cache, wraps
from importlib.resources import files
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar
from weakref import WeakValueDictionary

import msgspec

#: Structs that have one manager as a whole, as elements of lists.
#: Source: the marker +structType=atomic in k8s.io/api and k8s.io/apimachinery.
_ATOMIC_ELEMENTS = frozenset(
    {
        *("meta.OwnerReference", "core.LocalObjectReference", "core.ObjectReference"),
        "admissionregistration.Variable",
    }
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
        default: Of a scalar of a custom resource: the value of an absent field; None without one.
    """

    type_name: str
    presence: str
    strategy: str = ""
    merge_key: str = ""
    list_type: str = ""
    keys: tuple[str, ...] = ()
    default: str | int | float | None = None

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
Struct = Mapping[str, Field]
Typed = TypeVar("Typed", bound="str | Field")
Compiled = TypeVar("Compiled")
_CUSTOM = "custom."
#: Types and fields without a custom struct that have something compiled. Kubernetes has some
#: 2 000; the depth of lists and mappings of a definition's schema makes more.
COMPILED_MAX = 4096


#: The type of values without a schema: mappings have parts, everything else is a whole.
DEDUCED = "deduced"
#: The field of a struct whose type all fields have that the struct does not name.
OTHERS = "*"


class CustomStruct(dict[str, Field]):
    """A struct of a custom resource: dropped, with what was compiled for it, with its last user.

    Attributes:
        name: Follows from the fields.
        parts: The custom structs that are types of its fields.
        compiled: What was compiled for the struct, and for lists and mappings of it.
    """

    __slots__ = ("__weakref__", "compiled", "name", "parts")

    def __init__(
        self, fields: dict[str, Field], name: str = "", parts: tuple[CustomStruct, ...] = ()
    ) -> None:
        super().__init__(fields)
        self.name = name
        self.parts = parts
        self.compiled: dict[Hashable, Any] = {}


class _Structs(dict[str, Struct]):
    """All structs by name: those of Kubernetes, and the custom ones that are in use."""

    def __init__(self, table: Mapping[str, Struct]) -> None:
        super().__init__(table)
        self.custom: WeakValueDictionary[str, CustomStruct] = WeakValueDictionary()

    def __missing__(self, name: str) -> Struct:
        return self.custom[name]

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or name in self.custom

    def get(self, name: str, default: Any = None) -> Any:
        return super().get(name) or self.custom.get(name, default)


def structs() -> Mapping[str, Struct]:
    """Returns all structs by name, such as "core.Pod"."""
    return _table()


def add_struct(fields: dict[str, Field], parts: tuple[CustomStruct, ...] = ()) -> CustomStruct:
    """Returns a struct of a custom resource; it has a name as long as the result is in use.

    Equal structs have one name, so servers in one process do not affect each other.

    Args:
        fields: By name.
        parts: The custom structs that are types of the fields.
    """
    content = repr(sorted(fields.items())).encode()
    name = f"{_CUSTOM}{hashlib.sha256(content).hexdigest()[:20]}"
    custom = _table().custom
    struct = custom.get(name)
    if struct is None:
        struct = custom[name] = CustomStruct(fields, name, parts)
    return struct


def cached_by_type(make: Callable[[Typed], Compiled]) -> Callable[[Typed], Compiled]:
    """Caches what a function compiles for a type, or for a field of the type.

    What belongs to a custom struct, or to lists and mappings of it, is dropped with the struct.
    """
    of_other_types = lru_cache(maxsize=COMPILED_MAX)(make)

    @wraps(make)
    def cached(key: Typed) -> Compiled:
        type_name = key if isinstance(key, str) else key.type_name
        if _CUSTOM not in type_name:
            return of_other_types(key)
        compiled = _table().custom[type_name.lstrip("[]{}")].compiled
        if (make, key) not in compiled:
            compiled[make, key] = make(key)
        result: Compiled = compiled[make, key]
        return result

    return cached


@cache
def _table() -> _Structs:
    text = files("mooring").joinpath("data/api_schema.json").read_bytes()
    table = msgspec.json.decode(text)["types"]
    return _Structs({name: _struct(rows) for name, rows in table.items()})


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
