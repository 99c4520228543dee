"""Validation of metadata, with kube-apiserver's messages.

Source: k8s.io/apimachinery pkg/api/validation/objectmeta.go, pkg/apis/meta/v1/validation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from mooring.apiserver import names
from mooring.apiserver.errors import (
    Errors,
    forbidden_field,
    invalid,
    not_supported,
    required,
    too_long,
)
from mooring.apiserver.validation.rules import IMMUTABLE, field_errors, not_negative, required_value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: Bytes of all annotations of an object together.
ANNOTATIONS_BYTES_MAX = 256 * 1024
ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"
_STANDARD_FINALIZERS = ("kubernetes", ORPHAN, FOREGROUND)
NO_OPERATOR = "not a valid selector operator"

Metadata = dict[str, Any]


def validate_metadata(
    metadata: Metadata, *, namespaced: bool, check_name: names.Check, any_finalizer: bool = False
) -> Errors:
    """Validates the metadata of a new object.

    Args:
        metadata: Of the object.
        namespaced: True if it has a namespace.
        check_name: The rule of names.
        any_finalizer: True if finalizers need no domain, as those of custom resources.
    """
    if base := metadata.get("generateName"):
        check = names.as_prefix(check_name)
        yield from field_errors("metadata.generateName", base, check)
    name = metadata.get("name", "")
    if not name:
        yield required("metadata.name", "name or generateName is required")
    else:
        yield from field_errors("metadata.name", name, check_name)
    namespace = metadata.get("namespace", "")
    if not namespaced:
        if namespace:
            yield forbidden_field("metadata.namespace", "not allowed on this type")
    else:
        yield from required_value("metadata.namespace", namespace, names.dns_label)
    yield from not_negative(metadata, "metadata", "generation")
    yield from _shared_rules(metadata)
    if finalizers := metadata.get("finalizers"):
        yield from _validate_finalizers(finalizers, any_finalizer=any_finalizer)


def _shared_rules(metadata: Metadata) -> Errors:
    if labels := metadata.get("labels"):
        yield from validate_labels(labels, "metadata.labels")
    if annotations := metadata.get("annotations"):
        yield from validate_annotations(annotations, "metadata.annotations")
    if owners := metadata.get("ownerReferences"):
        yield from _validate_owners(owners)
    for number, entry in enumerate(metadata.get("managedFields", ())):
        yield from _validate_managed(entry, f"metadata.managedFields[{number}]")


def validate_labels(labels: Mapping[str, str], field: str) -> Errors:
    """Validates labels."""
    for key, value in labels.items():
        yield from field_errors(field, key, names.qualified_name)
        yield from field_errors(field, value, names.label_value)


def validate_annotations(annotations: Mapping[str, str], field: str) -> Errors:
    """Validates annotations."""
    size = 0
    for key, value in annotations.items():
        yield from field_errors(field, key, names.annotation_key)
        size += len(key.encode()) + len(value.encode())
    if size > ANNOTATIONS_BYTES_MAX:
        yield too_long(field, ANNOTATIONS_BYTES_MAX)


#: The fields of metadata that a template of objects cannot set, in Go's order.
_NOT_IN_TEMPLATES = (
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "ownerReferences",
    "finalizers",
    "managedFields",
)


def validate_template_metadata(metadata: Metadata, field: str) -> Errors:
    """Validates the metadata of a template of claims, which has labels and annotations only."""
    yield from validate_annotations(metadata.get("annotations") or {}, f"{field}.annotations")
    yield from validate_labels(metadata.get("labels") or {}, f"{field}.labels")
    for name in _NOT_IN_TEMPLATES:
        if metadata.get(name):
            # As upstream, which makes the name of the field from that in Go.
            path = "uID" if name == "uid" else name
            yield forbidden_field(f"{field}.{path}", "cannot be set")


def _validate_owners(owners: Sequence[dict[str, Any]]) -> Errors:
    field = "metadata.ownerReferences"
    controller = ""
    for owner in owners:
        if not owner["apiVersion"]:
            problem = "version must not be empty"
            yield invalid(f"{field}.apiVersion", owner["apiVersion"], problem)
        yield from (
            invalid(f"{field}.{name}", "", "must not be empty")
            for name in ("kind", "name", "uid")
            if not owner[name]
        )
        if (owner["apiVersion"], owner["kind"]) == ("v1", "Event"):
            problem = "/v1, Kind=Event is disallowed from being an owner"
            yield invalid(field, owner, problem)
        if owner.get("controller"):
            owner_name = f"{owner['kind']}/{owner['name']}"
            if controller:
                problem = (
                    "Only one reference can have Controller set to true. Found "
                    f'"true" in references for {controller} and {owner_name}'
                )
                yield invalid(field, list(owners), problem)
            controller = controller or owner_name


NOT_STANDARD = "name is neither a standard finalizer name nor is it fully qualified"


def lacks_domain(finalizer: str) -> bool:
    """Returns whether a finalizer is neither a standard one nor fully qualified."""
    return "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS


def finalizer_errors(finalizers: Sequence[str]) -> Errors:
    """Returns the errors of finalizers that are neither standard nor fully qualified."""
    return (
        invalid(f"metadata.finalizers[{number}]", finalizer, NOT_STANDARD)
        for number, finalizer in enumerate(finalizers)
        if lacks_domain(finalizer)
    )


def _validate_finalizers(finalizers: Sequence[str], *, any_finalizer: bool) -> Errors:
    field = "metadata.finalizers"
    for finalizer in finalizers:
        yield from field_errors(field, finalizer, names.qualified_name)
    if not any_finalizer:
        yield from finalizer_errors(finalizers)
    if ORPHAN in finalizers and FOREGROUND in finalizers:
        problem = f"finalizer {ORPHAN} and {FOREGROUND} cannot be both set"
        yield invalid(field, list(finalizers), problem)


def _validate_managed(entry: dict[str, Any], field: str) -> Errors:
    if entry.get("operation") not in ("Apply", "Update"):
        problem = "must be `Apply` or `Update`"
        yield invalid(f"{field}.operation", entry.get("operation", ""), problem)
    if entry.get("fieldsType", "FieldsV1") != "FieldsV1":
        yield invalid(f"{field}.fieldsType", entry["fieldsType"], "must be `FieldsV1`")
    yield from validate_field_manager(entry.get("manager", ""), f"{field}.manager")
    if len(entry.get("subresource", "").encode()) > _SUBRESOURCE_BYTES_MAX:
        yield too_long(f"{field}.subresource", _SUBRESOURCE_BYTES_MAX)


def validate_metadata_update(new: Metadata, old: Metadata) -> Errors:
    """Validates a change of metadata; of the finalizers only whether some may be added."""
    if "deletionTimestamp" in old:
        added = sorted(set(new.get("finalizers", ())) - set(old.get("finalizers", ())))
        if added:
            added_text = "[]string{" + ", ".join(
                msgspec.json.encode(name).decode() for name in added
            )
            problem = (
                "no new finalizers can be added if the object is being deleted, "
                f"found new finalizers {added_text}}}"
            )
            yield forbidden_field("metadata.finalizers", problem)
    yield from (
        invalid(f"metadata.{name}", new.get(name, _EMPTY.get(name)), IMMUTABLE)
        for name in _IMMUTABLE_NAMES
        if new.get(name) != old.get(name)
    )
    yield from _shared_rules(new)


_IMMUTABLE_NAMES = (
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)
_EMPTY = {"name": "", "namespace": "", "uid": ""}


_PARTS_OF_EXPRESSION = ("key", "operator", "values")


def validate_label_selector(selector: Mapping[str, Any] | None, field: str) -> Errors:
    """Validates a label selector that is part of an object."""
    if selector is None:
        return
    yield from validate_labels(selector.get("matchLabels", {}), f"{field}.matchLabels")
    for number, expression in enumerate(selector.get("matchExpressions", ())):
        yield from validate_expression(expression, f"{field}.matchExpressions[{number}]")


def ordered_selector(selector: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Returns a label selector with its fields and labels in the order of upstream's messages."""
    if selector is None:
        return None
    parts: dict[str, Any] = {}
    if labels := selector.get("matchLabels"):
        parts["matchLabels"] = dict(sorted(labels.items()))
    if expressions := selector.get("matchExpressions"):
        parts["matchExpressions"] = [
            {name: expression[name] for name in _PARTS_OF_EXPRESSION if name in expression}
            for expression in expressions
        ]
    return parts


def validate_expression(
    expression: Mapping[str, Any],
    field: str,
    *,
    comparisons: Sequence[str] = (),
    has_label_values: bool = True,
) -> Errors:
    """Validates an expression of a label selector, or of a node selector with comparisons."""
    operator, values = expression["operator"], expression.get("values", ())
    if operator in ("In", "NotIn"):
        if not values:
            problem = "must be specified when `operator` is 'In' or 'NotIn'"
            yield required(f"{field}.values", problem)
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            problem = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            yield forbidden_field(f"{field}.values", problem)
    elif operator in comparisons:
        if len(values) != 1:
            problem = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            yield required(f"{field}.values", problem)
    else:
        yield invalid(f"{field}.operator", operator, NO_OPERATOR)
    yield from field_errors(f"{field}.key", expression["key"], names.qualified_name)
    if has_label_values:
        for number, value in enumerate(values):
            yield from field_errors(f"{field}.values[{number}]", value, names.label_value)


def validate_field_manager(manager: str, field: str = "fieldManager") -> Errors:
    """Validates the name of a field manager."""
    if len(manager.encode()) > FIELD_MANAGER_BYTES_MAX:
        yield too_long(field, FIELD_MANAGER_BYTES_MAX)
    for index, character in enumerate(manager):
        if not character.isprintable():
            position = len(manager[:index].encode())
            problem = f"invalid character U+{ord(character):04X} (at position {position})"
            yield invalid(field, manager, problem)


FIELD_MANAGER_BYTES_MAX = 128
_SUBRESOURCE_BYTES_MAX = 256


def validate_dry_run(values: Sequence[str]) -> Errors:
    """Validates ``dryRun``."""
    if all(value == "All" for value in values):
        return []
    return [not_supported("dryRun", list(values), ["All"])]
