"""Server-side apply: each manager says what it wants, the server knows who wanted what.

What a manager applied before and does not apply any more is removed, unless another manager
applied it too. Conflicts are not refused: the last one to apply gets the field, as with ``force``.
Only appliers are recorded in managedFields, not who changes objects in other ways.

Source: k8s.io/apimachinery pkg/util/managedfields; sigs.k8s.io/structured-merge-diff merge.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from mooring.apiserver.field_sets import (
    Fields,
    changed_fields,
    child,
    element_name,
    fields_of_object,
    is_granular,
    remove_fields,
    without,
)
from mooring.apiserver.schema import Field
from mooring.apiserver.status import bad_request

Json = Any
Object = dict[str, Any]


def apply(
    live: Object | None,
    wanted: Object,
    type_name: str,
    *,
    manager: str,
    subresource: str,
    now: str,
) -> Object:
    """The object after ``manager`` has applied ``wanted``; ``live`` is used up.

    Args:
        live: The object as stored; None if there is none.
        wanted: What the manager sent: the fields that it wants, and no others.
        type_name: The struct of both, such as "core.Pod".
        manager: Who applies.
        subresource: "" or "status".
        now: The present time.

    Raises:
        Refused: 400.
    """
    if wanted.get("metadata", {}).get("managedFields"):
        raise bad_request("metadata.managedFields must be nil")
    before = live if live is not None else {"metadata": {}}
    entries = before["metadata"].get("managedFields", [])
    fields = fields_of_object(wanted, type_name)
    root = Field(type_name, "")
    after: Object = _merge(deepcopy(before), wanted, root)
    others: list[Object] = []
    previous: Fields = {}
    for entry in entries:
        if _is_of(entry, manager, subresource):
            previous = entry.get("fieldsV1", {})
        else:
            others.append(entry)
    gone = without(previous, fields)
    for entry in others:
        gone = without(gone, entry.get("fieldsV1", {}))
    remove_fields(after, gone, root)
    entry = {
        "manager": manager,
        "operation": "Apply",
        "apiVersion": wanted["apiVersion"],
        "time": now,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }
    if subresource:
        entry["subresource"] = subresource
    before["metadata"].pop("managedFields", None)
    kept = _without_lost(others, before, after, root)
    after.setdefault("metadata", {})["managedFields"] = [
        *kept,
        _unchanged_entry(entries, entry) or entry,
    ]
    return after


def _is_of(entry: Object, manager: str, subresource: str) -> bool:
    return (
        entry.get("manager") == manager
        and entry.get("operation") == "Apply"
        and entry.get("subresource", "") == subresource
    )


def _unchanged_entry(entries: list[Object], entry: Object) -> Object | None:
    """The entry as it was, if only its time would change: applying again must change nothing."""
    for each in entries:
        if {**each, "time": entry["time"]} == entry:
            return each
    return None


def _without_lost(
    entries: list[Object], before: Object, after: Object, root: Field
) -> list[Object]:
    """Other managers' entries without the fields whose values they have just lost."""
    kept = []
    for entry in entries:
        owned = entry.get("fieldsV1", {})
        lost = changed_fields(before, after, root, owned)
        left = without(owned, lost) if lost else owned
        if left:
            kept.append({**entry, "fieldsV1": left})
    return kept


def _merge(live: Json, wanted: Json, field: Field) -> Json:
    if isinstance(wanted, dict) and isinstance(live, dict) and is_granular(wanted, field):
        for name, item in wanted.items():
            inner = child(field.type_name, name)
            if item is None:
                continue
            live[name] = _merge(live[name], item, inner) if name in live else _fresh(item)
        return live
    if isinstance(wanted, list) and isinstance(live, list) and is_granular(wanted, field):
        return _merge_lists(live, wanted, field)
    return _fresh(wanted)


def _merge_lists(live: list[Json], wanted: list[Json], field: Field) -> list[Json]:
    """Applied elements in their order, each after the others that stood before it."""
    inner = Field(field.element, "")
    names = [element_name(item, field) for item in wanted]
    by_name = dict(zip(names, wanted, strict=True))
    merged: list[Json] = []
    waiting = list(names)
    for item in live:
        name = element_name(item, field)
        if name not in by_name:
            merged.append(item)
            continue
        if name not in waiting:
            continue
        while waiting:
            current = waiting.pop(0)
            present = next((each for each in live if element_name(each, field) == current), None)
            asked = by_name[current]
            merged.append(_fresh(asked) if present is None else _merge(present, asked, inner))
            if current == name:
                break
    merged.extend(_fresh(by_name[name]) for name in waiting)
    return merged


def _fresh(value: Json) -> Json:
    return deepcopy(value)
