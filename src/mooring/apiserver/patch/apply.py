"""Server-side apply: managers send the fields that they own, and the server tracks ownership.

A field that a manager applied before and no longer applies is removed, unless another manager owns
it too. An apply that would take a field from another manager is a conflict, unless it is forced
(``force``) or has the same value.

Fields that kubectl's client-side apply wrote, and recorded in its annotation, move to the manager
"kubectl" without a conflict.

Source: k8s.io/apimachinery pkg/util/managedfields/internal (lastappliedmanager,
lastappliedupdater, skipnonapplied, conflict); sigs.k8s.io/structured-merge-diff merge/update.go.
"""

from __future__ import annotations

from collections import deque
from copy import deepcopy

import msgspec

from mooring.apiserver.errors import ApiStatusError, quoted
from mooring.apiserver.patch.field_diff import compare
from mooring.apiserver.patch.field_sets import (
    Fields,
    child,
    difference,
    element_name,
    fields_of_object,
    intersection,
    is_granular,
    paths_of,
    union,
    with_parents,
    with_structs,
    without_fields,
    without_paths,
)
from mooring.apiserver.patch.managed_fields import (
    APPLY,
    UPDATE,
    FieldManager,
    after_apply,
    after_update,
    changes_in_versions,
    conflicting,
    identity_of,
    in_order,
    latest_entries,
    without_stripped,
)
from mooring.apiserver.resources import struct_of
from mooring.apiserver.schema.type_errors import find_type_errors
from mooring.apiserver.types import Object
from mooring.apiserver.validation.metadata import ANNOTATIONS_BYTES_MAX
from mooring.objects.schema.decoding import empty
from mooring.objects.schema.types import Field
from mooring.objects.sorted_json import encode_sorted
from mooring.objects.types import Json

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_KUBECTL = "kubectl"
_BEFORE = "before-first-apply"


def apply(live: Object | None, applied: Object, manager: FieldManager, *, force: bool) -> Object:
    """Returns the object after a manager has applied a configuration; ``live`` is modified.

    Args:
        live: The object as stored; None if there is none.
        applied: The configuration: the fields that the manager owns.
        manager: The applier.
        force: True to take fields from other managers.

    Raises:
        ApiStatusError: 409 for fields of other managers.
    """
    type_name = struct_of(manager.resource)
    before = live if live is not None else {**empty(type_name), "metadata": {}}
    entries = latest_entries(before["metadata"].pop("managedFields", []))
    if live is not None and not entries:
        earlier = FieldManager(_BEFORE, manager.resource, manager.subresource, manager.now)
        changes = changes_in_versions(empty(type_name), live, earlier)
        entries = after_update([], changes, earlier)
    after, tracked = _merge_and_track(before, applied, entries, manager, force=force)
    if manager.manager == _KUBECTL:
        _update_last_applied(after, applied)
    after["metadata"]["managedFields"] = tracked
    return after


def _merge_and_track(
    before: Object, applied: Object, entries: list[Object], manager: FieldManager, *, force: bool
) -> tuple[Object, list[Object]]:
    """Returns the merged object and its managedFields."""
    type_name = struct_of(manager.resource)
    root = Field(type_name, "")
    fields = without_paths(fields_of_object(applied, type_name), manager.reset)
    entry = manager.entry(APPLY, without_stripped(fields))
    previous = [e for e in entries if identity_of(e) == identity_of(entry)]
    others = [e for e in entries if identity_of(e) != identity_of(entry)]
    after: Object = _merge(deepcopy(before), applied, root)
    last = previous[0].get("fieldsV1", {}) if previous else {}
    owned = fields
    for other in others:
        owned = union(owned, other.get("fieldsV1", {}))
    after = _pruned(after, last, owned, root)
    if after.get("metadata") is None:
        after["metadata"] = {}
    changes = changes_in_versions(before, after, manager)
    if not force:
        conflicts = conflicting(others, changes)
        if conflicts and not _is_last_applied_by_kubectl(conflicts, before, manager):
            raise _conflict(conflicts)
    if after == before:
        # Nothing has changed: an earlier applier keeps its time, a new one gets none.
        entry["time"] = previous[0].get("time") if previous else None
    entry = {name: value for name, value in entry.items() if value is not None}
    own = [entry] if entry["fieldsV1"] else []
    return after, in_order([*after_apply(others, changes), *own])


def _pruned(merged: Object, last: Fields, owned: Fields, root: Field) -> Object:
    """Returns the object without fields that the applier owned before, if no manager owns them.

    Args:
        merged: The object with the applied configuration.
        last: The fields that the applier owned before.
        owned: The fields of all managers after the apply.
        root: The object's type.
    """
    owned = with_structs(owned, root)
    if not difference(with_parents(last), owned):
        return merged
    last = with_structs(last, root)
    present = with_structs(fields_of_object(merged, root.type_name), root)
    unapplied = _without(merged, last, root)
    remaining = with_structs(fields_of_object(unapplied, root.type_name), root)
    restored = _without(merged, difference(present, union(remaining, owned)), root)
    remaining = with_structs(fields_of_object(restored, root.type_name), root)
    return _without(merged, intersection(difference(present, remaining), last), root)


def _without(obj: Object, removed: Fields, root: Field) -> Object:
    return without_fields(obj, removed, root) or {}


# ---------------------------------------------------------------------- conflicts


def _conflict(conflicts: list[tuple[Object, Fields]]) -> ApiStatusError:
    """Returns error 409: other managers own the fields."""
    conflicting_paths = [
        (_manager_text(entry), path) for entry, taken in conflicts for path in paths_of(taken)
    ]
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {manager}", "field": path}
        for manager, path in conflicting_paths
    ]
    if len(conflicting_paths) == 1:
        text = f"1 conflict: conflict with {conflicting_paths[0][0]}: {conflicting_paths[0][1]}"
    else:
        lines = []
        for manager in sorted({manager for manager, _ in conflicting_paths}):
            lines.append(f"conflicts with {manager}:")
            lines += [f"- {path}" for other, path in conflicting_paths if other == manager]
        text = f"{len(conflicting_paths)} conflicts: " + "\n".join(lines)
    return ApiStatusError(409, "Conflict", f"Apply failed with {text}", {"causes": causes})


def _manager_text(entry: Object) -> str:
    text = quoted(entry.get("manager", ""))
    if entry.get("subresource"):
        text += f" with subresource {quoted(entry['subresource'])}"
    if entry.get("operation") == UPDATE:
        text += f" using {entry.get('apiVersion', '')}"
    return text


def _is_last_applied_by_kubectl(
    conflicts: list[tuple[Object, Fields]], live: Object, manager: FieldManager
) -> bool:
    """Returns True if kubectl's client-side apply wrote all the conflicting fields."""
    text = live["metadata"].get("annotations", {}).get(LAST_APPLIED, "")
    if manager.manager != _KUBECTL or not text:
        return False
    try:
        last = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return False
    if not isinstance(last, dict) or last.get("apiVersion") != manager.resource.api_version:
        return False
    type_name = struct_of(manager.resource)
    if any(find_type_errors(type_name, last)):
        return False
    changes = compare(last, live, type_name)
    unchanged = fields_of_object(last, type_name)
    unchanged = difference(difference(unchanged, changes.written), changes.removed)
    taken: Fields = {}
    for _, fields in conflicts:
        taken = union(taken, fields)
    return not difference(taken, unchanged)


def _update_last_applied(after: Object, applied: Object) -> None:
    """Updates kubectl's last-applied annotation, if the object has it."""
    annotations = after["metadata"].get("annotations")
    if not annotations or not annotations.get(LAST_APPLIED):
        return
    configuration = deepcopy(applied)
    ((configuration.get("metadata") or {}).get("annotations") or {}).pop(LAST_APPLIED, None)
    text = encode_sorted(configuration).decode() + "\n"
    annotations[LAST_APPLIED] = text
    size = sum(len(key.encode()) + len(str(value).encode()) for key, value in annotations.items())
    if size > ANNOTATIONS_BYTES_MAX:
        del annotations[LAST_APPLIED]


# ---------------------------------------------------------------------- merging


def _merge(live: Json, applied: Json, field: Field) -> Json:
    if applied is None:
        # Null is a value, but of a container whose parts are merged it has none.
        return live if live and is_granular(live, field) else None
    if isinstance(applied, dict) and isinstance(live, dict) and is_granular(applied, field):
        for name, item in applied.items():
            inner = child(field.type_name, name)
            live[name] = _merge(live[name], item, inner) if name in live else _copy(item)
        return live
    if isinstance(applied, list) and isinstance(live, list) and is_granular(applied, field):
        return _merge_lists(live, applied, field)
    return _copy(applied)


def _merge_lists(live: list[Json], applied: list[Json], field: Field) -> list[Json]:
    """Merges lists: applied elements in their order, each after the others that preceded it.

    Both lists are read side by side. An applied element that comes too early in the live list is
    deferred to its position in the applied list.
    """
    by_name = {element_name(item, field): item for item in applied}
    names, live_names = list(by_name), [element_name(item, field) for item in live]
    present: dict[str, Json] = {}
    for name, item in zip(live_names, live, strict=True):
        present[name] = item if name not in present else None  # duplicates are not merged
    pending = deque(name for name in names if name in present)
    merged: list[Json] = []
    live_index = applied_index = 0
    while live_index < len(live) or applied_index < len(names):
        is_applied = live_index < len(live) and live_names[live_index] in by_name
        if live_index < len(live) and not is_applied:
            merged.append(live[live_index])
            live_index += 1
            continue
        is_early = (
            is_applied
            and applied_index < len(names)
            and bool(pending)
            and live_names[live_index] != pending[0]
        )
        if is_applied and (is_early or applied_index == len(names)):
            live_index += 1
            continue
        if is_applied and (
            live_names[live_index] == names[applied_index] or live_names[live_index] not in pending
        ):
            live_index += 1
        name = names[applied_index]
        applied_index += 1
        before = present.get(name)
        applied_item = by_name[name]
        merged.append(
            _copy(applied_item) if before is None else _merge(before, applied_item, field.inner)
        )
        if pending and pending[0] == name:
            pending.popleft()
    return merged


def _copy(value: Json) -> Json:
    return deepcopy(value)
