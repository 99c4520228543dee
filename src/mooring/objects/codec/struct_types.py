"""The types of msgspec structs as data, for readers that walk a value and its struct together."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from msgspec import inspect

#: More structs than files, configurations and objects have together at their top.
_CACHED: Final = 128


def struct_type(struct: Any) -> inspect.Type:
    """Returns what msgspec knows about the fields of a struct.

    It is made once for a struct: msgspec evaluates the annotations of every struct inside it.
    """
    return _struct_type(struct)


@lru_cache(maxsize=_CACHED)
def _struct_type(struct: Any) -> inspect.Type:
    return inspect.type_info(struct)
