"""Validates objects: their metadata, and the rest by the rules of their resource.

Source: k8s.io/apiserver pkg/registry/rest/{create,update}.go (BeforeCreate, BeforeUpdate).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from mooring.apiserver.errors import FieldError, first_errors
from mooring.apiserver.names import path_segment
from mooring.apiserver.registry.strategies import strategy_of
from mooring.apiserver.storage.long_writes import is_validated_long
from mooring.apiserver.validation.metadata import (
    finalizer_errors,
    validate_metadata,
    validate_metadata_update,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from mooring.apiserver.errors import Errors
    from mooring.apiserver.names import Check
    from mooring.apiserver.registry.strategy import SubresourceStrategy
    from mooring.apiserver.resources import Resource
    from mooring.apiserver.types import Object
    from mooring.serial_executor import SerialExecutor

#: API groups whose validation does not use that of the core group for metadata.
_ANY_FINALIZER_GROUPS = frozenset(
    {
        "admissionregistration.k8s.io",
        "apiextensions.k8s.io",
        "coordination.k8s.io",
        "node.k8s.io",
        "policy",
    }
)


def _allows_any_finalizer(resource: Resource) -> bool:
    """Returns whether finalizers need no domain: upstream's core kinds alone demand it."""
    if resource.custom is not None or resource.group in _ANY_FINALIZER_GROUPS:
        return True
    return resource.kind == "Event" and not resource.group


def errors_of_new(writes: SerialExecutor, resource: Resource, obj: Object) -> list[FieldError]:
    """Returns the errors of a new object; other writes come first while they take long.

    Args:
        writes: The order of the writes.
        resource: The resource.
        obj: The object as it would be stored.

    Raises:
        Pending: the write begins anew when the errors are there.
    """
    strategy = strategy_of(resource)
    metadata = obj["metadata"]
    other_errors = _computed(writes, resource, strategy, strategy.validate, obj)
    if other_errors and not strategy.checks_metadata:
        return other_errors
    errors = first_errors(_metadata_errors(resource, metadata, strategy.check_name))
    if not errors and path_segment(metadata["name"]):
        errors += _metadata_errors(resource, metadata, path_segment)
    return [*errors, *other_errors]


def errors_of_change(
    writes: SerialExecutor, resource: Resource, rules: SubresourceStrategy, new: Object, old: Object
) -> list[FieldError]:
    """Returns the errors of a changed object; other writes come first while they take long.

    Args:
        writes: The order of the writes.
        resource: The resource.
        rules: Those of the subresource that is changed.
        new: The object as it would be stored.
        old: The stored object.

    Raises:
        Pending: the write begins anew when the errors are there.
    """
    of_metadata = _metadata_errors_of_change(resource, rules, new, old)
    return [*of_metadata, *_computed(writes, resource, rules, rules.validate, new, old)]


def _computed(
    writes: SerialExecutor,
    resource: Resource,
    rules: object,
    validate: Callable[..., Errors],
    *objects: Object,
) -> list[FieldError]:
    """Returns the errors of objects; other writes come first while they take long.

    Args:
        writes: The order of the writes.
        resource: The resource.
        rules: Decides the errors; it is not the same after a change of the definition.
        validate: Returns the errors.
        objects: The arguments.
    """
    if not is_validated_long(resource):
        return first_errors(validate(*objects))
    contents = [msgspec.json.encode(_without_managers(obj)) for obj in objects]
    # The result has the rules, so that no others get their id.
    _, errors = writes.computed(
        ("validation", id(rules), *contents), lambda: (rules, first_errors(validate(*objects)))
    )
    return errors


def _metadata_errors_of_change(
    resource: Resource, rules: SubresourceStrategy, new: Object, old: Object
) -> list[FieldError]:
    metadata = new["metadata"]
    as_new = validate_metadata(
        metadata,
        namespaced=resource.namespaced,
        check_name=path_segment,
        any_finalizer=True,
    )
    errors = {
        "new": first_errors(as_new),
        "change": first_errors(validate_metadata_update(metadata, old["metadata"])),
    }
    # The rules that all API servers share, and then those of a kind with its metadata.
    of_metadata = [*errors["new"], *errors["change"]]
    is_any = _allows_any_finalizer(resource)
    finalizers = () if is_any else metadata.get("finalizers") or ()
    of_finalizers = first_errors(finalizer_errors(finalizers))
    for way in rules.repeats:
        of_metadata += [*errors[way], *of_finalizers]
        if way == "new" and rules.as_new is not None:
            of_metadata += rules.as_new(new)
    return of_metadata


def _without_managers(obj: Object) -> Object:
    metadata = {k: v for k, v in obj["metadata"].items() if k != "managedFields"}
    return {**obj, "metadata": metadata}


def _metadata_errors(resource: Resource, metadata: Object, check_name: Check) -> Errors:
    return validate_metadata(
        metadata,
        namespaced=resource.namespaced,
        check_name=check_name,
        any_finalizer=_allows_any_finalizer(resource),
    )
