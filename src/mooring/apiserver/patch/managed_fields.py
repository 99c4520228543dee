"""managedFields: which manager wrote which fields last, kept up with every write.

An entry is one manager's fields, by one operation ("Update" or "Apply"), in one version of the
API, through one subresource. Who writes a field takes it from all others.

Source: k8s.io/apimachinery pkg/util/managedfields/internal; the GetResetFields of pkg/registry.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from mooring.apiserver.patch.field_diff import Changes, added_fields, compare
from mooring.apiserver.patch.field_sets import (
    Fields,
    Path,
    difference,
    intersection,
    read_fields,
    union,
    without_paths,
)
from mooring.apiserver.schema.decoding import empty
from mooring.apiserver.schema.event_conversion import is_view, to_view
from mooring.apiserver.schema.schema import struct_of
from mooring.apiserver.types import Object

if TYPE_CHECKING:
    from mooring.apiserver.resources import Resource

#: Entries of updates; the oldest of more are put together.
UPDATERS_MAX = 10
ANCIENT = "ancient-changes"
APPLY, UPDATE = "Apply", "Update"
_UNKNOWN = "unknown"
#: Parts of the metadata that belong to nobody.
_OWNERLESS = frozenset(
    (
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "clusterName",
        "generation",
        "managedFields",
        "resourceVersion",
    )
)
_OWNERLESS_FIELDS: Fields = {"f:metadata": {".": {}, **{f"f:{name}": {} for name in _OWNERLESS}}}
_NAMES: tuple[Path, ...] = (("kind",), ("apiVersion",))
_SPEC, _STATUS, _METADATA = ("spec",), ("status",), ("metadata",)
#: Resources whose status may be changed with the rest, or that have none.
_UNRESET = frozenset(
    (
        "configmaps",
        "endpoints",
        "events",
        "leases",
        "secrets",
        "serviceaccounts",
        "csidrivers",
        "csinodes",
        "csistoragecapacities",
        "storageclasses",
        "priorityclasses",
        "endpointslices",
        "deviceclasses",
        "resourceclaimtemplates",
        "resourceslices",
    )
)
#: Resource and subresource -> fields that a write there leaves as they are.
_RESET: Mapping[tuple[str, str], tuple[Path, ...]] = MappingProxyType(
    {
        ("pods", "status"): (
            _SPEC,
            ("metadata", "deletionTimestamp"),
            ("metadata", "ownerReferences"),
        ),
        ("deployments", "status"): (_SPEC, ("metadata", "labels")),
        ("namespaces", "finalize"): (_STATUS,),
        ("certificatesigningrequests", ""): (_SPEC, _STATUS),
        ("certificatesigningrequests", "status"): (_SPEC, ("status", "conditions")),
        ("certificatesigningrequests", "approval"): (_SPEC, ("status", "certificate")),
        ("resourceclaims", "status"): (_METADATA, _SPEC),
        ("volumeattachments", "status"): (_METADATA, _SPEC),
    }
)


class FieldManager(NamedTuple):
    """Who writes, and how.

    Attributes:
        manager: The name; "" = unknown.
        resource: What is written.
        subresource: Through which, "" for the object as a whole.
        now: The present time.
    """

    manager: str
    resource: Resource
    subresource: str
    now: str

    @property
    def reset(self) -> tuple[Path, ...]:
        """The fields that such a write leaves as they are."""
        name = self.resource.name
        if self.subresource == "ephemeralcontainers":
            return ()
        found = _RESET.get((name, self.subresource))
        if found is not None:
            return found
        if name in _UNRESET:
            return ()
        return (_SPEC,) if self.subresource == "status" else (_STATUS,)

    def entry(self, operation: str, fields: Fields) -> Object:
        """Returns an entry of this author, of now."""
        found: Object = {
            "manager": self.manager or _UNKNOWN,
            "operation": operation,
            "apiVersion": self.resource.api_version,
            "time": self.now,
            "fieldsType": "FieldsV1",
            "fieldsV1": fields,
        }
        if self.subresource == "scale":
            del found["time"]  # upstream's handler of scales keeps none
        if self.subresource:
            found["subresource"] = self.subresource
        return found


def track_create(new: Object, author: FieldManager) -> None:
    """Puts into a new object who wrote it.

    What the client itself put there counts only for fields that the object has not got.
    """
    metadata = new["metadata"]
    given = _known_entries(metadata.pop("managedFields", []))
    shown = to_view(new) if is_view(author.resource) else new
    type_name = struct_of(author.resource)
    fields = added_fields(type_name)(_owned(shown, author))
    if given:
        changes = compare(empty(type_name), shown, type_name)
        given = _left_to(given, changes)
    if fields:
        given = _with_entry(given, author.entry(UPDATE, fields))
    if given:
        metadata["managedFields"] = in_order(given)


def _owned(new: Object, author: FieldManager) -> Object:
    """What of a new object belongs to who wrote it; the object itself stays as it is."""
    found = dict(new)
    for path in (*_NAMES, *author.reset):
        found.pop(path[0], None)
    metadata = new["metadata"]
    found["metadata"] = {name: metadata[name] for name in metadata if name not in _OWNERLESS}
    return found


def track_update(new: Object, old: Object, author: FieldManager) -> None:
    """Puts into a changed object who changed what. ``old`` is the object as stored."""
    metadata, before = new["metadata"], old["metadata"]
    entries = _entries_to_keep(metadata, before, is_part=bool(author.subresource))
    metadata.pop("managedFields", None)
    if not entries:
        return  # nobody has asked for them to be kept, or somebody not to
    type_name = struct_of(author.resource)
    if is_view(author.resource):
        changes = compare(to_view(old), to_view(new), type_name)
    else:
        changes = compare(old, new, type_name)
    noted = after_update(entries, changes, author)
    if noted:
        metadata["managedFields"] = noted


def after_update(entries: list[Object], changes: Changes, author: FieldManager) -> list[Object]:
    """The entries after an author has changed the object."""
    changes = _filtered(changes, author)
    kept = _left_to(_convertible(entries, author), changes)
    mine = without_ownerless(changes.written)
    if mine:
        kept = _with_entry(kept, author.entry(UPDATE, mine))
    return in_order(_capped(kept))


def after_apply(entries: list[Object], changes: Changes, author: FieldManager) -> list[Object]:
    """The other managers' entries after an author has applied changes."""
    return _left_to(_convertible(entries, author), _filtered(changes, author))


def without_ownerless(fields: Fields) -> Fields:
    """Returns the fields without those that belong to nobody."""
    return difference(fields, _OWNERLESS_FIELDS)


def conflicting(
    entries: list[Object], changes: Changes, author: FieldManager
) -> list[tuple[Object, Fields]]:
    """Whose fields an author would take by applying, entry by entry."""
    written = _filtered(changes, author).written
    found = []
    for entry in entries:
        taken = intersection(entry.get("fieldsV1", {}), written)
        if taken:
            found.append((entry, taken))
    return found


def _convertible(entries: list[Object], author: FieldManager) -> list[Object]:
    """The entries of this version; of fields in others nothing is known any more."""
    version = author.resource.api_version
    return [entry for entry in entries if entry.get("apiVersion") == version]


def _filtered(changes: Changes, author: FieldManager) -> Changes:
    reset = author.reset
    return Changes(without_paths(changes.written, reset), without_paths(changes.removed, reset))


def _left_to(entries: list[Object], changes: Changes) -> list[Object]:
    """Returns the entries without the fields that were written or removed; the empty ones go."""
    kept = []
    for entry in entries:
        fields = entry.get("fieldsV1", {})
        left = difference(difference(fields, changes.written), changes.removed)
        if left:
            kept.append({**entry, "fieldsV1": left})
    return kept


def _with_entry(entries: list[Object], entry: Object) -> list[Object]:
    """Returns the entries with a new one, which takes in the earlier one of the same author."""
    others = []
    for each in entries:
        if identity_of(each) == identity_of(entry):
            fields = union(each.get("fieldsV1", {}), entry["fieldsV1"])
            entry = {**entry, "fieldsV1": fields}
        else:
            others.append(each)
    return [*others, entry]


def identity_of(entry: Object) -> tuple[str, str, str, str]:
    """What makes two entries those of the same author; appliers may change the version."""
    operation = entry.get("operation", "")
    version = "" if operation == APPLY else entry.get("apiVersion", "")
    return entry.get("manager", ""), operation, version, entry.get("subresource", "")


def in_order(entries: list[Object]) -> list[Object]:
    """Returns the entries as they are written: by operation, then by time."""
    return sorted(entries, key=_place_of) if len(entries) > 1 else entries


def _place_of(entry: Object) -> tuple[str, str, str, str, str]:
    names = ("operation", "time", "manager", "apiVersion", "subresource")
    first, second, third, fourth, fifth = (entry.get(name) or "" for name in names)
    return first, second, third, fourth, fifth


def _capped(entries: list[Object]) -> list[Object]:
    """Not more entries of updates than may be; the oldest become one for each version."""
    updates = [entry for entry in entries if entry.get("operation") == UPDATE]
    surplus = len(updates) - UPDATERS_MAX
    if surplus <= 0:
        return entries
    left = {identity_of(entry): entry for entry in entries}
    firsts: dict[str, Object] = {}
    for entry in sorted(updates, key=lambda each: (each.get("time") or "", identity_of(each))):
        if surplus <= 0:
            break
        version = entry.get("apiVersion", "")
        if version not in firsts:
            firsts[version] = entry
            continue
        bucket = (ANCIENT, UPDATE, version, "")
        so_far = left.get(bucket) or left.pop(identity_of(firsts[version]))
        fields = union(entry.get("fieldsV1", {}), so_far.get("fieldsV1", {}))
        left.pop(identity_of(entry), None)
        found = {**entry, "manager": ANCIENT, "fieldsV1": fields}
        found.pop("subresource", None)
        left[bucket] = found
        surplus -= 1
    return list(left.values())


def _entries_to_keep(metadata: Object, before: Object, *, is_part: bool) -> list[Object]:
    """The client's entries, if it sent any and they make sense; else those that are there."""
    present: list[Object] = before.get("managedFields", [])
    given = metadata.get("managedFields")
    if is_part or given is None or given == present:
        return present
    if given == [{}]:
        return []  # the agreed way to have them forgotten
    return _known_entries(given) or present


def _known_entries(entries: list[Object]) -> list[Object]:
    """Returns the entries in their one form, if all of them make sense; else none."""
    known = []
    for entry in entries:
        is_known = entry.get("operation") in (APPLY, UPDATE) and entry.get("apiVersion")
        if not is_known or entry.get("fieldsType") != "FieldsV1":
            return []
        try:
            fields = read_fields(entry.get("fieldsV1"))
        except ValueError:
            return []
        known.append({**entry, "fieldsV1": fields})
    return known


def with_old_times(new: Object, old: Object) -> None:
    """Takes the old entries if only their times differ, and nothing else: that is no change."""
    entries, before = new["metadata"].get("managedFields"), old["metadata"].get("managedFields")
    if not entries or not before or len(entries) != len(before) or entries == before:
        return
    if [_timeless(each) for each in entries] != [_timeless(each) for each in before]:
        return
    metadata = {**new["metadata"], "managedFields": before}
    metadata["resourceVersion"] = old["metadata"].get("resourceVersion")
    if {**new, "metadata": metadata} == old:
        new["metadata"]["managedFields"] = before


def _timeless(entry: Object) -> Object:
    return {name: value for name, value in entry.items() if name != "time"}
