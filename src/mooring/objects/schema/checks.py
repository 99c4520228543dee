"""Every field of an object that is unknown or has a wrong type, with its path.

Run only after ``decoding`` has noticed that something is wrong: it builds a path for every value.
The words are for people who wrote a file; those of the API server are in ``apiserver.faults``.
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
        "string": "must be text",
        "bool": "must be true or false",
        "int32": "must be an integer",
        "int64": "must be an integer",
        "float64": "must be a number",
        "bytes": "must be text in base64",
        "Quantity": "is not a quantity",
        "IntOrString": "must be an integer or text",
        "Time": "must be a time such as 2006-01-02T15:04:05Z",
        "MicroTime": "must be a time such as 2006-01-02T15:04:05.000000Z",
        "Duration": "must be text",
    }
)


_INTEGER_BITS: Final[Mapping[str, int]] = MappingProxyType(
    {"int32": 32, "IntOrString": 32, "int64": 64}
)


class Problem(NamedTuple):
    """A field that cannot be used.

    Attributes:
        path: Where it stands in the object.
        text: What is wrong with it.
        value: Its value; None for an unknown field, whose value does not matter.
        suggestion: The nearest known name of an unknown field.
        is_unknown: Whether the type has no such field.
    """

    path: Path
    text: str
    value: Any = None
    suggestion: str | None = None
    is_unknown: bool = False


def find_problems(type_name: str, value: Any, path: Path = ()) -> Iterator[Problem]:
    """Yields what is wrong with a value of a type, in the order of the value.

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
        by_lower = {known.lower(): known for known in fields}
        near = by_lower.get(name.lower()) or next(iter(get_close_matches(name, fields, n=1)), None)
        yield Problem((*path, name), "unknown field", None, near, is_unknown=True)


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
