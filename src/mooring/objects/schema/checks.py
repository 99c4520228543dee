"""Finds all fields of an object that are unknown or have a wrong type, with their paths.

Runs only after ``decoding`` has failed: it builds a path for every value. The messages are for
files; those of the API server are in ``apiserver.schema.type_errors``.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from difflib import get_close_matches
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from mooring.objects.schema.decoding import SCALARS, WrongType
from mooring.objects.schema.types import is_struct, structs

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Keys and list positions from the top.
Path = tuple[str | int, ...]

_EXPECTED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "string": "must be a string",
        "bool": "must be true or false",
        "int32": "must be an integer",
        "int64": "must be an integer",
        "float64": "must be a number",
        "bytes": "must be a string in base64",
        "Quantity": "is not a quantity",
        "IntOrString": "must be an integer or text",
        "Time": "must be a time such as 2006-01-02T15:04:05Z",
        "MicroTime": "must be a time such as 2006-01-02T15:04:05.000000Z",
        "Duration": "must be a string",
    }
)


_INTEGER_BITS: Final[Mapping[str, int]] = MappingProxyType(
    {"int32": 32, "IntOrString": 32, "int64": 64}
)


class Problem(NamedTuple):
    """A field that is unknown or has a wrong type.

    Attributes:
        path: Its path in the object.
        text: The message.
        value: Its value; None for an unknown field.
        suggestion: The most similar field name, for an unknown field.
        is_unknown: True if the type has no such field.
    """

    path: Path
    text: str
    value: Any = None
    suggestion: str | None = None
    is_unknown: bool = False


def find_problems(type_name: str, value: Any, path: Path = ()) -> Iterator[Problem]:
    """Yields the problems of a value of a type, in the order of the value.

    Example:
        >>> [problem.text for problem in find_problems("core.PodSpec", {"contaners": []})]
        ['unknown field']
    """
    if value is None:
        return
    if type_name.startswith("[]"):
        if not isinstance(value, list):
            yield Problem(path, "must be a list", value)
            return
        for position, item in enumerate(value):
            yield from find_problems(type_name[2:], item, (*path, position))
    elif type_name.startswith("{}"):
        if not isinstance(value, dict):
            yield Problem(path, "must be a mapping", value)
            return
        for name, item in value.items():
            yield from find_problems(type_name[2:], item, (*path, name))
    elif is_struct(type_name):
        yield from _struct_problems(type_name, value, path)
    else:
        yield from _scalar_problems(type_name, value, path)


def without_wrong_types(value: Any, problems: list[Problem]) -> Any:
    """Returns a copy of a value without the fields that have a wrong type."""
    copy = deepcopy(value)
    for problem in problems:
        if problem.is_unknown:
            continue
        parent = copy
        for step in problem.path[:-1]:
            parent = parent[step]
        parent[problem.path[-1]] = None  # the same as absent
    return copy


def _struct_problems(type_name: str, value: Any, path: Path) -> Iterator[Problem]:
    if not isinstance(value, dict):
        yield Problem(path, "must be a mapping", value)
        return
    fields = structs()[type_name]
    for name, item in value.items():
        field = fields.get(name)
        if field is not None:
            yield from find_problems(field.type_name, item, (*path, name))
            continue
        by_lower = {field_name.lower(): field_name for field_name in fields}
        similar = get_close_matches(name, fields, n=1)
        suggestion = by_lower.get(name.lower()) or next(iter(similar), None)
        yield Problem((*path, name), "unknown field", None, suggestion, is_unknown=True)


def _scalar_problems(type_name: str, value: Any, path: Path) -> Iterator[Problem]:
    try:
        SCALARS[type_name](value)
    except WrongType:
        text = _EXPECTED[type_name]
        if type_name == "string" and isinstance(value, bool | int | float):
            text += "; put it in quotes"
        elif type_name in _INTEGER_BITS and type(value) is int:
            text = f"must fit into {_INTEGER_BITS[type_name]} bits"
        yield Problem(path, text, value)
