"""managedFields: tracks field ownership on every write.

An entry has one manager's fields, by one operation ("Update" or "Apply"), in one version of the
API, through one subresource. A write of a field moves it to the writer's entry.

Source: k8s.io/apimachinery pkg/util/managedfields/internal; the GetResetFields of pkg/registry.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from mooring.apiserver.patch.field_diff import Changes, added_fields, compare
from mooring.apiserver.patch.field_sets import (
    Fields,
    Path,
    TypeMismatch,
    difference,
    intersection,
    read_fields,
    union,
    without_paths,
)
from mooring.apiserver.resources import struct_of
from mooring.apiserver.schema.event_conversion import is_view, to_served
from mooring.apiserver.types import Object
from mooring.objects.schema.decoding import empty

if TYPE_CHECKING:
    from mooring.apiserver.resources import CustomVersion, Resource

#: apiVersion -> the changes as that version has them.
VersionChanges = Mapping[str, Changes]
_NO_CHANGES = Changes({}, {})
#: Entries of updates; the oldest ones beyond are merged.
UPDATERS_MAX = 10
ANCIENT_CHANGES = "ancient-changes"
APPLY, UPDATE = "Apply", "Update"
_UNKNOWN = "unknown"
#: Fields of the metadata that no manager owns.
STRIPPED_FIELDS = frozenset(
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
_STRIPPED_SET: Fields = {"f:metadata": {".": {}, **{f"f:{name}": {} for name in STRIPPED_FIELDS}}}
_NAMES: tuple[Path, ...] = (("kind",), ("apiVersion",))
_SPEC, _STATUS, _METADATA = ("spec",), ("status",), ("metadata",)
#: Resources whose status may be changed with the main resource, or that have none.
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
        "ipaddresses",
        "deviceclasses",
        "resourceclaimtemplates",
        "resourceslices",
    )
)
#: Resource and subresource -> fields that such a write does not change.
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
        ("servicecidrs", "status"): (_METADATA, _SPEC),
        ("volumeattachments", "status"): (_METADATA, _SPEC),
        ("devicetaintrules", "status"): (_METADATA, _SPEC),
    }
)


class FieldManager(NamedTuple):
    """The writer of a change, for managedFields.

    Attributes:
        manager: The name; "" = unknown.
        resource: The resource that is written.
        subresource: The subresource, "" for the main resource.
        now: The current time.
    """

    manager: str
    resource: Resource
    subresource: str
    now: str

    @property
    def reset(self) -> tuple[Path, ...]:
        """The fields that such a write does not change."""
        name, custom = self.resource.name, self.resource.custom
        if self.subresource == "scale":
            return ()
        if custom is not None:
            return _reset_of_custom(custom, self.subresource)
        if self.subresource in ("ephemeralcontainers", "resize"):
            return ()
        paths = _RESET.get((name, self.subresource))
        if paths is not None:
            return paths
        if name in _UNRESET:
            return ()
        return (_SPEC,) if self.subresource == "status" else (_STATUS,)

    def entry(self, operation: str, fields: Fields) -> Object:
        """Returns an entry of this manager with the current time."""
        entry: Object = {
            "manager": self.manager or _UNKNOWN,
            "operation": operation,
            "apiVersion": self.resource.api_version,
            "time": self.now,
            "fieldsType": "FieldsV1",
            "fieldsV1": fields,
        }
        if self.subresource:
            entry["subresource"] = self.subresource
        return entry


def _reset_of_custom(custom: CustomVersion, subresource: str) -> tuple[Path, ...]:
    if subresource == "status":
        return (_METADATA, _SPEC)
    return (_STATUS,) if custom.has_status else ()


def changes_in_versions(old: Object, new: Object, writer: FieldManager) -> VersionChanges:
    """Returns the differences between two objects that the writer may make, in each version.

    Versions differ in the schemas by which they see an object, and so in the parts of its fields.

    Raises:
        TypeMismatch: A value does not have the type of the written version.
    """
    resource, reset = writer.resource, writer.reset
    types = {resource.api_version: struct_of(resource)}
    if resource.custom is not None:
        served = resource.custom.served_structs
        types = {version: struct.name for version, struct in served.items()} | types
    by_version = {}
    for version, type_name in types.items():
        changes = compare(old, new, type_name)
        by_version[version] = Changes(
            without_paths(changes.written, reset), without_paths(changes.removed, reset)
        )
    return by_version


def track_create(new: Object, writer: FieldManager) -> None:
    """Sets the managedFields of a new object; it has none if a value is not of its type.

    Entries sent by the client count only for fields that the object does not have.
    """
    with suppress(TypeMismatch):  # as UpdateNoErrors upstream; the validation reports it
        _track_create(new, writer)


def _track_create(new: Object, writer: FieldManager) -> None:
    metadata = new["metadata"]
    entries = _valid_entries(metadata.pop("managedFields", []))
    external = to_served(writer.resource, new) if is_view(writer.resource) else new
    type_name = struct_of(writer.resource)
    fields = added_fields(type_name)(_owned(external, writer))
    if entries:
        changes = compare(empty(type_name), external, type_name)
        entries = [_without_changes(entry, changes) for entry in entries]
        entries = [entry for entry in entries if entry["fieldsV1"]]
    if fields:
        entries = _add_entry(entries, writer.entry(UPDATE, fields))
    if entries:
        metadata["managedFields"] = in_order(entries)


def _owned(new: Object, writer: FieldManager) -> Object:
    """Returns the parts of a new object that its writer owns; the object is not changed."""
    owned = dict(new)
    for path in (*_NAMES, *writer.reset):
        owned.pop(path[0], None)
    metadata = new["metadata"]
    owned["metadata"] = {name: metadata[name] for name in metadata if name not in STRIPPED_FIELDS}
    return owned


def track_update(new: Object, old: Object, writer: FieldManager) -> None:
    """Updates the managedFields of a changed object; ``old`` is the stored one.

    They are removed if a value is not of its type.
    """
    with suppress(TypeMismatch):
        _track_update(new, old, writer)


def _track_update(new: Object, old: Object, writer: FieldManager) -> None:
    metadata, before = new["metadata"], old["metadata"]
    entries = _entries_to_keep(metadata, before, is_subresource=bool(writer.subresource))
    metadata.pop("managedFields", None)
    if not entries:
        return  # managedFields are not tracked for this object, or the client cleared them
    if is_view(writer.resource):
        old, new = to_served(writer.resource, old), to_served(writer.resource, new)
    tracked = after_update(entries, changes_in_versions(old, new, writer), writer)
    if tracked:
        metadata["managedFields"] = tracked


def after_update(
    entries: list[Object], changes: VersionChanges, writer: FieldManager
) -> list[Object]:
    """Returns the entries after a writer has changed the object."""
    remaining = after_apply(entries, changes)
    written = without_stripped(changes[writer.resource.api_version].written)
    if written:
        remaining = _add_entry(remaining, writer.entry(UPDATE, written))
    return in_order(_merge_oldest(remaining))


def after_apply(entries: list[Object], changes: VersionChanges) -> list[Object]:
    """Returns the non-empty entries of other managers after changes.

    Those of a version that is not served any more are dropped: nothing is known of its fields.
    """
    remaining = []
    for entry in entries:
        own_changes = changes.get(entry.get("apiVersion", ""))
        if own_changes is not None:
            remaining.append(_without_changes(entry, own_changes))
    return [entry for entry in remaining if entry["fieldsV1"]]


def without_stripped(fields: Fields) -> Fields:
    """Returns the fields without those that no manager owns."""
    return difference(fields, _STRIPPED_SET)


def conflicting(entries: list[Object], changes: VersionChanges) -> list[tuple[Object, Fields]]:
    """Returns the entries, with their fields, that conflict with an apply."""
    conflicts = []
    for entry in entries:
        own_changes = changes.get(entry.get("apiVersion", ""), _NO_CHANGES)
        taken = intersection(entry.get("fieldsV1", {}), own_changes.written)
        if taken:
            conflicts.append((entry, taken))
    return conflicts


def _without_changes(entry: Object, changes: Changes) -> Object:
    """Returns an entry without the fields that were written or removed."""
    fields = entry.get("fieldsV1", {})
    unchanged = difference(difference(fields, changes.written), changes.removed)
    return {**entry, "fieldsV1": unchanged}


def _add_entry(entries: list[Object], entry: Object) -> list[Object]:
    """Returns the entries with a new one, merged with the earlier entry of the same manager."""
    others = []
    for other in entries:
        if identity_of(other) == identity_of(entry):
            fields = union(other.get("fieldsV1", {}), entry["fieldsV1"])
            entry = {**entry, "fieldsV1": fields}
        else:
            others.append(other)
    return [*others, entry]


def identity_of(entry: Object) -> tuple[str, str, str, str]:
    """Returns the key of an entry's manager; appliers may change the version."""
    operation = entry.get("operation", "")
    version = "" if operation == APPLY else entry.get("apiVersion", "")
    return entry.get("manager", ""), operation, version, entry.get("subresource", "")


def latest_entries(entries: list[Object]) -> list[Object]:
    """Returns the entries, of equal managers the last one alone."""
    by_identity = {identity_of(entry): entry for entry in entries}
    return list(by_identity.values()) if len(by_identity) < len(entries) else entries


def in_order(entries: list[Object]) -> list[Object]:
    """Returns the entries in order: by operation, then by time."""
    return sorted(entries, key=_sort_key) if len(entries) > 1 else entries


def _sort_key(entry: Object) -> tuple[str, str, str, str, str]:
    names = ("operation", "time", "manager", "apiVersion", "subresource")
    first, second, third, fourth, fifth = (entry.get(name) or "" for name in names)
    return first, second, third, fourth, fifth


def _merge_oldest(entries: list[Object]) -> list[Object]:
    """Limits the entries of updates: the oldest are merged into one for each version."""
    updates = [entry for entry in entries if entry.get("operation") == UPDATE]
    surplus = len(updates) - UPDATERS_MAX
    if surplus <= 0:
        return entries
    remaining = {identity_of(entry): entry for entry in entries}
    firsts: dict[str, Object] = {}
    for entry in sorted(updates, key=lambda entry: (entry.get("time") or "", identity_of(entry))):
        if surplus <= 0:
            break
        version = entry.get("apiVersion", "")
        if version not in firsts:
            firsts[version] = entry
            continue
        bucket = (ANCIENT_CHANGES, UPDATE, version, "")
        merged = remaining.get(bucket) or remaining.pop(identity_of(firsts[version]))
        fields = union(entry.get("fieldsV1", {}), merged.get("fieldsV1", {}))
        remaining.pop(identity_of(entry), None)
        ancient = {**entry, "manager": ANCIENT_CHANGES, "fieldsV1": fields}
        ancient.pop("subresource", None)
        remaining[bucket] = ancient
        surplus -= 1
    return list(remaining.values())


def _entries_to_keep(metadata: Object, before: Object, *, is_subresource: bool) -> list[Object]:
    """Returns the client's entries if it sent valid ones, else those of the stored object."""
    present: list[Object] = before.get("managedFields", [])
    sent = metadata.get("managedFields")
    if is_subresource or sent is None or sent == present:
        return latest_entries(present)
    if sent == [{}]:
        return []  # by convention this clears them
    return latest_entries(_valid_entries(sent) or present)


def _valid_entries(entries: list[Object]) -> list[Object]:
    """Returns the entries in normal form if all of them are valid, else none."""
    valid = []
    for entry in entries:
        is_valid = entry.get("operation") in (APPLY, UPDATE) and entry.get("apiVersion")
        if not is_valid or entry.get("fieldsType") != "FieldsV1":
            return []
        try:
            fields = read_fields(entry.get("fieldsV1"))
        except ValueError:
            return []
        valid.append({**entry, "fieldsV1": fields})
    return valid


def keep_timestamps_if_unchanged(new: Object, old: Object) -> None:
    """Restores the old entries if the objects differ only in their timestamps."""
    entries, before = new["metadata"].get("managedFields"), old["metadata"].get("managedFields")
    if not entries or not before or len(entries) != len(before) or entries == before:
        return
    if [*map(_without_time, entries)] != [*map(_without_time, before)]:
        return
    metadata = {**new["metadata"], "managedFields": before}
    metadata["resourceVersion"] = old["metadata"].get("resourceVersion")
    if {**new, "metadata": metadata} == old:
        new["metadata"]["managedFields"] = before


def _without_time(entry: Object) -> Object:
    return {name: value for name, value in entry.items() if name != "time"}
