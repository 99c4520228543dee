"""JSON merge patches (RFC 7386): null removes a field, objects are merged, all else replaces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mooring.objects.codec.decode import convert, to_builtins


def merge_patch(value: Any, patch: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a JSON value after a merge patch; the value itself is not changed.

    Example:
        >>> merge_patch({"a": 1, "b": {"c": 2}}, {"a": None, "b": {"d": 3}})
        {'b': {'c': 2, 'd': 3}}
    """
    result = dict(value) if isinstance(value, Mapping) else {}
    for name, change in patch.items():
        if change is None:
            result.pop(name, None)
        elif isinstance(change, Mapping):
            result[name] = merge_patch(result.get(name), change)
        else:
            result[name] = change
    return result


def patched(obj: Any, patch: Mapping[str, Any]) -> Any:
    """Returns an object after a merge patch; fields that its struct does not have are ignored."""
    return convert(merge_patch(to_builtins(obj), patch), type(obj).__name__)
