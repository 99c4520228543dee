"""What is special about one resource when its objects are written, as a table of functions.

``rest`` does what all resources have in common and asks a ``Strategy`` for the rest: which parts
of an object a client may set, what counts as a change of the wish (the generation), and what is
valid. ``strategies`` holds the table.

Source: the strategy.go files below pkg/registry.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from mooring.apiserver import names
from mooring.apiserver.errors import FieldError
from mooring.apiserver.types import Object

#: Gets the object and the present time.
Prepare = Callable[[Object, str], None]
PrepareUpdate = Callable[[Object, Object], None]
Validate = Callable[[Object], list[FieldError]]
ValidateUpdate = Callable[[Object, Object], list[FieldError]]


def nothing(_found: Object, _now: str) -> None:
    """Prepares nothing."""


def always_valid(_: Object) -> list[FieldError]:
    """Finds nothing wrong."""
    return []


def valid_update(_new: Object, _old: Object) -> list[FieldError]:
    """Finds nothing wrong."""
    return []


def keep_status(new: Object, old: Object) -> None:
    """The status is not changed by who changes the wish."""
    if "status" in old:
        new["status"] = old["status"]
    else:
        new.pop("status", None)


def keep_spec(new: Object, old: Object) -> None:
    """The wish is not changed by who reports the status."""
    if "spec" in old:
        new["spec"] = old["spec"]
    else:
        new.pop("spec", None)


#: What a report of the status may not change, where it may change no metadata at all.
_METADATA_OF_WISH = (
    "deletionTimestamp",
    "generation",
    "labels",
    "annotations",
    "finalizers",
    "ownerReferences",
)


def keep_spec_and_metadata(new: Object, old: Object) -> None:
    """Only the status is changed: no labels, annotations, finalizers and owners either."""
    keep_spec(new, old)
    keep_metadata(new, old)


def keep_metadata(new: Object, old: Object) -> None:
    """No label, annotation, finalizer or owner is changed."""
    for name in _METADATA_OF_WISH:
        if name in old["metadata"]:
            new["metadata"][name] = old["metadata"][name]
        else:
            new["metadata"].pop(name, None)


def spec_differs(new: Object, old: Object) -> bool:
    """Returns whether the wish has changed."""
    return new.get("spec") != old.get("spec")


def spec_or_annotations_differ(new: Object, old: Object) -> bool:
    """Returns whether the wish of a Deployment has changed: its annotations count too."""
    return spec_differs(new, old) or (
        new["metadata"].get("annotations") != old["metadata"].get("annotations")
    )


@dataclass(frozen=True, slots=True)
class SubresourceStrategy:
    """How one subresource changes its object.

    Attributes:
        prepare: Takes over from the old object what this part may not change.
        validate: What is wrong with the change, in addition to its metadata.
        raises_generation: Whether a change of the wish counts as one.
    """

    prepare: PrepareUpdate = keep_spec
    validate: ValidateUpdate = valid_update
    raises_generation: bool = False


#: The whole object, where nothing is special.
WHOLE = SubresourceStrategy(keep_status, valid_update, raises_generation=True)
STATUS: Mapping[str, SubresourceStrategy] = MappingProxyType(
    {"": WHOLE, "status": SubresourceStrategy()}
)


@dataclass(frozen=True, slots=True)
class Strategy:
    """How the objects of one resource are written; the defaults are those of plain storage.

    Attributes:
        check_name: What a name must be.
        empties_status: Whether a new object begins with an empty status whatever was sent.
        prepare_create: Changes a new object before it is validated.
        starts_generation: Whether new objects have generation 1.
        is_new_generation: Whether a change raises the generation; None = none does.
        validate: What is wrong with a new object.
        parts: How an object is changed, by the subresource; "" is the whole object.
        creates_on_update: Whether a PUT creates what is not there.
        updates_unconditionally: Whether a PUT may leave out the resourceVersion.
        returns_deleted: Whether a DELETE answers with the object, not with a Status.
        orphans_dependents: Whether a DELETE that says nothing about them leaves dependents alone.
    """

    check_name: names.Check = names.dns_subdomain
    empties_status: bool = True
    prepare_create: Prepare = nothing
    starts_generation: bool = False
    is_new_generation: Callable[[Object, Object], bool] | None = None
    validate: Validate = always_valid
    parts: Mapping[str, SubresourceStrategy] = field(default_factory=lambda: STATUS)
    creates_on_update: bool = False
    updates_unconditionally: bool = True
    returns_deleted: bool = False
    orphans_dependents: bool = False
