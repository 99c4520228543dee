"""Errors of JSON that does not fit its type, with kube-apiserver's messages.

Runs only after decoding has failed: it builds a path for every value.

Source: the errors of Go's encoding/json, and sigs.k8s.io/json's strict ones.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from mooring.objects.schema.decoding import NO_SCHEMA_OR_BOOL, SCALARS, SCHEMA_OR_BOOL, WrongType
from mooring.objects.schema.types import is_struct, structs
from mooring.objects.types import Json

_BYTE_END = 256
#: The numbers that Go names in an error are those that do not fit a number.
_NUMBERS = frozenset({"int32", "int64", "float64", "uint8"})
#: Types with a decoder of their own -> what that decodes the value as.
_OWN_DECODERS = MappingProxyType(
    {
        "Quantity": "",
        "Time": "string",
        "MicroTime": "string",
        "Duration": "string",
        "IntOrString": "int32",
    }
)
#: Made by tools/api_schema.py.
_GO_NAMES = files("mooring.apiserver") / "data" / "go_type_names.json"
_EMBEDDED = files("mooring.apiserver") / "data" / "embedded_fields.json"


def find_type_errors(type_name: str, value: Json) -> tuple[str, list[str]]:
    """Returns the error of a value that has a wrong type ("" = none), and all unknown fields.

    Both in kube-apiserver's format: a Go type error, and paths such as "spec.containers[0].nme",
    in the order of the value. Go goes on after a wrong type and reports the first one, but ends at
    a value that a type decodes by itself, such as a quantity: that is the error then.
    """
    walk = _Walk()
    with suppress(_DecodingEnds):
        walk.value(type_name, value, _Place("", "", "", go_type(type_name)))
    return walk.problem, walk.unknown


class _DecodingEnds(Exception):
    """A type's own decoder refuses its value."""


class _Place(NamedTuple):
    """The place of a value.

    Attributes:
        path: With indices and keys of maps, as in errors of unknown fields.
        fields: The fields on the way alone, as in errors of types; with embedded structs.
        struct: The struct that has the last of them; "" at the root.
        go_name: The type of the value, as Go writes it.
    """

    path: str
    fields: str
    struct: str
    go_name: str

    def inside(self, path: str) -> _Place:
        """Returns the place of an item of a list or a value of a map."""
        name = self.go_name
        inner = name[2:] if name.startswith("[]") else name.partition("]")[2]
        return self._replace(path=path, go_name=inner)

    def field(self, struct: str, name: str, type_name: str) -> _Place:
        """Returns the place of a field of a struct."""
        path = f"{self.path}.{name}" if self.path else name
        embedded = _embedded().get(f"{struct}.{name}")
        steps = (self.fields, embedded or "", name)
        go_name = _go_names().get(f"{struct}.{name}") or go_type(type_name)
        return _Place(path, ".".join(filter(None, steps)), struct, go_name)


class _Walk:
    """A walk through a value; ``problem`` and ``unknown`` are its result."""

    def __init__(self) -> None:
        self.problem = ""
        self.unknown: list[str] = []

    def value(self, type_name: str, value: Json, place: _Place) -> None:
        """Walks through a value of a type.

        Raises:
            _DecodingEnds: a type's own decoder refuses its value.
        """
        if value is None:
            return
        if type_name.startswith("[]"):
            self._list(type_name[2:], value, place)
        elif type_name.startswith("{}"):
            self._map(type_name[2:], value, place)
        elif is_struct(type_name):
            self._struct(type_name, value, place)
        elif type_name == "bytes" and isinstance(value, list):
            self._bytes(value, place)
        else:
            self._scalar(type_name, value, place)

    def _list(self, type_name: str, value: Json, place: _Place) -> None:
        if not isinstance(value, list):
            self._mismatch(value, place)
            return
        for number, item in enumerate(value):
            self.value(type_name, item, place.inside(f"{place.path}[{number}]"))

    def _map(self, type_name: str, value: Json, place: _Place) -> None:
        if not isinstance(value, dict):
            self._mismatch(value, place)
            return
        for key, item in value.items():
            self.value(type_name, item, place.inside(f"{place.path}.{key}"))

    def _struct(self, type_name: str, value: Json, place: _Place) -> None:
        if not isinstance(value, dict):
            self._mismatch(value, place)
            return
        fields = structs()[type_name]
        for name, item in value.items():
            field = fields.get(name)
            if field is None:
                self.unknown.append(f"{place.path}.{name}" if place.path else name)
            else:
                inner = place.field(type_name, name, field.type_name)
                if (type_name, name) in SCHEMA_OR_BOOL:
                    self._schema_or_bool(type_name, item, inner)
                else:
                    self.value(field.type_name, item, inner)

    def _schema_or_bool(self, type_name: str, value: Json, place: _Place) -> None:
        """Reads a field whose own decoder reads a schema in it, without its unknown fields."""
        if value is None or isinstance(value, bool):
            return
        inside = _Walk()
        if isinstance(value, dict):
            with suppress(_DecodingEnds):
                inside.value(type_name, value, place)
        else:
            inside.problem = NO_SCHEMA_OR_BOOL
        if inside.problem:
            self.problem = inside.problem
            raise _DecodingEnds

    def _bytes(self, value: list[Json], place: _Place) -> None:
        """Reads a list of numbers, which Go takes for bytes, too."""
        for item in value:
            if type(item) is not int or not 0 <= item < _BYTE_END:
                self._mismatch(item, place._replace(go_name="uint8"))

    def _scalar(self, type_name: str, value: Json, place: _Place) -> None:
        try:
            SCALARS[type_name](value)
        except WrongType as error:
            own_type = _OWN_DECODERS.get(type_name)
            if own_type is None:
                self._save(str(error) or _mismatch(value, place))
                return
            self.problem = str(error) or _mismatch(value, place._replace(go_name=own_type))
            raise _DecodingEnds from error

    def _mismatch(self, value: Json, place: _Place) -> None:
        self._save(_mismatch(value, place))

    def _save(self, problem: str) -> None:
        self.problem = self.problem or problem


def _mismatch(value: Json, place: _Place) -> str:
    """Returns the error of Go's JSON decoder for a value that does not fit its field."""
    struct = place.struct.partition(".")[2]
    location = f"Go struct field {struct}.{place.fields}" if struct else "Go value"
    kind = json_kind(value)
    if kind == "number" and place.go_name in _NUMBERS:
        kind = f"number {value}"
    return f"json: cannot unmarshal {kind} into {location} of type {place.go_name}"


@cache
def _go_names() -> dict[str, str]:
    """Returns the Go types of fields, such as "core.Toleration.operator", that have own names."""
    names: dict[str, str] = msgspec.json.decode(_GO_NAMES.read_bytes())
    return names


@cache
def _embedded() -> dict[str, str]:
    """Returns the embedded structs of fields: "core.Volume.hostPath" has "VolumeSource"."""
    names: dict[str, str] = msgspec.json.decode(_EMBEDDED.read_bytes())
    return names


def json_kind(value: Json) -> str:
    """Returns Go's name for the type of a JSON value."""
    match value:
        case None:
            return "null"
        case bool():
            return "bool"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
    return "object"


def go_type(type_name: str) -> str:
    """Returns a type of the table as Go's error messages write it.

    Example:
        >>> go_type("[]core.Container"), go_type("{}string")
        ('[]v1.Container', 'map[string]string')
    """
    if type_name.startswith("[]"):
        return "[]" + go_type(type_name[2:])
    if type_name.startswith("{}"):
        return "map[string]" + go_type(type_name[2:])
    if is_struct(type_name):
        return "v1." + type_name.partition(".")[2]
    return type_name
