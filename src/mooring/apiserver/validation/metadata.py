"""What is wrong with the metadata of an object, in kube-apiserver's words.

Source: k8s.io/apimachinery pkg/api/validation/objectmeta.go, pkg/apis/meta/v1/validation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from mooring.apiserver import names
from mooring.apiserver.errors import (
    FieldFault,
    forbidden_field,
    invalid,
    not_supported,
    required,
    too_long,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

#: Bytes of all annotations of an object together.
ANNOTATIONS_BYTES_MAX = 256 * 1024
IMMUTABLE = "field is immutable"
ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"
_STANDARD_FINALIZERS = ("kubernetes", ORPHAN, FOREGROUND)
_OPERATORS_WITH_VALUES = ("In", "NotIn")
_OPERATORS_WITHOUT_VALUES = ("Exists", "DoesNotExist")

Metadata = dict[str, Any]


def each(field: str, value: str, problems: Iterable[str]) -> list[FieldFault]:
    """Returns a fault for each problem of one text."""
    return [invalid(field, value, problem) for problem in problems]


def validate_metadata(
    metadata: Metadata, *, namespaced: bool, check_name: names.Check
) -> list[FieldFault]:
    """What is wrong with the metadata of any object."""
    faults: list[FieldFault] = []
    if base := metadata.get("generateName"):
        check = names.as_prefix(check_name)
        faults += each("metadata.generateName", base, check(base))
    name = metadata.get("name", "")
    if not name:
        faults.append(required("metadata.name", "name or generateName is required"))
    elif problems := check_name(name):
        faults += each("metadata.name", name, problems)
    namespace = metadata.get("namespace", "")
    if not namespaced:
        if namespace:
            faults.append(forbidden_field("metadata.namespace", "not allowed on this type"))
    elif not namespace:
        faults.append(required("metadata.namespace"))
    elif problems := names.dns_label(namespace):
        faults += each("metadata.namespace", namespace, problems)
    if metadata.get("generation", 0) < 0:
        problem = "must be greater than or equal to 0"
        faults.append(invalid("metadata.generation", metadata["generation"], problem))
    return faults + _shared_rules(metadata)


def _shared_rules(metadata: Metadata) -> list[FieldFault]:
    faults: list[FieldFault] = []
    if labels := metadata.get("labels"):
        faults += validate_labels(labels, "metadata.labels")
    if annotations := metadata.get("annotations"):
        faults += validate_annotations(annotations, "metadata.annotations")
    if owners := metadata.get("ownerReferences"):
        faults += _validate_owners(owners)
    if finalizers := metadata.get("finalizers"):
        faults += _validate_finalizers(finalizers)
    for number, entry in enumerate(metadata.get("managedFields", ())):
        faults += _validate_managed(entry, f"metadata.managedFields[{number}]")
    return faults


def validate_labels(labels: Mapping[str, str], field: str) -> list[FieldFault]:
    """What is wrong with labels."""
    faults: list[FieldFault] = []
    for key, value in labels.items():
        if problems := names.qualified_name(key):
            faults += each(field, key, problems)
        if problems := names.label_value(value):
            faults += each(field, value, problems)
    return faults


def validate_annotations(annotations: Mapping[str, str], field: str) -> list[FieldFault]:
    """What is wrong with annotations."""
    faults: list[FieldFault] = []
    size = 0
    for key, value in annotations.items():
        faults += each(field, key, names.qualified_name(key.lower()))
        size += len(key.encode()) + len(value.encode())
    if size > ANNOTATIONS_BYTES_MAX:
        faults.append(too_long(field, ANNOTATIONS_BYTES_MAX))
    return faults


def _validate_owners(owners: Sequence[dict[str, Any]]) -> list[FieldFault]:
    field = "metadata.ownerReferences"
    faults: list[FieldFault] = []
    controller = ""
    for owner in owners:
        if not owner["apiVersion"]:
            problem = "version must not be empty"
            faults.append(invalid(f"{field}.apiVersion", owner["apiVersion"], problem))
        faults += [
            invalid(f"{field}.{name}", "", "must not be empty")
            for name in ("kind", "name", "uid")
            if not owner[name]
        ]
        if (owner["apiVersion"], owner["kind"]) == ("v1", "Event"):
            problem = "/v1, Kind=Event is disallowed from being an owner"
            faults.append(invalid(field, owner, problem))
        if owner.get("controller"):
            this = f"{owner['kind']}/{owner['name']}"
            if controller:
                problem = (
                    "Only one reference can have Controller set to true. Found "
                    f'"true" in references for {controller} and {this}'
                )
                faults.append(invalid(field, list(owners), problem))
            controller = controller or this
    return faults


def _validate_finalizers(finalizers: Sequence[str]) -> list[FieldFault]:
    field = "metadata.finalizers"
    faults: list[FieldFault] = []
    for finalizer in finalizers:
        faults += each(field, finalizer, names.qualified_name(finalizer))
    problem = "name is neither a standard finalizer name nor is it fully qualified"
    faults += [
        invalid(f"{field}[{number}]", finalizer, problem)
        for number, finalizer in enumerate(finalizers)
        if "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS
    ]
    if ORPHAN in finalizers and FOREGROUND in finalizers:
        problem = f"finalizer {ORPHAN} and {FOREGROUND} cannot be both set"
        faults.append(invalid(field, list(finalizers), problem))
    return faults


def _validate_managed(entry: dict[str, Any], field: str) -> list[FieldFault]:
    faults: list[FieldFault] = []
    if entry.get("operation") not in ("Apply", "Update"):
        problem = "must be `Apply` or `Update`"
        faults.append(invalid(f"{field}.operation", entry.get("operation", ""), problem))
    if entry.get("fieldsType", "FieldsV1") != "FieldsV1":
        faults.append(invalid(f"{field}.fieldsType", entry["fieldsType"], "must be `FieldsV1`"))
    return faults


def validate_metadata_update(new: Metadata, old: Metadata) -> list[FieldFault]:
    """What may not be changed in the metadata of any object."""
    faults: list[FieldFault] = []
    if "deletionTimestamp" in old:
        extra = sorted(set(new.get("finalizers", ())) - set(old.get("finalizers", ())))
        if extra:
            listed = "[]string{" + ", ".join(msgspec.json.encode(name).decode() for name in extra)
            problem = (
                "no new finalizers can be added if the object is being deleted, "
                f"found new finalizers {listed}}}"
            )
            faults.append(forbidden_field("metadata.finalizers", problem))
    faults += [
        invalid(f"metadata.{name}", new.get(name, _NOTHING.get(name)), IMMUTABLE)
        for name in _IMMUTABLE_NAMES
        if new.get(name) != old.get(name)
    ]
    return faults + _shared_rules(new)


_IMMUTABLE_NAMES = (
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)
_NOTHING = {"name": "", "namespace": "", "uid": ""}


def validate_label_selector(selector: Mapping[str, Any] | None, field: str) -> list[FieldFault]:
    """What is wrong with a label selector that is part of an object."""
    if selector is None:
        return []
    faults = validate_labels(selector.get("matchLabels", {}), f"{field}.matchLabels")
    for number, condition in enumerate(selector.get("matchExpressions", ())):
        where = f"{field}.matchExpressions[{number}]"
        operator, values = condition["operator"], condition.get("values", ())
        if operator in _OPERATORS_WITH_VALUES:
            if not values:
                problem = "must be specified when `operator` is 'In' or 'NotIn'"
                faults.append(required(f"{where}.values", problem))
        elif operator in _OPERATORS_WITHOUT_VALUES:
            if values:
                problem = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                faults.append(forbidden_field(f"{where}.values", problem))
        else:
            faults.append(invalid(f"{where}.operator", operator, "not a valid selector operator"))
        faults += each(f"{where}.key", condition["key"], names.qualified_name(condition["key"]))
        for position, value in enumerate(values):
            faults += each(f"{where}.values[{position}]", value, names.label_value(value))
    return faults


def validate_field_manager(manager: str, field: str = "fieldManager") -> list[FieldFault]:
    """What is wrong with the name of who changes fields."""
    faults: list[FieldFault] = []
    if len(manager.encode()) > FIELD_MANAGER_BYTES_MAX:
        faults.append(too_long(field, FIELD_MANAGER_BYTES_MAX))
    for position, character in enumerate(manager):
        if not character.isprintable():
            problem = f"invalid character U+{ord(character):04X} (at position {position})"
            faults.append(invalid(field, manager, problem))
    return faults


FIELD_MANAGER_BYTES_MAX = 128


def validate_dry_run(values: Sequence[str]) -> list[FieldFault]:
    """What is wrong with ``dryRun``."""
    if all(value == "All" for value in values):
        return []
    return [not_supported("dryRun", list(values), ["All"])]
