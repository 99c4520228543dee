"""How to delete: the options of a DELETE, and what follows from them for one object.

Source: k8s.io/apiserver pkg/registry/rest/delete.go; k8s.io/apimachinery
pkg/apis/meta/v1/validation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mooring.apiserver.errors import FieldError, conflict, invalid, invalid_object, not_supported
from mooring.apiserver.schema.times import seconds_of, timestamp
from mooring.apiserver.validation.metadata import FOREGROUND, ORPHAN, validate_dry_run

if TYPE_CHECKING:
    from mooring.apiserver.registry.registry import Target
    from mooring.apiserver.types import Object

_POLICIES = ("Foreground", "Background", "Orphan")


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """How to delete.

    Attributes:
        grace_s: Seconds until a pod is gone; None = its own.
        policy: "Foreground", "Background", "Orphan"; None = as is usual.
        orphans: The old way to say the policy.
        uid: The UID that the object must have; None = any.
        version: The resourceVersion that it must have; None = any.
        dry_run: Whether nothing is deleted.
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
    """Refuses to delete another object, or another state of it, than the client meant.

    Raises:
        ApiStatusError: 409.
    """
    metadata, resource = obj["metadata"], target.resource
    asked = (
        ("UID", options.uid, metadata["uid"], "been deleted and then recreated"),
        ("ResourceVersion", options.version, metadata["resourceVersion"], "been modified"),
    )
    for name, wanted, present, excuse in asked:
        if wanted is not None and wanted != present:
            message = (
                f"the {name} in the precondition ({wanted}) does not match the {name} in record "
                f"({present}). The object might have {excuse}"
            )
            raise conflict(resource.group, resource.kind, target.name, message)


def shorten_grace(metadata: Object, options: DeleteOptions, now_s: float) -> bool | None:
    """Of a pod that is being deleted already the grace period can only become shorter."""
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
    metadata["deletionTimestamp"] = timestamp(moment_s)
    metadata["deletionGracePeriodSeconds"] = grace_s
    return grace_s > 0


def orphans_of(options: DeleteOptions) -> bool:
    """Returns whether dependents are left alone."""
    return options.orphans is True or options.policy == "Orphan"


def finalizers_of(
    metadata: Object, options: DeleteOptions, *, orphans_usually: bool = False
) -> list[str]:
    """Returns the finalizers of an object that is deleted this way.

    Args:
        metadata: The object's.
        options: How it is deleted.
        orphans_usually: Whether its dependents stay if nobody says otherwise.
    """
    present = metadata.get("finalizers", [])
    foreground = options.policy == "Foreground"
    orphan = orphans_of(options)
    if options.policy is None and options.orphans is None:
        orphan = ORPHAN in present or (orphans_usually and FOREGROUND not in present)
        foreground = FOREGROUND in present and not orphan
    kept = [name for name in present if name not in (ORPHAN, FOREGROUND)]
    return kept + [ORPHAN] * orphan + [FOREGROUND] * foreground
