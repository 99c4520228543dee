"""Type errors of applied configurations, with kube-apiserver's messages.

An apply has another decoder than other writes: it identifies list elements by their keys, and
refuses unknown fields.

Source: sigs.k8s.io/structured-merge-diff typed/validate.go, typed/helpers.go.
"""

from __future__ import annotations

from collections.abc import Iterator

from mooring.apiserver.patch.field_sets import element_name, step_text
from mooring.apiserver.patch.strategic_merge import go_text
from mooring.objects.schema.types import OTHERS, Field, is_struct, structs
from mooring.objects.types import Json

#: Errors of one response; each is a line of a Status.
ERRORS_MAX = 100
_NUMBERS = ("int32", "int64", "float64")


def find_apply_errors(type_name: str, applied: Json) -> list[str]:
    """Returns errors such as ``.spec.replicas: expected numeric (int or float), got string``."""
    errors = _walk(applied, Field(type_name, ""), "")
    return sorted(error for error, _ in zip(errors, range(ERRORS_MAX), strict=False))


def _walk(value: Json, field: Field, path: str) -> Iterator[str]:
    if value is None:
        return
    if field.is_list:
        yield from _walk_list(value, field, path)
    elif field.is_map or is_struct(field.type_name):
        yield from _walk_map(value, field, path)
    elif problem := _scalar_problem(value, field.type_name):
        yield f"{path}: {problem}"


def _walk_map(value: Json, field: Field, path: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{path}: expected map, got &{{{go_text(value)}}}"
        return
    struct = structs()[field.type_name] if is_struct(field.type_name) else None
    for name, item in value.items():
        inner_path = f"{path}.{name}"
        inner = field.inner if struct is None else struct.get(name) or struct.get(OTHERS)
        if inner is None:
            yield f"{inner_path}: field not declared in schema"
        else:
            yield from _walk(item, inner, inner_path)


def _walk_list(value: Json, field: Field, path: str) -> Iterator[str]:
    if not isinstance(value, list):
        yield f"{path}: expected list, got &{{{go_text(value)}}}"
        return
    is_keyed = field.list_type in ("map", "set")
    names: set[str] = set()
    for number, item in enumerate(value):
        if not is_keyed:
            yield from _walk(item, field.inner, f"{path}[{number}]")
            continue
        if problem := _element_problem(item, field):
            yield f"{path}: element {number}: {problem}"
            continue
        name = element_name(item, field)
        key = step_text(name)
        if name in names:
            yield f"{path}: duplicate entries for key {key}"
        names.add(name)
        yield from _walk(item, field.inner, path + key)


def _element_problem(item: Json, field: Field) -> str:
    """Returns the reason why an element has no name in a set; "" if it has one."""
    if field.list_type == "set":
        if item is None:
            return "associative list without keys has an element that's an explicit null"
        if isinstance(item, dict):
            return "associative list without keys has an element that's a map type"
        return "associative list without keys has a list" if isinstance(item, list) else ""
    if item is None:
        return "associative list with keys may not have a null element"
    if not isinstance(item, dict):
        return "associative list with keys may not have non-map elements"
    if element_name(item, field) == "k:{}":
        keys = " ".join(f'"{key}"' for key in field.keys)
        return (
            f"associative list with keys has an element that omits all key fields [{keys}] "
            "(and doesn't have default values for any key fields)"
        )
    return ""


def _scalar_problem(value: Json, type_name: str) -> str:
    is_flag = isinstance(value, bool)
    is_number = isinstance(value, int | float) and not is_flag
    if type_name in _NUMBERS and not is_number:
        return f"expected numeric (int or float), got {_kind(value)}"
    if type_name in ("string", "bytes", "Duration") and not isinstance(value, str):
        return f"expected string, got &value.valueUnstructured{{Value:{go_text(value)}}}"
    if type_name == "bool" and not is_flag:
        return f"expected boolean, got {_kind(value)}"
    return ""


def _kind(value: Json) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, dict | list):
        return "map" if isinstance(value, dict) else "list"
    return "string" if isinstance(value, str) else "numeric"
