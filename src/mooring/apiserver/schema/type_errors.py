"""Errors of JSON that does not fit its type, with kube-apiserver's messages.

Runs only after decoding has failed: it builds a path for every value.

Source: the errors of Go's encoding/json, and sigs.k8s.io/json's strict ones.
"""

from __future__ import annotations

import re

from mooring.objects.schema.decoding import SCALARS, WrongType
from mooring.objects.schema.types import is_struct, structs
from mooring.objects.types import Json

_INT32 = 2**31


def find_type_errors(type_name: str, value: Json) -> tuple[str, list[str]]:
    """Returns the errors of a value: the first wrong type ("" = none), and all unknown fields.

    Both in kube-apiserver's format: a Go type error, and paths such as "spec.containers[0].nme" in
    alphabetical order.
    """
    unknown: list[str] = []
    problem = _walk(type_name, value, "", "", unknown)
    return problem, sorted(unknown)


def _walk(type_name: str, value: Json, path: str, struct: str, unknown: list[str]) -> str:
    """Returns the first wrong type at or below a value; appends to ``unknown``."""
    if value is None:
        return ""
    if type_name.startswith("[]"):
        if type(value) is not list:
            return _mismatch(type_name, value, path, struct)
        walks = (
            _walk(type_name[2:], item, f"{path}[{number}]", struct, unknown)
            for number, item in enumerate(value)
        )
        return next((problem for problem in list(walks) if problem), "")
    if type_name.startswith("{}"):
        if type(value) is not dict:
            return _mismatch(type_name, value, path, struct)
        walks = (_walk(type_name[2:], item, path, struct, unknown) for item in value.values())
        return next((problem for problem in list(walks) if problem), "")
    if is_struct(type_name):
        return _walk_struct(type_name, value, path, struct, unknown)
    try:
        SCALARS[type_name](value)
    except WrongType as error:
        return str(error) or _mismatch(type_name, value, path, struct)
    return ""


def _walk_struct(type_name: str, value: Json, path: str, struct: str, unknown: list[str]) -> str:
    if type(value) is not dict:
        return _mismatch(type_name, value, path, struct)
    problems = []
    for name, item in value.items():
        field = structs()[type_name].get(name)
        inner = f"{path}.{name}" if path else name
        if field is None:
            unknown.append(inner)
        else:
            problems.append(_walk(field.type_name, item, inner, type_name, unknown))
    return next((problem for problem in problems if problem), "")


def _mismatch(type_name: str, value: Json, path: str, struct: str) -> str:
    """Returns the error of Go's JSON decoder for a value that does not fit its field."""
    field_path = re.sub(r"\[\d+\]", "", path)
    location = f"Go struct field {struct.partition('.')[2]}.{field_path}" if struct else "Go value"
    kind = json_kind(value)
    if kind == "number" and not (isinstance(value, int) and abs(value) < _INT32):
        kind = f"number {value}"
    return f"json: cannot unmarshal {kind} into {location} of type {go_type(type_name)}"


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
