"""Server-side apply: each manager says what it wants, the server knows who wanted what.

What a manager applied before and does not apply any more is removed, unless another manager owns
it too. Who would take a field from another manager is refused, unless it insists (``force``) or
says the same.

kubectl's own client-side apply came first: fields that it wrote, and whose wish it noted in an
annotation, go over to the manager "kubectl" without a conflict.

Source: k8s.io/apimachinery pkg/util/managedfields/internal (lastappliedmanager,
lastappliedupdater, skipnonapplied, conflict); sigs.k8s.io/structured-merge-diff merge/update.go.
"""

from __future__ import annotations

from collections import deque
from copy import deepcopy
from typing import Any

import msgspec

from mooring.apiserver.errors import ApiStatusError, quoted
from mooring.apiserver.patch.field_diff import compare
from mooring.apiserver.patch.field_sets import (
    Fields,
    child,
    difference,
    element_name,
    fields_of_object,
    is_granular,
    paths_of,
    remove_fields,
    unclaimed,
    union,
    without_paths,
)
from mooring.apiserver.patch.managed_fields import (
    APPLY,
    UPDATE,
    FieldManager,
    after_apply,
    after_update,
    conflicting,
    identity_of,
    in_order,
    without_ownerless,
)
from mooring.apiserver.schema.decoding import empty
from mooring.apiserver.schema.schema import Field, struct_of
from mooring.apiserver.schema.type_errors import find_type_errors
from mooring.apiserver.types import Object
from mooring.apiserver.validation.metadata import ANNOTATIONS_BYTES_MAX

Json = Any

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_KUBECTL = "kubectl"
_BEFORE = "before-first-apply"


def apply(live: Object | None, wanted: Object, author: FieldManager, *, force: bool) -> Object:
    """The object after its author has applied what it wants; ``live`` is used up.

    Args:
        live: The object as stored; None if there is none.
        wanted: What the manager sent: the fields that it wants, and no others.
        author: Who applies.
        force: Whether to take fields from others.

    Raises:
        ApiStatusError: 409 for fields of others.
    """
    type_name = struct_of(author.resource)
    before = live if live is not None else {**empty(type_name), "metadata": {}}
    entries = before["metadata"].pop("managedFields", [])
    if live is not None and not entries:
        changes = compare(empty(type_name), live, type_name)
        earlier = FieldManager(_BEFORE, author.resource, author.subresource, author.now)
        entries = after_update([], changes, earlier)
    after, noted = _applied(before, wanted, entries, author, force=force)
    if author.manager == _KUBECTL:
        _keep_last_applied(after, wanted)
    after["metadata"]["managedFields"] = noted
    return after


def _applied(
    before: Object, wanted: Object, entries: list[Object], author: FieldManager, *, force: bool
) -> tuple[Object, list[Object]]:
    """Returns the object and its entries."""
    type_name = struct_of(author.resource)
    root = Field(type_name, "")
    fields = without_paths(fields_of_object(wanted, type_name), author.reset)
    entry = author.entry(APPLY, without_ownerless(fields))
    previous = [each for each in entries if identity_of(each) == identity_of(entry)]
    others = [each for each in entries if identity_of(each) != identity_of(entry)]
    after: Object = _merge(deepcopy(before), wanted, root)
    after.setdefault("metadata", {})
    gone = previous[0].get("fieldsV1", {}) if previous else {}
    for claimed in (fields, *(each.get("fieldsV1", {}) for each in others)):
        gone = unclaimed(gone, claimed)
    remove_fields(after, gone, root)
    changes = compare(before, after, type_name)
    if not force:
        conflicts = conflicting(others, changes, author)
        if conflicts and not _is_detached(conflicts, before, author):
            raise _conflict(conflicts)
    if after == before:
        # Nothing has changed: who applied before keeps its time, and who did not gets none.
        entry["time"] = previous[0].get("time") if previous else None
    entry = {name: value for name, value in entry.items() if value is not None}
    mine = [entry] if entry["fieldsV1"] else []
    return after, in_order([*after_apply(others, changes, author), *mine])


# ---------------------------------------------------------------------- conflicts


def _conflict(conflicts: list[tuple[Object, Fields]]) -> ApiStatusError:
    """409: the fields belong to others."""
    found = [(_said(entry), path) for entry, taken in conflicts for path in paths_of(taken)]
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {who}", "field": path}
        for who, path in found
    ]
    if len(found) == 1:
        text = f"1 conflict: conflict with {found[0][0]}: {found[0][1]}"
    else:
        lines = []
        for who in sorted({who for who, _ in found}):
            lines.append(f"conflicts with {who}:")
            lines += [f"- {path}" for other, path in found if other == who]
        text = f"{len(found)} conflicts: " + "\n".join(lines)
    return ApiStatusError(409, "Conflict", f"Apply failed with {text}", {"causes": causes})


def _said(entry: Object) -> str:
    said = quoted(entry.get("manager", ""))
    if entry.get("subresource"):
        said += f" with subresource {quoted(entry['subresource'])}"
    if entry.get("operation") == UPDATE:
        said += f" using {entry.get('apiVersion', '')}"
    return said


def _is_detached(
    conflicts: list[tuple[Object, Fields]], live: Object, author: FieldManager
) -> bool:
    """Whether kubectl wrote all those fields itself when it still applied on the client's side."""
    text = live["metadata"].get("annotations", {}).get(LAST_APPLIED, "")
    if author.manager != _KUBECTL or not text:
        return False
    try:
        last = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return False
    if not isinstance(last, dict) or last.get("apiVersion") != author.resource.api_version:
        return False
    type_name = struct_of(author.resource)
    if any(find_type_errors(type_name, last)):
        return False
    changes = compare(last, live, type_name)
    theirs = fields_of_object(last, type_name)
    theirs = difference(difference(theirs, changes.written), changes.removed)
    taken: Fields = {}
    for _, fields in conflicts:
        taken = union(taken, fields)
    return not difference(taken, theirs)


def _keep_last_applied(after: Object, wanted: Object) -> None:
    """What kubectl notes on the client's side stays true, if it is there."""
    annotations = after["metadata"].get("annotations")
    if not annotations or not annotations.get(LAST_APPLIED):
        return
    noted = deepcopy(wanted)
    ((noted.get("metadata") or {}).get("annotations") or {}).pop(LAST_APPLIED, None)
    text = msgspec.json.encode(noted, order="sorted").decode() + "\n"
    annotations[LAST_APPLIED] = text
    size = sum(len(key.encode()) + len(str(value).encode()) for key, value in annotations.items())
    if size > ANNOTATIONS_BYTES_MAX:
        del annotations[LAST_APPLIED]


# ---------------------------------------------------------------------- merging


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
    """Applied elements in their order, each behind those of others that stood before it.

    Two lists are read side by side. An element of one's own that comes too early on the live side
    waits until its turn among the wanted ones has come.
    """
    by_name = {element_name(item, field): item for item in wanted}
    names, places = list(by_name), [element_name(item, field) for item in live]
    present: dict[str, Json] = {}
    for name, item in zip(places, live, strict=True):
        present[name] = item if name not in present else None  # of several none is meant
    turns = deque(name for name in names if name in present)
    merged: list[Json] = []
    left = right = 0
    while left < len(live) or right < len(names):
        own = left < len(live) and places[left] in by_name
        if left < len(live) and not own:
            merged.append(live[left])
            left += 1
            continue
        is_early = own and right < len(names) and bool(turns) and places[left] != turns[0]
        if own and (is_early or right == len(names)):
            left += 1
            continue
        if own and (places[left] == names[right] or places[left] not in turns):
            left += 1
        name = names[right]
        right += 1
        before = present.get(name)
        asked = by_name[name]
        merged.append(_fresh(asked) if before is None else _merge(before, asked, field.inner))
        if turns and turns[0] == name:
            turns.popleft()
    return merged


def _fresh(value: Json) -> Json:
    return deepcopy(value)
