"""Strategic merge patches: list elements are merged by key.

Directives: ``$patch`` (replace, delete), ``$retainKeys``, ``$setElementOrder/FIELD``,
``$deleteFromPrimitiveList/FIELD``. Merge keys and strategies come from ``schema``.

Source: k8s.io/apimachinery pkg/util/strategicpatch/patch.go, which differs from its own
documentation in places; this follows the code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.apiserver.errors import ApiStatusError, bad_request, unprocessable
from mooring.apiserver.types import Object
from mooring.objects.schema.types import Field, is_struct, structs
from mooring.objects.sorted_json import encode_sorted
from mooring.objects.types import Json

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable


_MARKER = "$patch"
_RETAIN = "$retainKeys"
_ORDER = "$setElementOrder/"
_DELETE = "$deleteFromPrimitiveList/"


def strategic_merge(original: Object, patch: Object, type_name: str) -> Object:
    """Merges a patch into an object; both are modified.

    Args:
        original: As stored.
        patch: As sent by the client.
        type_name: The struct of both, such as "core.Pod".

    Raises:
        ApiStatusError: 400, 422, or 500 (as upstream) for a patch that cannot be merged.
    """
    return _merge_map(original, patch, type_name)


def _failure(message: str) -> ApiStatusError:
    """Returns error 500: upstream makes no Status of most merge errors."""
    return ApiStatusError(500, "", message)


def _merge_map(original: Object, patch: Object, type_name: str) -> Object:
    if _MARKER in patch:
        return _apply_directive(patch)
    _retain_keys(original, patch)
    for name in [name for name in patch if name.startswith(_ORDER)]:
        _merge_ordered(original, patch, name, type_name)
    for name, value in patch.items():
        if name.startswith(_DELETE):
            _delete_scalars(original, name, value)
        elif value is None:
            original.pop(name, None)
        elif name not in original or type(original[name]) is not type(value):
            cleaned, has_value = _without_directives(_without_nulls(value))
            if has_value:
                original[name] = cleaned
            else:
                original.pop(name, None)
        else:
            field = _field(type_name, name)
            original[name] = _merge_value(original[name], value, field)
    return original


def _apply_directive(patch: Object) -> Object:
    directive = patch.pop(_MARKER)
    if directive == "replace":
        return patch
    if directive == "delete":
        return {}
    patch[_MARKER] = directive
    raise _failure(f"unknown patch type: {directive} in map: {go_text(patch)}")


def _field(type_name: str, name: str) -> Field:
    """Returns the field of a struct, or of a key of a mapping."""
    if type_name.startswith("{}"):
        return Field(type_name[2:], "")
    field = structs()[type_name].get(name) if is_struct(type_name) else None
    return field or Field("any", "")


def _merge_value(original: Json, patch: Json, field: Field) -> Json:
    strategies = [strategy for strategy in field.strategies if strategy != "retainKeys"]
    strategy = strategies[0] if strategies else ""
    if isinstance(original, dict):
        return patch if strategy == "replace" else _merge_map(original, patch, field.type_name)
    if isinstance(original, list):
        if strategy != "merge":
            return patch
        return _merge_list(original, patch, field)
    return patch


def _merge_list(original: list[Json], patch: list[Json], field: Field) -> list[Json]:
    if not original and not patch:
        return original
    before = list(original)
    key = field.merge_key
    if not _has_maps(original, patch):
        merged = list(dict.fromkeys([*original, *patch]))
        return _ordered(merged, patch, before, lambda item: item)
    if not key:
        raise _failure(f"cannot merge lists without merge key for {field.element}")
    merged, rest = _apply_special(original, patch, key)
    positions = _positions([item.get(key) for item in merged])
    for item in rest:
        value = _hashable(_key_of(item, key))
        position = positions.get(value)
        if position is None:
            positions[value] = len(merged)
            merged.append(item)
        else:
            merged[position] = _merge_map(merged[position], item, field.element)
    order = [item for item in rest if isinstance(item, dict)]
    return _ordered(merged, order, before, lambda item: _key_of(item, key))


def _apply_special(
    original: list[Json], patch: list[Json], key: str
) -> tuple[list[Json], list[Json]]:
    """Applies the elements with a directive; returns the list and the elements to merge."""
    rest, is_replaced = [], False
    deleted: set[Hashable] = set()
    for item in patch:
        directive = item.get(_MARKER) if isinstance(item, dict) else None
        if directive is None:
            rest.append(item)
        elif directive == "delete":
            deleted.add(_hashable(_key_of(item, key)))
        elif directive == "replace":
            is_replaced = True
        elif directive == "merge":
            raise _failure("merging lists cannot yet be specified in the patch")
        else:
            raise _failure(f"unknown patch type: {directive} in map: {go_text(item)}")
    if is_replaced:
        return rest, []
    if deleted:
        original = [item for item in original if _hashable(item.get(key)) not in deleted]
    return original, rest


def _key_of(item: Json, key: str) -> Json:
    if not isinstance(item, dict):
        raise _failure("expected a map, but received another type")
    if key not in item:
        raise _failure(f"map: {go_text(item)} does not contain declared merge key: {key}")
    return item[key]


def _hashable(value: Json) -> Hashable:
    """Returns what is equal for equal values, and can be looked up."""
    if isinstance(value, dict | list):
        return "json", encode_sorted(value)
    return value  # type: ignore[no-any-return]


def _positions(values: list[Json]) -> dict[Hashable, int]:
    """Returns the first position of each value."""
    positions: dict[Hashable, int] = {}
    for position, value in enumerate(values):
        positions.setdefault(_hashable(value), position)
    return positions


def _has_maps(*lists: list[Json]) -> bool:
    kinds = {type(item) for items in lists for item in items}
    if len(kinds) > 1:
        raise _failure("list element types are not identical")
    if list in kinds:
        raise unprocessable("lists of lists are not supported")
    return dict in kinds


def _ordered(
    merged: list[Json], order: list[Json], before: list[Json], key: Callable[[Json], Json]
) -> list[Json]:
    """Merges the elements of the patch in its order with the others in the old order."""
    new_order = _positions([key(item) for item in order])
    old_order = _positions([key(item) for item in before])
    keyed = [(_hashable(key(item)), item) for item in merged]
    patched = [pair for pair in keyed if pair[0] in new_order]
    patched.sort(key=lambda pair: new_order[pair[0]])
    others = [pair for pair in keyed if pair[0] not in new_order]
    others.sort(key=lambda pair: old_order.get(pair[0], len(before)))
    ordered: list[Json] = []
    other_index, patched_index = 0, 0
    while other_index < len(others) or patched_index < len(patched):
        if patched_index >= len(patched):
            takes_other = True
        elif other_index >= len(others):
            takes_other = False
        else:
            other_key, patched_key = others[other_index][0], patched[patched_index][0]
            takes_other = (
                other_key in old_order
                and patched_key in old_order
                and old_order[other_key] < old_order[patched_key]
            )
        if takes_other:
            ordered.append(others[other_index][1])
            other_index += 1
        else:
            ordered.append(patched[patched_index][1])
            patched_index += 1
    return ordered


def _merge_ordered(original: Object, patch: Object, name: str, type_name: str) -> None:
    """Merges the list of a ``$setElementOrder`` and sorts it in that order."""
    order = patch.pop(name)
    target = name.removeprefix(_ORDER)
    if not isinstance(order, list):
        raise bad_request("invalid patch format of setElementOrder list")
    field = _field(type_name, target)
    before = list(original.get(target) or [])
    changes = patch.pop(target, None)
    if changes is not None and not isinstance(changes, list):
        raise bad_request("invalid patch format of setElementOrder list")
    if changes:
        _check_order(changes, order, field.merge_key)
    if target in original:
        merged = original[target]
        if changes is not None:
            merged = _merge_value(merged, changes, field)
    elif changes is not None:
        merged, _ = _without_directives(changes)
    else:
        return
    key = field.merge_key
    identity = (lambda item: _key_of(item, key)) if key else (lambda item: item)
    original[target] = _ordered(merged, order, before, identity)


def _check_order(changes: list[Json], order: list[Json], key: str) -> None:
    """Checks that the elements of a patch are in the order of its own ``$setElementOrder``."""

    def identity(item: Json) -> Json:
        return item.get(key) if key and isinstance(item, dict) else item

    order_keys = [identity(item) for item in order]
    position = 0
    for item in changes:
        if isinstance(item, dict) and _MARKER in item:
            continue
        try:
            position = order_keys.index(identity(item), position) + 1
        except ValueError:
            text = (
                f"The order in patch list:\n{go_text(changes)}\n doesn't match "
                f"$setElementOrder list:\n{go_text(order)}\n"
            )
            raise _failure(text) from None


def _retain_keys(original: Object, patch: Object) -> None:
    if _RETAIN not in patch:
        return
    retained = patch.pop(_RETAIN)
    if not isinstance(retained, list):
        raise bad_request("invalid patch format of retainKeys")
    for name, value in patch.items():
        if value is not None and not name.startswith((_DELETE, _ORDER)) and name not in retained:
            raise bad_request("invalid patch format of retainKeys")
    for name in [name for name in original if name not in retained]:
        del original[name]


def _delete_scalars(original: Object, name: str, value: Json) -> None:
    target = name.removeprefix(_DELETE)
    if not isinstance(value, list):
        raise bad_request("invalid patch format of primitive list")
    present = original.get(target)
    if isinstance(present, list):
        deleted = {_hashable(item) for item in value}
        original[target] = [item for item in present if _hashable(item) not in deleted]


def _without_nulls(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def _without_directives(value: Json) -> tuple[Json, bool]:
    """Returns the value without directives, and False if nothing of it remains."""
    if isinstance(value, dict):
        if _MARKER in value:
            return None, False
        cleaned = {key: _without_directives(item) for key, item in value.items()}
        return {key: item for key, (item, has_value) in cleaned.items() if has_value}, True
    if isinstance(value, list):
        pairs = [_without_directives(item) for item in value]
        return [item for item, has_value in pairs if has_value], True
    return value, True


def conversion_problem(raw: Json, type_name: str) -> str:
    """Returns the error of Go's converter if a merged object does not fit its type; else "".

    Source: k8s.io/apimachinery pkg/runtime/converter.go (fromUnstructured).
    """
    return _conversion_problem(raw, Field(type_name, ""))


def _conversion_problem(value: Json, field: Field) -> str:
    if value is None:
        return ""
    if field.is_list:
        if not isinstance(value, list):
            return f"cannot restore slice from {_go_kind(value)}"
        problems = (_conversion_problem(item, field.inner) for item in value)
        return next(filter(None, problems), "")
    if field.is_map or is_struct(field.type_name):
        if not isinstance(value, dict):
            container = "map from" if field.is_map else "struct from:"
            return f"cannot restore {container} {_go_kind(value)}"
        problems = (
            _conversion_problem(item, inner)
            for name, item in value.items()
            if (inner := field.inner if field.is_map else structs()[field.type_name].get(name))
        )
        return next(filter(None, problems), "")
    return _scalar_problem(value, field.type_name)


def _scalar_problem(value: Json, type_name: str) -> str:
    kind = _go_kind(value)
    if type_name in ("Time", "MicroTime") and kind != "string":
        json_type = "number" if kind in ("int64", "float64") else kind
        return f"json: cannot unmarshal {json_type} into Go value of type string"
    if type_name not in ("string", "bool", "int32", "int64", "float64"):
        return ""
    is_number = kind in ("int64", "float64")
    fits = kind == type_name or (is_number and type_name in ("int32", "int64", "float64"))
    if fits and not (kind == "float64" and type_name != "float64" and value % 1):
        return ""
    # Go converts numbers to numbers and, surprisingly, integers to strings of one character.
    is_convertible = fits or (kind == "int64" and type_name == "string")
    if is_convertible:
        return f"cannot convert {kind} to {type_name}"
    return f"unrecognized type: {type_name}"


def _go_kind(value: Json) -> str:
    match value:
        case bool():
            return "bool"
        case int():
            return "int64"
        case float():
            return "float64"
        case str():
            return "string"
    return "map" if isinstance(value, dict) else "slice"


def go_text(value: Json) -> str:
    """Returns a value as Go's %v prints it.

    Example:
        >>> go_text({"name": "c", "ports": [80, True, None]})
        'map[name:c ports:[80 true <nil>]]'
    """
    if isinstance(value, dict):
        return "map[" + " ".join(f"{key}:{go_text(value[key])}" for key in sorted(value)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(map(go_text, value)) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return "<nil>" if value is None else str(value)
