"""``Strategy``: the rules for writing the objects of one resource, as a table of functions.

``registry`` has the rules that all resources share; a ``Strategy`` has the others: the parts of an
object that a client may set, the changes that increment the generation, and the validation.
``strategies`` has the table.

Source: the strategy.go files below pkg/registry.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from mooring.apiserver import names
from mooring.apiserver.errors import Errors
from mooring.apiserver.object_fields import restore_fields
from mooring.apiserver.types import Object

#: Takes the object and the current time.
Prepare = Callable[[Object, str], None]
PrepareUpdate = Callable[[Object, Object], None]
Repeats = tuple[Literal["new", "change"], ...]
#: Takes the new object, the old one and the current time.
Stamp = Callable[[Object, Object, str], None]
Validate = Callable[[Object], Errors]
ValidateUpdate = Callable[[Object, Object], Errors]


def nothing(_found: Object, _now: str) -> None:
    """Prepares nothing."""


def always_valid(_: Object) -> Errors:
    """Returns no errors."""
    return []


def valid_update(_new: Object, _old: Object) -> Errors:
    """Returns no errors."""
    return []


def _no_times(_new: Object, _old: Object, _now: str) -> None:
    """Sets no times."""


def keep_status(new: Object, old: Object) -> None:
    """Restores the status: a change of the main resource does not change it."""
    restore_fields(new, old, "status")


def keep_spec(new: Object, old: Object) -> None:
    """Restores the spec: a change of the status does not change it."""
    restore_fields(new, old, "spec")


#: Fields that a status update may not change, where it may change no metadata.
_METADATA_OF_SPEC = (
    "deletionTimestamp",
    "generation",
    "labels",
    "annotations",
    "finalizers",
    "ownerReferences",
)


def keep_spec_and_metadata(new: Object, old: Object) -> None:
    """Restores the spec, labels, annotations, finalizers and owners: only the status changes."""
    keep_spec(new, old)
    keep_metadata(new, old)


def keep_metadata(new: Object, old: Object) -> None:
    """Restores labels, annotations, finalizers and owners."""
    restore_fields(new["metadata"], old["metadata"], *_METADATA_OF_SPEC)


def spec_differs(new: Object, old: Object) -> bool:
    """Returns True if the spec has changed."""
    return new.get("spec") != old.get("spec")


def spec_or_annotations_differ(new: Object, old: Object) -> bool:
    """Returns True if the spec or the annotations have changed."""
    return spec_differs(new, old) or (
        new["metadata"].get("annotations") != old["metadata"].get("annotations")
    )


@dataclass(frozen=True, slots=True)
class SubresourceStrategy:
    """Rules for a change through one subresource, or of the main resource.

    Attributes:
        prepare: Restores the fields that the subresource may not change.
        validate: Validates the change, except the metadata.
        raises_generation: True if a change of the spec increments the generation.
        set_times: Sets times that clients omit, also in new objects. These are defaults: the
            writer owns them, so they are set before the change is tracked.
        repeats: How upstream's strategy validates the metadata once more, so that an error is a
            cause again: "new" = as of a new object, "change" = as a change.
        as_new: The rules of new objects, where upstream applies them to the changed object with
            each "new" of ``repeats``.
        stamp: Sets times of the new object that depend on the old one; they have no owner.
    """

    prepare: PrepareUpdate = keep_spec
    validate: ValidateUpdate = valid_update
    raises_generation: bool = False
    set_times: Prepare = nothing
    stamp: Stamp = _no_times
    repeats: Repeats = ("change",)
    as_new: Validate | None = None


#: The default for main resources.
MAIN_RESOURCE = SubresourceStrategy(
    keep_status, valid_update, raises_generation=True, repeats=("change", "new")
)
STATUS: Mapping[str, SubresourceStrategy] = MappingProxyType(
    {"": MAIN_RESOURCE, "status": SubresourceStrategy()}
)


@dataclass(frozen=True, slots=True)
class Strategy:
    """Rules for writing the objects of one resource; the defaults are those of plain storage.

    Attributes:
        check_name: Validates names.
        checks_metadata: True if the metadata is validated with the rest; else only if that is
            valid.
        empties_status: True if the status of a new object is dropped.
        prepare_create: Changes a new object before it is validated.
        starts_generation: True if new objects have generation 1.
        is_new_generation: True for a change that increments the generation; None = never.
        validate: Validates a new object.
        subresources: The rules for changes by subresource; "" is the main resource.
        creates_on_update: True if a PUT creates an absent object.
        updates_unconditionally: True if a PUT may omit the resourceVersion.
        returns_deleted: True if a DELETE returns the object, not a Status.
        orphans_dependents: True if a DELETE without a policy orphans the dependents.
    """

    check_name: names.Check = names.dns_subdomain
    checks_metadata: bool = True
    empties_status: bool = True
    prepare_create: Prepare = nothing
    starts_generation: bool = False
    is_new_generation: Callable[[Object, Object], bool] | None = None
    validate: Validate = always_valid
    subresources: Mapping[str, SubresourceStrategy] = field(default_factory=lambda: STATUS)
    creates_on_update: bool = False
    updates_unconditionally: bool = True
    returns_deleted: bool = False
    orphans_dependents: bool = False
