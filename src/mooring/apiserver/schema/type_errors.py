"""Errors of JSON that does not fit its type, with kube-apiserver's messages.

Runs only after decoding has failed: it builds a path for every value.

Source: the errors of Go's encoding/json, and sigs.k8s.io/json's strict ones.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import NamedTuple

import msgspec

from mooring.objects.schema.decoding import SCALARS, WrongType
from mooring.objects.schema.types import is_struct, structs
from mooring.objects.types import Json

_INT32 = 2**31
#: Made by tools/api_schema.py.
_GO_NAMES = files("mooring.apiserver") / "data" / "go_type_names.json"


def find_type_errors(type_name: str, value: Json) -> tuple[str, list[str]]:
    """Returns the errors of a value: the first wrong type ("" = none), and all unknown fields.

    Both in kube-apiserver's format: a Go type error, and paths such as "spec.containers[0].nme" in
    alphabetical order.
    """
    unknown: list[str] = []
    problem = _walk(type_name, value, _Place("", "", "", go_type(type_name)), unknown)
    return problem, sorted(unknown)


class _Place(NamedTuple):
    """The place of a value.

    Attributes:
        path: With indices and keys of maps, as in errors of unknown fields.
        fields: The fields on the way alone, as in errors of types.
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
        fields = f"{self.fields}.{name}" if self.fields else name
        go_name = _go_names().get(f"{struct}.{name}") or go_type(type_name)
        return _Place(path, fields, struct, go_name)


def _walk(type_name: str, value: Json, place: _Place, unknown: list[str]) -> str:
    """Returns the first wrong type at or below a value; appends to ``unknown``."""
    if value is None:
        return ""
    if type_name.startswith("[]"):
        if type(value) is not list:
            return _mismatch(value, place)
        walks = (
            _walk(type_name[2:], item, place.inside(f"{place.path}[{number}]"), unknown)
            for number, item in enumerate(value)
        )
        return next((problem for problem in list(walks) if problem), "")
    if type_name.startswith("{}"):
        if type(value) is not dict:
            return _mismatch(value, place)
        walks = (
            _walk(type_name[2:], item, place.inside(f"{place.path}.{key}"), unknown)
            for key, item in value.items()
        )
        return next((problem for problem in list(walks) if problem), "")
    if is_struct(type_name):
        return _walk_struct(type_name, value, place, unknown)
    try:
        SCALARS[type_name](value)
    except WrongType as error:
        return str(error) or _mismatch(value, place)
    return ""


def _walk_struct(type_name: str, value: Json, place: _Place, unknown: list[str]) -> str:
    if type(value) is not dict:
        return _mismatch(value, place)
    problems = []
    for name, item in value.items():
        field = structs()[type_name].get(name)
        if field is None:
            unknown.append(f"{place.path}.{name}" if place.path else name)
        else:
            inner = place.field(type_name, name, field.type_name)
            problems.append(_walk(field.type_name, item, inner, unknown))
    return next((problem for problem in problems if problem), "")


def _mismatch(value: Json, place: _Place) -> str:
    """Returns the error of Go's JSON decoder for a value that does not fit its field."""
    struct = place.struct.partition(".")[2]
    location = f"Go struct field {struct}.{place.fields}" if struct else "Go value"
    kind = json_kind(value)
    if kind == "number" and not (isinstance(value, int) and abs(value) < _INT32):
        kind = f"number {value}"
    # Its decoder reads what is no string as a number.
    name = "int32" if place.go_name == "intstr.IntOrString" else place.go_name
    return f"json: cannot unmarshal {kind} into {location} of type {name}"


@cache
def _go_names() -> dict[str, str]:
    """Returns the Go types of fields, such as "core.Toleration.operator", that have own names."""
    names: dict[str, str] = msgspec.json.decode(_GO_NAMES.read_bytes())
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
