"""Options of a DELETE, and their effect on one object.

Source: k8s.io/apiserver pkg/registry/rest/delete.go; k8s.io/apimachinery
pkg/apis/meta/v1/validation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mooring.apiserver.errors import FieldError, conflict, invalid, invalid_object, not_supported
from mooring.apiserver.schema.times import seconds_of
from mooring.apiserver.validation.metadata import FOREGROUND, ORPHAN, validate_dry_run
from mooring.clock import rfc3339

if TYPE_CHECKING:
    from mooring.apiserver.registry.registry import Target
    from mooring.apiserver.types import Object

_POLICIES = ("Foreground", "Background", "Orphan")


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """Options of a deletion.

    Attributes:
        grace_s: Seconds until a pod is removed; None = the pod's grace period.
        policy: "Foreground", "Background", "Orphan"; None = the default.
        orphans: The deprecated ``orphanDependents``.
        uid: The UID that the object must have; None = any.
        version: The resourceVersion that it must have; None = any.
        dry_run: True if nothing is deleted.
    """

    grace_s: int | None = None
    policy: str | None = None
    orphans: bool | None = None
    uid: str | None = None
    version: str | None = None
    dry_run: bool = False


def options_of(obj: Object, dry_run: Sequence[str] = ()) -> DeleteOptions:
    """Returns the options in a DeleteOptions object, and in the URL.

    Raises:
        ApiStatusError: 422.
    """
    values = [*obj.get("dryRun", ()), *dry_run]
    policy, orphans = obj.get("propagationPolicy"), obj.get("orphanDependents")
    errors: list[FieldError] = []
    if policy is not None and orphans is not None:
        problem = "orphanDependents and deletionPropagation cannot be both set"
        errors.append(invalid("propagationPolicy", policy, problem))
    if policy is not None and policy not in _POLICIES:
        errors.append(not_supported("propagationPolicy", policy, [*_POLICIES, "nil"]))
    errors += validate_dry_run(values)
    if errors:
        raise invalid_object("DeleteOptions", "", errors, group="meta.k8s.io")
    preconditions: dict[str, Any] = obj.get("preconditions", {})
    grace_s = obj.get("gracePeriodSeconds")
    return DeleteOptions(
        grace_s=grace_s if grace_s is None or grace_s >= 0 else 1,
        policy=policy,
        orphans=orphans,
        uid=preconditions.get("uid"),
        version=preconditions.get("resourceVersion"),
        dry_run=bool(values),
    )


def check_preconditions(target: Target, obj: Object, options: DeleteOptions) -> None:
    """Checks the preconditions on UID and resourceVersion.

    Raises:
        ApiStatusError: 409.
    """
    metadata, resource = obj["metadata"], target.resource
    preconditions = (
        ("UID", options.uid, metadata["uid"], "been deleted and then recreated"),
        ("ResourceVersion", options.version, metadata["resourceVersion"], "been modified"),
    )
    for name, required, actual, cause in preconditions:
        if required is not None and required != actual:
            message = (
                f"the {name} in the precondition ({required}) does not match the {name} in record "
                f"({actual}). The object might have {cause}"
            )
            raise conflict(resource.group, resource.kind, target.name, message)


def shorten_grace(metadata: Object, options: DeleteOptions, now_s: float) -> bool | None:
    """Shortens the grace period of a pod that is being deleted; it cannot become longer."""
    present = metadata.get("deletionGracePeriodSeconds", 0)
    if not present:
        return False
    if options.grace_s is None or options.grace_s >= present:
        return None
    grace_s = options.grace_s
    moment_s = seconds_of(metadata["deletionTimestamp"]) - present + grace_s
    if moment_s < now_s:
        moment_s = now_s
        grace_s = 1 if grace_s else 0
    metadata["deletionTimestamp"] = rfc3339(moment_s)
    metadata["deletionGracePeriodSeconds"] = grace_s
    return grace_s > 0


def orphans_of(options: DeleteOptions) -> bool:
    """Returns True if dependents are orphaned."""
    return options.orphans is True or options.policy == "Orphan"


def finalizers_of(
    metadata: Object, options: DeleteOptions, *, orphans_by_default: bool = False
) -> list[str]:
    """Returns the finalizers of an object that is deleted with these options.

    Args:
        metadata: The object's.
        options: The options.
        orphans_by_default: True if dependents are orphaned unless the options have a policy.
    """
    present = metadata.get("finalizers", [])
    foreground = options.policy == "Foreground"
    orphan = orphans_of(options)
    if options.policy is None and options.orphans is None:
        orphan = ORPHAN in present or (orphans_by_default and FOREGROUND not in present)
        foreground = FOREGROUND in present and not orphan
    remaining = [name for name in present if name not in (ORPHAN, FOREGROUND)]
    return remaining + [ORPHAN] * orphan + [FOREGROUND] * foreground
