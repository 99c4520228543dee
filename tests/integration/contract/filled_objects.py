"""Objects in which every field has a value: most break a rule, and all rules answer at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mooring.objects.schema.types import structs

_TIME = "2026-01-02T03:04:05Z"
#: Fields of metadata that a client cannot set, or that both servers refuse before all rules.
_NOT_SENT = frozenset({"managedFields", "ownerReferences", "resourceVersion", "uid", "selfLink"})


def filled(type_name: str, text_of: Callable[[str], str]) -> dict[str, Any]:
    """Returns an object of a struct.

    Args:
        type_name: The struct, such as "core.Pod".
        text_of: Name of a field -> its text.
    """
    obj = _struct(type_name, text_of, ())
    obj["metadata"] = {"name": "thing", "labels": {"a": "b"}, "finalizers": [text_of("finalizers")]}
    return obj


def _struct(
    type_name: str, text_of: Callable[[str], str], above: tuple[str, ...]
) -> dict[str, Any]:
    if type_name in above:  # a schema has schemas
        return {}
    fields = structs()[type_name]
    return {
        name: _value(field.type_name, name, text_of, (*above, type_name))
        for name, field in fields.items()
        if not (type_name == "meta.ObjectMeta" and name in _NOT_SENT)
    }


def _value(type_name: str, name: str, text_of: Callable[[str], str], above: tuple[str, ...]) -> Any:
    if type_name.startswith("[]"):
        return [_value(type_name[2:], name, text_of, above)]
    if type_name.startswith("{}"):
        return {text_of(f"{name}Key"): _value(type_name[2:], name, text_of, above)}
    if type_name in structs():
        return _struct(type_name, text_of, above)
    values: dict[str, Any] = {
        "string": text_of(name),
        "IntOrString": text_of(name),
        "bool": True,
        "Quantity": str(len(name)),
        "Time": _TIME,
        "MicroTime": _TIME.replace("Z", ".000000Z"),
        "bytes": "AQ==",
        "float64": 1.5,
        "any": {"a": name},
    }
    return values.get(type_name, len(name))
